// y[t][i] = x[t][i] / sqrt(Σ x[t][j]² / d + epsilon) · weight[i]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <cmath>

#include "kernels/lanes-inl.h"
#include "kernels/rms_norm.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four chains, so that none waits for its own last addition.
HWY_INLINE float SumOfSquares(const float* x, size_t d) {
  const hn::ScalableTag<float> tag;
  const size_t lanes = hn::Lanes(tag);
  auto s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= d; i += 4 * lanes) {
    const auto x0 = hn::LoadU(tag, x + i), x1 = hn::LoadU(tag, x + i + lanes);
    const auto x2 = hn::LoadU(tag, x + i + 2 * lanes), x3 = hn::LoadU(tag, x + i + 3 * lanes);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  float sum = hn::GetLane(hn::SumOfLanes(tag, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  ForEachVector(tag, d - i, [&](auto dv, size_t j) HWY_ATTR {
    const auto v = hn::LoadU(dv, x + i + j);
    sum += hn::GetLane(hn::SumOfLanes(dv, hn::Mul(v, v)));
  });
  return sum;
}

void Normalise(const float* x, const float* weight, float epsilon, size_t n, size_t d, float* y) {
  const hn::ScalableTag<float> tag;
  for (size_t t = 0; t < n; ++t, x += d, y += d) {
    const float factor = 1 / std::sqrt(SumOfSquares(x, d) / static_cast<float>(d) + epsilon);
    ForEachVector(tag, d, [&](auto dv, size_t i) HWY_ATTR {
      const auto scaled = hn::Mul(hn::LoadU(dv, x + i), hn::Set(dv, factor));
      hn::StoreU(hn::Mul(scaled, hn::LoadU(dv, weight + i)), dv, y + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropeline {

HWY_EXPORT(Normalise);

void RmsNorm(const float* x, const float* weight, float epsilon, size_t n, size_t d, float* y) {
  HWY_DYNAMIC_DISPATCH(Normalise)(x, weight, epsilon, n, d, y);
}

Cost RmsNormCost(size_t n, size_t d) {
  const double elements = static_cast<double>(n) * static_cast<double>(d);
  return {.bytes_read = 4 * (elements + static_cast<double>(d)),
          .bytes_written = 4 * elements,
          .flops = 4 * elements};
}

}  // namespace ropeline
#endif  // HWY_ONCE
