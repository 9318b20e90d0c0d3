// Products of a few rows with a tile of the KV cache (kv_format.h), for every Highway target: the loop that
// attention spends its time in.
//   out[r][o] (+)= Σ_c a[r][c] · tile[c][o]
// A tile's element is loaded, and unpacked, once for all rows; a row's element is broadcast. Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_KV_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_KV_PRODUCT_INL_H_
#undef ROPELINE_KERNELS_KV_PRODUCT_INL_H_
#else
#define ROPELINE_KERNELS_KV_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/convert-inl.h"
#include "kernels/kv_format.h"
#include "kernels/kv_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of one call: two vectors of sums each, a vector of a and two of the tile must fit in 32 or 16
// registers.
inline constexpr size_t kMostRows = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 12 : 6;

// f(r) for r in [0, kCount), unrolled whatever the compiler thinks of it: the sums must stay in registers.
template <size_t kCount, class F>
HWY_INLINE void ForRows(const F& f) {
  if constexpr (kCount > 0) {
    ForRows<kCount - 1>(f);
    f(std::integral_constant<size_t, kCount - 1>());
  }
}

// Calls f(number of rows as a constant) with the least of 1, 2, 3, 4, 6, 8, 12 that holds `rows` (<= kMost).
// Rows beyond `rows` must exist: their results are of no account.
template <size_t kMost = kMostRows, class F>
HWY_INLINE void WithRows(size_t rows, const F& f) {
  if constexpr (kMost >= 12) {
    if (rows > 8) return f(std::integral_constant<size_t, 12>());
    if (rows > 6) return f(std::integral_constant<size_t, 8>());
  }
  if (rows > 4) return f(std::integral_constant<size_t, 6>());
  if (rows > 3) return f(std::integral_constant<size_t, 4>());
  if (rows > 2) return f(std::integral_constant<size_t, 3>());
  if (rows > 1) return f(std::integral_constant<size_t, 2>());
  return f(std::integral_constant<size_t, 1>());
}

// Rows of numbers that stand in equal pieces some way apart: `pieces` times `count` rows of m.
template <typename T>
struct Numbers {
  const T* m;
  size_t stride;  // from row to row
  size_t count;   // rows of a piece
  size_t pieces = 1;
  size_t piece_stride = 0;
};

template <typename T>
HWY_INLINE Numbers<T> NumbersAt(const T* m, size_t stride, size_t count) {
  return Numbers<T>{m, stride, count};
}

// Element (r, c) of the rows is a[r·kRowStep + c·kColumnStep]: constants, so that a dozen rows need one
// pointer. c goes on from piece to piece. 32 outputs of each row of m are used, whatever stands there.
// kFresh: out is overwritten, else added to. `ahead`, where it is not nullptr, is asked for, as many bytes as
// are read of one piece.
template <size_t kRows, size_t kRowStep, size_t kColumnStep, bool kFresh, bool kAhead, typename T>
HWY_INLINE void NumberProduct(const float* HWY_RESTRICT a, Numbers<T> numbers, float* HWY_RESTRICT out,
                              size_t out_stride, const uint8_t* ahead = nullptr) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
    V low[kRows], high[kRows];
    ForRows<kRows>([&](auto r) HWY_ATTR {
      low[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, out + r * out_stride + o);
      high[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, out + r * out_stride + o + lanes);
    });
    const float* row = a;
    for (size_t piece = 0; piece < numbers.pieces; ++piece) {
      const T* column = numbers.m + piece * numbers.piece_stride + o;
      for (size_t c = 0; c < numbers.count; ++c, row += kColumnStep, column += numbers.stride) {
        if constexpr (kAhead) {
          const uint8_t* line = ahead != nullptr
                                    ? ahead + (c * numbers.stride + o) * sizeof(T)
                                    : reinterpret_cast<const uint8_t*>(column + 16 * numbers.stride);
          hwy::Prefetch(line);
          if constexpr (sizeof(T) == 4) hwy::Prefetch(line + lanes * sizeof(T));
        }
        const V tile_low = LoadF32(d, column);
        const V tile_high = LoadF32(d, column + lanes);
        ForRows<kRows>([&](auto r) HWY_ATTR {
          const V element = hn::Set(d, row[r * kRowStep]);
          low[r] = hn::MulAdd(element, tile_low, low[r]);
          high[r] = hn::MulAdd(element, tile_high, high[r]);
        });
      }
    }
    ForRows<kRows>([&](auto r) HWY_ATTR {
      hn::StoreU(low[r], d, out + r * out_stride + o);
      hn::StoreU(high[r], d, out + r * out_stride + o + lanes);
    });
  }
}

// The same for two sets of 32 outputs side by side: rows of m and m + other, outputs out and out + 32. Six
// rows and four vectors take ten loads for 24 multiply-adds, where twelve rows and two take 14: on a core
// whose loads of 64 bytes keep its multiply-adds waiting (an Ice Lake server's do) that is the difference
// between 0.65 and 0.73 of their peak.
template <size_t kRows, size_t kRowStep, size_t kColumnStep, bool kFresh>
HWY_INLINE void WideProduct(const float* HWY_RESTRICT a, Numbers<float> numbers, size_t other,
                            float* HWY_RESTRICT out, size_t out_stride) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
    V s0[kRows], s1[kRows], s2[kRows], s3[kRows];
    ForRows<kRows>([&](auto r) HWY_ATTR {
      float* from = out + r * out_stride + o;
      s0[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, from);
      s1[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, from + lanes);
      s2[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, from + kKvTile);
      s3[r] = kFresh ? hn::Zero(d) : hn::LoadU(d, from + kKvTile + lanes);
    });
    const float* row = a;
    for (size_t piece = 0; piece < numbers.pieces; ++piece) {
      const float* column = numbers.m + piece * numbers.piece_stride + o;
      for (size_t c = 0; c < numbers.count; ++c, row += kColumnStep, column += numbers.stride) {
        const V t0 = hn::LoadU(d, column), t1 = hn::LoadU(d, column + lanes);
        const V t2 = hn::LoadU(d, column + other), t3 = hn::LoadU(d, column + other + lanes);
        ForRows<kRows>([&](auto r) HWY_ATTR {
          const V element = hn::Set(d, row[r * kRowStep]);
          s0[r] = hn::MulAdd(element, t0, s0[r]);
          s1[r] = hn::MulAdd(element, t1, s1[r]);
          s2[r] = hn::MulAdd(element, t2, s2[r]);
          s3[r] = hn::MulAdd(element, t3, s3[r]);
        });
      }
    }
    ForRows<kRows>([&](auto r) HWY_ATTR {
      float* to = out + r * out_stride + o;
      hn::StoreU(s0[r], d, to);
      hn::StoreU(s1[r], d, to + lanes);
      hn::StoreU(s2[r], d, to + kKvTile);
      hn::StoreU(s3[r], d, to + kKvTile + lanes);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
