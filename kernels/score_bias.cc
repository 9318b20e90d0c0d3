// alibi:   s[h][t][k] = s[h][t][k] + slope_h · (−|q − k|)
// t5_bias: s[h][t][k] = s[h][t][k] + row_h[k − q + n_k − 1], where row_h holds the bias of every distance
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/score_bias.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/lanes-inl.h"
#include "kernels/score_bias.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// v + slope · (−|distance|), where distance = k − q; before the query it is negative already.
template <bool kCausal, class V>
HWY_INLINE V Alibi(V slope, V distance, V v) {
  return hn::MulAdd(slope, kCausal ? distance : hn::Neg(hn::Abs(distance)), v);
}

// Asks for the same keys of the next row, where the tensor is too large for the second-level cache: a causal
// row ends before its memory does, and the hardware's prefetcher does not follow to the next one.
template <bool kFar>
HWY_INLINE void PrefetchNextRow(const float* row, size_t n_k, size_t k) {
  if constexpr (kFar) hwy::Prefetch(row + n_k + k);
}

template <bool kCausal, bool kFar>
HWY_INLINE void AddAlibiT(const float* slopes, const Shape& shape, float* s) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = shape.n;
  const size_t n_k = shape.n_k;
  const auto one = hn::Set(d, 1.0f);
  const auto step = hn::Set(d, static_cast<float>(lanes));
  const auto step2 = hn::Add(step, step);
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const auto slope = hn::Set(d, slopes[h]);
    float* row = s + h * n * n_k;
    // Positions are whole numbers below 2^24, so that distances are exact, also when counted up and down.
    auto first = hn::Iota(d, -static_cast<float>(n_k - n));
    for (size_t q = n_k - n; q < n_k; ++q, row += n_k, first = hn::Sub(first, one)) {
      const size_t touched = kCausal ? q + 1 : n_k;
      auto distance0 = first;
      auto distance1 = hn::Add(first, step);
      size_t k = 0;
      for (; k + 2 * lanes <= touched; k += 2 * lanes) {
        const auto v0 = Alibi<kCausal>(slope, distance0, hn::LoadU(d, row + k));
        const auto v1 = Alibi<kCausal>(slope, distance1, hn::LoadU(d, row + k + lanes));
        PrefetchNextRow<kFar>(row, n_k, k);
        PrefetchNextRow<kFar>(row, n_k, k + lanes);
        hn::StoreU(v0, d, row + k);
        hn::StoreU(v1, d, row + k + lanes);
        distance0 = hn::Add(distance0, step2);
        distance1 = hn::Add(distance1, step2);
      }
      if (k + lanes <= touched) {
        hn::StoreU(Alibi<kCausal>(slope, distance0, hn::LoadU(d, row + k)), d, row + k);
        k += lanes;
        distance0 = distance1;
      }
      UpdateTail(
          d, row, k, touched, n_k,
          [&](auto /*whole*/, auto v, size_t) HWY_ATTR { return Alibi<kCausal>(slope, distance0, v); },
          [&](auto dt, auto v, size_t j) HWY_ATTR {
            const auto distance = hn::Iota(dt, static_cast<float>(j) - static_cast<float>(q));
            return Alibi<kCausal>(hn::Set(dt, slopes[h]), distance, v);
          });
    }
  }
}

// rows[h]: n + n_k − 1 biases, from distance −(n_k − 1) on, and one vector of padding; `stride` floats apart.
template <bool kFar>
HWY_INLINE void AddDistanceRowsT(const float* rows, size_t stride, const Shape& shape, float* s) {
  const hn::ScalableTag<float> d;
  const size_t n = shape.n;
  const size_t n_k = shape.n_k;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    float* row = s + h * n * n_k;
    const float* bias = rows + h * stride + n - 1;
    for (size_t q = n_k - n; q < n_k; ++q, row += n_k, --bias) {
      UpdateRow(d, row, shape.causal ? q + 1 : n_k, n_k, [&](auto dv, auto v, size_t k) HWY_ATTR {
        PrefetchNextRow<kFar>(row, n_k, k);
        return hn::Add(v, hn::LoadU(dv, bias + k));
      });
    }
  }
}

// Larger than any second-level cache of today.
bool IsFar(const Shape& shape) {
  return shape.n_heads * shape.n * shape.n_k * sizeof(float) > (size_t{3} << 20);
}

void AddAlibi(const float* slopes, const Shape& shape, float* s) {
  if (shape.causal)
    return IsFar(shape) ? AddAlibiT<true, true>(slopes, shape, s) : AddAlibiT<true, false>(slopes, shape, s);
  return AddAlibiT<false, false>(slopes, shape, s);
}

void AddDistanceRows(const float* rows, size_t stride, const Shape& shape, float* s) {
  if (shape.causal && IsFar(shape)) return AddDistanceRowsT<true>(rows, stride, shape, s);
  return AddDistanceRowsT<false>(rows, stride, shape, s);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/hash.h"
#include "kernels/memory.h"
#include "kernels/registry.h"

namespace ropeline {

HWY_EXPORT(AddAlibi);
HWY_EXPORT(AddDistanceRows);

std::vector<double> AlibiSlopes(size_t n_heads) {
  size_t power = 1;
  while (power * 2 <= n_heads) power *= 2;
  std::vector<double> slopes;
  const auto slope = [](size_t heads, size_t i) {
    return std::exp2(-8.0 * static_cast<double>(i + 1) / static_cast<double>(heads));
  };
  for (size_t i = 0; i < std::min(power, n_heads); ++i) slopes.push_back(slope(power, i));
  for (size_t i = 0; slopes.size() < n_heads; i += 2) slopes.push_back(slope(2 * power, i));
  return slopes;
}

int T5Bucket(int64_t relative_position, bool causal, const T5Buckets& buckets) {
  int count = buckets.buckets;
  int offset = 0;
  int64_t distance = -relative_position;  // of a key before the query: positive
  if (causal) {
    distance = std::max<int64_t>(distance, 0);
  } else {
    count /= 2;
    if (relative_position > 0) offset = count;
    distance = std::abs(distance);
  }
  const int exact = count / 2;
  if (distance < exact) return offset + static_cast<int>(distance);
  const double octaves = std::log(static_cast<double>(distance) / exact) /
                         std::log(static_cast<double>(buckets.max_distance) / exact);
  // A distance on a bucket's edge belongs to the bucket above, whatever the logarithm's last bit.
  const double edge = 1e-9;
  return offset + std::min(count - 1, exact + static_cast<int>(octaves * (count - exact) + edge));
}

double BiasedScores(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double n_k = static_cast<double>(shape.n_k);
  // Row t reaches keys 0 … n_k − n + t.
  const double per_head = shape.causal ? n * (n_k - n) + n * (n + 1) / 2 : n * n_k;
  return per_head * static_cast<double>(shape.n_heads);
}

Cost AlibiCost(const Shape& shape) {
  const double scores = BiasedScores(shape);
  const double bytes = static_cast<double>(DtypeBytes(shape.dtype)) * scores;
  return {.bytes_read = bytes, .bytes_written = bytes, .flops = 2 * scores};
}

Cost T5BiasCost(const Shape& shape) {
  const double scores = BiasedScores(shape);
  const double row = static_cast<double>(shape.causal ? shape.n_k : shape.n + shape.n_k - 1);
  const double bytes = static_cast<double>(DtypeBytes(shape.dtype)) * scores;
  return {.bytes_read = bytes + 4 * row * static_cast<double>(shape.n_heads),
          .bytes_written = bytes,
          .flops = scores};
}

namespace {

size_t TotalHeads(const Shape& shape) { return shape.total_heads != 0 ? shape.total_heads : shape.n_heads; }

const char* RejectScores(const Shape& shape) {
  if (shape.n_k < shape.n) return "n_k must be at least n: the queries are the last n tokens";
  if (shape.first_head + shape.n_heads > TotalHeads(shape)) return "the heads end beyond total_heads";
  return nullptr;
}

// A stand-in for a trained bias of bucket and head.
float T5Entry(int bucket, size_t head) { return HashToFloat(static_cast<size_t>(bucket), head); }

struct BiasTables : EncodingTables {
  TableMemory values;
  size_t stride = 0;  // floats from one head's row to the next
  size_t bytes = 0;
  size_t Bytes() const override { return bytes; }
};

std::unique_ptr<EncodingTables> SetupAlibi(const Shape& shape) {
  auto tables = std::make_unique<BiasTables>();
  const auto slopes = AlibiSlopes(TotalHeads(shape));
  tables->values = TableMemory(shape.n_heads + 1);
  for (size_t h = 0; h < shape.n_heads; ++h) {
    tables->values[h] = static_cast<float>(slopes[shape.first_head + h]);
  }
  tables->bytes = 4 * shape.n_heads;
  return tables;
}

void ApplyAlibi(const EncodingTables& tables, const Shape& shape, void* tensor) {
  float* s = static_cast<float*>(tensor);
  HWY_DYNAMIC_DISPATCH(AddAlibi)(static_cast<const BiasTables&>(tables).values.get(), shape, s);
}

std::unique_ptr<EncodingTables> SetupT5(const Shape& shape) {
  auto tables = std::make_unique<BiasTables>();
  if (shape.n == 0) return tables;
  constexpr size_t kPadding = 64;  // the last vector of a row may read on
  const size_t row = shape.n + shape.n_k - 1;
  // Rows start at different offsets within a page, or their loads would collide with each other's.
  tables->stride = (row + kPadding + 15) / 16 * 16 + 16;
  tables->values = TableMemory(tables->stride * shape.n_heads + 1);
  tables->bytes = 4 * tables->stride * shape.n_heads;
  std::fill_n(tables->values.get(), tables->stride * shape.n_heads, 0.0f);
  for (size_t i = 0; i < row; ++i) {
    const int bucket = T5Bucket(static_cast<int64_t>(i) - static_cast<int64_t>(shape.n_k - 1), shape.causal);
    for (size_t h = 0; h < shape.n_heads; ++h) {
      tables->values[h * tables->stride + i] = T5Entry(bucket, shape.first_head + h);
    }
  }
  return tables;
}

void ApplyT5(const EncodingTables& tables, const Shape& shape, void* tensor) {
  float* s = static_cast<float*>(tensor);
  if (shape.n == 0) return;
  const auto& bias = static_cast<const BiasTables&>(tables);
  HWY_DYNAMIC_DISPATCH(AddDistanceRows)(bias.values.get(), bias.stride, shape, s);
}

template <class Bias>  // double bias(head, q, k)
void Reference(const Shape& shape, const Bias& bias, const float* in, double* expected, double* scale) {
  size_t at = 0;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    for (size_t t = 0; t < shape.n; ++t) {
      const size_t q = shape.n_k - shape.n + t;
      for (size_t k = 0; k < shape.n_k; ++k, ++at) {
        const bool touched = !shape.causal || k <= q;
        const double b = touched ? bias(shape.first_head + h, q, k) : 0;
        expected[at] = static_cast<double>(in[at]) + b;
        scale[at] = touched ? std::abs(static_cast<double>(in[at])) + std::abs(b) : 0;
      }
    }
  }
}

void ReferenceAlibi(const Shape& shape, const float* in, double* expected, double* scale) {
  const auto slopes = AlibiSlopes(TotalHeads(shape));
  const auto bias = [&](size_t h, size_t q, size_t k) {
    return -slopes[h] * static_cast<double>(q > k ? q - k : k - q);
  };
  Reference(shape, bias, in, expected, scale);
}

void ReferenceT5(const Shape& shape, const float* in, double* expected, double* scale) {
  const auto bias = [&](size_t h, size_t q, size_t k) {
    const int64_t relative = static_cast<int64_t>(k) - static_cast<int64_t>(q);
    return static_cast<double>(T5Entry(T5Bucket(relative, shape.causal), h));
  };
  Reference(shape, bias, in, expected, scale);
}

// alibi: the slope's rounding, the product's where a target has no FMA, the sum's. t5_bias: one rounded
// addition.
constexpr Encoding kEncodings[] = {
    {.name = "t5_bias",
     .placement = Placement::kScoreBias,
     .about = "adds B[bucket(k − q)][head], 32 log-spaced buckets; Raffel et al. 2020, section 2.1",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = T5BiasCost,
     .setup = SetupT5,
     .apply = ApplyT5,
     .reference = ReferenceT5,
     .tolerance = {1.0, 2}},
    {.name = "alibi",
     .placement = Placement::kScoreBias,
     .about = "subtracts slope · |q − k|; Press et al. 2022, section 3",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = AlibiCost,
     .setup = SetupAlibi,
     .apply = ApplyAlibi,
     .reference = ReferenceAlibi,
     .tolerance = {3.0, 2}},
};

}  // namespace

std::span<const Encoding> ScoreBiasEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
