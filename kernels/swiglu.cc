// out = gate · sigmoid(gate) · up; with e = exp(−|gate|), which cannot overflow,
//   sigmoid(gate) = 1 / (1 + e) for gate >= 0, e / (1 + e) below
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/lanes-inl.h"
#include "kernels/swiglu.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V SiluTimes(D d, V gate, V up) {
  const V one = hn::Set(d, 1.0f);
  const V e = Exp(d, hn::Neg(hn::Abs(gate)));
  const V above = hn::IfThenElse(hn::Lt(gate, hn::Zero(d)), e, one);
  return hn::Mul(hn::Mul(gate, up), hn::Div(above, hn::Add(one, e)));
}

void Gated(const float* gate, const float* up, size_t elements, float* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  // Two at a time: a division keeps its unit for as long as the rest of the other takes.
  for (; i + 2 * lanes <= elements; i += 2 * lanes) {
    const auto low = SiluTimes(d, hn::LoadU(d, gate + i), hn::LoadU(d, up + i));
    const auto high = SiluTimes(d, hn::LoadU(d, gate + i + lanes), hn::LoadU(d, up + i + lanes));
    hn::StoreU(low, d, out + i);
    hn::StoreU(high, d, out + i + lanes);
  }
  ForEachVector(d, elements - i, [&](auto dv, size_t j) HWY_ATTR {
    hn::StoreU(SiluTimes(dv, hn::LoadU(dv, gate + i + j), hn::LoadU(dv, up + i + j)), dv, out + i + j);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropeline {

HWY_EXPORT(Gated);

void SwiGlu(const float* gate, const float* up, size_t elements, float* out) {
  HWY_DYNAMIC_DISPATCH(Gated)(gate, up, elements, out);
}

Cost SwiGluCost(size_t elements) {
  const auto count = static_cast<double>(elements);
  return {.bytes_read = 8 * count, .bytes_written = 4 * count, .flops = 3 * count};
}

}  // namespace ropeline
#endif  // HWY_ONCE
