// Layers that differ in kind: state space models and linear attention with or without attention between them,
// searched architectures, cross attention to images.
#include <algorithm>
#include <cmath>

#include "model/hf_family.h"
#include "model/hf_recurrent.h"

namespace ropeline {
namespace {

constexpr HfKey kState{"mamba_d_state ssm_state_size state_size", 1, kMostWidth};
constexpr HfKey kConv{"mamba_d_conv conv_kernel", 1, 1024};
constexpr HfKey kExpand{"mamba_expand expand", 1, 1024};
constexpr HfKey kDtRank{"mamba_dt_rank time_step_rank", 1, kMostWidth};
constexpr HfKey kMambaHeads{"mamba_n_heads mamba_num_heads num_heads", 1, kMostHeads};
constexpr HfKey kMambaHeadDim{"mamba_d_head mamba_head_dim head_dim", 1, kMostWidth};
constexpr HfKey kMambaGroups{"mamba_n_groups n_groups", 1, kMostHeads};
constexpr HfFlag kMambaBias{"mamba_proj_bias use_bias", false};
constexpr HfFlag kConvBias{"mamba_conv_bias use_conv_bias", true};

void NoAttention(LayerPlan* layer) {
  layer->layer.self = {};
  layer->self = {};
}

MambaShape Mamba1ShapeOf(const HfConfig& config, uint64_t d_inner, uint64_t d_model) {
  const auto rank = config.Find(kDtRank);
  const uint64_t dt_rank =
      rank && !rank->is_string() ? CountIn(*rank, kDtRank) : (d_model + 15) / 16;  // "auto"
  return {.d_inner = d_inner,
          .d_state = config.Count(kState),
          .d_conv = config.Count(kConv),
          .dt_rank = dt_rank,
          .bias = config.Is(kMambaBias),
          .conv_bias = config.Is(kConvBias)};
}

// `d_inner` 0: as many as the heads say.
Mamba2Shape Mamba2ShapeOf(const HfConfig& config, uint64_t d_inner) {
  const uint64_t n_heads = config.Count(kMambaHeads);
  const auto width = config.Find(kMambaHeadDim);
  const uint64_t d_head =
      width && !width->is_string() ? CountIn(*width, kMambaHeadDim) : d_inner / n_heads;  // "auto"
  return {.n_heads = n_heads,
          .d_head = d_head,
          .d_state = config.Count(kState),
          .n_groups = config.CountOr(kMambaGroups, 1),
          .d_conv = config.Count(kConv),
          .bias = config.Is(kMambaBias),
          .conv_bias = config.Is(kConvBias)};
}

// Attention in one layer of attn_layer_period, experts in one of expert_layer_period.
void Jamba(const HfConfig& config, Blueprint* model) {
  const uint64_t period = config.Count({"attn_layer_period", 1, kMostLayers});
  const uint64_t offset = config.Count({"attn_layer_offset", 0, kMostLayers}), d_model = model->llm.d_model;
  MambaShape shape = Mamba1ShapeOf(config, config.Count(kExpand) * d_model, d_model);
  shape.norms = true;
  for (size_t i = 0; i < model->layers.size(); ++i) {
    if (i % period == offset % period) continue;
    NoAttention(&model->layers[i]);
    AddMamba(shape, d_model, &model->layers[i]);
  }
}

// Mamba and Falcon Mamba: intermediate_size is the inner width (expand misleads where both are there).
void Mamba(const HfConfig& config, Blueprint* model) {
  const uint64_t d_model = model->llm.d_model;
  const auto inner = config.FindCount(kHfFfn);
  const MambaShape shape = Mamba1ShapeOf(config, inner ? *inner : config.Count(kExpand) * d_model, d_model);
  for (LayerPlan& layer : model->layers) {
    layer.layer.ffn = {};
    AddMamba(shape, d_model, &layer);
  }
}

void Mamba2(const HfConfig& config, Blueprint* model) {
  const Mamba2Shape shape = Mamba2ShapeOf(config, config.Count(kExpand) * model->llm.d_model);
  for (LayerPlan& layer : model->layers) {
    layer.layer.ffn = {};
    AddMamba2(shape, model->llm.d_model, &layer);
  }
}

// One letter per layer, each with one norm: M Mamba-2, * attention, - feed-forward, E experts.
void NemotronH(const HfConfig& config, Blueprint* model) {
  std::string pattern;
  const auto types = config.Find(kHfLayerTypes);
  if (types && types->is_array()) {
    for (const JsonView& item : types->Items()) {
      const std::string type = item.String();
      pattern += type == "mamba"       ? 'M'
                 : type == "attention" ? '*'
                 : type == "mlp"       ? '-'
                 : type == "moe"       ? 'E'
                                       : '?';
    }
  } else {
    pattern = config.text().At("hybrid_override_pattern").String();
  }
  if (pattern.size() < model->layers.size())
    config.Missing({"hybrid_override_pattern"}, "a letter for every layer");
  for (size_t i = 0; i < model->layers.size(); ++i) {
    LayerPlan& layer = model->layers[i];
    Layer& of = layer.layer;
    of.recurrent = {};
    if (pattern[i] != '*') NoAttention(&layer);
    if (pattern[i] == 'M') AddMamba2(Mamba2ShapeOf(config, 0), model->llm.d_model, &layer);
    if (pattern[i] == 'E') layer.ffn.router_elements = of.ffn.n_experts;
    if (pattern[i] == '-') of.ffn = {.kind = FfnKind::kMlp, .width = config.Count(kHfFfn)};
    if (pattern[i] == 'M' || pattern[i] == '*') of.ffn = {};
    if (std::string_view("M*-E").find(pattern[i]) == std::string_view::npos) {
      throw BadInput({config.text().where().file, "hybrid_override_pattern"},
                     "has " + Quoted(pattern.substr(i, 1)) + " for layer " + std::to_string(i),
                     "M, *, - or E");
    }
  }
}

// Mamba-2 in all layers but those listed; a gated feed-forward, or experts and a shared one, in each.
void Bamba(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  constexpr HfKey kAttention{"attn_layer_indices", 0, kMostLayers};
  std::vector<bool> attends(n, false);
  if (const auto list = config.Find(kAttention)) {
    for (const JsonView& item : list->Items()) {
      const uint64_t i = CountIn(item, kAttention);
      if (i < n) attends[i] = true;
    }
  } else {
    for (size_t i = 0; i < n; ++i) attends[i] = model->layers[i].layer.self.kind != AttentionKind::kNone;
  }
  const Mamba2Shape shape = Mamba2ShapeOf(config, config.Count(kExpand) * model->llm.d_model);
  for (size_t i = 0; i < n; ++i) {
    if (attends[i]) continue;
    NoAttention(&model->layers[i]);
    AddMamba2(shape, model->llm.d_model, &model->layers[i]);
  }
}

// Granite 4: position only where position_embedding_type says rope; the shared feed-forward is the dense one
// where there are no experts.
void GraniteHybrid(const HfConfig& config, Blueprint* model) {
  Bamba(config, model);
  const auto position = config.text().FindString("position_embedding_type");
  if (!position || *position != "rope") DropPositions(model, [](size_t) { return true; });
  const uint64_t shared = config.CountOr(kHfSharedWidth, 0);
  for (LayerPlan& layer : model->layers) {
    if (layer.layer.ffn.kind != FfnKind::kMoe) layer.layer.ffn.width = shared;
  }
}

// Attention and Mamba-2 side by side in every layer.
void FalconH1(const HfConfig& config, Blueprint* model) {
  const auto inner = config.FindCount({"mamba_d_ssm", 1, kMostWidth});
  Mamba2Shape shape = Mamba2ShapeOf(config, inner ? *inner : config.Count(kExpand) * model->llm.d_model);
  shape.norm = config.Is({"mamba_rms_norm", false});
  for (LayerPlan& layer : model->layers) AddMamba2(shape, model->llm.d_model, &layer);
}

// Qwen3-Next and Qwen3.5: gated delta nets, and every full_attention_interval-th layer full, whose Q
// projection is doubled by an output gate.
void QwenHybrid(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kInterval{"full_attention_interval", 1, kMostLayers};
  const uint64_t interval = config.CountOr(kInterval, 4);
  const bool listed = config.Find(kHfLayerTypes).has_value();
  const DeltaNetShape shape{config.Count({"linear_num_key_heads", 1, kMostHeads}),
                            config.Count({"linear_num_value_heads", 1, kMostHeads}),
                            config.Count({"linear_key_head_dim", 1, kMostWidth}),
                            config.Count({"linear_value_head_dim", 1, kMostWidth}),
                            config.Count({"linear_conv_kernel_dim", 1, 1024})};
  const bool gate = config.Is({"attn_output_gate", true});
  for (size_t i = 0; i < model->layers.size(); ++i) {
    LayerPlan& layer = model->layers[i];
    const bool linear = listed ? layer.layer.self.kind == AttentionKind::kNone : (i + 1) % interval != 0;
    if (linear) {
      NoAttention(&layer);
      AddDeltaNet(shape, model->llm.d_model, &layer);
    } else if (gate) {
      layer.self.gate_rows = layer.layer.self.n_heads * layer.layer.self.d_head_v;
    }
  }
  if (config.CountOr({"mtp_num_hidden_layers", 0, kMostLayers}, 0) > 0) {
    model->llm.warnings.emplace_back("the layers of multi-token prediction are not counted");
  }
}

// Short convolutions, and attention in the layers of full_attn_idxs or layer_types. The feed-forward's width
// is two thirds of block_ff_dim, rounded up; with experts it is as given.
void Lfm2(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  constexpr HfKey kFull{"full_attn_idxs", 0, kMostLayers};
  std::vector<bool> attends(n, false);
  if (const auto list = config.Find(kFull)) {
    for (const JsonView& item : list->Items()) {
      const uint64_t i = CountIn(item, kFull);
      if (i < n) attends[i] = true;
    }
  } else {
    for (size_t i = 0; i < n; ++i) attends[i] = model->layers[i].layer.self.kind != AttentionKind::kNone;
  }
  uint64_t width =
      config.CountOr({"block_ff_dim intermediate_size", 1, kMostWidth}, config.CountOr(kHfFfn, 0));
  if (config.Is({"block_auto_adjust_ff_dim", config.ModelType() != "lfm2_moe"})) {
    const double times = config.FindNumber({"block_ffn_dim_multiplier"}).value_or(1);
    const uint64_t multiple = config.CountOr({"block_multiple_of", 1, kMostWidth}, 256);
    width = static_cast<uint64_t>(times * static_cast<double>(2 * width / 3));
    width = (width + multiple - 1) / multiple * multiple;
  }
  const uint64_t d_conv = config.CountOr({"conv_L_cache", 1, 1024}, 3);
  for (size_t i = 0; i < n; ++i) {
    LayerPlan& layer = model->layers[i];
    if (layer.layer.ffn.kind != FfnKind::kMoe) layer.layer.ffn.width = width;
    if (attends[i]) continue;
    NoAttention(&layer);
    AddShortConv(d_conv, config.Is({"conv_bias", false}), model->llm.d_model, &layer);
  }
}

// Searched Llamas: each block has its own KV heads (heads ÷ n_heads_in_group) and width, or is left out with
// its norm, or is one linear. The width is the next multiple of 256 of 2·ffn_mult·d_model ÷ 3.
void NemotronNas(const HfConfig& config, Blueprint* model) {
  const auto blocks = config.text().At("block_configs").Items();
  const uint64_t d_model = model->llm.d_model;
  if (blocks.size() < model->layers.size()) config.Missing({"block_configs"}, "one for every layer");
  for (size_t i = 0; i < model->layers.size(); ++i) {
    LayerPlan& layer = model->layers[i];
    const JsonView attention = blocks[i].At("attention"), ffn = blocks[i].At("ffn");
    const auto linear = [](const JsonView& part) {
      return part.FindBool("replace_with_linear").value_or(false);
    };
    const auto absent = [](const JsonView& part) { return part.FindBool("no_op").value_or(false); };
    if (linear(attention) || absent(attention)) {
      NoAttention(&layer);
      if (absent(attention)) layer.norm_elements -= d_model;
      if (linear(attention)) layer.matrices.push_back({MatrixRole::kProjection, d_model, d_model});
    } else {
      Attention& self = layer.layer.self;
      const uint64_t group = CountIn(attention.At("n_heads_in_group"), {"", 1, kMostHeads});
      self.n_kv_heads = self.n_heads % group == 0 ? self.n_heads / group : 0;
    }
    if (linear(ffn) || absent(ffn)) {
      layer.layer.ffn = {};
      if (absent(ffn)) layer.norm_elements -= d_model;
      if (linear(ffn)) layer.matrices.push_back({MatrixRole::kProjection, d_model, d_model});
    } else {
      const double times = ffn.At("ffn_mult").Number();
      if (!(times < 1e4)) throw BadInput(ffn.At("ffn_mult").where(), "is too large", "below 10000");
      const auto width = static_cast<uint64_t>(2 * times * static_cast<double>(d_model) / 3);
      layer.layer.ffn.width = (width + 255) / 256 * 256;
    }
  }
}

// Llama 3.2 Vision: the listed layers read an image instead of the text before; a text alone skips them.
void Mllama(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kCross{"cross_attention_layers", 0, kMostLayers};
  const auto list = config.Find(kCross);
  if (!list) config.Missing(kCross, "the layers that read images");
  for (const JsonView& item : list->Items()) {
    const uint64_t i = CountIn(item, kCross);
    if (i >= model->layers.size())
      throw BadInput(item.where(), "is no layer", "an index below num_hidden_layers");
    LayerPlan& layer = model->layers[i];
    layer.layer.cross = layer.layer.self;
    layer.layer.cross.kind = AttentionKind::kCross;
    layer.layer.cross.causal = false;
    layer.layer.cross.position = {};
    layer.layer.cross.source_tokens = 0;  // of a text alone
    layer.cross.q_norm = layer.cross.k_norm = layer.layer.cross.d_head_k;
    NoAttention(&layer);
    layer.other_elements += 2;  // gates of attention and feed-forward
  }
  model->matrices.push_back({MatrixRole::kTokenTypeTable, 8, model->llm.d_model});  // ids of images
  model->llm.warnings.emplace_back("cross-attention layers keep an image's keys and values, not the text's");
}

// attn_type_list has 1 for full attention and 0 for lightning attention; transformers' own files list layer
// types, and without a list every second layer is lightning.
void MiniMax(const HfConfig& config, Blueprint* model) {
  const size_t n = model->layers.size();
  const auto attends = config.FindCounts({"attn_type_list", 0, 1}, n);
  const bool listed = config.Find(kHfLayerTypes).has_value();
  for (size_t i = 0; i < n; ++i) {
    LayerPlan& layer = model->layers[i];
    const bool full = attends  ? (*attends)[i] != 0
                      : listed ? layer.layer.self.kind != AttentionKind::kNone
                               : i % 2 == 0;
    if (full) continue;
    const uint64_t n_heads = config.Count(kHfHeads);
    const uint64_t d_head = config.CountOr(kHfHeadDim, model->llm.d_model / n_heads);
    NoAttention(&layer);
    AddLightning(n_heads, d_head, model->llm.d_model, &layer);
  }
}

constexpr const char* kQwenNext =
    R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":48,
        "num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"max_position_embeddings":32768,
        "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,"linear_num_key_heads":16,
        "linear_num_value_heads":32,"moe_intermediate_size":512,"shared_expert_intermediate_size":512,
        "num_experts_per_tok":10,"num_local_experts":512})";
constexpr const char* kQwen35 =
    R"({"vocab_size":248320,"head_dim":256,"max_position_embeddings":32768,"linear_conv_kernel_dim":4,
        "linear_key_head_dim":128,"linear_value_head_dim":128,"linear_num_key_heads":16,
        "linear_num_value_heads":32})";
constexpr const char* kMamba = R"({"state_size":16,"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2})";

constexpr Recipe kNoAttention{.norms = 1, .tied = kHfTied, .encoding = "", .attention = false};

constexpr HfFamily kFamilies[] = {
    {"jamba",
     "JambaFor",
     R"({"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"attn_layer_period":8,"attn_layer_offset":4,
         "expert_layer_period":2,"expert_layer_offset":1,"num_local_experts":16,"num_experts_per_tok":2})",
     {.encoding = ""},
     Jamba},
    {"mamba falcon_mamba", "MambaFor FalconMambaFor", kMamba, kNoAttention, Mamba},
    {"mamba2", "Mamba2For",
     R"({"mamba_d_state":128,"mamba_d_conv":4,"mamba_expand":2,"mamba_n_groups":8,"mamba_d_head":64})",
     kNoAttention, Mamba2},
    {"nemotron_h", "NemotronHFor", "{}", {.norms = 1, .gated = false, .encoding = ""}, NemotronH},
    {"bamba",
     "BambaFor",
     R"({"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2,"mamba_n_groups":1})",
     {.rotary_share = 0.5},
     Bamba},
    {"granitemoehybrid",
     "GraniteMoeHybridFor",
     R"({"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2,"mamba_n_groups":1})",
     {.tied = kHfTied},
     GraniteHybrid},
    {"falcon_h1",
     "FalconH1For",
     R"({"mamba_d_state":256,"mamba_d_conv":4,"mamba_expand":2,"mamba_n_groups":1})",
     {},
     FalconH1},
    {"qwen3_next",
     "Qwen3NextFor",
     kQwenNext,
     {.qk_norm = QkNorm::kHead, .rotary_share = 0.25, .shared_router = true},
     QwenHybrid},
    {"qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
     "Qwen3_5For Qwen3_5MoeFor",
     kQwen35,
     {.qk_norm = QkNorm::kHead, .rotary_share = 0.25, .shared_router = true},
     QwenHybrid},
    {"lfm2 lfm2_moe",
     "Lfm2For Lfm2MoeFor",
     R"({"max_position_embeddings":128000})",
     {.qk_norm = QkNorm::kHead, .tied = {"tie_word_embeddings tie_embedding", true}, .theta = 1e6},
     Lfm2},
    {"minimax minimax_text_01 minimax_m1",
     "MiniMaxFor MiniMaxText01For MiniMaxM1For",
     R"({"max_position_embeddings":131072,"num_key_value_heads":8,"num_local_experts":8,"num_experts_per_tok":2})",
     {.theta = 1e6},
     MiniMax},
    {"nemotron-nas deci_lm", "DeciLMFor", R"({"max_position_embeddings":2048})", {}, NemotronNas},
    {"mllama_text_model mllama",
     "MllamaFor",
     R"({"max_position_embeddings":131072})",
     {.theta = 5e5},
     Mllama},
};

}  // namespace

std::span<const HfFamily> HybridFamilies() { return kFamilies; }

}  // namespace ropeline
