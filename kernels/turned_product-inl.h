// Scores of a few rows of queries with a block of keys that are turned on their way through the registers
// (unrotated_keys.h), for every Highway target. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_TURNED_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_TURNED_PRODUCT_INL_H_
#undef ROPELINE_KERNELS_TURNED_PRODUCT_INL_H_
#else
#define ROPELINE_KERNELS_TURNED_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kv_product-inl.h"
#include "kernels/unrotated_keys.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first members of all pairs, then the second ones, then what does not turn. `in` and `out` are apart.
HWY_INLINE void SplitPairs(const UnrotatedKeys& angles, const float* HWY_RESTRICT in, size_t d_head,
                           float* HWY_RESTRICT out) {
  const size_t bands = angles.bands();
  const bool neighbours = angles.pairing() == Pairing::kInterleaved;
  for (size_t i = 0; i < bands; ++i) {
    out[i] = in[neighbours ? 2 * i : i];
    out[bands + i] = in[neighbours ? 2 * i + 1 : bands + i];
  }
  for (size_t i = 2 * bands; i < d_head; ++i) out[i] = in[i];
}

// Split pairs turned back by the position of that block; what does not turn is copied.
HWY_INLINE void TurnBack(const UnrotatedKeys& angles, size_t block, const float* HWY_RESTRICT q,
                         size_t d_head, float* HWY_RESTRICT out) {
  const size_t bands = angles.bands();
  const float* cosines = angles.OfBlock(block);
  const auto turn = [&](auto d, size_t i) HWY_ATTR {
    const auto a = hn::LoadU(d, q + i), b = hn::LoadU(d, q + bands + i);
    const auto c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, cosines + bands + i);
    hn::StoreU(hn::MulAdd(b, s, hn::Mul(a, c)), d, out + i);
    hn::StoreU(hn::NegMulAdd(a, s, hn::Mul(b, c)), d, out + bands + i);
  };
  const TileTag d;
  const hn::CappedTag<float, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= bands; i += hn::Lanes(d)) turn(d, i);
  for (; i < bands; ++i) turn(d1, i);
  for (i = 2 * bands; i < d_head; ++i) out[i] = q[i];
}

// A block of quantised keys as f32 [32·tiles][32].
inline HWY_NOINLINE void UnpackKeys(KvFormat format, const uint8_t* keys, size_t tiles, float* out) {
  for (size_t i = 0; i < tiles; ++i, keys += KvTileBytes(format, kKvTile), out += kKvTile * kKvTile) {
    QuantisedTileToF32(format, KeyScale(format), keys, out);
  }
}

// out[r][j] = Σ_i q[r][i] · (R(j)·k_j)_i for the 32 tokens j of a block of keys [d_head][32]; q split and
// turned back. `ahead`: what is read after the block, asked for line by line.
template <size_t kRows, size_t kRowStep, typename T>
HWY_NOINLINE void TurnedProduct(const UnrotatedKeys& angles, const float* HWY_RESTRICT q, const T* keys,
                                size_t d_head, float* HWY_RESTRICT out, size_t out_stride,
                                const uint8_t* ahead) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), bands = angles.bands();
  const bool neighbours = angles.pairing() == Pairing::kInterleaved;
  const size_t step = (neighbours ? 2 : 1) * kKvTile, other = (neighbours ? 1 : bands) * kKvTile;
  for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
    V low[kRows], high[kRows];
    ForRows<kRows>([&](auto r) HWY_ATTR { low[r] = high[r] = hn::Zero(d); });
    const float *cosine = angles.Cosines() + o, *sine = angles.Sines() + o;
    size_t at = o;
    for (size_t i = 0; i < bands; ++i, at += step, cosine += kKvTile, sine += kKvTile) {
      hwy::Prefetch(ahead + at * sizeof(T));
      hwy::Prefetch(ahead + (at + other) * sizeof(T));
      if constexpr (sizeof(T) == 4) {
        hwy::Prefetch(ahead + (at + lanes) * sizeof(T));
        hwy::Prefetch(ahead + (at + other + lanes) * sizeof(T));
      }
      V a_low = LoadF32(d, keys + at), a_high = LoadF32(d, keys + at + lanes);
      V b_low = LoadF32(d, keys + at + other), b_high = LoadF32(d, keys + at + other + lanes);
      const auto turn = [&](V& a, V& b, V c, V s) HWY_ATTR {
        const V turned = hn::NegMulAdd(b, s, hn::Mul(a, c));
        b = hn::MulAdd(a, s, hn::Mul(b, c));
        a = turned;
      };
      turn(a_low, b_low, hn::LoadU(d, cosine), hn::LoadU(d, sine));
      turn(a_high, b_high, hn::LoadU(d, cosine + lanes), hn::LoadU(d, sine + lanes));
      ForRows<kRows>([&](auto r) HWY_ATTR {
        const V first = hn::Set(d, q[r * kRowStep + i]), second = hn::Set(d, q[r * kRowStep + bands + i]);
        low[r] = hn::MulAdd(second, b_low, hn::MulAdd(first, a_low, low[r]));
        high[r] = hn::MulAdd(second, b_high, hn::MulAdd(first, a_high, high[r]));
      });
    }
    ForRows<kRows>([&](auto r) HWY_ATTR {
      hn::StoreU(low[r], d, out + r * out_stride + o);
      hn::StoreU(high[r], d, out + r * out_stride + o + lanes);
    });
  }
  const size_t d_rot = 2 * bands;
  if (d_rot < d_head) {
    NumberProduct<kRows, kRowStep, 1, false, true>(
        q + d_rot, Numbers<T>{keys + d_rot * kKvTile, kKvTile, d_head - d_rot}, out, out_stride,
        ahead + d_rot * kKvTile * sizeof(T));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
