// Sine and cosine of position · inv_freq for a vector of bands, for every Highway target with lanes of
// double. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_SINCOS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_SINCOS_INL_H_
#undef ROPELINE_KERNELS_SINCOS_INL_H_
#else
#define ROPELINE_KERNELS_SINCOS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// cos and sin of r + quarter · π/2, |r| ≤ π/4, by their Taylor series: the first term left out is at most
// 1.8e-9 of the sine (r^11/11!) and 1.2e-10 of the cosine (r^12/12!), below a tenth of an ulp of f32.
template <class D, class V = hn::Vec<D>, class VI>
HWY_INLINE void SinCosReduced(D d, V r, VI quarter, V& cosine, V& sine) {
  const hn::RebindToSigned<D> di;
  const V r2 = hn::Mul(r, r);
  V s = hn::MulAdd(r2, hn::Set(d, 1.0f / 362880), hn::Set(d, -1.0f / 5040));
  s = hn::MulAdd(r2, s, hn::Set(d, 1.0f / 120));
  s = hn::MulAdd(r2, s, hn::Set(d, -1.0f / 6));
  s = hn::MulAdd(hn::Mul(r2, r), s, r);
  V c = hn::MulAdd(r2, hn::Set(d, -1.0f / 3628800), hn::Set(d, 1.0f / 40320));
  c = hn::MulAdd(r2, c, hn::Set(d, -1.0f / 720));
  c = hn::MulAdd(r2, c, hn::Set(d, 1.0f / 24));
  c = hn::MulAdd(r2, c, hn::Set(d, -0.5f));
  c = hn::MulAdd(r2, c, hn::Set(d, 1.0f));
  // Odd quarters swap the two; quarters 2 and 3 change the sine's sign, 1 and 2 the cosine's.
  const auto odd = hn::RebindMask(d, hn::TestBit(quarter, hn::Set(di, 1)));
  const auto sine_sign = hn::ShiftLeft<30>(hn::And(quarter, hn::Set(di, 2)));
  const auto cosine_sign = hn::ShiftLeft<30>(hn::And(hn::Add(quarter, hn::Set(di, 1)), hn::Set(di, 2)));
  sine = hn::Xor(hn::IfThenElse(odd, c, s), hn::BitCast(d, sine_sign));
  cosine = hn::Xor(hn::IfThenElse(odd, s, c), hn::BitCast(d, cosine_sign));
}

inline constexpr double kTwoByPi = 0.63661977236758134308;
inline constexpr double kHalfPi = 1.5707963267948966192;

#if HWY_HAVE_FLOAT64

// Of Lanes(d) bands. The product and its rest by π/2 are in double; kF32Angle rounds position · inv_freq to
// f32 first, as programs do that keep angles in f32.
template <bool kF32Angle, class D, class V = hn::Vec<D>>
HWY_INLINE void SinCosOfBands(D d, double position, const double* inv_freq, V& cosine, V& sine) {
  const hn::RebindToSigned<D> di;
  // Two halves of doubles make one vector of floats; a single lane has no half.
  if constexpr (hn::MaxLanes(D()) == 1) {
    double angle = position * inv_freq[0];
    if (kF32Angle)
      angle = static_cast<double>(static_cast<float>(position) * static_cast<float>(inv_freq[0]));
    const double quarters = std::nearbyint(angle * kTwoByPi);
    const double rest = angle - quarters * kHalfPi;
    SinCosReduced(d, hn::Set(d, static_cast<float>(rest)),
                  hn::Set(di, static_cast<int32_t>(static_cast<int64_t>(quarters) & 3)), cosine, sine);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> dh;
    const hn::RebindToSigned<decltype(dh)> dhi;
    const hn::Rebind<double, decltype(dh)> dd;
    const auto reduce = [&](const double* from, auto& rest, auto& quarter) HWY_ATTR {
      auto angle = hn::Mul(hn::Set(dd, position), hn::LoadU(dd, from));
      if constexpr (kF32Angle) {
        const auto narrow = hn::DemoteTo(dh, hn::LoadU(dd, from));
        angle = hn::PromoteTo(dd, hn::Mul(hn::Set(dh, static_cast<float>(position)), narrow));
      }
      const auto quarters = hn::Round(hn::Mul(angle, hn::Set(dd, kTwoByPi)));
      rest = hn::DemoteTo(dh, hn::NegMulAdd(quarters, hn::Set(dd, kHalfPi), angle));
      quarter = hn::DemoteTo(dhi, quarters);
    };
    hn::Vec<decltype(dh)> low, high;
    hn::Vec<decltype(dhi)> low_quarter, high_quarter;
    reduce(inv_freq, low, low_quarter);
    reduce(inv_freq + hn::Lanes(dd), high, high_quarter);
    SinCosReduced(d, hn::Combine(d, high, low), hn::Combine(di, high_quarter, low_quarter), cosine, sine);
#endif
  }
}

#endif  // HWY_HAVE_FLOAT64

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
