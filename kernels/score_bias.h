// Placement 2, the score matrix: S[n_heads, n, n_k] += bias(head, q, k), in every layer. Query row t stands
// at position q = n_k − n + t; keys at k = 0 … n_k − 1. Causal: only k <= q is touched (the rest is masked
// anyway).
//   t5_bias       B[bucket(k − q)][h], 32 log-spaced buckets; Raffel et al. 2020, section 2.1
//   alibi         −slope_h · |q − k|; Press et al. 2022, section 3
//   kerple_log    −r1_h · log(1 + r2_h · |q − k|); Chi et al. 2022, "KERPLE", section 4
//   kerple_power  −r1_h · |q − k|^r2_h; the same
//   fire          f_h(ψ(|q − k|) / ψ(max(q, L))), f an MLP; Li et al. 2024, "FIRE", section 3
//   sandwich      (Σ cos((q − k)·θ_i) − d̄/2) / (8·(h + 1)/H); Chi et al. 2023, "Sandwich", section 5
// There are three ways to pay: read the bias from a tensor (AddBiasTensor), from one row of biases by
// distance, or compute it (alibi). The last two are the encodings' apply; the first is what an engine does
// whose attention takes a bias tensor.
#ifndef ROPELINE_KERNELS_SCORE_BIAS_H_
#define ROPELINE_KERNELS_SCORE_BIAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/memory.h"
#include "kernels/placement.h"

namespace ropeline {

// ALiBi's slope of each head. A power of two: 2^(−8/h), 2^(−16/h), … Otherwise the slopes of the power of two
// p below, then every second slope of 2p, as the authors' published code does.
std::vector<double> AlibiSlopes(size_t n_heads);

struct T5Buckets {
  int buckets = 32;
  int max_distance = 128;
};

// Bucket of a key at relative position k − q. Half of the buckets (causal) or a quarter of them per side
// (bidirectional) hold one distance each; the rest grow with the logarithm up to max_distance, then all is
// one bucket.
int T5Bucket(int64_t relative_position, bool causal, const T5Buckets& buckets = {});

// r1, r2 > 0 are trained for each head; distance = |q − k|.
double KerpleLog(double r1, double r2, double distance);
double KerplePower(double r1, double r2, double distance);

// d̄ = 128 whatever the model's width; head 0 … total_heads − 1. 0 at distance 0, then ever lower.
double Sandwich(size_t head, size_t total_heads, double distance);

// One hidden layer of 32 rectified units; ψ(x) = log(c·x + 1). Trained.
struct FireNet {
  static constexpr size_t kHidden = 32;
  double c = 0.1;
  double threshold = 4096;  // L: queries before it share one row of biases
  double in_weight[kHidden], in_bias[kHidden], out_weight[kHidden];
  double out_bias = 0;
};
FireNet FireStandIn(size_t head);  // weights that stand in for trained ones
double Fire(const FireNet& net, double query, double distance);

// S[t][k] += bias[h][t][k], a tensor [n_heads, n, n_k] of bias_dtype: of the scores' dtype, or f16 beside f32
// scores, as engines store it. Aborts for other pairs.
void AddBiasTensor(const void* bias, Dtype bias_dtype, const Shape& shape, void* s);

// T5 by one look-up per score: bucket of the distance, then the bucket's value, as the formula is written.
struct T5Gather {
  explicit T5Gather(const Shape& shape);
  std::vector<int32_t> buckets;  // [n + n_k − 1 and padding], from distance −(n_k − 1) on
  std::vector<float> values;     // [n_heads, 32]
};
void AddT5ByGather(const T5Gather& gather, const Shape& shape, void* s);

// The rows of biases by distance that an encoding's setup built: [n_heads][stride] of the shape's dtype, from
// distance −(n_k − 1) on. For kernels that add the bias themselves.
struct DistanceRows {
  const void* rows;
  size_t stride;
};
DistanceRows T5DistanceRows(const EncodingTables& tables);

// Scores touched: all n·n_k of each head, or those with k <= q.
double BiasedScores(const Shape& shape);

// Reads and writes each touched score; ALiBi two flops (slope · distance, and the addition).
Cost AlibiCost(const Shape& shape);
// As above, and reads one row of n + n_k − 1 biases (n_k where causal) for each head; one flop.
Cost DistanceRowCost(const Shape& shape);
// As above, and reads one bias for each touched score; one flop.
Cost BiasTensorCost(const Shape& shape, Dtype bias_dtype);
// As above, with one row of 4-byte buckets for all heads instead of the biases.
Cost T5GatherCost(const Shape& shape);

// Memory that a bias tensor takes: n_heads · n · n_k elements.
double BiasTensorBytes(const Shape& shape, Dtype bias_dtype);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SCORE_BIAS_H_
