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

// A cache's tokens as numbers, read once.
struct ReferenceCache {
  explicit ReferenceCache(const KvCache& cache, size_t latent = 0)
      : n(cache.n()),
        d_k(cache.shape().d_head_k),
        d_v(latent != 0 ? latent : cache.shape().d_head_v),
        keys(cache.shape().n_kv_heads * n * d_k),
        values(cache.shape().n_kv_heads * n * d_v) {
    for (size_t h = 0; h < cache.shape().n_kv_heads; ++h) {
      for (size_t t = 0; t < n; ++t) {
        for (size_t i = 0; i < d_k; ++i)
          keys[(h * n + t) * d_k + i] = static_cast<double>(cache.Key(h, t, i));
        for (size_t i = 0; i < d_v; ++i) {
          values[(h * n + t) * d_v + i] =
              static_cast<double>(latent != 0 ? cache.Key(h, t, i) : cache.Value(h, t, i));
        }
      }
    }
  }

  size_t n, d_k, d_v;
  std::vector<double> keys, values;  // [n_kv_heads, n, d]
};

struct ReferenceRow {
  std::vector<double> out;      // [d_head_v]; zeros where no key is seen
  std::vector<double> weights;  // [n] of the softmax
};

// One query [d_head_k] of one query head at position `position`.
inline ReferenceRow ReferenceAttention(const ReferenceCache& cache, const AttentionBias& bias, bool causal,
                                       size_t head, size_t kv_head, size_t position, const float* q,
                                       double scale) {
  const size_t n = cache.n;
  ReferenceRow row{std::vector<double>(cache.d_v), std::vector<double>(n)};
  std::vector<double> scores(n);
  double largest = bias.sink_logits != nullptr ? static_cast<double>(bias.sink_logits[head]) : -HUGE_VAL;
  for (size_t k = 0; k < n; ++k) {
    if (!ReferenceSees(bias, causal, position, k)) continue;
    double dot = 0;
    const double* key = cache.keys.data() + (kv_head * n + k) * cache.d_k;
    for (size_t i = 0; i < cache.d_k; ++i) dot += static_cast<double>(q[i]) * key[i];
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
    const double* value = cache.values.data() + (kv_head * n + k) * cache.d_v;
    for (size_t i = 0; i < cache.d_v; ++i) row.out[i] += row.weights[k] * value[i];
  }
  return row;
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ATTENTION_REFERENCE_H_
