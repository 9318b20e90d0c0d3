// ArgMax: the largest of every vector's worth of lanes, and where it was.
// SampleToken: the largest logit; Σ w of each piece, w = exp((x − largest) / temperature); the piece that
// u · Σ falls in; the token within it. No weight is stored.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sampling.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <limits>

#include "kernels/exp-inl.h"
#include "kernels/lanes-inl.h"
#include "kernels/sampling.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLeast = -std::numeric_limits<float>::infinity();

float LargestOf(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto m0 = hn::Set(d, kLeast), m1 = m0, m2 = m0, m3 = m0;
  size_t i = 0;
  // In this order a NaN is passed over, not taken.
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(hn::LoadU(d, x + i), m0);
    m1 = hn::Max(hn::LoadU(d, x + i + lanes), m1);
    m2 = hn::Max(hn::LoadU(d, x + i + 2 * lanes), m2);
    m3 = hn::Max(hn::LoadU(d, x + i + 3 * lanes), m3);
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  ForEachVector(d, n - i, [&](auto dv, size_t j) HWY_ATTR {
    const auto seen = hn::Max(hn::LoadU(dv, x + i + j), hn::Set(dv, largest));
    largest = hn::GetLane(hn::MaxOfLanes(dv, seen));
  });
  return largest;
}

// The first that equals the largest. Most of the time the scan ends early in the vocabulary or late; either
// way it reads what LargestOf has just brought near.
size_t ArgMaxOf(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const float largest = LargestOf(x, n);
  const auto wanted = hn::Set(d, largest);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if (!hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), wanted))) break;
  }
  for (; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;
}

template <class D>
HWY_INLINE hn::Vec<D> Weights(D d, const float* x, float largest, float scale) {
  return Exp(d, hn::Mul(hn::Sub(hn::LoadU(d, x), hn::Set(d, largest)), hn::Set(d, scale)));
}

float SumOfWeights(const float* x, size_t n, float largest, float scale) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, Weights(d, x + i, largest, scale));
    s1 = hn::Add(s1, Weights(d, x + i + lanes, largest, scale));
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  ForEachVector(d, n - i, [&](auto dv, size_t j) HWY_ATTR {
    sum += hn::GetLane(hn::SumOfLanes(dv, Weights(dv, x + i + j, largest, scale)));
  });
  return sum;
}

void StoreWeights(const float* x, size_t n, float largest, float scale, float* weights) {
  const hn::ScalableTag<float> d;
  ForEachVector(d, n, [&](auto dv, size_t i) HWY_ATTR {
    hn::StoreU(Weights(dv, x + i, largest, scale), dv, weights + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

namespace ropeline {

HWY_EXPORT(LargestOf);
HWY_EXPORT(ArgMaxOf);
HWY_EXPORT(SumOfWeights);
HWY_EXPORT(StoreWeights);

size_t ArgMax(const float* logits, size_t n) { return HWY_DYNAMIC_DISPATCH(ArgMaxOf)(logits, n); }

size_t SampleToken(const float* logits, size_t n, float temperature, float u) {
  if (n == 0 || !(temperature > 0)) {
    HWY_ABORT("a draw from %d logits at temperature %g, expected one or more and a temperature above 0",
              static_cast<int>(n), static_cast<double>(temperature));
  }
  constexpr size_t kPiece = 1024;  // logits
  constexpr float kMost = std::numeric_limits<float>::max();
  const float largest = HWY_DYNAMIC_DISPATCH(LargestOf)(logits, n), scale = std::min(1 / temperature, kMost);
  static thread_local std::vector<float> sums;
  sums.clear();
  double total = 0;
  for (size_t i = 0; i < n; i += kPiece) {
    sums.push_back(HWY_DYNAMIC_DISPATCH(SumOfWeights)(logits + i, std::min(kPiece, n - i), largest, scale));
    total += static_cast<double>(sums.back());
  }
  // What is left of u · Σ before a piece. Rounding may leave a little after the last piece, or the last token
  // of one: then it is the last that has a weight.
  double left = static_cast<double>(u) * total, before = left;
  size_t piece = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    piece = i;
    left = before;
    if (left < static_cast<double>(sums[i])) break;
    before -= static_cast<double>(sums[i]);
  }
  float weights[kPiece];
  const size_t first = piece * kPiece, count = std::min(kPiece, n - first);
  HWY_DYNAMIC_DISPATCH(StoreWeights)(logits + first, count, largest, scale, weights);
  size_t token = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    token = i;
    if (left < static_cast<double>(weights[i])) break;
    left -= static_cast<double>(weights[i]);
  }
  return first + token;
}

Cost ArgMaxCost(size_t n) {
  return {.bytes_read = 4 * static_cast<double>(n), .bytes_written = 0, .flops = 0};
}

Cost SampleTokenCost(size_t n) {
  return {.bytes_read = 4 * static_cast<double>(n), .bytes_written = 0, .flops = 3 * static_cast<double>(n)};
}

}  // namespace ropeline
#endif  // HWY_ONCE
