#include "model/hf_recurrent.h"

namespace ropeline {
namespace {

void AddMatrices(std::vector<Matrix> matrices, LayerPlan* layer) {
  layer->matrices.insert(layer->matrices.end(), matrices.begin(), matrices.end());
}

}  // namespace

void AddMamba(const MambaShape& s, uint64_t d_model, LayerPlan* layer) {
  layer->layer.recurrent = {"mamba", s.d_inner * s.d_state, s.d_inner * s.d_conv};
  AddMatrices({{MatrixRole::kRecurrentIn, 2 * s.d_inner, d_model},
               {MatrixRole::kRecurrentConv, s.d_inner, s.d_conv},
               {MatrixRole::kRecurrentParameters, s.dt_rank + 2 * s.d_state, s.d_inner},
               {MatrixRole::kRecurrentParameters, s.d_inner, s.dt_rank},
               {MatrixRole::kRecurrentOut, d_model, s.d_inner}},
              layer);
  layer->other_elements += s.d_inner * s.d_state + 2 * s.d_inner;  // A, D and the bias of dt
  if (s.conv_bias) layer->other_elements += s.d_inner;
  if (s.bias) layer->other_elements += 2 * s.d_inner + d_model;
  if (s.norms) layer->other_elements += s.dt_rank + 2 * s.d_state;
}

void AddMamba2(const Mamba2Shape& s, uint64_t d_model, LayerPlan* layer) {
  const uint64_t d_inner = s.n_heads * s.d_head, channels = d_inner + 2 * s.n_groups * s.d_state;
  const uint64_t in_rows = d_inner + channels + s.n_heads;  // gate, convolved, dt
  layer->layer.recurrent = {"mamba2", d_inner * s.d_state, channels * s.d_conv};
  AddMatrices({{MatrixRole::kRecurrentIn, in_rows, d_model},
               {MatrixRole::kRecurrentConv, channels, s.d_conv},
               {MatrixRole::kRecurrentOut, d_model, d_inner}},
              layer);
  layer->other_elements += 3 * s.n_heads + (s.norm ? d_inner : 0);  // A, D and the bias of dt per head
  if (s.conv_bias) layer->other_elements += channels;
  if (s.bias) layer->other_elements += in_rows + d_model;
}

void AddDeltaNet(const DeltaNetShape& s, uint64_t d_model, LayerPlan* layer) {
  const uint64_t d_keys = s.n_k_heads * s.d_k, d_values = s.n_v_heads * s.d_v,
                 channels = 2 * d_keys + d_values;
  layer->layer.recurrent = {"gated_delta_net", s.n_v_heads * s.d_k * s.d_v, channels * s.d_conv};
  AddMatrices({{MatrixRole::kRecurrentIn, channels + d_values, d_model},
               {MatrixRole::kRecurrentParameters, 2 * s.n_v_heads, d_model},
               {MatrixRole::kRecurrentConv, channels, s.d_conv},
               {MatrixRole::kRecurrentOut, d_model, d_values}},
              layer);
  layer->other_elements += 2 * s.n_v_heads + s.d_v;  // A, the bias of dt, a norm over one head
}

void AddShortConv(uint64_t d_conv, bool bias, uint64_t d_model, LayerPlan* layer) {
  layer->layer.recurrent = {"short_conv", 0, d_model * d_conv};
  AddMatrices({{MatrixRole::kRecurrentIn, 3 * d_model, d_model},
               {MatrixRole::kRecurrentConv, d_model, d_conv},
               {MatrixRole::kRecurrentOut, d_model, d_model}},
              layer);
  if (bias) layer->other_elements += 5 * d_model;
}

void AddLightning(uint64_t n_heads, uint64_t d_head, uint64_t d_model, LayerPlan* layer) {
  const uint64_t d_inner = n_heads * d_head;
  layer->layer.recurrent = {"lightning", d_inner * d_head, 0};
  AddMatrices(
      {{MatrixRole::kRecurrentIn, 4 * d_inner, d_model}, {MatrixRole::kRecurrentOut, d_model, d_inner}},
      layer);
  layer->other_elements += d_inner;  // a norm over all heads
}

}  // namespace ropeline
