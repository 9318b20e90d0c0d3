#include "kernels/kv_format_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/decode_attention.h"
#include "kernels/kv_cache.h"

namespace ropeline {

namespace {

// Keys and values as doubles would read them from the cache: blocks in f32.
struct Numbers {
  Numbers(const KvCache& cache, size_t head) {
    const size_t n = cache.n(), d = cache.shape().d_head_k;
    const size_t tiles = (d + kKvTile - 1) / kKvTile;
    std::vector<float> block(tiles * kKvTile * kKvTile);
    k.resize(n * d);
    v.resize(n * d);
    for (size_t t = 0; t < n; t += kKvTile) {
      const size_t tokens = std::min(kKvTile, n - t);
      KeyBlockAsF32(cache, head, t / kKvTile, block.data());
      for (size_t j = 0; j < tokens; ++j) {
        for (size_t i = 0; i < d; ++i) k[(t + j) * d + i] = block[i * kKvTile + j];
      }
      ValueBlockAsF32(cache, head, t / kKvTile, block.data());
      for (size_t j = 0; j < tokens; ++j) {
        for (size_t i = 0; i < d; ++i) {
          v[(t + j) * d + i] = block[(i / kKvTile * kKvTile + j) * kKvTile + i % kKvTile];
        }
      }
    }
  }
  std::vector<float> k, v;  // [n, d_head]
};

// Logits less their mean, and their softmax.
struct Row {
  Row(const float* q, const std::vector<float>& k, size_t n, double scale) : logits(n), weights(n) {
    const size_t d = k.size() / n;
    double mean = 0, sum = 0;
    for (size_t t = 0; t < n; ++t) {
      double dot = 0;
      for (size_t i = 0; i < d; ++i) dot += static_cast<double>(q[i]) * static_cast<double>(k[t * d + i]);
      logits[t] = scale * dot;
      mean += logits[t] / static_cast<double>(n);
    }
    for (double& x : logits) x -= mean;
    const double largest = *std::max_element(logits.begin(), logits.end());
    for (size_t t = 0; t < n; ++t) sum += weights[t] = std::exp(logits[t] - largest);
    for (double& w : weights) w /= sum;
  }
  std::vector<double> logits, weights;
};

}  // namespace

KvFormatError ErrorOfKvFormat(const KvFormatCase& c) {
  const SyntheticKv kv{c.statistics, c.n_heads, c.n_kv_heads, c.d_head, c.seed};
  std::vector<float> q(c.n_heads * c.d_head), k(c.n * c.n_kv_heads * c.d_head), v(k.size());
  kv.Query(q.data());
  kv.Keys(0, c.n, k.data());
  kv.Values(0, c.n, v.data());
  KvCache exact(KvShape{KvFormat::kF32, c.n_kv_heads, c.d_head, c.d_head}, c.n);
  KvCache cache(KvShape{c.format, c.n_kv_heads, c.d_head, c.d_head}, c.n);
  exact.Append(k.data(), v.data(), c.n);
  cache.Append(k.data(), v.data(), c.n);
  const float scale = 1 / std::sqrt(static_cast<float>(c.d_head));
  const DecodeAttention call{
      .cache = &cache, .n_heads = c.n_heads, .q = q.data(), .scale = scale, .position = c.n - 1};
  std::vector<float> out(c.n_heads * c.d_head);
  Attend(call, out.data());

  double logit_error = 0, logits = 0, variation = 0, output_error = 0, outputs = 0;
  for (size_t head = 0; head < c.n_kv_heads; ++head) {
    const Numbers stored(cache, head), original(exact, head);
    for (size_t h = head * call.Group(); h < (head + 1) * call.Group(); ++h) {
      const float* query = q.data() + h * c.d_head;
      const Row row(query, original.k, c.n, static_cast<double>(scale));
      const Row rounded(query, stored.k, c.n, static_cast<double>(scale));
      std::vector<double> expected(c.d_head);
      for (size_t t = 0; t < c.n; ++t) {
        logit_error += std::pow(rounded.logits[t] - row.logits[t], 2);
        logits += std::pow(row.logits[t], 2);
        variation += std::abs(rounded.weights[t] - row.weights[t]) / 2;
        for (size_t i = 0; i < c.d_head; ++i) {
          expected[i] += row.weights[t] * static_cast<double>(original.v[t * c.d_head + i]);
        }
      }
      for (size_t i = 0; i < c.d_head; ++i) {
        output_error += std::pow(static_cast<double>(out[h * c.d_head + i]) - expected[i], 2);
        outputs += std::pow(expected[i], 2);
      }
    }
  }
  return {.logit = std::sqrt(logit_error / logits),
          .weights = variation / static_cast<double>(c.n_heads),
          .output = std::sqrt(output_error / outputs)};
}

}  // namespace ropeline
