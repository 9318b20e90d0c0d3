// alibi:        s[h][t][k] = s[h][t][k] + slope_h · (−|q − k|)
// distance row: s[h][t][k] = s[h][t][k] + row_h[k − q + n_k − 1]
// bias tensor:  s[h][t][k] = s[h][t][k] + bias[h][t][k]
// bucket:       s[h][t][k] = s[h][t][k] + values_h[bucket[k − q + n_k − 1]]
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

// Keys of row t that are touched.
HWY_INLINE size_t Touched(const Shape& shape, size_t t) {
  return shape.causal ? shape.n_k - shape.n + t + 1 : shape.n_k;
}

// v + slope · (−|distance|), where distance = k − q; before the query it is negative already.
template <bool kCausal, class V>
HWY_INLINE V Alibi(V slope, V distance, V v) {
  return hn::MulAdd(slope, kCausal ? distance : hn::Neg(hn::Abs(distance)), v);
}

// Two vectors of scores from s + k on, at the distances that go with their order (LoadPair).
template <bool kCausal, class D, typename T, class V = hn::Vec<D>>
HWY_INLINE void AlibiOnTwo(D d, V slope, V distance0, V distance1, T* s) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHasPairs<T>) {
    V v0, v1;
    LoadPair(d, s, v0, v1);
    StorePair(Alibi<kCausal>(slope, distance0, v0), Alibi<kCausal>(slope, distance1, v1), d, s);
    return;
  }
#endif
  if constexpr (!kHasPairs<T>) {
    const size_t lanes = hn::Lanes(d);
    const V v0 = Alibi<kCausal>(slope, distance0, LoadF32(d, s));
    const V v1 = Alibi<kCausal>(slope, distance1, LoadF32(d, s + lanes));
    StoreF32(v0, d, s);
    StoreF32(v1, d, s + lanes);
  }
}

// kFar: the tensor is too large for the second-level cache; asks for the same keys of the next row, because a
// causal row ends before its memory does and the hardware's prefetcher does not follow to the next one.
template <bool kCausal, bool kFar, typename T>
HWY_INLINE void AddAlibiT(const float* slopes, const Shape& shape, T* s) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = shape.n;
  const size_t n_k = shape.n_k;
  const auto one = hn::Set(d, 1.0f);
  const auto step2 = hn::Set(d, 2 * static_cast<float>(lanes));
  // Positions are whole numbers below 2^24, so that distances are exact, also when counted up and down.
  const float start = -static_cast<float>(n_k - n);
  const auto iota = hn::Iota(d, 0.0f);
  const auto in_first = kHasPairs<T> ? hn::Add(iota, iota) : iota;  // the order of LoadPair
  const auto second = kHasPairs<T> ? one : hn::Set(d, static_cast<float>(lanes));
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const auto slope = hn::Set(d, slopes[h]);
    T* row = s + h * n * n_k;
    auto first = hn::Add(in_first, hn::Set(d, start));
    for (size_t t = 0; t < n; ++t, row += n_k, first = hn::Sub(first, one)) {
      const size_t touched = Touched(shape, t);
      const float query = static_cast<float>(n_k - n + t);
      auto distance0 = first;
      auto distance1 = hn::Add(first, second);
      size_t k = 0;
      for (; k + 2 * lanes <= touched; k += 2 * lanes) {
        AlibiOnTwo<kCausal>(d, slope, distance0, distance1, row + k);
        if constexpr (kFar) {
          hwy::Prefetch(row + n_k + k);
          if constexpr (sizeof(T) == 4) hwy::Prefetch(row + n_k + k + lanes);
        }
        distance0 = hn::Add(distance0, step2);
        distance1 = hn::Add(distance1, step2);
      }
      const auto part = [&](auto dt, auto v, size_t j) HWY_ATTR {
        const auto distance = hn::Iota(dt, static_cast<float>(j) - query);
        return Alibi<kCausal>(hn::Set(dt, slopes[h]), distance, v);
      };
      if (k + lanes <= touched) {
        StoreF32(part(d, LoadF32(d, row + k), k), d, row + k);
        k += lanes;
      }
      UpdateTail(d, row, k, touched, n_k, part, part);
    }
  }
}

// Rows t in [begin, end). rows[h]: n + n_k − 1 biases, from distance −(n_k − 1) on, and padding.
template <bool kFar, typename T>
HWY_INLINE void AddDistanceRowsT(const DistanceRows& rows, const Shape& shape, size_t begin, size_t end,
                                 T* s) {
  const hn::ScalableTag<float> d;
  const size_t n_k = shape.n_k;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const T* bias = static_cast<const T*>(rows.rows) + h * rows.stride + shape.n - 1 - begin;
    T* row = s + (h * shape.n + begin) * n_k;
    for (size_t t = begin; t < end; ++t, row += n_k, --bias) {
      AddRow<kFar>(d, row, bias, Touched(shape, t), n_k, n_k);
    }
  }
}

// Rows t in [begin, end); bias[h][t − begin][k].
template <typename T, typename B>
HWY_INLINE void AddBiasTensorT(const B* bias, const Shape& shape, size_t begin, size_t end, T* s) {
  const hn::ScalableTag<float> d;
  const size_t n_k = shape.n_k;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const B* from = bias + h * (end - begin) * n_k;
    T* row = s + (h * shape.n + begin) * n_k;
    for (size_t t = begin; t < end; ++t, row += n_k, from += n_k) {
      AddRow<false>(d, row, from, Touched(shape, t), n_k);
    }
  }
}

template <typename T>
HWY_INLINE void AddByBucketT(const int32_t* buckets, const float* values, const Shape& shape, T* s) {
  const hn::ScalableTag<float> d;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const float* of_head = values + h * 32;
    T* row = s + h * shape.n * shape.n_k;
    const int32_t* bucket = buckets + shape.n - 1;
    for (size_t t = 0; t < shape.n; ++t, row += shape.n_k, --bucket) {
      UpdateRow(d, row, Touched(shape, t), shape.n_k, [&](auto dv, auto v, size_t k) HWY_ATTR {
        const hn::RebindToSigned<decltype(dv)> di;
        return hn::Add(v, hn::GatherIndex(dv, of_head, hn::LoadU(di, bucket + k)));
      });
    }
  }
}

// Larger than any second-level cache of today.
bool IsFar(const Shape& shape) {
  return shape.n_heads * shape.n * shape.n_k * DtypeBytes(shape.dtype) > (size_t{3} << 20);
}

void AddAlibi(const float* slopes, const Shape& shape, void* s) {
  WithType(shape.dtype, s, [&](auto* typed) HWY_ATTR {
    if (!shape.causal) return AddAlibiT<false, false>(slopes, shape, typed);
    if (IsFar(shape)) return AddAlibiT<true, true>(slopes, shape, typed);
    AddAlibiT<true, false>(slopes, shape, typed);
  });
}

void AddDistances(const DistanceRows& rows, const Shape& shape, size_t begin, size_t end, void* s) {
  WithType(shape.dtype, s, [&](auto* typed) HWY_ATTR {
    if (shape.causal && IsFar(shape)) return AddDistanceRowsT<true>(rows, shape, begin, end, typed);
    AddDistanceRowsT<false>(rows, shape, begin, end, typed);
  });
}

void AddTensor(const void* bias, Dtype bias_dtype, const Shape& shape, size_t begin, size_t end, void* s) {
  WithType(shape.dtype, s, [&](auto* typed) HWY_ATTR {
    using T = std::remove_reference_t<decltype(*typed)>;
    if (bias_dtype == shape.dtype)
      return AddBiasTensorT(static_cast<const T*>(bias), shape, begin, end, typed);
    if constexpr (std::is_same_v<T, float>) {
      AddBiasTensorT(static_cast<const F16*>(bias), shape, begin, end, typed);
    }
  });
}

void AddByBucket(const int32_t* buckets, const float* values, const Shape& shape, void* s) {
  WithType(shape.dtype, s, [&](auto* typed) HWY_ATTR { AddByBucketT(buckets, values, shape, typed); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "kernels/hash.h"
#include "kernels/registry.h"

namespace ropeline {

HWY_EXPORT(AddAlibi);
HWY_EXPORT(AddDistances);
HWY_EXPORT(AddTensor);
HWY_EXPORT(AddByBucket);

void AddBiasTensor(const void* bias, Dtype bias_dtype, const Shape& shape, void* s) {
  if (bias_dtype != shape.dtype && !(shape.dtype == Dtype::kF32 && bias_dtype == Dtype::kF16)) {
    HWY_ABORT("%s bias on %s scores, expected equal types or f16 on f32", DtypeName(bias_dtype),
              DtypeName(shape.dtype));
  }
  HWY_DYNAMIC_DISPATCH(AddTensor)(bias, bias_dtype, shape, 0, shape.n, s);
}

void AddT5ByGather(const T5Gather& gather, const Shape& shape, void* s) {
  if (shape.n == 0) return;
  HWY_DYNAMIC_DISPATCH(AddByBucket)(gather.buckets.data(), gather.values.data(), shape, s);
}

// ---------------------------------------------------------------------------------------------- formulas

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

double KerpleLog(double r1, double r2, double distance) { return -r1 * std::log1p(r2 * distance); }

double KerplePower(double r1, double r2, double distance) { return -r1 * std::pow(distance, r2); }

double Sandwich(size_t head, size_t total_heads, double distance) {
  constexpr double kWidth = 128;
  double sum = 0;
  for (double i = 1; i <= kWidth / 2; ++i) sum += std::cos(distance / std::pow(10000.0, 2 * i / kWidth));
  const double compression = 8.0 * static_cast<double>(head + 1) / static_cast<double>(total_heads);
  return (sum - kWidth / 2) / compression;
}

FireNet FireStandIn(size_t head) {
  FireNet net;
  for (size_t i = 0; i < FireNet::kHidden; ++i) {
    net.in_weight[i] = static_cast<double>(TrainedEntry(head, 3 * i));
    net.in_bias[i] = static_cast<double>(TrainedEntry(head, 3 * i + 1)) / 2;
    net.out_weight[i] = static_cast<double>(TrainedEntry(head, 3 * i + 2)) / 2;
  }
  return net;
}

double Fire(const FireNet& net, double query, double distance) {
  const auto psi = [&](double x) { return std::log(net.c * x + 1); };
  const double x = psi(distance) / psi(std::max(query, net.threshold));
  double sum = net.out_bias;
  for (size_t i = 0; i < FireNet::kHidden; ++i) {
    sum += net.out_weight[i] * std::max(0.0, net.in_weight[i] * x + net.in_bias[i]);
  }
  return sum;
}

// -------------------------------------------------------------------------------------------------- costs

double BiasedScores(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double n_k = static_cast<double>(shape.n_k);
  // Row t reaches keys 0 … n_k − n + t.
  const double per_head = shape.causal ? n * (n_k - n) + n * (n + 1) / 2 : n * n_k;
  return per_head * static_cast<double>(shape.n_heads);
}

namespace {

// Every touched score read and written, `read` bytes beside them.
Cost ScoresCost(const Shape& shape, double read, double flops) {
  const double scores = BiasedScores(shape);
  const double bytes = scores * static_cast<double>(DtypeBytes(shape.dtype));
  return {.bytes_read = bytes + read, .bytes_written = bytes, .flops = flops * scores};
}

// Distances that occur.
double Distances(const Shape& shape) {
  return static_cast<double>(shape.causal ? shape.n_k : shape.n + shape.n_k - 1);
}

}  // namespace

Cost AlibiCost(const Shape& shape) { return ScoresCost(shape, 0, 2); }

Cost DistanceRowCost(const Shape& shape) {
  const double rows = static_cast<double>(shape.n_heads) * Distances(shape);
  return ScoresCost(shape, rows * static_cast<double>(DtypeBytes(shape.dtype)), 1);
}

Cost BiasTensorCost(const Shape& shape, Dtype bias_dtype) {
  return ScoresCost(shape, BiasedScores(shape) * static_cast<double>(DtypeBytes(bias_dtype)), 1);
}

Cost T5GatherCost(const Shape& shape) {
  return ScoresCost(shape, 4 * Distances(shape) + 4 * 32 * static_cast<double>(shape.n_heads), 1);
}

double BiasTensorBytes(const Shape& shape, Dtype bias_dtype) {
  return static_cast<double>(TensorElements(Placement::kScoreBias, shape)) *
         static_cast<double>(DtypeBytes(bias_dtype));
}

// ------------------------------------------------------------------------------------------- descriptors

namespace {

size_t TotalHeads(const Shape& shape) { return shape.total_heads != 0 ? shape.total_heads : shape.n_heads; }

const char* RejectScores(const Shape& shape) {
  if (shape.n_k < shape.n) return "n_k must be at least n: the queries are the last n tokens";
  if (shape.first_head + shape.n_heads > TotalHeads(shape)) return "the heads end beyond total_heads";
  return nullptr;
}

// A stand-in for a trained bias of bucket and head.
float T5Entry(int bucket, size_t head) { return TrainedEntry(static_cast<size_t>(bucket), head); }

struct BiasTables : EncodingTables {
  TableMemory values;
  size_t stride = 0;  // elements from one head's row to the next
  TableMemory own;    // [n_heads, n − shared, n_k]: queries that share no row
  size_t shared = 0;  // queries that do, the first ones
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

void ApplyAlibi(const EncodingTables& tables, const Shape& shape, void* s) {
  HWY_DYNAMIC_DISPATCH(AddAlibi)(static_cast<const BiasTables&>(tables).values.get(), shape, s);
}

// The bias of (head, q, k); an encoding of distances depends on k − q alone.
using Bias = double (*)(const Shape& shape, size_t head, int64_t query, int64_t key);

// Rows by distance, for the queries below `shared_below`; the others get rows of their own.
template <Bias kBias>
std::unique_ptr<EncodingTables> SetupRows(const Shape& shape, size_t shared_below) {
  auto tables = std::make_unique<BiasTables>();
  if (shape.n == 0) return tables;
  const size_t bytes = DtypeBytes(shape.dtype);
  const size_t n_k = shape.n_k;
  const size_t first_query = n_k - shape.n;
  tables->shared = std::min(shape.n, shared_below - std::min(shared_below, first_query));
  const size_t others = shape.n - tables->shared;
  constexpr size_t kPadding = 64;  // the last vector of a row may read on
  const size_t row = shape.n + n_k - 1;
  // Rows start at different offsets within a page, or their loads would collide with each other's.
  tables->stride = (row + kPadding + 15) / 16 * 16 + 16;
  tables->values = TableMemory(tables->stride * shape.n_heads + 1, bytes);
  tables->own = TableMemory(shape.n_heads * others * n_k + 1, bytes);
  tables->bytes = bytes * (tables->stride + others * n_k) * shape.n_heads;
  const auto at = [&](const TableMemory& memory, size_t element) {
    return static_cast<char*>(memory.Data()) + element * bytes;
  };
  std::vector<float> values(std::max(tables->stride, n_k));
  for (size_t h = 0; h < shape.n_heads; ++h) {
    const size_t head = shape.first_head + h;
    std::fill(values.begin(), values.end(), 0.0f);
    for (size_t i = 0; i < row; ++i) {
      // Distances that no query has at its end of the row stay zero where the bias is not of the distance
      // alone: they are not read.
      const int64_t relative = static_cast<int64_t>(i) - static_cast<int64_t>(n_k - 1);
      const int64_t query = relative < 0 ? -relative : 0;
      if (shape.causal && relative > 0) continue;
      values[i] = static_cast<float>(kBias(shape, head, query, query + relative));
    }
    ConvertElements(values.data(), tables->stride, shape.dtype, at(tables->values, h * tables->stride));
    for (size_t t = 0; t < others; ++t) {
      const auto query = static_cast<int64_t>(first_query + tables->shared + t);
      for (size_t k = 0; k < n_k; ++k) {
        const bool touched = !shape.causal || static_cast<int64_t>(k) <= query;
        values[k] = touched ? static_cast<float>(kBias(shape, head, query, static_cast<int64_t>(k))) : 0;
      }
      ConvertElements(values.data(), n_k, shape.dtype, at(tables->own, (h * others + t) * n_k));
    }
  }
  return tables;
}

template <Bias kBias>
std::unique_ptr<EncodingTables> SetupDistances(const Shape& shape) {
  return SetupRows<kBias>(shape, shape.n_k);
}

void ApplyRows(const EncodingTables& any, const Shape& shape, void* s) {
  if (shape.n == 0) return;
  const auto& tables = static_cast<const BiasTables&>(any);
  HWY_DYNAMIC_DISPATCH(AddDistances)({tables.values.Data(), tables.stride}, shape, 0, tables.shared, s);
  if (tables.shared == shape.n) return;
  HWY_DYNAMIC_DISPATCH(AddTensor)(tables.own.Data(), shape.dtype, shape, tables.shared, shape.n, s);
}

template <Bias kBias>
void Reference(const Shape& shape, const float* in, double* expected, double* scale) {
  size_t at = 0;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    for (size_t t = 0; t < shape.n; ++t) {
      const size_t q = shape.n_k - shape.n + t;
      for (size_t k = 0; k < shape.n_k; ++k, ++at) {
        const bool touched = !shape.causal || k <= q;
        const double b =
            touched ? kBias(shape, shape.first_head + h, static_cast<int64_t>(q), static_cast<int64_t>(k))
                    : 0;
        expected[at] = static_cast<double>(in[at]) + b;
        scale[at] = touched ? std::abs(static_cast<double>(in[at])) + std::abs(b) : 0;
      }
    }
  }
}

double AlibiBias(const Shape& shape, size_t head, int64_t query, int64_t key) {
  static thread_local std::vector<double> slopes;  // of the last number of heads asked for
  if (slopes.size() != TotalHeads(shape)) slopes = AlibiSlopes(TotalHeads(shape));
  return -slopes[head] * static_cast<double>(std::abs(query - key));
}

double T5Bias(const Shape& shape, size_t head, int64_t query, int64_t key) {
  return static_cast<double>(T5Entry(T5Bucket(key - query, shape.causal), head));
}

// Stand-ins for the trained r1 and r2 of a head.
double KerpleLogBias(const Shape&, size_t head, int64_t query, int64_t key) {
  const double r1 = 1 + 0.5 * static_cast<double>(TrainedEntry(head, 1));
  const double r2 = 1 + 0.5 * static_cast<double>(TrainedEntry(head, 2));
  return KerpleLog(r1, r2, static_cast<double>(std::abs(query - key)));
}

double KerplePowerBias(const Shape&, size_t head, int64_t query, int64_t key) {
  const double r1 = 0.2 + 0.1 * static_cast<double>(TrainedEntry(head, 3));
  const double r2 = 0.5 + 0.25 * static_cast<double>(TrainedEntry(head, 4));
  return KerplePower(r1, r2, static_cast<double>(std::abs(query - key)));
}

double SandwichBias(const Shape& shape, size_t head, int64_t query, int64_t key) {
  // Every head and every row asks for the same distances.
  static thread_local std::vector<double> sums;
  const auto distance = static_cast<size_t>(std::abs(query - key));
  while (sums.size() <= distance) sums.push_back(Sandwich(0, 8, static_cast<double>(sums.size())));
  return sums[distance] * static_cast<double>(TotalHeads(shape)) / (8.0 * static_cast<double>(head + 1));
}

double FireBias(const Shape&, size_t head, int64_t query, int64_t key) {
  static thread_local std::pair<size_t, FireNet> net{SIZE_MAX, {}};  // of the last head asked for
  if (net.first != head) net = {head, FireStandIn(head)};
  return Fire(net.second, static_cast<double>(query), static_cast<double>(std::abs(query - key)));
}

size_t FireShared() { return static_cast<size_t>(FireNet{}.threshold) + 1; }

std::unique_ptr<EncodingTables> SetupFire(const Shape& shape) {
  return SetupRows<FireBias>(shape, FireShared());
}

// Queries beyond the threshold have a row each.
size_t FireOwnRows(const Shape& shape) {
  return std::min(shape.n, shape.n_k - std::min(shape.n_k, FireShared()));
}

Cost FireCost(const Shape& shape) {
  Cost cost = DistanceRowCost(shape);
  cost.bytes_read += static_cast<double>(shape.n_heads * FireOwnRows(shape) * shape.n_k) *
                     static_cast<double>(DtypeBytes(shape.dtype));
  return cost;
}

const char* RejectFire(const Shape& shape) {
  if (RejectScores(shape) == nullptr && shape.n_heads * FireOwnRows(shape) * shape.n_k > (size_t{1} << 28)) {
    return "queries beyond the threshold of 4,096 have a row of biases each, and these are more than 2^28";
  }
  return RejectScores(shape);
}

// alibi: the slope's rounding, the product's where a target has no FMA, the sum's. Rows: the entry's
// rounding to the dtype, unless a trained one is held exactly, and the sum's.
constexpr Encoding kEncodings[] = {
    {.name = "t5_bias",
     .placement = Placement::kScoreBias,
     .about = "adds B[bucket(k − q)][head], 32 log-spaced buckets; Raffel et al. 2020, section 2.1",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = DistanceRowCost,
     .setup = SetupDistances<T5Bias>,
     .apply = ApplyRows,
     .reference = Reference<T5Bias>,
     .tolerance = {.f32 = 1.0, .half = 1.01}},
    {.name = "alibi",
     .placement = Placement::kScoreBias,
     .about = "subtracts slope · |q − k|; Press et al. 2022, section 3",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = AlibiCost,
     .setup = SetupAlibi,
     .apply = ApplyAlibi,
     .reference = Reference<AlibiBias>,
     .tolerance = {.f32 = 3.0, .half = 1.01}},
    {.name = "kerple_log",
     .placement = Placement::kScoreBias,
     .about =
         "subtracts r1 · log(1 + r2 · |q − k|), r1 and r2 trained for each head; Chi et al. 2022, section 4",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = DistanceRowCost,
     .setup = SetupDistances<KerpleLogBias>,
     .apply = ApplyRows,
     .reference = Reference<KerpleLogBias>,
     .tolerance = {.f32 = 2.0, .half = 2.01}},
    {.name = "kerple_power",
     .placement = Placement::kScoreBias,
     .about = "subtracts r1 · |q − k|^r2, r1 and r2 trained for each head; Chi et al. 2022, section 4",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = DistanceRowCost,
     .setup = SetupDistances<KerplePowerBias>,
     .apply = ApplyRows,
     .reference = Reference<KerplePowerBias>,
     .tolerance = {.f32 = 2.0, .half = 2.01}},
    {.name = "fire",
     .placement = Placement::kScoreBias,
     .about = "adds an MLP of log(c·|q − k| + 1) / log(c·max(q, L) + 1); Li et al. 2024, section 3",
     .cached_key = "position-free",
     .reject = RejectFire,
     .cost = FireCost,
     .setup = SetupFire,
     .apply = ApplyRows,
     .reference = Reference<FireBias>,
     .tolerance = {.f32 = 2.0, .half = 2.01}},
    {.name = "sandwich",
     .placement = Placement::kScoreBias,
     .about = "adds (Σ cos((q − k)·θ_i) − 64) / (8·(head + 1)/heads); Chi et al. 2023, section 5",
     .cached_key = "position-free",
     .reject = RejectScores,
     .cost = DistanceRowCost,
     .setup = SetupDistances<SandwichBias>,
     .apply = ApplyRows,
     .reference = Reference<SandwichBias>,
     .tolerance = {.f32 = 2.0, .half = 2.01}},
};

}  // namespace

T5Gather::T5Gather(const Shape& shape) {
  constexpr size_t kPadding = 64;
  buckets.resize(shape.n + shape.n_k + kPadding, 0);
  for (size_t i = 0; i + 1 < shape.n + shape.n_k; ++i) {
    buckets[i] = T5Bucket(static_cast<int64_t>(i) - static_cast<int64_t>(shape.n_k - 1), shape.causal);
  }
  values.resize(shape.n_heads * 32);
  for (size_t h = 0; h < shape.n_heads; ++h) {
    for (int b = 0; b < 32; ++b) values[h * 32 + static_cast<size_t>(b)] = T5Entry(b, shape.first_head + h);
  }
}

DistanceRows T5DistanceRows(const EncodingTables& any) {
  const auto& tables = static_cast<const BiasTables&>(any);
  return {tables.values.Data(), tables.stride};
}

std::span<const Encoding> ScoreBiasEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
