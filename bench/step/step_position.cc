#include "bench/step/step_position.h"

#include <hwy/base.h>

#include <algorithm>

#include "kernels/angle_table.h"
#include "kernels/rope_frequencies.h"
#include "kernels/score_bias.h"

namespace ropeline {

StepPosition::StepPosition(const StepPlan& plan, const StepWeights& weights, size_t capacity)
    : capacity_(capacity), d_model_(plan.d_model) {
  if (weights.learned_positions) {
    const WeightMatrix& table = *weights.learned_positions;
    if (capacity > table.rows) HWY_ABORT("%zu positions of a table of %zu", capacity, table.rows);
    input_ = TableMemory(capacity * d_model_);
    for (size_t row = 0; row < capacity; ++row) {
      DecodeWeights(table.dtype, table.Row(row), table.cols, input_.get() + row * d_model_);
    }
  } else if (plan.sinusoidal) {
    input_ = TableMemory(capacity * d_model_);
    BuildAngleTable(DefaultInvFreq(d_model_, 1e4), 0, capacity, AngleLayout::kSinCos, input_.get());
  }
  if (plan.rotation) {
    const RopeFrequencies frequencies =
        FrequenciesOf(plan.rotation->parameters, {capacity, capacity}, RopeSemantics::kHf);
    d_rot_ = 2 * frequencies.inv_freq.size();
    angles_ = TableMemory(capacity * d_rot_);
    BuildAngleTable(frequencies.inv_freq, 0, capacity,
                    plan.rotation->pairing == Pairing::kHalf ? AngleLayout::kSplit : AngleLayout::kCosSin,
                    angles_.get());
    const auto factor = static_cast<float>(frequencies.attention_factor);
    for (size_t i = 0; factor != 1 && i < capacity * d_rot_; ++i) angles_[i] *= factor;
  }
  size_t n_heads = 0;
  for (const StepLayer& layer : plan.layers) {
    if (layer.bias != BiasKind::kNone) n_heads = std::max(n_heads, layer.n_heads);
  }
  if (n_heads > 0) {
    for (const double slope : AlibiSlopes(n_heads)) slopes_.push_back(static_cast<float>(slope));
  }
  if (weights.relative_biases) {
    const WeightMatrix& table = *weights.relative_biases;
    std::vector<float> values(table.rows * table.cols);  // [buckets, n_heads]
    for (size_t row = 0; row < table.rows; ++row) {
      DecodeWeights(table.dtype, table.Row(row), table.cols, values.data() + row * table.cols);
    }
    // 32 floats before and after, which kernels may read.
    stride_ = capacity + 64;
    origin_ = capacity + 31;
    by_distance_.resize(table.cols * stride_);
    const T5Buckets buckets{.buckets = static_cast<int>(table.rows)};
    for (size_t distance = 0; distance < capacity; ++distance) {
      const auto bucket =
          static_cast<size_t>(T5Bucket(-static_cast<int64_t>(distance), /*causal=*/true, buckets));
      for (size_t head = 0; head < table.cols; ++head) {
        by_distance_[head * stride_ + origin_ - distance] = values[bucket * table.cols + head];
      }
    }
  }
}

AttentionBias StepPosition::Bias(const StepLayer& layer) const {
  AttentionBias bias;
  bias.kind = layer.bias;
  bias.slopes = slopes_.data();
  bias.by_distance = by_distance_.data();
  bias.stride = stride_;
  bias.origin = origin_;
  bias.window = layer.window;
  return bias;
}

}  // namespace ropeline
