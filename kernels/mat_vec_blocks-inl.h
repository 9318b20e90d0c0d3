// One row's product with kVectors vectors, formats of 32 weights a block (q8_0, q4_0), for every Highway
// target. Blocks are taken in groups that fill 64 bytes; each 32-bit lane of a sum belongs to one block, and
// is scaled as the block is. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#undef ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#else
#define ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/byte_dot-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/mat_vec_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// How far ahead of the row's bytes the next ones are asked for. The hardware's own prefetcher stops at the
// end of each page of 4 KiB and starts late in the next; from a page ahead on that no longer shows
// (measured: 10.1 GB/s at 512 bytes, 10.9 at 1 KiB, 11.4 at 2 KiB, 12.3 at 4 and 8 KiB where plain reading
// does 12.0).
inline constexpr size_t kWeightsAhead = 4096;

HWY_INLINE float LoadHalf(const uint8_t* p) {
  return hn::GetLane(LoadF32(hn::FixedTag<float, 4>(), reinterpret_cast<const F16*>(p)));
}

// A vector whose lanes belong to consecutive blocks of kBlockBytes from `block` on, kLanes lanes a block:
// their scales, f16 at the start of each. A vector of part of a block: its scale in every lane.
template <size_t kBlockBytes, size_t kLanes>
HWY_INLINE hn::Vec<DF32> BlockScales(const uint8_t* block) {
  const DF32 d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  static_assert(kBlockBytes % 2 == 0 && (16 / kLanes - 1) * kBlockBytes < 64);
  // Highway 1.0.3 moves 32-bit lanes across a vector, not 16-bit ones.
  alignas(64) static constexpr auto kAt = [] {
    struct {
      uint16_t word[32];
    } lanes{};
    for (size_t i = 0; i < 32; ++i) {
      lanes.word[i] = static_cast<uint16_t>(i % 16 / kLanes * (kBlockBytes / 2));
    }
    return lanes;
  }();
  const __m512i halves = _mm512_permutexvar_epi16(_mm512_load_si512(kAt.word), _mm512_loadu_si512(block));
  return hn::Vec<DF32>{_mm512_cvtph_ps(_mm512_castsi512_si256(halves))};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (kLanes == 4) {
    const hn::Half<DF32> dh;
    return hn::Combine(d, hn::Set(dh, LoadHalf(block + kBlockBytes)), hn::Set(dh, LoadHalf(block)));
  } else {
    return hn::Set(d, LoadHalf(block));
  }
#else
  return hn::Set(d, LoadHalf(block));
#endif
}

// 16 bytes at each of p, p + stride …, as many as fill a vector.
template <size_t kStride>
HWY_INLINE hn::Vec<DU8> LoadSixteens(const uint8_t* p) {
  const DU8 d;
  const hn::FixedTag<uint8_t, 16> d16;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Half<DU8> dh;
  const auto low = hn::Combine(dh, hn::LoadU(d16, p + kStride), hn::LoadU(d16, p));
  const auto high = hn::Combine(dh, hn::LoadU(d16, p + 3 * kStride), hn::LoadU(d16, p + 2 * kStride));
  return hn::Combine(d, high, low);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Combine(d, hn::LoadU(d16, p + kStride), hn::LoadU(d16, p));
#else
  (void)d;
  return hn::LoadU(d16, p);
#endif
}

// 32 bytes at each of p, p + stride; a shorter vector: its length at p.
template <size_t kStride>
HWY_INLINE hn::Vec<DU8> LoadThirtyTwos(const uint8_t* p) {
  const DU8 d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Half<DU8> dh;
  return hn::Combine(d, hn::LoadU(dh, p + kStride), hn::LoadU(dh, p));
#else
  return hn::LoadU(d, p);
#endif
}

struct FormatQ80 {
  using X = ActivationsQ80;
  static constexpr size_t kBlockBytes = 34, kBlockWeights = 32;

  // Lanes of a group's sums from `lane` on, of one row.
  struct Weights {
    hn::Vec<DU8> w;
    hn::Vec<DF32> scale;
    hn::Vec<DI8> as_signed;
  };
  static HWY_INLINE Weights Unpack(const uint8_t* group, size_t lane) {
    const uint8_t* block = group + lane / 8 * kBlockBytes;
    const auto w = LoadThirtyTwos<kBlockBytes>(block + 2 + lane % 8 * 4);
    const auto as_signed = hn::BitCast(DI8(), w);
#if ROPELINE_BYTE_DOT
    return {hn::Xor(w, hn::Set(DU8(), 0x80)), BlockScales<kBlockBytes, 8>(block), as_signed};
#else
    return {hn::BitCast(DU8(), hn::Abs(as_signed)), BlockScales<kBlockBytes, 8>(block), as_signed};
#endif
  }

  // sums[r] += those lanes of row r's product with x.
  template <size_t kRows>
  static HWY_INLINE void Add(const Weights* rows, const X* x, size_t lane, hn::Vec<DF32>* sums) {
    const DI8 di;
    const DI32 d32;
    const DF32 df;
    const auto q = hn::LoadU(di, x->q + 4 * lane);
    const auto scale = hn::LoadU(df, x->scale + lane);
    for (size_t r = 0; r < kRows; ++r) {
#if ROPELINE_BYTE_DOT
      const auto sum = AddFours(hn::LoadU(d32, x->offset + lane), rows[r].w, q);
#else
      const auto negative = hn::Lt(rows[r].as_signed, hn::Zero(di));
      const auto sum = AddFours(hn::Zero(d32), rows[r].w, hn::IfThenElse(negative, hn::Neg(q), q));
#endif
      sums[r] = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(rows[r].scale, scale), sums[r]);
    }
  }
};

struct FormatQ40 {
  using X = ActivationsQ40;
  static constexpr size_t kBlockBytes = 18, kBlockWeights = 32;

  struct Weights {
    hn::Vec<DU8> low, high;
    hn::Vec<DF32> scale;
  };
  static HWY_INLINE Weights Unpack(const uint8_t* group, size_t lane) {
    const uint8_t* block = group + lane / 4 * kBlockBytes;
    const auto nibbles = LoadSixteens<kBlockBytes>(block + 2);
    return {hn::And(nibbles, hn::Set(DU8(), 0x0f)), hn::ShiftRight<4>(nibbles),
            BlockScales<kBlockBytes, 4>(block)};
  }

  template <size_t kRows>
  static HWY_INLINE void Add(const Weights* rows, const X* x, size_t lane, hn::Vec<DF32>* sums) {
    const DI8 di;
    const DI32 d32;
    const DF32 df;
    const auto low = hn::LoadU(di, x->low + 4 * lane), high = hn::LoadU(di, x->high + 4 * lane);
    const auto scale = hn::LoadU(df, x->scale + lane);
    for (size_t r = 0; r < kRows; ++r) {
      auto sum = AddFours(hn::LoadU(d32, x->offset + lane), rows[r].low, low);
      sum = AddFours(sum, rows[r].high, high);
      sums[r] = hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(rows[r].scale, scale), sums[r]);
    }
  }
};

// y[i][r] = row r · x[i], rows stride bytes apart. A last group of fewer blocks is filled up with zeros in a
// copy.
template <class Format, size_t kVectors, size_t kRows>
HWY_INLINE void DotBlocks(const uint8_t* first_row, size_t stride, size_t cols,
                          const typename Format::X* const* vectors, float* const* y) {
  using X = typename Format::X;
  constexpr size_t kGroupBytes = X::kBlocks * Format::kBlockBytes;
  const DF32 df;
  const size_t lanes = hn::Lanes(df);
  const size_t blocks = cols / Format::kBlockWeights, groups = blocks / X::kBlocks;
  hn::Vec<DF32> sums[kVectors][kRows];
  const X* x[kVectors];
  for (size_t i = 0; i < kVectors; ++i) {
    for (auto& sum : sums[i]) sum = hn::Zero(df);
    x[i] = vectors[i];
  }
  const auto add = [&](const uint8_t* group, size_t group_stride) HWY_ATTR {
    for (size_t lane = 0; lane < 16; lane += lanes) {
      typename Format::Weights weights[kRows];
      for (size_t r = 0; r < kRows; ++r) weights[r] = Format::Unpack(group + r * group_stride, lane);
      for (size_t i = 0; i < kVectors; ++i) Format::template Add<kRows>(weights, x[i], lane, sums[i]);
    }
  };
  for (size_t g = 0; g < groups; ++g) {
    const uint8_t* group = first_row + g * kGroupBytes;
    for (size_t r = 0; r < kRows; ++r) hwy::Prefetch(group + r * stride + kWeightsAhead);
    add(group, stride);
    for (size_t i = 0; i < kVectors; ++i) ++x[i];
  }
  if (const size_t rest = blocks % X::kBlocks; rest != 0) {
    uint8_t copy[kRows * kGroupBytes + 64] = {};  // a vector of scales reads 64 bytes
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(copy + r * kGroupBytes, first_row + r * stride + groups * kGroupBytes,
                  rest * Format::kBlockBytes);
    }
    add(copy, kGroupBytes);
  }
  for (size_t i = 0; i < kVectors; ++i) {
    for (size_t r = 0; r < kRows; ++r) y[i][r] = hn::GetLane(hn::SumOfLanes(df, sums[i][r]));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
