// acc[i] += x[i]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/residual.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/lanes-inl.h"
#include "kernels/residual.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddToRow(const float* x, size_t elements, float* acc) {
  AddRow<false>(hn::ScalableTag<float>(), acc, x, elements, elements);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropeline {

HWY_EXPORT(AddToRow);

void AddResidual(const float* x, size_t elements, float* acc) {
  HWY_DYNAMIC_DISPATCH(AddToRow)(x, elements, acc);
}

Cost ResidualCost(size_t elements) {
  const auto count = static_cast<double>(elements);
  return {.bytes_read = 8 * count, .bytes_written = 4 * count, .flops = count};
}

}  // namespace ropeline
#endif  // HWY_ONCE
