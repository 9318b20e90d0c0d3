// read: s += a[i]   copy: b[i] = a[i]   update: a[i] = 1 − a[i]   add: a[i] += b[i]   sum: c[i] = a[i] + b[i]
// peak: s_j = s_j·x + y
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/stream.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/lanes-inl.h"
#include "kernels/stream.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float ReadT(const float* a, size_t elements) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  size_t i = 0;
  for (; i + 8 * lanes <= elements; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, a + i));
    s1 = hn::Add(s1, hn::LoadU(d, a + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, a + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, a + i + 3 * lanes));
    s4 = hn::Add(s4, hn::LoadU(d, a + i + 4 * lanes));
    s5 = hn::Add(s5, hn::LoadU(d, a + i + 5 * lanes));
    s6 = hn::Add(s6, hn::LoadU(d, a + i + 6 * lanes));
    s7 = hn::Add(s7, hn::LoadU(d, a + i + 7 * lanes));
  }
  const auto low = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const auto high = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  for (; i < elements; ++i) sum += a[i];
  return sum;
}

void CopyT(const float* HWY_RESTRICT a, float* HWY_RESTRICT b, size_t elements) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= elements; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, a + i), v1 = hn::LoadU(d, a + i + lanes);
    const auto v2 = hn::LoadU(d, a + i + 2 * lanes), v3 = hn::LoadU(d, a + i + 3 * lanes);
    hn::StoreU(v0, d, b + i);
    hn::StoreU(v1, d, b + i + lanes);
    hn::StoreU(v2, d, b + i + 2 * lanes);
    hn::StoreU(v3, d, b + i + 3 * lanes);
  }
  ForEachVector(d, elements - i,
                [&](auto dv, size_t j) HWY_ATTR { hn::StoreU(hn::LoadU(dv, a + i + j), dv, b + i + j); });
}

void UpdateT(float* a, size_t elements) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1.0f);
  size_t i = 0;
  for (; i + 4 * lanes <= elements; i += 4 * lanes) {
    const auto v0 = hn::Sub(one, hn::LoadU(d, a + i));
    const auto v1 = hn::Sub(one, hn::LoadU(d, a + i + lanes));
    const auto v2 = hn::Sub(one, hn::LoadU(d, a + i + 2 * lanes));
    const auto v3 = hn::Sub(one, hn::LoadU(d, a + i + 3 * lanes));
    hn::StoreU(v0, d, a + i);
    hn::StoreU(v1, d, a + i + lanes);
    hn::StoreU(v2, d, a + i + 2 * lanes);
    hn::StoreU(v3, d, a + i + 3 * lanes);
  }
  ForEachVector(d, elements - i, [&](auto dv, size_t j) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::Set(dv, 1.0f), hn::LoadU(dv, a + i + j)), dv, a + i + j);
  });
}

template <typename T>
void UpdateStored(T* a, size_t elements) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHasPairs<T>) {
    const auto one = hn::Set(d, 1.0f);
    const size_t step = 2 * hn::Lanes(d);
    for (; i + step <= elements; i += step) {
      hn::Vec<decltype(d)> v0, v1;
      LoadPair(d, a + i, v0, v1);
      StorePair(hn::Sub(one, v0), hn::Sub(one, v1), d, a + i);
    }
  }
#endif
  UpdateRow(d, a + i, elements - i, elements - i,
            [&](auto dv, auto v, size_t) HWY_ATTR { return hn::Sub(hn::Set(dv, 1.0f), v); });
}

void UpdateAs(Dtype dtype, void* a, size_t elements) {
  WithType(dtype, a, [&](auto* typed) HWY_ATTR { UpdateStored(typed, elements); });
}

void SumT(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT c, size_t elements) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto sum = [&](size_t i) HWY_ATTR { return hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); };
  size_t i = 0;
  for (; i + 4 * lanes <= elements; i += 4 * lanes) {
    const auto v0 = sum(i), v1 = sum(i + lanes), v2 = sum(i + 2 * lanes), v3 = sum(i + 3 * lanes);
    hn::StoreU(v0, d, c + i);
    hn::StoreU(v1, d, c + i + lanes);
    hn::StoreU(v2, d, c + i + 2 * lanes);
    hn::StoreU(v3, d, c + i + 3 * lanes);
  }
  ForEachVector(d, elements - i, [&](auto dv, size_t j) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(dv, a + i + j), hn::LoadU(dv, b + i + j)), dv, c + i + j);
  });
}

void AddT(float* HWY_RESTRICT a, const float* HWY_RESTRICT b, size_t elements) {
  const hn::ScalableTag<float> d;
  UpdateRow(d, a, elements, elements,
            [&](auto dv, auto v, size_t i) HWY_ATTR { return hn::Add(v, hn::LoadU(dv, b + i)); });
}

// 12 chains: two FMA units of latency up to 5 need 10, and 12 accumulators with two constants fit in 16
// registers.
double PeakFmaT(size_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  // s → 0.5·s + 0.5 tends to 1: no denormals, no overflow.
  const auto x = hn::Set(d, sink[0]);
  const auto y = hn::Set(d, 1.0f - sink[0]);
  // Chains start apart: equal ones would be computed once.
  auto s0 = hn::Iota(d, 0.0f), s1 = hn::Iota(d, 1.0f), s2 = hn::Iota(d, 2.0f), s3 = hn::Iota(d, 3.0f);
  auto s4 = hn::Iota(d, 4.0f), s5 = hn::Iota(d, 5.0f), s6 = hn::Iota(d, 6.0f), s7 = hn::Iota(d, 7.0f);
  auto s8 = hn::Iota(d, 8.0f), s9 = hn::Iota(d, 9.0f), s10 = hn::Iota(d, 10.0f), s11 = hn::Iota(d, 11.0f);
  for (size_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, x, y);
    s1 = hn::MulAdd(s1, x, y);
    s2 = hn::MulAdd(s2, x, y);
    s3 = hn::MulAdd(s3, x, y);
    s4 = hn::MulAdd(s4, x, y);
    s5 = hn::MulAdd(s5, x, y);
    s6 = hn::MulAdd(s6, x, y);
    s7 = hn::MulAdd(s7, x, y);
    s8 = hn::MulAdd(s8, x, y);
    s9 = hn::MulAdd(s9, x, y);
    s10 = hn::MulAdd(s10, x, y);
    s11 = hn::MulAdd(s11, x, y);
  }
  const auto low = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  const auto high = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  sink[1] = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

#include "kernels/hash.h"

namespace ropeline {

HWY_EXPORT(ReadT);
HWY_EXPORT(CopyT);
HWY_EXPORT(UpdateT);
HWY_EXPORT(UpdateAs);
HWY_EXPORT(AddT);
HWY_EXPORT(SumT);
HWY_EXPORT(PeakFmaT);

float StreamRead(const float* a, size_t elements) { return HWY_DYNAMIC_DISPATCH(ReadT)(a, elements); }
void StreamCopy(const float* a, float* b, size_t elements) { HWY_DYNAMIC_DISPATCH(CopyT)(a, b, elements); }
void StreamUpdate(float* a, size_t elements) { HWY_DYNAMIC_DISPATCH(UpdateT)(a, elements); }
void StreamUpdateAs(Dtype dtype, void* a, size_t elements) {
  HWY_DYNAMIC_DISPATCH(UpdateAs)(dtype, a, elements);
}
void StreamAdd(float* a, const float* b, size_t elements) { HWY_DYNAMIC_DISPATCH(AddT)(a, b, elements); }
void StreamSum(const float* a, const float* b, float* c, size_t elements) {
  HWY_DYNAMIC_DISPATCH(SumT)(a, b, c, elements);
}
double PeakFma(size_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(PeakFmaT)(rounds, sink); }

Cost StreamCost(Traffic traffic, size_t elements, Dtype dtype) {
  const double bytes = static_cast<double>(elements * DtypeBytes(dtype));
  const double count = static_cast<double>(elements);
  switch (traffic) {
    case Traffic::kRead:
      return {.bytes_read = bytes, .bytes_written = 0, .flops = count};
    case Traffic::kCopy:
      return {.bytes_read = bytes, .bytes_written = bytes, .flops = 0};
    case Traffic::kUpdate:
      return {.bytes_read = bytes, .bytes_written = bytes, .flops = count};
    case Traffic::kAdd:
    case Traffic::kSum:
      return {.bytes_read = 2 * bytes, .bytes_written = bytes, .flops = count};
  }
  return {};
}

namespace {
constexpr size_t kSlot = 8;  // words: one cache line
}

void BuildChase(size_t bytes, uint64_t seed, uint64_t* slots) {
  const size_t count = bytes / (kSlot * sizeof(uint64_t));
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  // Fisher-Yates; then each slot points to the next one in the shuffled order.
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[Hash64(seed + i) % i]);
  for (size_t i = 0; i < count; ++i) slots[order[i] * kSlot] = order[(i + 1) % count];
}

uint64_t Chase(const uint64_t* slots, uint64_t start, size_t steps) {
  uint64_t at = start;
  for (size_t i = 0; i < steps; ++i) at = slots[at * kSlot];
  return at;
}

}  // namespace ropeline
#endif  // HWY_ONCE
