// GPT-2 and what grew from it: LayerNorms with bias, feed-forwards of two matrices, learned positions, ALiBi
// or partial rotations.
#include <string>

#include "model/hf_family.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

void SetKvHeads(uint64_t n_kv_heads, Blueprint* model) {
  for (LayerPlan& layer : model->layers) layer.layer.self.n_kv_heads = n_kv_heads;
}

void MultiQuery(const HfConfig& config, Blueprint* model) {
  if (config.Is({"multi_query", true})) SetKvHeads(1, model);
}

// attention_types [[["global", "local"], 6]]: the list, so many times; local layers see window_size tokens.
void GptNeo(const HfConfig& config, Blueprint* model) {
  std::vector<std::string> types;
  if (const auto list = config.text().Find("attention_layers")) {
    for (const JsonView& item : list->Items()) types.push_back(item.String());
  } else if (const auto groups = config.text().Find("attention_types")) {
    for (const JsonView& group : groups->Items()) {
      const auto parts = group.Items();
      if (parts.size() != 2) throw BadInput(group.where(), "is no pair", "[[kinds of layers], times]");
      const uint64_t times = CountIn(parts[1], {"", 1, kMostLayers});
      for (uint64_t i = 0; i < times && types.size() < model->layers.size(); ++i) {
        for (const JsonView& item : parts[0].Items()) types.push_back(item.String());
      }
    }
  }
  if (types.size() < model->layers.size()) config.Missing({"attention_types"}, "the kind of every layer");
  for (size_t i = 0; i < model->layers.size(); ++i) {
    if (types[i] != "local") continue;
    Attention& self = model->layers[i].layer.self;
    self.kind = AttentionKind::kWindow;
    self.window = config.CountOr({"window_size", 1, kMostTokens}, 256);
  }
}

// The position table has two rows before the first position. A projection stands between the embedding and
// the layers where the two differ in width; the 350M, whose norms come after, has no final one.
void Opt(const HfConfig& config, Blueprint* model) {
  for (Matrix& matrix : model->matrices) matrix.rows += 2;
  const uint64_t d_model = model->llm.d_model, d_norm = 2 * d_model;
  if (!config.Is({"do_layer_norm_before", true})) model->other_elements -= d_norm;
  const uint64_t width = config.CountOr({"word_embed_proj_dim", 1, kMostWidth}, d_model);
  if (width == d_model) return;
  model->embedding_width = width;
  model->matrices.push_back({MatrixRole::kProjection, d_model, width});
  model->matrices.push_back({MatrixRole::kProjection, width, d_model});
}

// ALiBi wins over learned_pos_emb; a rope block wins over both. no_bias takes the norms' biases too.
void Mpt(const HfConfig& config, Blueprint* model) {
  const uint64_t d_model = model->llm.d_model;
  const auto times = config.FindNumber({"expansion_ratio"});
  const auto type = config.Find({"attn_config.attn_type"});
  if (type && type->String() == "multiquery_attention") SetKvHeads(1, model);
  for (LayerPlan& layer : model->layers) {
    if (times) layer.layer.ffn.width = static_cast<uint64_t>(static_cast<double>(d_model) * *times);
    if (!config.Is({"attn_config.qk_ln", false})) layer.self.q_norm = layer.self.k_norm = 0;
    if (config.Is({"no_bias", false})) continue;
    layer.self.q_bias = layer.self.k_bias = layer.self.v_bias = layer.self.o_bias = layer.ffn.bias = true;
    layer.norm_elements *= 2;
  }
  if (!config.Is({"no_bias", false})) model->other_elements *= 2;
  const bool alibi = config.Is({"attn_config.alibi alibi", false}),
             rope = config.Is({"attn_config.rope", false});
  if (!alibi && !rope && config.Is({"learned_pos_emb", true})) return;
  model->matrices.clear();
  model->llm.input_position = {};
  model->llm.hard_context_limit = false;
  for (LayerPlan& layer : model->layers) {
    Attention& self = layer.layer.self;
    if (alibi) self.position = {.encoding = "alibi"};
    if (rope)
      self.position = RotaryPosition("rope_half", config.FindNumber({"attn_config.rope_theta"}).value_or(1e4),
                                     self.d_head_k, self.d_head_k);
  }
}

// new_decoder_architecture: its own KV heads and two parallel norms; otherwise multi_query means one KV head,
// and parallel_attn one norm. alibi replaces the rotation.
void Falcon(const HfConfig& config, Blueprint* model) {
  const bool newer = config.Is({"new_decoder_architecture", false});
  const bool parallel = config.Is({"parallel_attn", true}), rw = config.Is({"alibi", false});
  const uint64_t norms_given = config.CountOr({"num_ln_in_parallel_attn", 0, 2}, 0);
  const uint64_t norms = !parallel ? 2 : norms_given > 0 ? norms_given : newer ? 2 : 1;
  for (LayerPlan& layer : model->layers) {
    Attention& self = layer.layer.self;
    if (!newer) self.n_kv_heads = config.Is({"multi_query", true}) ? 1 : self.n_heads;
    layer.norm_elements = norms * 2 * model->llm.d_model;
    if (rw) self.position = {.encoding = "alibi"};
  }
}

constexpr HfFlag kBias{"use_bias bias", true};

constexpr Recipe kGptJ{.norm = NormForm::kWeightAndBias,
                       .norms = 1,
                       .qkv_bias = kHfNo,
                       .o_bias = kHfNo,
                       .gated = false,
                       .ffn_bias = kHfYes,
                       .ffn_times = 4,
                       .head_bias = kHfYes,
                       .encoding = "rope_interleaved"};
constexpr Recipe kCodeGen{.norm = NormForm::kWeightAndBias,
                          .norms = 1,
                          .fused_qkv = true,
                          .qkv_bias = kHfNo,
                          .o_bias = kHfNo,
                          .gated = false,
                          .ffn_bias = kHfYes,
                          .ffn_times = 4,
                          .head_bias = kHfYes,
                          .encoding = "rope_interleaved"};
constexpr Recipe kGpt2{.norm = NormForm::kWeightAndBias,
                       .fused_qkv = true,
                       .qkv_bias = kHfYes,
                       .o_bias = kHfYes,
                       .gated = false,
                       .ffn_bias = kHfYes,
                       .ffn_times = 4,
                       .tied = kHfTied,
                       .encoding = "learned"};
constexpr Recipe kPhi{.norm = NormForm::kWeightAndBias,
                      .norms = 1,
                      .qkv_bias = kHfYes,
                      .o_bias = kHfYes,
                      .qk_norm = QkNorm::kNone,
                      .gated = false,
                      .ffn_bias = kHfYes,
                      .ffn_times = 4,
                      .head_bias = kHfYes,
                      .rotary_share = 0.5};

constexpr HfFamily kFamilies[] = {
    {"gpt2", "GPT2", R"({"vocab_size":50257,"n_positions":1024,"max_position_embeddings":1024})", kGpt2},
    {"gpt_bigcode", "GPTBigCode", R"({"vocab_size":50257,"max_position_embeddings":1024})", kGpt2,
     MultiQuery},
    {"gpt_neo",
     "GPTNeoFor",
     R"({"vocab_size":50257,"max_position_embeddings":2048,"hidden_size":2048,"num_hidden_layers":24,
         "num_attention_heads":16})",
     {.norm = NormForm::kWeightAndBias,
      .qkv_bias = kHfNo,
      .o_bias = kHfYes,
      .gated = false,
      .ffn_bias = kHfYes,
      .ffn_times = 4,
      .tied = kHfTied,
      .encoding = "learned"},
     GptNeo},
    {"gptj", "GPTJFor", R"({"vocab_size":50400,"max_position_embeddings":2048,"rotary_dim":64})", kGptJ},
    {"codegen", "CodeGenFor", R"({"vocab_size":50400,"max_position_embeddings":2048,"rotary_dim":64})",
     kCodeGen},
    {"gpt_neox",
     "GPTNeoXFor",
     R"({"vocab_size":50432,"hidden_size":6144,"num_hidden_layers":44,"num_attention_heads":64,
         "intermediate_size":24576,"max_position_embeddings":2048})",
     {.norm = NormForm::kWeightAndBias,
      .fused_qkv = true,
      .qkv_bias = {"attention_bias", true},
      .o_bias = {"attention_bias", true},
      .gated = false,
      .ffn_bias = kHfYes,
      .rotary_share = 0.25}},
    {"opt",
     "OPTFor",
     R"({"vocab_size":50272,"max_position_embeddings":2048})",
     {.norm = NormForm::kWeightAndBias,
      .qkv_bias = {"enable_bias", true},
      .o_bias = {"enable_bias", true},
      .gated = false,
      .ffn_bias = {"enable_bias", true},
      .tied = kHfTied,
      .encoding = "learned"},
     Opt},
    {"bloom",
     "Bloom",
     R"({"vocab_size":250880,"max_position_embeddings":2048})",
     {.norm = NormForm::kWeightAndBias,
      .embedding_norm = true,
      .fused_qkv = true,
      .qkv_bias = kHfYes,
      .o_bias = kHfYes,
      .gated = false,
      .ffn_bias = kHfYes,
      .ffn_times = 4,
      .tied = kHfTied,
      .encoding = "alibi"}},
    {"mpt",
     "MPTFor MptFor",
     R"({"vocab_size":50368,"max_position_embeddings":2048})",
     {.fused_qkv = true,
      .qkv_bias = kHfNo,
      .o_bias = kHfNo,
      .qk_norm = QkNorm::kWidth,
      .gated = false,
      .ffn_bias = kHfNo,
      .ffn_times = 4,
      .tied = kHfTied,
      .encoding = "learned"},
     Mpt},
    {"falcon RefinedWebModel RefinedWeb",
     "FalconFor RWFor",
     R"({"vocab_size":65024,"hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,
         "max_position_embeddings":2048})",
     {.norm = NormForm::kWeightAndBias,
      .fused_qkv = true,
      .qkv_bias = {"bias", false},
      .o_bias = {"bias", false},
      .gated = false,
      .ffn_bias = {"bias", false},
      .ffn_times = 4,
      .tied = kHfTied},
     Falcon},
    {"phi phi-msft mixformer-sequential", "PhiFor MixFormerSequentialFor",
     R"({"vocab_size":51200,"max_position_embeddings":2048})", kPhi},
    {"starcoder2",
     "Starcoder2For",
     R"({"vocab_size":49152,"hidden_size":3072,"intermediate_size":12288,"num_hidden_layers":30,
         "num_attention_heads":24,"num_key_value_heads":2,"max_position_embeddings":4096})",
     {.norm = NormForm::kWeightAndBias,
      .qkv_bias = kBias,
      .o_bias = kBias,
      .gated = false,
      .ffn_bias = kBias,
      .tied = kHfTied,
      .windows = WindowRule::kAll}},
};

}  // namespace

std::span<const HfFamily> GptFamilies() { return kFamilies; }

}  // namespace ropeline
