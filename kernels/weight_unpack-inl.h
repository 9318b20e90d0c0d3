// Weights as they are stored (weight_dtype.h) to f32, on vectors: for every Highway target. The numbers are
// those of DecodeWeights, bit for bit: what is multiplied is short enough for f32 to hold the products, and a
// number is rounded once, with or without a fused multiply-add. Included inside foreach_target's repeated
// inclusion.
#if defined(ROPELINE_KERNELS_WEIGHT_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_WEIGHT_UNPACK_INL_H_
#undef ROPELINE_KERNELS_WEIGHT_UNPACK_INL_H_
#else
#define ROPELINE_KERNELS_WEIGHT_UNPACK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/lanes-inl.h"
#include "kernels/weight_dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: the weights that share a scale in q6_K, the nibbles of a run of bytes in q4_0.
using UnpackTag = hn::CappedTag<float, 16>;

// Pieces that a row may be unpacked in: half a block of 256, which has its nibbles to itself.
constexpr size_t UnpackPiece(WeightDtype dtype) {
  const size_t weights = WeightBlockOf(dtype).weights;
  return weights == 256 ? 128 : weights;
}

HWY_INLINE float F16At(const uint8_t* p) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(LoadF32(d, reinterpret_cast<const F16*>(p)));
}

// Lanes(d) bytes at p as whole numbers.
template <typename Byte, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> Promoted(D, const uint8_t* p) {
  const hn::Rebind<Byte, D> d8;
  return hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(d8, reinterpret_cast<const Byte*>(p)));
}

template <typename T>
HWY_INLINE void UnpackNumbers(const T* from, size_t count, float* HWY_RESTRICT out) {
  const UnpackTag d;
  ForEachVector(d, count,
                [&](auto dv, size_t i) HWY_ATTR { hn::StoreU(LoadF32(dv, from + i), dv, out + i); });
}

HWY_INLINE void UnpackQ80(const uint8_t* block, float* HWY_RESTRICT out) {
  const UnpackTag d;
  const auto scale = hn::Set(d, F16At(block));
  for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto q = hn::ConvertTo(d, Promoted<int8_t>(d, block + 2 + i));
    hn::StoreU(hn::Mul(q, scale), d, out + i);
  }
}

// low[i] = nibble · scale[0] + start[0] of the lower nibbles of 16 bytes, high[i] of the upper ones.
HWY_INLINE void UnpackNibbles(const uint8_t* bytes, const float* scale, const float* start,
                              float* HWY_RESTRICT low, float* HWY_RESTRICT high) {
  const UnpackTag d;
  const hn::RebindToSigned<UnpackTag> di;
  for (size_t i = 0; i < 16; i += hn::Lanes(d)) {
    const auto both = Promoted<uint8_t>(d, bytes + i);
    const auto lower = hn::ConvertTo(d, hn::And(both, hn::Set(di, 0xf)));
    const auto upper = hn::ConvertTo(d, hn::ShiftRight<4>(both));
    hn::StoreU(hn::MulAdd(lower, hn::Set(d, scale[0]), hn::Set(d, start[0])), d, low + i);
    hn::StoreU(hn::MulAdd(upper, hn::Set(d, scale[1]), hn::Set(d, start[1])), d, high + i);
  }
}

HWY_INLINE void UnpackQ40(const uint8_t* block, float* HWY_RESTRICT out) {
  const float d = F16At(block);
  const float scale[2] = {d, d}, start[2] = {-8 * d, -8 * d};
  UnpackNibbles(block + 2, scale, start, out, out + 16);
}

// Weights 128·half … 128·half + 127 of a block.
HWY_INLINE void UnpackQ4K(const uint8_t* block, size_t half, float* HWY_RESTRICT out) {
  // Twelve bytes hold eight scales and eight minima: the first four of each have a byte's lower six bits, of
  // the others a nibble stands in the last four bytes and the upper two bits above the first ones.
  uint32_t words[3];
  std::memcpy(words, block + 4, sizeof words);
  uint32_t scale_bits = words[0] & 0x3f3f3f3f, minimum_bits = words[1] & 0x3f3f3f3f;
  if (half != 0) {
    scale_bits = (words[2] & 0x0f0f0f0f) | (words[0] >> 2 & 0x30303030);
    minimum_bits = (words[2] >> 4 & 0x0f0f0f0f) | (words[1] >> 2 & 0x30303030);
  }
  const float d = F16At(block), m = -F16At(block + 2);
  float scale[4], start[4];
  for (size_t i = 0; i < 4; ++i) {
    scale[i] = d * static_cast<float>(scale_bits >> 8 * i & 0xff);
    start[i] = m * static_cast<float>(minimum_bits >> 8 * i & 0xff);
  }
  const uint8_t* bytes = block + 16 + 64 * half;
  for (size_t pair = 0; pair < 2; ++pair, bytes += 32, out += 64) {
    UnpackNibbles(bytes, scale + 2 * pair, start + 2 * pair, out, out + 32);
    UnpackNibbles(bytes + 16, scale + 2 * pair, start + 2 * pair, out + 16, out + 48);
  }
}

HWY_INLINE void UnpackQ6K(const uint8_t* block, size_t half, float* HWY_RESTRICT out) {
  const UnpackTag d;
  const hn::RebindToSigned<UnpackTag> di;
  const uint8_t* nibbles = block + 64 * half;
  const uint8_t* upper_bits = block + 128 + 32 * half;
  const uint8_t* scales = block + 192 + 8 * half;
  const float all = F16At(block + 208);
  float scale[8];
  for (size_t i = 0; i < 8; ++i) scale[i] = all * static_cast<float>(static_cast<int8_t>(scales[i]));
  const auto store = [&](auto nibble, auto upper, size_t group, size_t at) HWY_ATTR {
    const auto q = hn::Or(nibble, hn::ShiftLeft<4>(hn::And(upper, hn::Set(di, 3))));
    const auto centred = hn::ConvertTo(d, hn::Sub(q, hn::Set(di, 32)));
    hn::StoreU(hn::Mul(centred, hn::Set(d, scale[group])), d, out + at);
  };
  for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
    const auto first = Promoted<uint8_t>(d, nibbles + i), second = Promoted<uint8_t>(d, nibbles + 32 + i);
    const auto upper = Promoted<uint8_t>(d, upper_bits + i);
    const size_t group = i / 16;
    store(hn::And(first, hn::Set(di, 0xf)), upper, group, i);
    store(hn::And(second, hn::Set(di, 0xf)), hn::ShiftRight<2>(upper), 2 + group, 32 + i);
    store(hn::ShiftRight<4>(first), hn::ShiftRight<4>(upper), 4 + group, 64 + i);
    store(hn::ShiftRight<4>(second), hn::ShiftRight<6>(upper), 6 + group, 96 + i);
  }
}

// Weights [first, first + count) of a row; whole pieces.
template <WeightDtype kDtype>
HWY_INLINE void UnpackWeights(const uint8_t* row, size_t first, size_t count, float* HWY_RESTRICT out) {
  if constexpr (kDtype == WeightDtype::kF32) {
    UnpackNumbers(reinterpret_cast<const float*>(row) + first, count, out);
  } else if constexpr (kDtype == WeightDtype::kF16) {
    UnpackNumbers(reinterpret_cast<const F16*>(row) + first, count, out);
  } else if constexpr (kDtype == WeightDtype::kBf16) {
    UnpackNumbers(reinterpret_cast<const Bf16*>(row) + first, count, out);
  } else {
    constexpr WeightBlock kBlock = WeightBlockOf(kDtype);
    constexpr size_t kPiece = UnpackPiece(kDtype);
    for (size_t i = 0; i < count; i += kPiece) {
      const uint8_t* block = row + (first + i) / kBlock.weights * kBlock.bytes;
      const size_t half = (first + i) % kBlock.weights / kPiece;
      if constexpr (kDtype == WeightDtype::kQ80) UnpackQ80(block, out + i);
      if constexpr (kDtype == WeightDtype::kQ40) UnpackQ40(block, out + i);
      if constexpr (kDtype == WeightDtype::kQ4K) UnpackQ4K(block, half, out + i);
      if constexpr (kDtype == WeightDtype::kQ6K) UnpackQ6K(block, half, out + i);
    }
  }
}

// Calls f(dtype as a constant), so that what is inlined there has no branches left.
template <class F>
HWY_INLINE void WithWeightDtype(WeightDtype dtype, const F& f) {
  switch (dtype) {
    case WeightDtype::kF32:
      return f(std::integral_constant<WeightDtype, WeightDtype::kF32>());
    case WeightDtype::kF16:
      return f(std::integral_constant<WeightDtype, WeightDtype::kF16>());
    case WeightDtype::kBf16:
      return f(std::integral_constant<WeightDtype, WeightDtype::kBf16>());
    case WeightDtype::kQ80:
      return f(std::integral_constant<WeightDtype, WeightDtype::kQ80>());
    case WeightDtype::kQ40:
      return f(std::integral_constant<WeightDtype, WeightDtype::kQ40>());
    case WeightDtype::kQ4K:
      return f(std::integral_constant<WeightDtype, WeightDtype::kQ4K>());
    case WeightDtype::kQ6K:
      return f(std::integral_constant<WeightDtype, WeightDtype::kQ6K>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
