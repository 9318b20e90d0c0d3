// Mixtures of experts in a config.json: how many, how wide, in which layers.
#ifndef ROPELINE_MODEL_HF_EXPERTS_H_
#define ROPELINE_MODEL_HF_EXPERTS_H_

#include "model/blueprint.h"
#include "model/hf_config.h"

namespace ropeline {

// Turns the feed-forward of the layers that have experts into kMoe. `d_ffn` is the dense width: the experts'
// too where no key of their own gives it. Nothing happens where the file has no experts.
void ReadExperts(const HfConfig& config, uint64_t d_ffn, Blueprint* model);

// True for the layers that the file's keys make mixtures: first_k_dense_replace, moe_layer_freq (a step or a
// list), decoder_sparse_step, mlp_only_layers, expert_layer_period and _offset, moe_layers.
std::vector<bool> ExpertLayers(const HfConfig& config, size_t n_layers);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_EXPERTS_H_
