// From what a config says of each layer to the matrices and vectors that the layer has. A reader fills a
// Blueprint; Assemble makes the Llm whose totals are sums over them.
#ifndef ROPELINE_MODEL_BLUEPRINT_H_
#define ROPELINE_MODEL_BLUEPRINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/bad_input.h"
#include "model/llm.h"

namespace ropeline {

// What an attention has beside the widths in Attention.
struct AttentionPlan {
  bool fused_qkv = false;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  uint64_t q_norm = 0, k_norm = 0;  // elements
  uint64_t gate_rows = 0;           // rows of a gate on the output, from the layer's input
  bool has_k = true, has_v = true;  // false: no such matrix (another layer's K and V, or V = K)
};

struct FfnPlan {
  bool gated = true;  // three matrices instead of two: the dense form, and that of each expert
  bool bias = false;
  bool expert_bias = false;
  uint64_t router_elements = 0;  // biases and scales of the router
  bool shared_router = false;    // a gate of one row on the shared expert
};

struct LayerPlan {
  Layer layer{};
  AttentionPlan self{}, cross{};
  FfnPlan ffn{};
  uint64_t norm_elements = 0;
  uint64_t other_elements = 0;     // vectors
  std::vector<Matrix> matrices{};  // others; `layer` is set by Assemble
};

struct Blueprint {
  Llm llm{};  // names, sizes and limits; layers, matrices and vectors are Assemble's
  std::vector<LayerPlan> layers{};
  uint64_t embedding_width = 0;  // 0: d_model
  uint64_t other_elements = 0;   // norms and vectors outside layers
  bool has_head = true;
  uint64_t head_bias_elements = 0;
  std::vector<Matrix> matrices{};  // others outside layers
};

// Throws BadInput, which names `file`, where the parts do not fit: heads that do not divide, a rotation wider
// than its head, K and V shared in a circle or with a layer that has none, no layers, sizes beyond 2^60, a
// cache beyond 2^28 elements per token.
Llm Assemble(const Blueprint& blueprint, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_BLUEPRINT_H_
