// Tiles of the KV cache (kv_format.h) from and to f32, for every Highway target. Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_KV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_KV_TILE_INL_H_
#undef ROPELINE_KERNELS_KV_TILE_INL_H_
#else
#define ROPELINE_KERNELS_KV_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/convert-inl.h"
#include "kernels/kv_format.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that two vectors are a tile's row.
using TileTag = hn::CappedTag<float, 16>;

// rows [count][width] of f32, f16 or bf16 to f32 [count][32]; width a multiple of 8. Columns from width on
// are left alone.
template <typename T>
HWY_INLINE void FloatRowsToF32(const T* rows, size_t count, size_t width, float* out) {
  const TileTag d;
  const hn::CappedTag<float, 8> d8;
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < count; ++c) {
    size_t o = 0;
    for (; o + lanes <= width; o += lanes)
      hn::StoreU(LoadF32(d, rows + c * width + o), d, out + c * kKvTile + o);
    for (; o < width; o += hn::Lanes(d8))
      hn::StoreU(LoadF32(d8, rows + c * width + o), d8, out + c * kKvTile + o);
  }
}

// The other way: in rows are `stride` elements apart.
template <typename T>
HWY_INLINE void FloatRowsFromF32(const float* in, size_t stride, size_t count, size_t width, T* rows) {
  const TileTag d;
  const hn::CappedTag<float, 8> d8;
  const size_t lanes = hn::Lanes(d);
  for (size_t c = 0; c < count; ++c) {
    size_t o = 0;
    for (; o + lanes <= width; o += lanes)
      StoreF32(hn::LoadU(d, in + c * stride + o), d, rows + c * width + o);
    for (; o < width; o += hn::Lanes(d8))
      StoreF32(hn::LoadU(d8, in + c * stride + o), d8, rows + c * width + o);
  }
}

// Calls f(format as a constant) for a quantised format, so that what is inlined there has no branches left.
template <class F>
HWY_INLINE void WithQuantised(KvFormat format, const F& f) {
  switch (format) {
    case KvFormat::kQ80:
      return f(std::integral_constant<KvFormat, KvFormat::kQ80>());
    case KvFormat::kQ40:
      return f(std::integral_constant<KvFormat, KvFormat::kQ40>());
    default:
      return f(std::integral_constant<KvFormat, KvFormat::kKivi4>());
  }
}

// out[c][o] of a quantised tile. Give format and scale as constants.
HWY_INLINE void QuantisedTileToF32(KvFormat format, TileScale scale, const uint8_t* tile, float* out) {
  const TileTag d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  const auto* halves = reinterpret_cast<const F16*>(tile);
  const bool q8 = format == KvFormat::kQ80;
  HWY_ALIGN float scales[2 * kKvTile];  // scales, minima
  const size_t numbers = scale == TileScale::kOfSummedFrom ? 2 * kKvTile : kKvTile;
  for (size_t i = 0; i < numbers; i += lanes) hn::Store(LoadF32(d, halves + i), d, scales + i);
  const auto* data = reinterpret_cast<const uint16_t*>(tile + 2 * numbers);
  const auto store = [&](size_t c, size_t o, auto number) HWY_ATTR {
    auto value = hn::ConvertTo(d, number);
    if (format == KvFormat::kQ40) value = hn::Sub(value, hn::Set(d, 8.0f));
    if (scale == TileScale::kOfOutput) {
      value = hn::Mul(value, hn::Load(d, scales + o));
    } else if (scale == TileScale::kOfSummed) {
      value = hn::Mul(value, hn::Set(d, scales[c]));
    } else {
      value = hn::MulAdd(value, hn::Set(d, scales[c]), hn::Set(d, scales[kKvTile + c]));
    }
    hn::StoreU(value, d, out + c * kKvTile + o);
  };
  if (q8) {
    for (size_t pair = 0; pair < kKvTile / 2; ++pair) {
      for (size_t o = 0; o < kKvTile; o += lanes) {
        const auto both = hn::BitCast(di, LoadU16(d, data + pair * kKvTile + o));
        store(2 * pair, o, hn::ShiftRight<24>(hn::ShiftLeft<24>(both)));
        store(2 * pair + 1, o, hn::ShiftRight<24>(hn::ShiftLeft<16>(both)));
      }
    }
    return;
  }
  const auto* words = reinterpret_cast<const uint32_t*>(data);
  const auto nibble = hn::Set(di, 0xf);
  for (size_t eight = 0; eight < kKvTile / 8; ++eight) {
    for (size_t o = 0; o < kKvTile; o += lanes) {
      auto word = hn::BitCast(di, hn::LoadU(du, words + eight * kKvTile + o));
      const auto next = [&](size_t c) HWY_ATTR {
        store(8 * eight + c, o, hn::And(word, nibble));
        store(8 * eight + c + 1, o, hn::And(hn::ShiftRight<16>(word), nibble));
        word = hn::ShiftRight<4>(word);
      };
      next(0), next(2), next(4), next(6);
    }
  }
}

// in: rows c, `stride` apart, of 32 outputs each, to a quantised tile. As QuantiseKvLine, on vectors.
HWY_INLINE void QuantisedTileFromF32(KvFormat format, TileScale scale, const float* in, size_t stride,
                                     uint8_t* tile) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  const bool q8 = format == KvFormat::kQ80;
  const bool from_least = scale == TileScale::kOfSummedFrom;
  HWY_ALIGN float low[kKvTile], high[kKvTile];  // of each line
  if (scale == TileScale::kOfOutput) {
    for (size_t o = 0; o < kKvTile; o += lanes) {
      V least = hn::LoadU(d, in + o), most = least;
      for (size_t c = 1; c < kKvTile; ++c) {
        const V x = hn::LoadU(d, in + c * stride + o);
        least = hn::Min(least, x);
        most = hn::Max(most, x);
      }
      hn::Store(least, d, low + o);
      hn::Store(most, d, high + o);
    }
  } else {
    for (size_t c = 0; c < kKvTile; ++c) {
      const float* row = in + c * stride;
      V least = hn::LoadU(d, row), most = least;
      for (size_t o = lanes; o < kKvTile; o += lanes) {
        const V x = hn::LoadU(d, row + o);
        least = hn::Min(least, x);
        most = hn::Max(most, x);
      }
      low[c] = hn::GetLane(hn::MinOfLanes(d, least));
      high[c] = hn::GetLane(hn::MaxOfLanes(d, most));
    }
  }
  HWY_ALIGN float inverse[kKvTile], start[kKvTile];
  auto* halves = reinterpret_cast<F16*>(tile);
  const V zero = hn::Zero(d);
  for (size_t i = 0; i < kKvTile; i += lanes) {
    const V least = hn::Load(d, low + i), most = hn::Load(d, high + i);
    V step;
    if (from_least) {
      step = hn::Div(hn::Sub(most, least), hn::Set(d, 15.0f));
    } else if (q8) {
      step = hn::Div(hn::Max(hn::Neg(least), most), hn::Set(d, 127.0f));
    } else {
      const V extreme = hn::IfThenElse(hn::Gt(hn::Neg(least), most), least, most);
      step = hn::Div(extreme, hn::Set(d, -8.0f));
    }
    // + 0: see QuantiseKvLine.
    step = hn::Add(step, zero);
    StoreF32(step, d, halves + i);
    if (from_least) {
      step = LoadF32(d, halves + i);
      StoreF32(hn::Add(least, zero), d, halves + kKvTile + i);
      hn::Store(LoadF32(d, halves + kKvTile + i), d, start + i);
    }
    hn::Store(hn::IfThenElse(hn::Eq(step, zero), zero, hn::Div(hn::Set(d, 1.0f), step)), d, inverse + i);
  }
  // Only the bits of a number, also where x is no number: its neighbours in the word belong to other lines.
  // Adding 1.5·2^23 rounds to nearest, ties to even, and leaves the integer in the last bits.
  const auto number = [&](size_t c, size_t o) HWY_ATTR {
    V x = hn::LoadU(d, in + c * stride + o);
    if (scale == TileScale::kOfOutput) {
      x = hn::Mul(x, hn::Load(d, inverse + o));
    } else if (from_least) {
      x = hn::Mul(hn::Sub(x, hn::Set(d, start[c])), hn::Set(d, inverse[c]));
      x = hn::Min(hn::Max(x, hn::Zero(d)), hn::Set(d, 15.0f));
    } else {
      x = hn::Mul(x, hn::Set(d, inverse[c]));
    }
    if (q8 || from_least) {
      return hn::And(hn::BitCast(di, hn::Add(x, hn::Set(d, 12582912.0f))), hn::Set(di, q8 ? 0xff : 0xf));
    }
    // What is no number of the format (of an infinite or NaN element) is 15, as QuantiseKvLine has it.
    const V steps = hn::Add(x, hn::Set(d, 8.5f));
    const auto fits = hn::And(hn::Gt(steps, hn::Zero(d)), hn::Lt(steps, hn::Set(d, 16.0f)));
    return hn::ConvertTo(di, hn::IfThenElse(fits, steps, hn::Set(d, 15.0f)));
  };
  auto* data = reinterpret_cast<uint16_t*>(tile + (from_least ? 4 : 2) * kKvTile);
  if (q8) {
    for (size_t pair = 0; pair < kKvTile / 2; ++pair) {
      for (size_t o = 0; o < kKvTile; o += lanes) {
        const auto both = hn::Or(number(2 * pair, o), hn::ShiftLeft<8>(number(2 * pair + 1, o)));
        StoreU16(d, hn::BitCast(du, both), data + pair * kKvTile + o);
      }
    }
    return;
  }
  auto* words = reinterpret_cast<uint32_t*>(data);
  for (size_t eight = 0; eight < kKvTile / 8; ++eight) {
    for (size_t o = 0; o < kKvTile; o += lanes) {
      const auto pair = [&](size_t c) HWY_ATTR {
        return hn::Or(number(8 * eight + c, o), hn::ShiftLeft<16>(number(8 * eight + c + 1, o)));
      };
      const auto first = hn::Or(pair(0), hn::ShiftLeft<4>(pair(2)));
      const auto second = hn::Or(hn::ShiftLeft<8>(pair(4)), hn::ShiftLeft<12>(pair(6)));
      hn::StoreU(hn::BitCast(du, hn::Or(first, second)), du, words + eight * kKvTile + o);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
