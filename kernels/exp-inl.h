// exp of f32 vectors, for every Highway target. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_EXP_INL_H_
#undef ROPELINE_KERNELS_EXP_INL_H_
#else
#define ROPELINE_KERNELS_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Within 2e-7 of exp(x), relative, for −87 <= x <= 88; 0 below; NaN stays NaN. Above 88 it is meaningless:
// a softmax takes the largest score off first.
//   x = n·ln 2 + r, |r| <= ln 2 / 2;   exp(r) = 1 + r + r²·(c0 + c1·r + … + c4·r⁴)
// The c are a minimax fit of relative error 3.1e-9; the rest is rounding.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5·2^23 rounds to a whole number and leaves it in the low bits, ready to become an exponent.
  const V round = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), round);
  const V whole = hn::Sub(shifted, round);
  // ln 2 in two parts, so that the product with a whole number is exact.
  V r = hn::NegMulAdd(whole, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(whole, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 0.001381446490995586f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.008368780836462975f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166839271783829f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666651964187622f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999403953552f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const V scale = hn::BitCast(d, hn::Add(exponent, hn::Set(di, 0x3f800000)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, scale));
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
