// Multi-head latent attention: DeepSeek V2 and V3, Kimi K2, MiniCPM3, GLM-4.7-Flash.
#include "model/hf_family.h"

namespace ropeline {
namespace {

// V3 corrects the router's scores by a bias per expert (topk_method noaux_tc). The layer of multi-token
// prediction is not part of the model that runs.
void DeepSeek(const HfConfig& config, Blueprint* model) {
  const auto method = config.text().FindString("topk_method");
  const std::string type = config.ModelType();
  const bool corrected = method ? *method == "noaux_tc" : type != "deepseek_v2";
  for (LayerPlan& layer : model->layers) {
    Position& position = layer.layer.self.position;
    if (layer.layer.self.kind != AttentionKind::kMla) position.encoding = "rope_half";  // use_mla: false
    if (corrected && layer.layer.ffn.kind == FfnKind::kMoe)
      layer.ffn.router_elements = layer.layer.ffn.n_experts;
  }
  if (config.CountOr({"num_nextn_predict_layers", 0, kMostLayers}, 0) > 0) {
    model->llm.warnings.emplace_back("the layers of multi-token prediction are not counted");
  }
}

// V3.2 picks keys by an indexer with a cache of its own, one head of index_head_dim per token.
void DeepSeek32(const HfConfig& config, Blueprint* model) {
  DeepSeek(config, model);
  const uint64_t heads = config.Count({"index_n_heads", 1, kMostHeads});
  const uint64_t width = config.Count({"index_head_dim", 1, kMostWidth}), d_model = model->llm.d_model;
  for (LayerPlan& layer : model->layers) {
    const uint64_t q_rank = layer.layer.self.latent.q_lora_rank;
    layer.matrices.insert(layer.matrices.end(), {{MatrixRole::kProjection, heads * width, q_rank},
                                                 {MatrixRole::kProjection, width, d_model},
                                                 {MatrixRole::kProjection, heads, d_model}});
    layer.other_elements += 2 * width;
  }
  model->llm.warnings.emplace_back(
      "the indexer's keys, " + std::to_string(width) +
      " elements per token and layer, are beside the cache and not counted in it");
}

constexpr const char* kV3 =
    R"({"vocab_size":129280,"max_position_embeddings":4096,"first_k_dense_replace":3})";

constexpr HfFamily kFamilies[] = {
    {"deepseek_v2",
     "DeepseekV2For",
     R"({"max_position_embeddings":2048})",
     {.encoding = "rope_interleaved"},
     DeepSeek},
    {"deepseek_v3 kimi_k2", "DeepseekV3For", kV3, {.encoding = "rope_interleaved"}, DeepSeek},
    {"deepseek_v32 glm_moe_dsa", "DeepseekV32For", kV3, {.encoding = "rope_interleaved"}, DeepSeek32},
    {"glm4_moe_lite",
     "Glm4MoeLiteFor",
     R"({"first_k_dense_replace":1})",
     {.encoding = "rope_interleaved"},
     DeepSeek},
    {"minicpm3", "MiniCPM3For", R"({"max_position_embeddings":2048})", {.tied = kHfTied}},
};

}  // namespace

std::span<const HfFamily> LatentFamilies() { return kFamilies; }

}  // namespace ropeline
