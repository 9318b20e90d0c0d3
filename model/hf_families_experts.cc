// Mixtures of experts with plain attention.
#include "model/hf_experts.h"
#include "model/hf_family.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

// A correction of the router's scores per expert, as DeepSeek-V3 has.
void RouterBias(const HfConfig&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    if (layer.layer.ffn.kind == FfnKind::kMoe) layer.ffn.router_elements = layer.layer.ffn.n_experts;
  }
}

// Biases everywhere, a sink per head, the router and the experts included.
void GptOss(const HfConfig& config, Blueprint* model) {
  RouterBias(config, model);
  for (LayerPlan& layer : model->layers) {
    layer.layer.self.sinks = true;
    layer.other_elements += layer.layer.self.n_heads;
    layer.ffn.expert_bias = true;
  }
}

// Llama 4: chunked layers rotate, every fourth is full and has no position (an empty no_rope_layers means
// that too; 1 is for a layer that rotates). intermediate_size is of an expert and of the shared one,
// intermediate_size_mlp of dense layers.
void Llama4(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  constexpr HfKey kList{"no_rope_layers", 0, 1};
  const auto list = config.Find(kList);
  std::vector<uint64_t> rotates;
  if (list && !list->Items().empty()) {
    rotates = *config.FindCounts(kList, n);
  } else {
    const uint64_t interval = config.CountOr({"no_rope_layer_interval", 1, kMostLayers}, 4);
    for (size_t i = 0; i < n; ++i) rotates.push_back((i + 1) % interval != 0 ? 1 : 0);
  }
  const auto chunk = config.FindCount(kHfChunk);
  const uint64_t dense = config.CountOr({"intermediate_size_mlp", 1, kMostWidth}, config.Count(kHfFfn));
  for (size_t i = 0; i < n; ++i) {
    Layer& layer = model->layers[i].layer;
    if (rotates[i] != 0 && chunk && layer.self.kind == AttentionKind::kFull &&
        *chunk < model->llm.max_context.value_or(kMostTokens)) {
      layer.self.kind = AttentionKind::kChunked;
      layer.self.window = *chunk;
    }
    if (layer.ffn.kind == FfnKind::kMoe) {
      layer.ffn.n_shared = 1;
      layer.ffn.shared_width = layer.ffn.expert_width;
    } else {
      layer.ffn.width = dense;
    }
  }
  DropPositions(model, [&](size_t i) { return rotates[i] == 0; });
}

// MiMo-V2: hybrid_layer_pattern has 0 for a full layer and 1 for a window, whose heads, widths and base are
// keys of their own; a sink per head where the file says so.
void MiMoV2(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  constexpr HfKey kPattern{"hybrid_layer_pattern", 0, 1};
  const auto pattern = config.FindCounts(kPattern, n);
  if (!pattern) config.Missing(kPattern, "0 (full) or 1 (window) for every layer");
  RouterBias(config, model);
  for (size_t i = 0; i < n; ++i) {
    const bool slides = (*pattern)[i] != 0;
    LayerPlan& layer = model->layers[i];
    Attention& self = layer.layer.self;
    const HfFlag sink{slides ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias", false};
    if (slides) {
      self.kind = AttentionKind::kWindow;
      self.window = config.Count(kHfWindow);
      self.n_heads = config.CountOr({"swa_num_attention_heads", 1, kMostHeads}, self.n_heads);
      self.n_kv_heads = config.CountOr({"swa_num_key_value_heads", 1, kMostHeads}, self.n_kv_heads);
      self.d_head_k = config.CountOr({"swa_head_dim", 1, kMostWidth}, self.d_head_k);
      self.d_head_v = config.CountOr({"swa_v_head_dim", 1, kMostWidth}, self.d_head_v);
      const double theta = config.FindNumber({"swa_rope_theta"}).value_or(self.position.rope_theta());
      self.position = PlainRope(self.position, theta);
      self.position.rope.d_head = self.d_head_k;
    }
    self.sinks = config.Is(sink);
    if (self.sinks) layer.other_elements += self.n_heads;
  }
}

// Grok 2 has a dense feed-forward beside the experts.
void Grok(const HfConfig& config, Blueprint* model) {
  if (!config.Is({"residual_moe", false})) return;
  for (LayerPlan& layer : model->layers) layer.layer.ffn.width = config.Count(kHfFfn);
}

// Arctic: layers with experts have a dense feed-forward of d_model beside them, behind a norm of its own.
void Arctic(const HfConfig& config, Blueprint* model) {
  if (!config.Is({"parallel_attn_mlp_res", false})) return;
  for (LayerPlan& layer : model->layers) {
    if (layer.layer.ffn.kind != FfnKind::kMoe) continue;
    layer.layer.ffn.width = model->llm.d_model;
    layer.norm_elements += model->llm.d_model;
  }
}

// Ling: the newer ones correct the router's scores; the linear ones attend in one layer of a group.
void Bailing(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kGroup{"layer_group_size", 0, kMostLayers};
  if (config.CountOr(kGroup, 1) > 1) {
    throw BadInput(config.Find(kGroup)->where(), "tells of linear attention, which is not read here",
                   "attention in every layer");
  }
  if (config.Is({"moe_router_enable_expert_bias", false})) RouterBias(config, model);
}

constexpr const char* kMixtral =
    R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,"num_local_experts":8,
        "num_experts_per_tok":2})";
constexpr const char* kQwen2Moe =
    R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,
        "num_attention_heads":16,"num_key_value_heads":16,"max_position_embeddings":32768,"sliding_window":4096,
        "max_window_layers":28,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,
        "num_local_experts":60,"num_experts_per_tok":4})";
constexpr const char* kQwen3Moe =
    R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":24,
        "num_attention_heads":32,"num_key_value_heads":4,"max_position_embeddings":32768,"sliding_window":4096,
        "max_window_layers":28,"moe_intermediate_size":768,"num_local_experts":128,"num_experts_per_tok":8})";
constexpr const char* kGptOss =
    R"({"vocab_size":201088,"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":36,
        "num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"max_position_embeddings":131072,
        "sliding_window":128,"num_local_experts":128,"num_experts_per_tok":4})";
constexpr const char* kLlama4 =
    R"({"vocab_size":202048,"hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,
        "num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
        "max_position_embeddings":131072,"num_local_experts":16,"num_experts_per_tok":1,
        "attention_chunk_size":8192})";
constexpr const char* kGlm4Moe =
    R"({"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":131072,"first_k_dense_replace":1,
        "n_shared_experts":1,"partial_rotary_factor":0.5})";

constexpr HfFamily kFamilies[] = {
    {"mixtral", "MixtralFor", kMixtral, {.theta = 1e6, .windows = WindowRule::kAll}},
    {"qwen2_moe",
     "Qwen2MoeFor",
     kQwen2Moe,
     {.qkv_bias = kHfYes, .o_bias = kHfNo, .windows = WindowRule::kQwen, .shared_router = true}},
    {"qwen3_moe qwen3_vl_moe_text qwen3_omni_moe_text",
     "Qwen3MoeFor",
     kQwen3Moe,
     {.qk_norm = QkNorm::kHead, .windows = WindowRule::kQwen}},
    {"gpt_oss",
     "GptOssFor",
     kGptOss,
     {.qkv_bias = {"attention_bias", true},
      .o_bias = {"attention_bias", true},
      .theta = 150000,
      .windows = WindowRule::kEven},
     GptOss},
    {"llama4_text llama4", "Llama4For", kLlama4, {.encoding = "rope_interleaved", .theta = 5e5}, Llama4},
    {"dbrx",
     "DbrxFor",
     R"({"max_position_embeddings":2048})",
     {.fused_qkv = true, .qkv_bias = kHfNo, .o_bias = kHfNo}},
    {"olmoe", "OlmoeFor", R"({"num_local_experts":64,"num_experts_per_tok":8})", {.qk_norm = QkNorm::kWidth}},
    {"granitemoe granitemoeshared", "GraniteMoeFor GraniteMoeSharedFor",
     R"({"max_position_embeddings":2048,"num_local_experts":8,"num_experts_per_tok":2})"},
    {"deepseek", "DeepseekFor", R"({"max_position_embeddings":2048})"},
    {"glm4_moe glm4v_moe_text",
     "Glm4MoeFor",
     kGlm4Moe,
     {.qkv_bias = {"attention_bias", false},
      .o_bias = kHfNo,
      .qk_norm = QkNorm::kHead,
      .has_qk_norm = {"use_qk_norm", false},
      .ffn_bias = kHfNo},
     RouterBias},
    {"ernie4_5_moe",
     "Ernie4_5_MoeFor",
     R"({"head_dim":128,"moe_layer_start_index":1,"moe_layer_interval":1})",
     {.qkv_bias = {"use_bias", false},
      .o_bias = {"use_bias", false},
      .ffn_bias = {"use_bias", false},
      .tied = kHfTied,
      .encoding = "rope_interleaved",
      .theta = 5e5},
     RouterBias},
    {"dots1", "Dots1For", "{}", {.qk_norm = QkNorm::kHead, .windows = WindowRule::kQwen}, RouterBias},
    {"bailing_moe",
     "BailingMoeFor",
     "{}",
     {.fused_qkv = true,
      .qkv_bias = {"use_qkv_bias", false},
      .o_bias = {"use_bias", false},
      .qk_norm = QkNorm::kHead,
      .has_qk_norm = {"use_qk_norm", false}},
     Bailing},
    {"bailing_moe_v2",
     "BailingMoeV2For",
     R"({"partial_rotary_factor":0.5,"first_k_dense_replace":1})",
     {.fused_qkv = true,
      .qkv_bias = {"use_qkv_bias", false},
      .o_bias = {"use_bias", false},
      .qk_norm = QkNorm::kHead,
      .has_qk_norm = {"use_qk_norm", true}},
     RouterBias},
    {"hunyuan_v1_moe hunyuan",
     "HunYuanMoEV1For HunYuanFor",
     "{}",
     {.qk_norm = QkNorm::kHead, .has_qk_norm = {"use_qk_norm", true}}},
    {"minimax_m2",
     "MiniMaxM2For",
     "{}",
     {.qk_norm = QkNorm::kWidth, .has_qk_norm = {"use_qk_norm", true}},
     RouterBias},
    {"mimo_v2_flash mimo_v2", "MiMoV2", "{}", {}, MiMoV2},
    {"grok-1", "Grok1ModelFor", R"({"max_position_embeddings":8192})", {.norms = 4, .tied = kHfTied}, Grok},
    {"grok-2", "Grok1For", R"({"max_position_embeddings":8192})", {.norms = 4}, Grok},
    {"arctic",
     "ArcticFor",
     R"({"max_position_embeddings":4096,"num_local_experts":8,"num_experts_per_tok":1,"decoder_sparse_step":2})",
     {.theta = 1e6},
     Arctic},
};

}  // namespace

std::span<const HfFamily> ExpertFamilies() { return kFamilies; }

}  // namespace ropeline
