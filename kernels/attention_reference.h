// Attention in double, one score at a time: what the kernels' tests compare with. Not for speed.
#ifndef ROPELINE_KERNELS_ATTENTION_REFERENCE_H_
#define ROPELINE_KERNELS_ATTENTION_REFERENCE_H_

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/attention_bias.h"
#include "kernels/kv_cache.h"

namespace ropeline {

// Does query at position q see key k?
inline bool ReferenceSees(const AttentionBias& bias, bool causal, size_t q, size_t k) {
  if (causal && k > q) return false;
  if (bias.window == 0 || k < bias.sinks) return true;
  return k > q || q - k < bias.window;
}

inline double ReferenceScore(const AttentionBias& bias, size_t head, size_t q, size_t k, double score) {
  const double distance = static_cast<double>(k) - static_cast<double>(q);
  switch (bias.kind) {
    case BiasKind::kNone:
      return score;
    case BiasKind::kSlope:
      return score + static_cast<double>(bias.slopes[head]) * distance;
    case BiasKind::kByDistance:
      return score + static_cast<double>(bias.by_distance[head * bias.stride + bias.origin + k - q]);
    case BiasKind::kSoftCap:
      return static_cast<double>(bias.cap) * std::tanh(score / static_cast<double>(bias.cap));
  }
  return score;
}

struct ReferenceRow {
  std::vector<double> out;      // [d_head_v]; zeros where no key is seen
  std::vector<double> weights;  // [n] of the softmax
};

// One query [d_head_k] of one query head at position `position`, over the first n tokens of the cache as it
// decodes them.
inline ReferenceRow ReferenceAttention(const KvCache& cache, const AttentionBias& bias, bool causal,
                                       size_t head, size_t kv_head, size_t position, const float* q,
                                       double scale) {
  const size_t n = cache.n();
  ReferenceRow row{std::vector<double>(cache.shape().d_head_v), std::vector<double>(n)};
  std::vector<double> scores(n);
  double largest = bias.sink_logits != nullptr ? static_cast<double>(bias.sink_logits[head]) : -HUGE_VAL;
  for (size_t k = 0; k < n; ++k) {
    if (!ReferenceSees(bias, causal, position, k)) continue;
    double dot = 0;
    for (size_t i = 0; i < cache.shape().d_head_k; ++i) {
      dot += static_cast<double>(q[i]) * static_cast<double>(cache.Key(kv_head, k, i));
    }
    scores[k] = ReferenceScore(bias, head, position, k, scale * dot);
    largest = std::fmax(largest, scores[k]);
  }
  double sum =
      bias.sink_logits != nullptr ? std::exp(static_cast<double>(bias.sink_logits[head]) - largest) : 0;
  for (size_t k = 0; k < n; ++k) {
    if (!ReferenceSees(bias, causal, position, k)) continue;
    row.weights[k] = std::exp(scores[k] - largest);
    sum += row.weights[k];
  }
  if (sum == 0) return row;
  for (size_t k = 0; k < n; ++k) {
    row.weights[k] /= sum;
    if (row.weights[k] == 0) continue;
    for (size_t i = 0; i < row.out.size(); ++i) {
      row.out[i] += row.weights[k] * static_cast<double>(cache.Value(kv_head, k, i));
    }
  }
  return row;
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ATTENTION_REFERENCE_H_
