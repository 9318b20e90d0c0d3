// Vectors of f32 from and to memory of any dtype, for every Highway target. Storing rounds to nearest, ties
// to even, on every target (Highway 1.0.3 truncates where the CPU has no instruction for it). Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_CONVERT_INL_H_
#undef ROPELINE_KERNELS_CONVERT_INL_H_
#else
#define ROPELINE_KERNELS_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/dtype.h"

// Does the target convert f16 by an instruction?
#undef ROPELINE_NATIVE_F16
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM
#define ROPELINE_NATIVE_F16 1
#else
#define ROPELINE_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F16 = hwy::float16_t;
using Bf16 = hwy::bfloat16_t;

template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> LoadU16(D, const void* p) {
  const hn::Rebind<uint16_t, D> d16;
  return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(d16, static_cast<const uint16_t*>(p)));
}

// The lower 16 bits of each lane; the upper ones are zero.
template <class D, class VU>
HWY_INLINE void StoreU16(D, VU bits, void* p) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, bits)), d16, static_cast<uint16_t*>(p));
}

// Lanes(d) elements at p, as f32.
template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const Bf16* p) {
  return hn::BitCast(d, hn::ShiftLeft<16>(LoadU16(d, p)));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(D d, const F16* p) {
#if ROPELINE_NATIVE_F16
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<F16, D>(), p));
#else
  // The mantissa and exponent as an f32 whose exponent is 112 too low: a product mends it, also for
  // subnormals. The largest exponent means infinity or NaN.
  const hn::RebindToUnsigned<D> du;
  const auto bits = LoadU16(d, p);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fff)));
  const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  const auto special = hn::Or(hn::BitCast(du, scaled), hn::Set(du, 0x7f800000));
  const auto value = hn::IfThenElse(hn::Ge(scaled, hn::Set(d, 65536.0f)), hn::BitCast(d, special), scaled);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
#endif
}

template <class D>
HWY_INLINE void StoreF32(hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}

// The bits of v rounded to bf16, in the upper half of each lane; the lower half is rubbish. A NaN whose
// mantissa is all ones may become a zero; the NaN that arithmetic makes stays one.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundToBf16(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
}

template <class D>
HWY_INLINE void StoreF32(hn::Vec<D> v, D d, Bf16* p) {
  StoreU16(d, hn::ShiftRight<16>(RoundToBf16(d, v)), p);
}

template <class D>
HWY_INLINE void StoreF32(hn::Vec<D> v, [[maybe_unused]] D d, F16* p) {
#if ROPELINE_NATIVE_F16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  // Highway asks for no exceptions, for which there is no instruction that stores to memory: this form is an
  // eighth faster in the first-level cache.
  if constexpr (hn::MaxLanes(D()) == 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#endif
  const hn::Rebind<F16, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, p);
#else
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffff));
  // Normal: the exponent less 112, the mantissa rounded at bit 13; a carry goes into the exponent.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
  const auto shifted = hn::Add(magnitude, hn::Set(du, 0xfffu - (112u << 23)));
  const auto normal = hn::ShiftRight<13>(hn::Add(shifted, odd));
  // Subnormal: adding a half puts the last bit that f16 keeps at the end of the f32 mantissa.
  const auto half = hn::Set(d, 0.5f);
  const auto small =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
  const hn::RebindToSigned<D> di;
  const auto less = [&](uint32_t limit) HWY_ATTR {
    return hn::RebindMask(du, hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<int32_t>(limit))));
  };
  const auto is_nan = hn::RebindMask(du, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7f800000)));
  auto out = hn::IfThenElse(less(113u << 23), small, normal);
  out = hn::IfThenElse(less(143u << 23), out, hn::Set(du, 0x7c00));
  out = hn::IfThenElse(is_nan, hn::Set(du, 0x7e00), out);
  StoreU16(d, hn::Or(out, hn::ShiftRight<16>(hn::And(bits, hn::Set(du, 0x80000000u)))), p);
#endif
}

// Two vectors at once, in an order that suits the dtype: the same for loading, for storing and for a table
// of f32 that goes with them. bf16 has its even elements in one vector and its odd ones in the other, which
// costs a shift and a mask where an ordered conversion costs shuffles.
template <typename T>
inline constexpr bool kHasPairs = std::is_same_v<T, Bf16>&& HWY_TARGET != HWY_SCALAR;

#if HWY_TARGET != HWY_SCALAR

template <class D, class V = hn::Vec<D>>
HWY_INLINE void LoadPair(D d, const Bf16* p, V& even, V& odd) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  even = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  odd = hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)));
}

// Both vectors are rounded at once: their upper halves side by side in one vector of 16-bit lanes, their
// lower halves in another, which decide whether to go up. 7 instructions with AVX-512 where rounding each
// takes 10.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StorePair(V even, V odd, D, Bf16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<uint16_t, D> d16;
  const hn::RebindToSigned<decltype(d16)> di16;
  const auto even_bits = hn::BitCast(du, even);
  const auto odd_bits = hn::BitCast(du, odd);
  const auto upper = hn::OddEven(hn::BitCast(d16, odd_bits), hn::BitCast(d16, hn::ShiftRight<16>(even_bits)));
  const auto lower = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd_bits)), hn::BitCast(d16, even_bits));
  // Up where the lower half is above 0x8000, or is 0x8000 and the upper half is odd. Setting the last bit of
  // 0x8000 makes the second case the first, and changes nothing elsewhere.
  const auto decides = hn::Or(lower, hn::And(upper, hn::Set(d16, 1)));
  const auto above = hn::BitCast(di16, hn::Xor(decides, hn::Set(d16, 0x8000)));
  const auto goes_up = hn::Gt(above, hn::Zero(di16));
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const auto rounded = hn::IfThenElse(hn::RebindMask(d16, goes_up), hn::Add(upper, hn::Set(d16, 1)), upper);
#else
  const auto rounded = hn::Sub(upper, hn::BitCast(d16, hn::VecFromMask(di16, goes_up)));
#endif
  hn::StoreU(rounded, d16, reinterpret_cast<uint16_t*>(p));
}

#endif  // HWY_SCALAR

// Calls f(pointer to T) with the type that a dtype is stored as.
template <class F>
HWY_INLINE void WithType(Dtype dtype, void* p, const F& f) {
  switch (dtype) {
    case Dtype::kF32:
      return f(static_cast<float*>(p));
    case Dtype::kF16:
      return f(static_cast<F16*>(p));
    case Dtype::kBf16:
      return f(static_cast<Bf16*>(p));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
