// Llama and what is built like it: a norm before attention and one before the feed-forward, rotary halves.
#include "model/hf_family.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

// Layers 3, 7, 11 … have no position: no_rope_layers has 1 for a layer that rotates; an empty list and an
// absent one mean every no_rope_layer_interval-th.
void SmolLm3(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  constexpr HfKey kList{"no_rope_layers", 0, 1};
  const auto list = config.Find(kList);
  if (list && !list->Items().empty()) {
    const auto rotates = *config.FindCounts(kList, n);
    return DropPositions(model, [&](size_t i) { return rotates[i] == 0; });
  }
  const uint64_t interval = config.CountOr({"no_rope_layer_interval", 1, kMostLayers}, 4);
  DropPositions(model, [&](size_t i) { return (i + 1) % interval == 0; });
}

// Baichuan's 13B has the 7B's model_type and ALiBi; no key says so.
void Baichuan(const HfConfig&, Blueprint* model) {
  if (model->llm.d_model != 5120 && model->layers.size() != 40) return;
  for (LayerPlan& layer : model->layers) layer.layer.self.position = {.encoding = "alibi"};
  model->llm.warnings.emplace_back("baichuan of 40 layers or width 5120 is the 13B, whose position is ALiBi");
}

// Qwen 1: intermediate_size is that of both halves of the gated feed-forward, seq_length the trained length.
void Qwen(const HfConfig& config, Blueprint* model) {
  if (const auto length = config.FindCount({"seq_length", 1, kMostTokens})) model->llm.max_context = length;
  const bool dynamic = config.Is({"use_dynamic_ntk", true});
  for (LayerPlan& layer : model->layers) {
    layer.layer.ffn.width /= 2;
    RopeParameters& rope = layer.layer.self.position.rope;
    rope.max_context = static_cast<double>(model->llm.max_context.value_or(0));
    if (!dynamic) continue;
    rope.type = RopeType::kQwenDynamic;
    rope.original_context = rope.max_context;
  }
  if (dynamic && config.Is({"use_logn_attn", true})) {
    model->llm.warnings.emplace_back(
        "use_logn_attn: beyond the trained length queries are scaled by a logarithm of the position");
  }
}

// ChatGLM 2, 3 and GLM-4 as first published: half of a head rotates, in adjacent pairs, from base
// 10000·rope_ratio; the query groups count only with multi_query_attention.
void ChatGlm(const HfConfig& config, Blueprint* model) {
  const double ratio = config.FindNumber({"rope_ratio"}).value_or(1);
  const bool grouped = config.Is({"multi_query_attention", false});
  for (LayerPlan& layer : model->layers) {
    Attention& self = layer.layer.self;
    self.position.rope.base = 10000 * ratio;
    if (!grouped) self.n_kv_heads = self.n_heads;
  }
}

// StableLM: with use_parallel_residual one norm serves both; qk_layernorm has a weight per head.
void StableLm(const HfConfig& config, Blueprint* model) {
  const bool parallel = config.Is({"use_parallel_residual", false});
  for (LayerPlan& layer : model->layers) {
    if (parallel) layer.norm_elements /= 2;
  }
}

// Two scalars of the activation per layer (xIELU).
void Apertus(const HfConfig&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) layer.other_elements += 2;
}

// BitNet norms what goes into the output of attention and of the FFN.
void BitNet(const HfConfig&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    const Attention& self = layer.layer.self;
    layer.other_elements += self.n_heads * self.d_head_v + layer.layer.ffn.width;
  }
}

constexpr const char* kLlama =
    R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":2048})";
constexpr const char* kMistral =
    R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,"sliding_window":4096})";
constexpr const char* kQwen2 =
    R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":32768,"sliding_window":4096,
        "max_window_layers":28})";
constexpr const char* kQwen3 =
    R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,"max_position_embeddings":32768,
        "sliding_window":4096,"max_window_layers":28})";

constexpr HfFamily kFamilies[] = {
    {"llama yi Yi aquila xverse deci solar code_llama InternLM LLaMA",
     "LlamaFor LLaMAFor XverseFor YiFor AquilaFor MistralModel", kLlama},
    {"mistral pixtral ministral3 mistral4_text voxtral",
     "MistralFor",
     kMistral,
     {.windows = WindowRule::kAll}},
    {"ministral", "MinistralFor", kMistral, {.windows = WindowRule::kAll}},
    {"qwen",
     "QWenLMHeadModel",
     "{}",
     {.fused_qkv = true, .qkv_bias = kHfYes, .o_bias = kHfNo, .ffn_bias = kHfNo},
     Qwen},
    {"qwen2 qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text mimo dream",
     "Qwen2For Qwen2VLFor Qwen2_5_VLFor",
     kQwen2,
     {.qkv_bias = kHfYes, .o_bias = kHfNo, .windows = WindowRule::kQwen}},
    {"qwen3 qwen3_vl_text", "Qwen3For", kQwen3, {.qk_norm = QkNorm::kHead, .windows = WindowRule::kQwen}},
    {"baichuan",
     "BaichuanFor BaiChuanFor",
     R"({"max_position_embeddings":4096})",
     {.qkv_bias = kHfNo, .o_bias = kHfNo},
     Baichuan},
    {"internlm", "InternLMFor", kLlama, {.qkv_bias = {"bias", true}, .o_bias = {"bias", true}}},
    {"internlm2",
     "InternLM2For",
     R"({"max_position_embeddings":2048})",
     {.qkv_bias = {"bias", true}, .o_bias = {"bias", true}}},
    {"internlm3",
     "InternLM3For",
     R"({"max_position_embeddings":32768})",
     {.qkv_bias = {"qkv_bias", false}, .o_bias = {"bias", false}, .ffn_bias = {"bias", false}}},
    {"minicpm", "MiniCPMFor", R"({"max_position_embeddings":2048})", {.tied = kHfTied}},
    {"smollm3",
     "SmolLM3For",
     R"({"max_position_embeddings":32768,"num_key_value_heads":4})",
     {.tied = kHfTied, .theta = 2e6, .windows = WindowRule::kQwen},
     SmolLm3},
    {"granite", "GraniteFor", R"({"max_position_embeddings":2048})"},
    {"exaone", "ExaoneFor", R"({"max_position_embeddings":2048})"},
    {"seed_oss",
     "SeedOssFor",
     R"({"head_dim":128,"num_key_value_heads":8})",
     {.qkv_bias = {"attention_bias", true}, .o_bias = {"attention_out_bias", false}}},
    {"helium", "HeliumFor", R"({"head_dim":128})", {.encoding = "rope_interleaved", .theta = 1e5}},
    {"ernie4_5",
     "Ernie4_5For Ernie4_5_For",
     R"({"head_dim":128})",
     {.qkv_bias = {"use_bias", false},
      .o_bias = {"use_bias", false},
      .ffn_bias = {"use_bias", false},
      .tied = kHfTied,
      .encoding = "rope_interleaved",
      .theta = 5e5}},
    {"hunyuan_v1_dense",
     "HunYuanDenseV1For",
     "{}",
     {.qk_norm = QkNorm::kHead,
      .has_qk_norm = {"use_qk_norm", true},
      .tied = {"tie_word_embeddings", false}}},
    {"chatglm",
     "ChatGLM",
     R"({"seq_length":2048})",
     {.fused_qkv = true,
      .qkv_bias = {"add_qkv_bias add_bias_linear", false},
      .o_bias = {"add_bias_linear", false},
      .ffn_bias = {"add_bias_linear", false},
      .encoding = "rope_interleaved",
      .rotary_share = 0.5},
     ChatGlm},
    {"glm",
     "GlmFor",
     R"({"head_dim":128,"num_key_value_heads":2,"max_position_embeddings":131072})",
     {.qkv_bias = {"attention_bias", false},
      .o_bias = kHfNo,
      .ffn_bias = kHfNo,
      .encoding = "rope_interleaved",
      .rotary_share = 0.5}},
    {"glm4 glm4v_text",
     "Glm4For",
     R"({"head_dim":128,"num_key_value_heads":2,"max_position_embeddings":131072})",
     {.norms = 4,
      .qkv_bias = {"attention_bias", false},
      .o_bias = kHfNo,
      .ffn_bias = kHfNo,
      .encoding = "rope_interleaved",
      .rotary_share = 0.5}},
    {"orion", "OrionFor", "{}", {.norm = NormForm::kWeightAndBias}},
    {"stablelm stablelm_epoch",
     "StableLmFor StableLMEpochFor",
     R"({"vocab_size":50304,"hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":32,"max_position_embeddings":4096})",
     {.norm = NormForm::kWeightAndBias,
      .qkv_bias = {"use_qkv_bias", false},
      .o_bias = kHfNo,
      .qk_norm = QkNorm::kWidth,
      .has_qk_norm = {"qk_layernorm", false},
      .rotary_share = 0.25},
     StableLm},
    {"nemotron",
     "NemotronFor",
     R"({"max_position_embeddings":4096})",
     {.norm = NormForm::kWeightAndBias, .gated = false, .rotary_share = 0.5}},
    {"bitnet",
     "BitNetFor BitnetFor",
     R"({"vocab_size":128256,"hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":30,
         "num_attention_heads":20,"num_key_value_heads":5,"max_position_embeddings":2048})",
     {.tied = kHfTied, .theta = 500000},
     BitNet},
    {"arcee", "ArceeFor", "{}", {.gated = false}},
    {"apertus", "ApertusFor", "{}", {.qk_norm = QkNorm::kHead, .gated = false, .theta = 12e6}, Apertus},
    {"olmo hf_olmo",
     "OlmoFor OLMo",
     R"({"vocab_size":50304,"max_position_embeddings":2048})",
     {.norm = NormForm::kNone}},
    {"olmo2",
     "Olmo2For",
     R"({"vocab_size":50304,"max_position_embeddings":2048})",
     {.qk_norm = QkNorm::kWidth}},
    {"cohere",
     "CohereFor",
     R"({"max_position_embeddings":8192})",
     {.norms = 1,
      .qk_norm = QkNorm::kWidth,
      .has_qk_norm = {"use_qk_norm", false},
      .tied = kHfTied,
      .encoding = "rope_interleaved"}},
};

}  // namespace

std::span<const HfFamily> LlamaFamilies() { return kFamilies; }

}  // namespace ropeline
