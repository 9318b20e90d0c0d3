// Products of a few rows with a quantised tile of the KV cache (kv_format.h), for every Highway target. Rows
// are rounded to 16-bit whole numbers, and pairs of products summed in 32 bits, exactly. Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_KV_WHOLE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_KV_WHOLE_PRODUCT_INL_H_
#undef ROPELINE_KERNELS_KV_WHOLE_PRODUCT_INL_H_
#else
#define ROPELINE_KERNELS_KV_WHOLE_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kv_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileInt = hn::RebindToSigned<TileTag>;
using VInt = hn::Vec<TileInt>;

// Each lane holds two 16-bit numbers: sum + a.low · b.low + a.high · b.high.
HWY_INLINE VInt AddDot(VInt a, VInt b, VInt sum) {
  [[maybe_unused]] const TileInt di;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  // Highway requires VNNI of the CPU for this target, but does not tell the compiler, which refuses the
  // intrinsic.
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#elif HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::Repartition<int16_t, TileInt> d16;
  VInt unused = hn::Zero(di);
  return hn::ReorderWidenMulAccumulate(di, hn::BitCast(d16, a), hn::BitCast(d16, b), sum, unused);
#else
  const auto low = [&](VInt x) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(x)); };
  const VInt products = hn::Mul(low(a), low(b));
  return hn::Add(sum, hn::Add(products, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b))));
#endif
}

// Lanes(TileInt) pairs of int8, each widened to 16 bits.
HWY_INLINE VInt LoadBytePairs(const int8_t* p) {
  const TileInt di;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::Repartition<int16_t, TileInt> d16;
  return hn::BitCast(di, hn::PromoteTo(d16, hn::LoadU(hn::Rebind<int8_t, decltype(d16)>(), p)));
#else
  const auto both = hn::BitCast(di, LoadU16(TileTag(), p));
  const auto low = hn::And(hn::ShiftRight<24>(hn::ShiftLeft<24>(both)), hn::Set(di, 0xffff));
  return hn::Or(low, hn::ShiftLeft<16>(hn::ShiftRight<24>(hn::ShiftLeft<16>(both))));
#endif
}

// Nibble j of each 16-bit word, 0 … 15.
template <int j>
HWY_INLINE VInt NibblePair(VInt words) {
  const TileInt di;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (j == 3) {
    const hn::Repartition<uint16_t, TileInt> d16;
    return hn::BitCast(di, hn::ShiftRight<12>(hn::BitCast(d16, words)));
  }
#endif
  // What a shift brings into the upper half is masked.
  const VInt shifted = j == 0 ? words : hn::ShiftRight<4 * j>(words);
  return hn::And(shifted, hn::Set(di, 0x000f000f));
}

HWY_INLINE VInt BroadcastPair(const int16_t* p) {
  int32_t both;
  std::memcpy(&both, p, sizeof(both));
  return hn::Set(TileInt(), both);
}

// data: a tile's bytes (kNibbles: words of nibbles), a [kRows][32] int16. at(o) prepares for outputs [o, o +
// 2 · lanes) and returns what takes a row's sums of them: finish(r, sum_low, sum_high).
template <size_t kRows, bool kNibbles, class At>
HWY_INLINE void WholeProduct(const int16_t* HWY_RESTRICT a, const uint8_t* HWY_RESTRICT data,
                             const uint8_t* ahead, const At& at) {
  const TileInt di;
  const size_t lanes = hn::Lanes(di);
  for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
    VInt low[kRows], high[kRows];
    ForRows<kRows>([&](auto r) HWY_ATTR { low[r] = high[r] = hn::Zero(di); });
    const auto add = [&](size_t c, VInt tile_low, VInt tile_high) HWY_ATTR {
      ForRows<kRows>([&](auto r) HWY_ATTR {
        const VInt pair = BroadcastPair(a + r * kKvTile + c);
        low[r] = AddDot(tile_low, pair, low[r]);
        high[r] = AddDot(tile_high, pair, high[r]);
      });
    };
    if constexpr (kNibbles) {
      const auto* words = reinterpret_cast<const int32_t*>(data) + o;
      for (size_t c = 0; c < kKvTile; c += 8, words += kKvTile) {
        hwy::Prefetch(ahead + c / 8 * 128 + 4 * o);
        hwy::Prefetch(ahead + c / 8 * 128 + 4 * (o + lanes));
        const VInt word_low = hn::LoadU(di, words), word_high = hn::LoadU(di, words + lanes);
        add(c, NibblePair<0>(word_low), NibblePair<0>(word_high));
        add(c + 2, NibblePair<1>(word_low), NibblePair<1>(word_high));
        add(c + 4, NibblePair<2>(word_low), NibblePair<2>(word_high));
        add(c + 6, NibblePair<3>(word_low), NibblePair<3>(word_high));
      }
    } else {
      const auto* bytes = reinterpret_cast<const int8_t*>(data) + 2 * o;
      for (size_t c = 0; c < kKvTile; c += 2, bytes += 2 * kKvTile) {
        hwy::Prefetch(ahead + c * kKvTile + 2 * o);
        add(c, LoadBytePairs(bytes), LoadBytePairs(bytes + 2 * lanes));
      }
    }
    const auto finish = at(o);
    ForRows<kRows>([&](auto r) HWY_ATTR { finish(r, low[r], high[r]); });
  }
}

// The number that the largest magnitude of a row becomes: below 2^15 by so much that its lower byte may count
// from −128 (kv_nibble_product-inl.h).
inline constexpr float kMostNumber = 32512;

// x to the nearest whole number, |x| <= 2^22.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> RoundedNumber(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5·2^23 leaves it in the low bits.
  return hn::Sub(hn::BitCast(di, hn::Add(x, hn::Set(d, 12582912.0f))), hn::Set(di, 0x4b400000));
}

HWY_INLINE float LargestMagnitude(const float* x, size_t n) {
  const TileTag d;
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + i)));
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// What brings the largest magnitude to kMostNumber. Below 1e-30 a row counts as zero: its reciprocal would be
// infinite.
HWY_INLINE float NumberFactor(float largest) { return largest > 1e-30f ? kMostNumber / largest : 0; }

// Zero; NaN where one of 32 x is a NaN or infinite.
HWY_INLINE float NothingOf(const float* x) {
  const TileTag d;
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < kKvTile; i += hn::Lanes(d)) sum = hn::MulAdd(hn::LoadU(d, x + i), hn::Zero(d), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Rows that are multiplied with tiles whose scale is the output's: whole numbers once for all tiles.
struct WholeRows {
  int16_t* numbers;  // [tiles][rows][32]
  float* steps;      // [tiles][rows]: what one of them stands for
  float* offsets;    // [tiles][rows]: −8 · step · their sum, for nibbles that count from 8
};

// a [rows][a_stride], columns filled up with zeros to a multiple of 32.
HWY_INLINE void RoundRows(const float* a, size_t a_stride, size_t rows, size_t tiles, WholeRows out) {
  const TileTag d;
  const hn::Rebind<int16_t, decltype(d)> d16;
  for (size_t i = 0; i < tiles; ++i) {
    for (size_t r = 0; r < rows; ++r) {
      const float* x = a + r * a_stride + i * kKvTile;
      const float largest = LargestMagnitude(x, kKvTile);
      const auto factor = hn::Set(d, NumberFactor(largest));
      const size_t at = i * rows + r;
      // A NaN or an infinity among x, which has no whole number, makes the step a NaN.
      out.steps[at] = largest / kMostNumber + NothingOf(x);
      auto sum = hn::Zero(d);
      for (size_t c = 0; c < kKvTile; c += hn::Lanes(d)) {
        const auto number = RoundedNumber(d, hn::Mul(hn::LoadU(d, x + c), factor));
        sum = hn::Add(sum, hn::ConvertTo(d, number));  // below 2^24: exact
        hn::StoreU(hn::DemoteTo(d16, number), d16, out.numbers + at * kKvTile + c);
      }
      out.offsets[at] = -8 * out.steps[at] * hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

// finish(r, sum_low, sum_high): out[r][o] += scale[o] · (step[r] · sum[r][o] + offset[r]), two vectors of o.
template <bool kOffsets>
HWY_INLINE auto AddScaled(const F16* scales, const float* steps, const float* offsets, size_t o,
                          float* HWY_RESTRICT out, size_t out_stride) {
  const TileTag d;
  const size_t lanes = hn::Lanes(d);
  const auto scale_low = LoadF32(d, scales + o), scale_high = LoadF32(d, scales + o + lanes);
  return [=](auto r, VInt sum_low, VInt sum_high) HWY_ATTR {
    const auto step = hn::Set(d, steps[r]);
    const auto offset = hn::Set(d, kOffsets ? offsets[r] : 0.0f);
    float* to = out + r * out_stride + o;
    const auto low = hn::MulAdd(hn::ConvertTo(d, sum_low), step, offset);
    const auto high = hn::MulAdd(hn::ConvertTo(d, sum_high), step, offset);
    const auto old_low = hn::LoadU(d, to);
    const auto old_high = hn::LoadU(d, to + lanes);
    hn::StoreU(hn::MulAdd(low, scale_low, old_low), d, to);
    hn::StoreU(hn::MulAdd(high, scale_high, old_high), d, to + lanes);
  };
}

// out[r][o] += scale[o] · step[r] · Σ_c a[r][c]·tile[c][o]
template <size_t kRows, bool kNibbles>
HWY_INLINE void ScaledOutputProduct(WholeRows a, const uint8_t* HWY_RESTRICT tile, float* HWY_RESTRICT out,
                                    size_t out_stride, const uint8_t* ahead) {
  const auto* scales = reinterpret_cast<const F16*>(tile);
  hwy::Prefetch(ahead);
  WholeProduct<kRows, kNibbles>(a.numbers, tile + 2 * kKvTile, ahead + 2 * kKvTile, [&](size_t o) HWY_ATTR {
    return AddScaled<kNibbles>(scales, a.steps, a.offsets, o, out, out_stride);
  });
}

// Rows that take in the scales of the summed index are rounded for each tile anew:
//   Σ_c a[r][c]·(scale[c]·q[c][o] + zero[c]) = step[r]·Σ_c number[r][c]·q[c][o] + Σ_c a[r][c]·zero[c]
// The last sum, which is the same for all outputs, is kept apart. A block's tiles are rounded before they are
// multiplied, because a rounding is a long chain (a reduction, a conversion, a store) that others can
// overlap.
template <size_t kRows>
struct RoundedRows {
  HWY_ALIGN int16_t numbers[kRows * kKvTile];
  float steps[kRows];
};

inline constexpr size_t kZeroLanes = 16;  // partial sums of a[r][c]·zero[c] that a row keeps

// What q = 0 stands for: nothing, −8 · scale, or the tile's minimum.
enum class TileZero { kNone, kEight, kMinimum };

// a [kRows][a_stride], 32 columns, zero where the sum has none; `largest` [kRows]: bounds of |a[r][c]|;
// `factors` [kRows]: their NumberFactor. c from `first` to `end` only: what the tile holds elsewhere may be
// anything. `zeros` [kRows][kZeroLanes] is added to.
template <size_t kRows, TileZero kZero>
HWY_INLINE void RoundForTile(const float* HWY_RESTRICT a, size_t a_stride, const float* HWY_RESTRICT largest,
                             const float* HWY_RESTRICT factors, const uint8_t* HWY_RESTRICT tile,
                             size_t first, size_t end, RoundedRows<kRows>* HWY_RESTRICT out,
                             float* HWY_RESTRICT zeros) {
  const TileTag d;
  const hn::Rebind<int16_t, decltype(d)> d16;
  const size_t lanes = hn::Lanes(d);
  const auto* halves = reinterpret_cast<const F16*>(tile);
  HWY_ALIGN float scales[kKvTile];
  HWY_ALIGN float zero[kKvTile];
  auto largest_scales = hn::Zero(d);
  for (size_t c = 0; c < kKvTile; c += lanes) {
    auto scale = LoadF32(d, halves + c);
    auto minimum = kZero == TileZero::kMinimum ? LoadF32(d, halves + kKvTile + c) : hn::Zero(d);
    if (c < first || c + lanes > end) {
      const auto at = hn::Iota(d, static_cast<float>(c));
      const auto inside = hn::And(hn::Ge(at, hn::Set(d, static_cast<float>(first))),
                                  hn::Lt(at, hn::Set(d, static_cast<float>(end))));
      scale = hn::IfThenElseZero(inside, scale);
      minimum = hn::IfThenElseZero(inside, minimum);
    }
    hn::Store(scale, d, scales + c);
    largest_scales = hn::Max(largest_scales, hn::Abs(scale));
    if constexpr (kZero == TileZero::kMinimum) hn::Store(minimum, d, zero + c);
    if constexpr (kZero == TileZero::kEight) hn::Store(hn::Mul(scale, hn::Set(d, -8.0f)), d, zero + c);
  }
  const float largest_scale = hn::GetLane(hn::MaxOfLanes(d, largest_scales));
  const float scale_factor = NumberFactor(largest_scale) / kMostNumber;
  for (size_t r = 0; r < kRows; ++r) {
    const auto factor = hn::Set(d, factors[r] * scale_factor);
    for (size_t c = 0; c < kKvTile; c += lanes) {
      const auto x = hn::LoadU(d, a + r * a_stride + c);
      const auto number = RoundedNumber(d, hn::Mul(x, hn::Mul(factor, hn::Load(d, scales + c))));
      hn::StoreU(hn::DemoteTo(d16, number), d16, out->numbers + r * kKvTile + c);
      if constexpr (kZero != TileZero::kNone) {
        float* sum = zeros + r * kZeroLanes + c % kZeroLanes;
        hn::StoreU(hn::MulAdd(x, hn::Load(d, zero + c), hn::LoadU(d, sum)), d, sum);
      }
    }
    out->steps[r] = largest[r] * largest_scale / kMostNumber;
  }
}

// out[r][o] += step[r]·Σ_c number[r][c]·q[c][o]
template <size_t kRows, bool kNibbles, bool kMinimum>
HWY_INLINE void RoundedProduct(const RoundedRows<kRows>& rows, const uint8_t* HWY_RESTRICT tile,
                               float* HWY_RESTRICT out, size_t out_stride, const uint8_t* ahead) {
  const TileTag d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kHeader = (kMinimum ? 4 : 2) * kKvTile;
  hwy::Prefetch(ahead);
  if constexpr (kMinimum) hwy::Prefetch(ahead + 64);
  WholeProduct<kRows, kNibbles>(rows.numbers, tile + kHeader, ahead + kHeader, [&](size_t o) HWY_ATTR {
    return [&, o](auto r, VInt sum_low, VInt sum_high) HWY_ATTR {
      const auto step = hn::Set(d, rows.steps[r]);
      float* to = out + r * out_stride + o;
      const auto old_low = hn::LoadU(d, to);
      const auto old_high = hn::LoadU(d, to + lanes);
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum_low), step, old_low), d, to);
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum_high), step, old_high), d, to + lanes);
    };
  });
}

// A row's sum over zeros, added to `count` of its outputs (a multiple of 32).
HWY_INLINE void AddZeros(const float* zeros, float* out, size_t count) {
  const TileTag d;
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < kZeroLanes; i += hn::Lanes(d)) sum = hn::Add(sum, hn::LoadU(d, zeros + i));
  const auto all = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum)));
  for (size_t o = 0; o < count; o += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, out + o), all), d, out + o);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
