// Layers whose past is a state of constant size: what they store, keep and compute.
#ifndef ROPELINE_MODEL_HF_RECURRENT_H_
#define ROPELINE_MODEL_HF_RECURRENT_H_

#include <cstdint>

#include "model/blueprint.h"

namespace ropeline {

// Gu and Dao, "Mamba" (2023); huggingface/transformers, modeling_mamba.py and modeling_jamba.py.
struct MambaShape {
  uint64_t d_inner = 0, d_state = 0, d_conv = 0, dt_rank = 0;
  bool bias = false, conv_bias = true;
  bool norms = false;  // Jamba: on dt, B and C
};
void AddMamba(const MambaShape& shape, uint64_t d_model, LayerPlan* layer);

// Dao and Gu, "Transformers are SSMs" (2024); modeling_mamba2.py.
struct Mamba2Shape {
  uint64_t n_heads = 0, d_head = 0, d_state = 0, n_groups = 1, d_conv = 0;
  bool bias = false, conv_bias = true;
  bool norm = true;  // gated, before the output
};
void AddMamba2(const Mamba2Shape& shape, uint64_t d_model, LayerPlan* layer);

// Yang et al., "Gated Delta Networks" (2024); modeling_qwen3_next.py.
struct DeltaNetShape {
  uint64_t n_k_heads = 0, n_v_heads = 0, d_k = 0, d_v = 0, d_conv = 0;
};
void AddDeltaNet(const DeltaNetShape& shape, uint64_t d_model, LayerPlan* layer);

// LFM2's gated short convolution; modeling_lfm2.py.
void AddShortConv(uint64_t d_conv, bool bias, uint64_t d_model, LayerPlan* layer);

// MiniMax's lightning attention, Q, K, V and an output gate of all heads; modeling_minimax.py.
void AddLightning(uint64_t n_heads, uint64_t d_head, uint64_t d_model, LayerPlan* layer);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_RECURRENT_H_
