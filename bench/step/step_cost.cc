#include "bench/step/step_cost.h"

#include <algorithm>

#include "kernels/decode_attention.h"
#include "kernels/kv_cache.h"
#include "kernels/prefill_attention.h"
#include "kernels/rope_frequencies.h"

namespace ropeline {
namespace {

// Read once, and two flops for each weight and token; the embedding counts where it is the output matrix too.
Cost MatrixCost(const MatrixShape& shape, size_t tokens) {
  return {.bytes_read = static_cast<double>(shape.Bytes()),
          .flops = 2 * static_cast<double>(shape.rows * shape.cols * tokens)};
}

Cost LayerCost(const StepPlan& plan, const StepLayer& layer, KvFormat format, size_t depth, size_t tokens,
               size_t d_rot) {
  Cost cost{.bytes_read = 4 * static_cast<double>(layer.VectorElements(plan.d_model))};
  if (layer.qkv) {
    cost = cost + MatrixCost(*layer.qkv, tokens);
  } else {
    for (const MatrixShape* shape : {&layer.q, &layer.k, &layer.v}) cost = cost + MatrixCost(*shape, tokens);
  }
  for (const MatrixShape* shape : {&layer.o, &layer.gate, &layer.up, &layer.down}) {
    cost = cost + MatrixCost(*shape, tokens);
  }
  if (layer.rotated) {
    cost = cost + QkRotationCost({.n = tokens,
                                  .n_heads = layer.n_heads,
                                  .n_kv_heads = layer.n_kv_heads,
                                  .d_head = layer.d_head_k,
                                  .d_rot = d_rot});
  }
  const KvShape shape = layer.CacheShape(format);
  cost = cost + KvAppendCost(shape, tokens, false);
  const KvCache empty(shape, kKvTile);
  AttentionBias bias;
  bias.window = layer.window;
  if (tokens == 1) {
    const DecodeAttention call{.cache = &empty, .n_heads = layer.n_heads, .position = depth, .bias = bias};
    return cost + DecodeAttentionCost(call, static_cast<double>(VisibleTokens(call, depth + 1)));
  }
  const PrefillAttention call{
      .cache = &empty, .n_heads = layer.n_heads, .n_q = tokens, .first_position = depth, .bias = bias};
  // Queries and results stay in caches; a window's keys before it are not read.
  const size_t keys = layer.window == 0 ? depth + tokens : std::min(depth + tokens, layer.window + tokens);
  return cost + Cost{.bytes_read = static_cast<double>(keys) * shape.BytesPerToken(),
                     .flops = PrefillAttentionCost(call, depth + tokens).flops};
}

Cost StepCost(const StepPlan& plan, KvFormat format, size_t depth, size_t tokens) {
  const auto n = static_cast<double>(tokens), d_model = static_cast<double>(plan.d_model);
  size_t d_rot = 0;
  if (plan.rotation) {
    d_rot = 2 * FrequenciesOf(plan.rotation->parameters, {1, 1}, RopeSemantics::kHf).inv_freq.size();
  }
  Cost cost{.bytes_read = n * static_cast<double>(WeightRowBytes(plan.embedding.dtype, plan.d_model)),
            .bytes_written = 4 * n * d_model};
  if (plan.learned_positions || plan.sinusoidal) {
    cost = cost + Cost{.bytes_read = 8 * n * d_model, .bytes_written = 4 * n * d_model, .flops = n * d_model};
  }
  for (const StepLayer& layer : plan.layers) {
    cost = cost + LayerCost(plan, layer, format, depth, tokens, d_rot);
  }
  return cost + MatrixCost(plan.head, 1) + Cost{.bytes_read = 4 * d_model};
}

}  // namespace

Cost DecodeStepCost(const StepPlan& plan, KvFormat format, size_t depth) {
  return StepCost(plan, format, depth, 1);
}

Cost PrefillStepCost(const StepPlan& plan, KvFormat format, size_t depth, size_t count) {
  return StepCost(plan, format, depth, count);
}

}  // namespace ropeline
