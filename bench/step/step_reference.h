// A forward pass in double, one loop after another as the formulas are written: what the executed step's
// tests compare with. Not for speed.
#ifndef ROPELINE_BENCH_STEP_STEP_REFERENCE_H_
#define ROPELINE_BENCH_STEP_STEP_REFERENCE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bench/step/step_plan.h"
#include "bench/step/step_weights.h"
#include "kernels/attention_reference.h"
#include "kernels/rope_frequencies.h"
#include "kernels/score_bias.h"

namespace ropeline {

class StepReference {
 public:
  using Numbers = std::vector<double>;

  // `stored`: keys and values are rounded to that format on their way to the cache; nothing: they are kept as
  // they are. `length`: of the whole sequence, for schedules that depend on it.
  StepReference(const StepPlan& plan, const StepWeights& weights, std::optional<KvFormat> stored,
                size_t length)
      : plan_(plan), weights_(weights), keys_(plan.layers.size()), values_(plan.layers.size()) {
    if (plan.rotation) {
      frequencies_ = FrequenciesOf(plan.rotation->parameters, {length, length}, RopeSemantics::kHf);
    }
    for (const StepLayer& layer : plan.layers) {
      if (stored) caches_.push_back(std::make_unique<KvCache>(layer.CacheShape(*stored), length));
    }
  }

  // The next tokens of the sequence, all in one pass; logits of the last one.
  Numbers Forward(const std::vector<int32_t>& tokens) {
    std::vector<Numbers> x;
    for (size_t t = 0; t < tokens.size(); ++t) x.push_back(Input(tokens[t], n_ + t));
    for (size_t i = 0; i < plan_.layers.size(); ++i) Layer(i, &x);
    n_ += tokens.size();
    return Product(weights_.head, Norm(x.back(), weights_.final_norm));
  }

 private:
  const double* Weights(const WeightMatrix& matrix, size_t row) const {
    Numbers& numbers = decoded_[matrix.data];
    if (numbers.empty()) {
      std::vector<float> of_row(matrix.cols);
      for (size_t i = 0; i < matrix.rows; ++i) {
        DecodeWeights(matrix.dtype, matrix.Row(i), matrix.cols, of_row.data());
        numbers.insert(numbers.end(), of_row.begin(), of_row.end());
      }
    }
    return numbers.data() + row * matrix.cols;
  }
  Numbers Row(const WeightMatrix& matrix, size_t row) const {
    const double* weights = Weights(matrix, row);
    return {weights, weights + matrix.cols};
  }
  Numbers Product(const WeightMatrix& matrix, const Numbers& x, const float* bias = nullptr) const {
    Numbers y(matrix.rows);
    for (size_t row = 0; row < matrix.rows; ++row) {
      const double* w = Weights(matrix, row);
      for (size_t i = 0; i < matrix.cols; ++i) y[row] += w[i] * x[i];
      if (bias != nullptr) y[row] += static_cast<double>(bias[row]);
    }
    return y;
  }
  // y = x / sqrt(mean x² + ε) · weight, of each run of `width` elements.
  static Numbers Norm(Numbers x, const float* weight, size_t width = 0) {
    if (width == 0) width = x.size();
    for (size_t first = 0; first < x.size(); first += width) {
      double squares = 0;
      for (size_t i = 0; i < width; ++i) squares += x[first + i] * x[first + i];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
      for (size_t i = 0; i < width; ++i) x[first + i] *= factor * static_cast<double>(weight[i]);
    }
    return x;
  }
  static void Add(const Numbers& y, Numbers* x) {
    for (size_t i = 0; i < y.size(); ++i) (*x)[i] += y[i];
  }

  Numbers Input(int32_t token, size_t position) const {
    Numbers x = Row(weights_.embedding, static_cast<size_t>(token));
    if (weights_.learned_positions) Add(Row(*weights_.learned_positions, position), &x);
    for (size_t i = 0; plan_.sinusoidal && i < x.size(); ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(1e4, -static_cast<double>(i / 2 * 2) / static_cast<double>(x.size()));
      x[i] += i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
    return x;
  }

  void Turn(const StepLayer& layer, size_t position, Numbers* heads) const {
    const Numbers& steps = frequencies_.inv_freq;
    for (size_t at = 0; layer.rotated && at < heads->size(); at += layer.d_head_k) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const bool half = plan_.rotation->pairing == Pairing::kHalf;
        double& a = (*heads)[at + (half ? i : 2 * i)];
        double& b = (*heads)[at + (half ? i + steps.size() : 2 * i + 1)];
        const double angle = static_cast<double>(position) * steps[i];
        const double c = std::cos(angle) * frequencies_.attention_factor;
        const double s = std::sin(angle) * frequencies_.attention_factor;
        const double turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
    }
  }

  double Bias(const StepLayer& layer, size_t head, size_t q, size_t k) const {
    const double distance = static_cast<double>(q - k);
    if (layer.bias == BiasKind::kSlope) return -AlibiSlopes(layer.n_heads)[head] * distance;
    if (layer.bias != BiasKind::kByDistance) return 0;
    const T5Buckets buckets{.buckets = static_cast<int>(weights_.relative_biases->rows)};
    const auto bucket = T5Bucket(-static_cast<int64_t>(q - k), /*causal=*/true, buckets);
    return Weights(*weights_.relative_biases, static_cast<size_t>(bucket))[head];
  }

  // Tokens n_ … of layer i get their keys [n_kv_heads, d_head_k] and values.
  void Store(size_t i, const std::vector<Numbers>& k, const std::vector<Numbers>& v) {
    keys_[i].insert(keys_[i].end(), k.begin(), k.end());
    values_[i].insert(values_[i].end(), v.begin(), v.end());
    if (caches_.empty()) return;
    std::vector<float> k32, v32;
    for (const Numbers& of : k) k32.insert(k32.end(), of.begin(), of.end());
    for (const Numbers& of : v) v32.insert(v32.end(), of.begin(), of.end());
    KvCache& cache = *caches_[i];
    cache.Append(k32.data(), v32.data(), k.size());
    const KvShape& shape = cache.shape();
    for (size_t t = 0; t < cache.n(); ++t) {
      for (size_t j = 0; j < keys_[i][t].size(); ++j) {
        keys_[i][t][j] = static_cast<double>(cache.Key(j / shape.d_head_k, t, j % shape.d_head_k));
      }
      for (size_t j = 0; j < values_[i][t].size(); ++j) {
        values_[i][t][j] = static_cast<double>(cache.Value(j / shape.d_head_v, t, j % shape.d_head_v));
      }
    }
  }

  Numbers Attend(size_t i, const Numbers& q, size_t position) const {
    const StepLayer& layer = plan_.layers[i];
    const size_t d_k = layer.d_head_k, d_v = layer.d_head_v, group = layer.n_heads / layer.n_kv_heads;
    Numbers out(layer.OutputWidth());
    for (size_t head = 0; head < layer.n_heads; ++head) {
      const size_t first = layer.window != 0 && position >= layer.window ? position - layer.window + 1 : 0;
      Numbers weights;
      double sum = 0;
      for (size_t k = first; k <= position; ++k) {
        double score = 0;
        for (size_t j = 0; j < d_k; ++j) score += q[head * d_k + j] * keys_[i][k][head / group * d_k + j];
        weights.push_back(std::exp(layer.scale * score + Bias(layer, head, position, k)));
        sum += weights.back();
      }
      for (size_t k = first; k <= position; ++k) {
        for (size_t j = 0; j < d_v; ++j) {
          out[head * d_v + j] += weights[k - first] / sum * values_[i][k][head / group * d_v + j];
        }
      }
    }
    return out;
  }

  void Layer(size_t i, std::vector<Numbers>* x) {
    const StepLayer& layer = plan_.layers[i];
    const LayerWeights& w = weights_.layers[i];
    std::vector<Numbers> q, k, v;
    for (size_t t = 0; t < x->size(); ++t) {
      const Numbers normed = Norm((*x)[t], w.attention_norm);
      q.push_back(Product(w.q, normed, w.q_bias));
      k.push_back(Product(w.k, normed, w.k_bias));
      v.push_back(Product(w.v, normed, w.v_bias));
      if (w.q_norm != nullptr) q.back() = Norm(q.back(), w.q_norm, layer.d_head_k);
      if (w.k_norm != nullptr) k.back() = Norm(k.back(), w.k_norm, layer.d_head_k);
      Turn(layer, n_ + t, &q.back());
      Turn(layer, n_ + t, &k.back());
    }
    Store(i, k, v);
    for (size_t t = 0; t < x->size(); ++t) {
      Numbers& stream = (*x)[t];
      Add(Product(w.o, Attend(i, q[t], n_ + t), w.o_bias), &stream);
      const Numbers normed = Norm(stream, w.ffn_norm);
      Numbers gate = Product(w.gate, normed);
      const Numbers up = Product(w.up, normed);
      for (size_t j = 0; j < gate.size(); ++j) gate[j] *= up[j] / (1 + std::exp(-gate[j]));
      Add(Product(w.down, gate), &stream);
    }
  }

  const StepPlan& plan_;
  const StepWeights& weights_;
  mutable std::map<const void*, Numbers> decoded_;  // [rows, cols] of each matrix met so far
  RopeFrequencies frequencies_;
  std::vector<std::vector<Numbers>> keys_, values_;  // [layer][token], as the cache gives them back
  std::vector<std::unique_ptr<KvCache>> caches_;
  size_t n_ = 0;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_REFERENCE_H_
