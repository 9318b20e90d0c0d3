// A model of two layers for tests of the executed step.
#ifndef ROPELINE_BENCH_STEP_TINY_LLM_H_
#define ROPELINE_BENCH_STEP_TINY_LLM_H_

#include <string>

#include "model/blueprint.h"

namespace ropeline {

struct TinyLlm {
  uint64_t d_model = 64, n_heads = 4, n_kv_heads = 2, d_head = 16, d_ffn = 96, vocabulary = 97;
  std::string encoding = "rope_half";
  uint64_t d_rot = 0;  // 0: the whole head
  RopeType schedule = RopeType::kDefault;
  bool qkv_bias = false, o_bias = false, qk_norm = false, fused_qkv = false, tied = false;
  uint64_t window = 0;

  Llm Make() const {
    Blueprint model;
    Llm& llm = model.llm;
    llm.name = "tiny";
    llm.d_model = d_model;
    llm.vocabulary = vocabulary;
    llm.tied_embeddings = tied;
    LayerPlan layer;
    Attention& attention = layer.layer.self;
    attention.kind = window != 0 ? AttentionKind::kWindow : AttentionKind::kFull;
    attention.window = window;
    attention.n_heads = n_heads;
    attention.n_kv_heads = n_kv_heads;
    attention.d_head_k = attention.d_head_v = d_head;
    if (encoding == "learned" || encoding == "sinusoidal") {
      llm.input_position.encoding = encoding;
      if (encoding == "learned") model.matrices.push_back({MatrixRole::kPositionTable, 128, d_model});
    } else if (encoding == "rope_half" || encoding == "rope_interleaved") {
      attention.position = RotaryPosition(encoding.c_str(), 1e4, d_head, d_rot != 0 ? d_rot : d_head);
      attention.position.rope.type = schedule;
      attention.position.rope.factor = schedule == RopeType::kDefault ? 1 : 4;
      attention.position.rope.factor_given = schedule != RopeType::kDefault;
      attention.position.rope.original_context = 32;
    } else {
      attention.position.encoding = encoding;
    }
    layer.layer.ffn = {FfnKind::kGated, d_ffn};
    layer.self.fused_qkv = fused_qkv;
    layer.self.q_bias = layer.self.k_bias = layer.self.v_bias = qkv_bias;
    layer.self.o_bias = o_bias;
    if (qk_norm) layer.self.q_norm = layer.self.k_norm = d_head;
    layer.norm_elements = 2 * d_model;
    model.layers = {layer, layer};
    if (encoding == "t5_bias") model.layers[0].matrices.push_back({MatrixRole::kRelativeBias, 32, n_heads});
    model.other_elements = d_model;
    return Assemble(model, "tiny");
  }
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_TINY_LLM_H_
