// Placement 2, the score matrix: S[n_heads, n, n_k] += bias(head, k − q), f32, in every layer. Query row t
// stands at position q = n_k − n + t; keys at k = 0 … n_k − 1. Causal: only k <= q is touched (the rest is
// masked anyway).
//   alibi    bias = −slope_h · |q − k|; Press et al. 2022, section 3
//   t5_bias  bias = B[bucket(k − q)][h], 32 log-spaced buckets; Raffel et al. 2020, section 2.1
#ifndef ROPELINE_KERNELS_SCORE_BIAS_H_
#define ROPELINE_KERNELS_SCORE_BIAS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"
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

// Scores touched: all n·n_k of each head, or those with k <= q.
double BiasedScores(const Shape& shape);

// Reads and writes each touched score; ALiBi two flops (slope · distance, and the addition).
Cost AlibiCost(const Shape& shape);
// As above, and reads one row of n + n_k − 1 biases (n_k where causal) for each head; one flop.
Cost T5BiasCost(const Shape& shape);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SCORE_BIAS_H_
