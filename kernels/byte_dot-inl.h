// Products of bytes, for every Highway target: what a CPU's 8-bit dot-product instructions do, and the same
// from 16-bit products where it has none. Highway 1.0.3 has no such operation. Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_BYTE_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_BYTE_DOT_INL_H_
#undef ROPELINE_KERNELS_BYTE_DOT_INL_H_
#else
#define ROPELINE_KERNELS_BYTE_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

// Four products of u8 and i8 added to an i32 by one instruction?
#undef ROPELINE_BYTE_DOT
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
#define ROPELINE_BYTE_DOT 1
#else
#define ROPELINE_BYTE_DOT 0
#endif

#if ROPELINE_BYTE_DOT && HWY_MAJOR == 1 && HWY_MINOR == 0 && HWY_PATCH <= 3
// These versions name another extension ("avxvnni") than the one that they detect and we use.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR \
  HWY_TARGET_STR_AVX3  \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512vnni,avx512bitalg,avx512vpopcntdq"
#endif

// Two products of u8 and i8 added to an i16?
#undef ROPELINE_BYTE_PAIRS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
#define ROPELINE_BYTE_PAIRS 1
#else
#define ROPELINE_BYTE_PAIRS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// The vectors of a product: up to 64 bytes, and 128-bit ones where a vector's length is not known.
#if HWY_HAVE_SCALABLE
using DU8 = hn::FixedTag<uint8_t, 16>;
#else
using DU8 = hn::CappedTag<uint8_t, 64>;
#endif
using DI8 = hn::RebindToSigned<DU8>;
using DI16 = hn::RepartitionToWide<DI8>;
using DI32 = hn::RepartitionToWide<DI16>;
using DF32 = hn::RebindToFloat<DI32>;

// Σ of neighbours w[2i]·x[2i] + w[2i+1]·x[2i+1]. It must fit 16 bits: w <= 128 where |x| <= 127.
HWY_INLINE hn::Vec<DI16> MulPairs(hn::Vec<DU8> w, hn::Vec<DI8> x) {
#if ROPELINE_BYTE_PAIRS
#if HWY_TARGET <= HWY_AVX3
  return hn::Vec<DI16>{_mm512_maddubs_epi16(w.raw, x.raw)};
#elif HWY_TARGET <= HWY_AVX2
  return hn::Vec<DI16>{_mm256_maddubs_epi16(w.raw, x.raw)};
#else
  return hn::Vec<DI16>{_mm_maddubs_epi16(w.raw, x.raw)};
#endif
#else
  const DI16 d;
  const hn::RebindToUnsigned<DI16> du;
  const auto wu = hn::BitCast(du, w);
  const auto xi = hn::BitCast(d, x);
  const auto even =
      hn::Mul(hn::BitCast(d, hn::And(wu, hn::Set(du, 0xff))), hn::ShiftRight<8>(hn::ShiftLeft<8>(xi)));
  const auto odd = hn::Mul(hn::BitCast(d, hn::ShiftRight<8>(wu)), hn::ShiftRight<8>(xi));
  return hn::Add(even, odd);
#endif
}

// sum + products of 16-bit numbers, each pair added to one of the sums of the same 128 bits.
HWY_INLINE hn::Vec<DI32> AddProducts(hn::Vec<DI32> sum, hn::Vec<DI16> a, hn::Vec<DI16> b) {
#if ROPELINE_BYTE_DOT
  return hn::Vec<DI32>{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
#else
  auto other = hn::Zero(DI32());
  sum = hn::ReorderWidenMulAccumulate(DI32(), a, b, sum, other);
#if ROPELINE_BYTE_PAIRS
  return sum;  // the second sum stays zero
#else
  return hn::Add(sum, other);
#endif
#endif
}

// sum + Σ of four neighbours w·x; w <= 128 where the target has no such instruction, |x| <= 127.
HWY_INLINE hn::Vec<DI32> AddFours(hn::Vec<DI32> sum, hn::Vec<DU8> w, hn::Vec<DI8> x) {
#if ROPELINE_BYTE_DOT
  return hn::Vec<DI32>{_mm512_dpbusd_epi32(sum.raw, w.raw, x.raw)};
#else
  return AddProducts(sum, MulPairs(w, x), hn::Set(DI16(), 1));
#endif
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // ROPELINE_KERNELS_BYTE_DOT_INL_H_
