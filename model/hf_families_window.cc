// Families whose layers see windows by a pattern of their own: Gemma 2 to 4, OLMo 3, EXAONE 4, Cohere 2,
// Phi-3.
#include <algorithm>

#include "model/hf_family.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

bool IsWindow(const LayerPlan& layer) { return layer.layer.self.kind == AttentionKind::kWindow; }

// Transformers 4 files of Gemma 3 give one schedule, for global layers; local ones turn from a base of their
// own, unscaled. A factor without an original length is not of the file's length: 27B trained at 32k.
void Gemma3(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kLocalBase{"rope_local_base_freq"};
  const bool nested = HasRopeByLayerType(config);
  for (LayerPlan& layer : model->layers) {
    Position& position = layer.layer.self.position;
    if (position.rope.type == RopeType::kLinear && !config.Given(kHfOriginalContext))
      position.rope.original_context = 0;
    if (IsWindow(layer) && !nested)
      position = PlainRope(position, config.FindNumber(kLocalBase).value_or(10000));
  }
}

// One row per token for every layer, added through a gate: Gemma 3n and 4.
void PerLayerEmbedding(const HfConfig& config, Blueprint* model) {
  const uint64_t width = config.CountOr({"hidden_size_per_layer_input", 0, kMostWidth}, 0);
  if (width == 0) return;
  const uint64_t rows = config.CountOr({"vocab_size_per_layer_input", 1}, model->llm.vocabulary);
  const uint64_t d_model = model->llm.d_model, all = width * model->layers.size();
  model->matrices.push_back({MatrixRole::kPerLayerEmbedding, rows, all});
  model->matrices.push_back({MatrixRole::kProjection, all, d_model});
  model->other_elements += width;
  for (LayerPlan& layer : model->layers) {
    layer.matrices.push_back({MatrixRole::kProjection, width, d_model});
    layer.matrices.push_back({MatrixRole::kProjection, d_model, width});
    layer.norm_elements += d_model;
  }
  model->llm.warnings.emplace_back(
      "per-layer embeddings are counted as parameters; a step reads one row of them per token");
}

// Alternating updates of altup_num_inputs streams and a low-rank residual beside each attention.
void Gemma3n(const HfConfig& config, Blueprint* model) {
  Gemma3(config, model);
  PerLayerEmbedding(config, model);
  ShareLastLayers(config, model);
  const uint64_t streams = config.CountOr({"altup_num_inputs", 1, 64}, 4);
  const uint64_t rank = config.CountOr({"laurel_rank", 1, kMostWidth}, 64), d_model = model->llm.d_model;
  const auto widths = config.Find(kHfFfn);
  for (size_t i = 0; i < model->layers.size(); ++i) {
    LayerPlan& layer = model->layers[i];
    if (widths && widths->is_array()) {
      layer.layer.ffn.width = config.FindCounts(kHfFfn, model->layers.size())->at(i);
    }
    layer.matrices.insert(layer.matrices.end(), {{MatrixRole::kProjection, rank, d_model},
                                                 {MatrixRole::kProjection, d_model, rank},
                                                 {MatrixRole::kProjection, streams, d_model},
                                                 {MatrixRole::kProjection, streams, streams},
                                                 {MatrixRole::kProjection, streams * streams, streams}});
    layer.norm_elements += 3 * d_model;  // after the low-rank residual, before the streams' router, its scale
  }
  model->matrices.push_back({MatrixRole::kProjection, d_model, d_model, 2 * (streams - 1)});
}

// Full layers are wider (global_head_dim), may have KV heads of their own and V = K; the last layers share K
// and V and may have a feed-forward twice as wide; experts run beside the dense feed-forward.
void Gemma4(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kWide{"global_head_dim", 1, kMostWidth},
      kWideKv{"num_global_key_value_heads", 1, kMostHeads};
  const uint64_t wide = config.CountOr(kWide, 512), d_model = model->llm.d_model;
  const bool k_is_v = config.Is({"attention_k_eq_v", false});
  const bool given = HasRopeByLayerType(config);
  for (LayerPlan& layer : model->layers) {
    layer.other_elements += 1;  // the layer's scale
    Attention& self = layer.layer.self;
    if (!given) self.position = PlainRope(self.position, IsWindow(layer) ? 1e4 : 1e6);
    if (IsWindow(layer)) continue;
    self.d_head_k = self.d_head_v = wide;
    layer.self.q_norm = layer.self.k_norm = wide;
    if (k_is_v) {
      self.n_kv_heads = config.CountOr(kWideKv, self.n_kv_heads);
      layer.self.has_v = false;
    }
    const double share =
        given && self.position.rope.d_head > 0
            ? static_cast<double>(self.position.rope.d_rot) / static_cast<double>(self.position.rope.d_head)
            : 0.25;
    self.position.rope.type = RopeType::kProportional;
    self.position.rope.d_head = wide;
    self.position.rope.d_rot = static_cast<uint64_t>(static_cast<double>(wide) * share);
  }
  ShareLastLayers(config, model);
  if (config.Is({"use_double_wide_mlp", false})) {
    for (LayerPlan& layer : model->layers) {
      if (layer.layer.self.shares_kv_with >= 0) layer.layer.ffn.width *= 2;
    }
  }
  for (LayerPlan& layer : model->layers) {
    FeedForward& ffn = layer.layer.ffn;
    if (ffn.kind != FfnKind::kMoe) continue;
    ffn.width = config.Count(kHfFfn);
    layer.norm_elements += 3 * d_model;
    layer.ffn.router_elements = d_model + ffn.n_experts;
  }
  PerLayerEmbedding(config, model);
}

// Global layers have no position.
void NoGlobalPosition(const HfConfig&, Blueprint* model) {
  if (std::none_of(model->layers.begin(), model->layers.end(), IsWindow)) return;
  DropPositions(model, [&](size_t i) { return !IsWindow(model->layers[i]); });
}

// The pattern may be a text of L (local) and G (global). Without windows every layer has a position.
void Exaone4(const HfConfig& config, Blueprint* model) { NoGlobalPosition(config, model); }

// yarn extends the global layers only.
void Olmo3(const HfConfig& config, Blueprint* model) {
  if (HasRopeByLayerType(config)) return;
  for (LayerPlan& layer : model->layers) {
    Position& position = layer.layer.self.position;
    if (IsWindow(layer)) position = PlainRope(position, position.rope_theta());
  }
}

// Fused QKV and gate with up, every linear with a bias; the block-sparse layers keep all keys and values.
void Phi3Small(const HfConfig& config, Blueprint* model) {
  if (config.Given({"dense_attention_every_n_layers"})) {
    model->llm.warnings.emplace_back(
        "block-sparse layers keep every key and value; their reads are counted as full attention");
  }
}

constexpr const char* kGemma =
    R"({"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
        "num_attention_heads":16,"num_key_value_heads":16,"head_dim":256,"max_position_embeddings":8192})";
constexpr const char* kGemma2 =
    R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":8192,
        "sliding_window":4096})";
constexpr const char* kGemma3 =
    R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,
        "sliding_window":4096,"sliding_window_pattern":6,"rope_theta":1000000,"rope_local_base_freq":10000})";
constexpr const char* kGemma3n =
    R"({"vocab_size":262400,"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":35,
        "num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"max_position_embeddings":32768,
        "sliding_window":512,"sliding_window_pattern":5,"rope_theta":1000000,"rope_local_base_freq":10000,
        "num_kv_shared_layers":15,"hidden_size_per_layer_input":256,"vocab_size_per_layer_input":262144})";
constexpr const char* kGemma4 =
    R"({"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,
        "sliding_window":512,"sliding_window_pattern":6,"rope_theta":1000000,"hidden_size_per_layer_input":256,
        "vocab_size_per_layer_input":262144})";
constexpr const char* kPhi3 =
    R"({"vocab_size":32064,"hidden_size":3072,"intermediate_size":8192,"num_hidden_layers":32,
        "num_attention_heads":32,"max_position_embeddings":4096})";

constexpr HfFamily kFamilies[] = {
    {"gemma", "GemmaFor", kGemma, {.tied = kHfTied}},
    {"gemma2", "Gemma2For", kGemma2, {.norms = 4, .tied = kHfTied, .windows = WindowRule::kEven}},
    {"gemma3_text gemma3",
     "Gemma3For",
     kGemma3,
     {.norms = 4, .qk_norm = QkNorm::kHead, .tied = kHfTied, .theta = 1e6, .windows = WindowRule::kAllButNth},
     Gemma3},
    {"gemma3n_text gemma3n",
     "Gemma3nFor",
     kGemma3n,
     {.norms = 4, .qk_norm = QkNorm::kHead, .tied = kHfTied, .theta = 1e6, .windows = WindowRule::kAllButNth},
     Gemma3n},
    {"gemma4_text gemma4",
     "Gemma4For",
     kGemma4,
     {.norms = 4, .qk_norm = QkNorm::kHead, .tied = kHfTied, .windows = WindowRule::kAllButNth},
     Gemma4},
    {"cohere2",
     "Cohere2For",
     R"({"max_position_embeddings":8192,"sliding_window":4096,"sliding_window_pattern":4})",
     {.norms = 1, .tied = kHfTied, .encoding = "rope_interleaved", .windows = WindowRule::kAllButNth},
     NoGlobalPosition},
    {"olmo3",
     "Olmo3For",
     R"({"vocab_size":50304,"max_position_embeddings":2048,"sliding_window":4096,
                              "sliding_window_pattern":4})",
     {.qk_norm = QkNorm::kWidth, .windows = WindowRule::kAllButNth},
     Olmo3},
    {"exaone4",
     "Exaone4For",
     R"({"sliding_window":4096,"sliding_window_pattern":4})",
     {.qk_norm = QkNorm::kHead, .windows = WindowRule::kAllButNth},
     Exaone4},
    {"phi3 phi4mm phi4_multimodal",
     "Phi3For Phi3V Phi4MM",
     kPhi3,
     {.fused_qkv = true, .windows = WindowRule::kAll}},
    {"phi3small",
     "Phi3SmallFor",
     R"({"vocab_size":100352,"max_position_embeddings":8192})",
     {.norm = NormForm::kWeightAndBias,
      .fused_qkv = true,
      .qkv_bias = kHfYes,
      .o_bias = kHfYes,
      .ffn_bias = kHfYes,
      .tied = kHfTied,
      .theta = 1e6},
     Phi3Small},
    {
        "phimoe",
        "PhiMoEFor PhimoeFor",
        R"({"vocab_size":32064,"hidden_size":4096,"intermediate_size":6400,"num_hidden_layers":32,
         "num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":131072,
         "num_local_experts":16,"num_experts_per_tok":2})",
        {.norm = NormForm::kWeightAndBias,
         .head_bias = {"lm_head_bias", false},
         .theta = 1e6,
         .windows = WindowRule::kAll},
    },
};

}  // namespace

std::span<const HfFamily> WindowFamilies() { return kFamilies; }

}  // namespace ropeline
