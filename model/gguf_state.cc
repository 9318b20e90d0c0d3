#include "model/gguf_layers.h"
#include "model/hf_keys.h"
#include "model/hf_recurrent.h"

namespace ropeline {
namespace {

constexpr GgufKey kConv{"ssm.conv_kernel", 1, 1024};
constexpr GgufKey kInner{"ssm.inner_size", 1, kMostWidth};
constexpr GgufKey kState{"ssm.state_size", 1, kMostWidth};
constexpr GgufKey kRank{"ssm.time_step_rank", 1, kMostWidth};
constexpr GgufKey kGroups{"ssm.group_count", 1, kMostHeads};

// Width of one of n heads of `inner`.
uint64_t HeadOf(const GgufKeys& keys, uint64_t inner, uint64_t n) {
  if (inner % n == 0) return inner / n;
  throw BadInput(keys.WhereIs(kRank.name),
                 std::to_string(n) + " heads do not divide " + std::to_string(inner),
                 "a divisor of ssm.inner_size");
}

// Kimi Delta Attention: heads with a state of kda.head_dim² each, three convolutions (Kimi Linear, 2025).
void AddKimiDelta(const GgufKeys& keys, LayerPlan* layer) {
  const uint64_t d = keys.Count({"kda.head_dim", 1, 1 << 16});
  const auto heads = keys.FindCounts({"attention.head_count", 1, kMostHeads}, 1);
  const uint64_t n = heads->front();
  layer->layer.recurrent = {"kimi_delta", n * d * d, 3 * n * d * keys.Count(kConv)};
}

// RWKV: heads of wkv.head_size with a square state each, and the last token's two inputs.
void AddRwkv(const GgufKeys& keys, uint64_t d_model, LayerPlan* layer) {
  const uint64_t head = keys.Count({"wkv.head_size", 1, 1 << 16});
  const uint64_t shifts = keys.CountOr({"token_shift_count", 1, 16}, 2);
  layer->layer.recurrent = {"rwkv", d_model * head, shifts * d_model};
}

}  // namespace

void AddGgufState(const GgufKeys& keys, StateForm form, uint64_t d_model, LayerPlan* layer) {
  switch (form) {
    case StateForm::kNone:
      break;
    case StateForm::kMamba:
      AddMamba({.d_inner = keys.Count(kInner),
                .d_state = keys.Count(kState),
                .d_conv = keys.Count(kConv),
                .dt_rank = keys.Count(kRank),
                .norms = keys.architecture() == "jamba"},
               d_model, layer);
      break;
    case StateForm::kMamba2: {
      const uint64_t n_heads = keys.Count(kRank);
      AddMamba2({.n_heads = n_heads,
                 .d_head = HeadOf(keys, keys.Count(kInner), n_heads),
                 .d_state = keys.Count(kState),
                 .n_groups = keys.CountOr(kGroups, 1),
                 .d_conv = keys.Count(kConv)},
                d_model, layer);
      break;
    }
    case StateForm::kDeltaNet: {
      const uint64_t n_values = keys.Count(kRank);
      AddDeltaNet({.n_k_heads = keys.Count(kGroups),
                   .n_v_heads = n_values,
                   .d_k = keys.Count(kState),
                   .d_v = HeadOf(keys, keys.Count(kInner), n_values),
                   .d_conv = keys.Count(kConv)},
                  d_model, layer);
      break;
    }
    case StateForm::kShortConv:
      AddShortConv(keys.Count({"shortconv.l_cache", 1, 1024}), false, d_model, layer);
      break;
    case StateForm::kKimiDelta:
      AddKimiDelta(keys, layer);
      break;
    case StateForm::kRwkv:
      AddRwkv(keys, d_model, layer);
      break;
  }
}

}  // namespace ropeline
