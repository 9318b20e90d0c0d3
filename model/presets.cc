#include "model/presets.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "model/preset_configs.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

// Decoder-only, RMSNorm, SwiGLU, rotary: llama, mistral, qwen2. Published config.json keys in the order of
// the fields: num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, head_dim,
// intermediate_size, vocab_size, tie_word_embeddings, q/k/v biases, sliding_window (0 none), rope_theta,
// rope_scaling.factor (llama3's; 0 none), max_position_embeddings.
struct LlamaRow {
  const char* name;
  uint64_t n_layers, d_model, n_heads, n_kv_heads, d_head, d_ffn, vocabulary;
  bool tied, qkv_bias;
  uint64_t window;
  double rope_theta;
  double llama3_factor;
  uint64_t max_context;
  const char* source;
};

constexpr LlamaRow kLlamaRows[] = {
    {"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, true, false, 0, 5e5, 32, 131072,
     "huggingface.co/meta-llama/Llama-3.2-1B config.json"},
    {"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, true, false, 0, 5e5, 32, 131072,
     "huggingface.co/meta-llama/Llama-3.2-3B config.json"},
    {"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, false, false, 0, 5e5, 8, 131072,
     "huggingface.co/meta-llama/Llama-3.1-8B config.json"},
    {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, false, true, 0, 1e6, 0, 131072,
     "huggingface.co/Qwen/Qwen2.5-7B config.json"},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, false, false, 4096, 1e4, 0, 32768,
     "huggingface.co/mistralai/Mistral-7B-v0.1 config.json"},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, false, false, 0, 1e4, 0, 2048,
     "huggingface.co/TinyLlama/TinyLlama-1.1B-Chat-v1.0 config.json"},
};

Attention SelfAttention(uint64_t n_heads, uint64_t n_kv_heads, uint64_t d_head, Position position) {
  Attention attention;
  attention.kind = AttentionKind::kFull;
  attention.n_heads = n_heads;
  attention.n_kv_heads = n_kv_heads;
  attention.d_head_k = attention.d_head_v = d_head;
  attention.position = std::move(position);
  return attention;
}

// Llama 3.1 and 3.2 were trained at 8192 tokens before their extension; the factor alone differs.
Position LlamaPosition(const LlamaRow& row) {
  Position position = RotaryPosition("rope_half", row.rope_theta, row.d_head, row.d_head);
  position.rope.max_context = static_cast<double>(row.max_context);
  if (row.llama3_factor == 0) return position;
  position.rope.type = RopeType::kLlama3;
  position.rope.factor = row.llama3_factor;
  position.rope.factor_given = true;
  position.rope.low_freq_factor = 1;
  position.rope.high_freq_factor = 4;
  position.rope.original_context = 8192;
  return position;
}

Llm FromLlamaRow(const LlamaRow& row) {
  Llm llm;
  llm.name = row.name;
  llm.source = row.source;
  llm.d_model = row.d_model;
  llm.vocabulary = row.vocabulary;
  llm.tied_embeddings = row.tied;
  llm.max_context = row.max_context;
  Attention attention = SelfAttention(row.n_heads, row.n_kv_heads, row.d_head, LlamaPosition(row));
  if (row.window != 0) {
    attention.kind = AttentionKind::kWindow;
    attention.window = row.window;
  }
  const uint64_t d_q = row.n_heads * row.d_head;
  const uint64_t d_kv = row.n_kv_heads * row.d_head;
  llm.matrices.push_back({MatrixRole::kTokenEmbedding, row.vocabulary, row.d_model});
  for (int i = 0; i < static_cast<int>(row.n_layers); ++i) {
    llm.layers.push_back({Stack::kDecoder, attention, {}, {}, {FfnKind::kGated, row.d_ffn}});
    llm.matrices.insert(llm.matrices.end(), {{MatrixRole::kAttnQ, d_q, row.d_model, 1, i},
                                             {MatrixRole::kAttnK, d_kv, row.d_model, 1, i},
                                             {MatrixRole::kAttnV, d_kv, row.d_model, 1, i},
                                             {MatrixRole::kAttnOutput, row.d_model, d_q, 1, i},
                                             {MatrixRole::kFfnGate, row.d_ffn, row.d_model, 1, i},
                                             {MatrixRole::kFfnUp, row.d_ffn, row.d_model, 1, i},
                                             {MatrixRole::kFfnDown, row.d_model, row.d_ffn, 1, i}});
    llm.vectors.push_back({2 * row.d_model + (row.qkv_bias ? d_q + 2 * d_kv : 0), i});
  }
  llm.vectors.push_back({row.d_model});  // final norm
  if (!row.tied) llm.matrices.push_back({MatrixRole::kOutput, row.vocabulary, row.d_model});
  return llm;
}

// gpt2 and bloom: fused QKV, a two-matrix FFN of 4·d_model, a bias on every linear, LayerNorms with weight
// and bias, tied embeddings.
Llm GptLike(const char* name, const char* source, uint64_t n_layers, uint64_t d_model, uint64_t n_heads,
            uint64_t vocabulary, Position position) {
  Llm llm;
  llm.name = name;
  llm.source = source;
  llm.d_model = d_model;
  llm.vocabulary = vocabulary;
  llm.tied_embeddings = true;
  const Attention attention = SelfAttention(n_heads, n_heads, d_model / n_heads, std::move(position));
  const uint64_t d_ffn = 4 * d_model;
  llm.matrices.push_back({MatrixRole::kTokenEmbedding, vocabulary, d_model});
  for (int i = 0; i < static_cast<int>(n_layers); ++i) {
    llm.layers.push_back({Stack::kDecoder, attention, {}, {}, {FfnKind::kMlp, d_ffn}});
    llm.matrices.insert(llm.matrices.end(), {{MatrixRole::kAttnQkv, 3 * d_model, d_model, 1, i},
                                             {MatrixRole::kAttnOutput, d_model, d_model, 1, i},
                                             {MatrixRole::kFfnUp, d_ffn, d_model, 1, i},
                                             {MatrixRole::kFfnDown, d_model, d_ffn, 1, i}});
    const uint64_t norms = 4 * d_model;
    const uint64_t biases = 3 * d_model + d_model + d_ffn + d_model;
    llm.vectors.push_back({norms + biases, i});
  }
  llm.vectors.push_back({2 * d_model});  // final norm
  return llm;
}

Llm Gpt2() {
  Llm llm = GptLike("gpt2", "huggingface.co/openai-community/gpt2 config.json", 12, 768, 12, 50257, {});
  llm.input_position = {.encoding = "learned"};
  llm.max_context = 1024;
  llm.hard_context_limit = true;
  llm.matrices.push_back({MatrixRole::kPositionTable, 1024, 768});
  return llm;
}

Llm Bloom7b1() {
  Llm llm = GptLike("bloom-7b1", "huggingface.co/bigscience/bloom-7b1 config.json", 30, 4096, 32, 250880,
                    {.encoding = "alibi"});
  llm.vectors.push_back({2 * llm.d_model});  // LayerNorm after the embedding
  llm.max_context = 2048;                    // trained length; ALiBi itself has no limit
  return llm;
}

// v1.0: ReLU FFN, tied embeddings, no biases, RMS norms; one relative bias table [buckets, heads] per stack,
// in its first layer. Cross attention has no position.
Llm T5Base() {
  constexpr uint64_t kLayers = 12, kModel = 768, kHeads = 12, kHead = 64, kFfn = 3072, kVocabulary = 32128,
                     kBuckets = 32;
  Llm llm;
  llm.name = "t5-base";
  llm.source = "huggingface.co/google-t5/t5-base config.json";
  llm.d_model = kModel;
  llm.vocabulary = kVocabulary;
  llm.tied_embeddings = true;
  const uint64_t d_attn = kHeads * kHead;
  const Attention decoder = SelfAttention(kHeads, kHeads, kHead, {.encoding = "t5_bias"});
  Attention encoder = decoder;
  encoder.causal = false;
  Attention cross = decoder;
  cross.kind = AttentionKind::kCross;
  cross.causal = false;
  cross.position = {};
  llm.matrices.push_back({MatrixRole::kTokenEmbedding, kVocabulary, kModel});
  for (int i = 0; i < static_cast<int>(2 * kLayers); ++i) {
    const bool is_decoder = i >= static_cast<int>(kLayers);
    llm.layers.push_back({is_decoder ? Stack::kDecoder : Stack::kEncoder,
                          is_decoder ? decoder : encoder,
                          is_decoder ? cross : Attention{},
                          {},
                          {FfnKind::kMlp, kFfn}});
    llm.matrices.insert(llm.matrices.end(), {{MatrixRole::kAttnQ, d_attn, kModel, 1, i},
                                             {MatrixRole::kAttnK, d_attn, kModel, 1, i},
                                             {MatrixRole::kAttnV, d_attn, kModel, 1, i},
                                             {MatrixRole::kAttnOutput, kModel, d_attn, 1, i},
                                             {MatrixRole::kFfnUp, kFfn, kModel, 1, i},
                                             {MatrixRole::kFfnDown, kModel, kFfn, 1, i}});
    if (is_decoder) {
      llm.matrices.insert(llm.matrices.end(), {{MatrixRole::kCrossQ, d_attn, kModel, 1, i},
                                               {MatrixRole::kCrossK, d_attn, kModel, 1, i},
                                               {MatrixRole::kCrossV, d_attn, kModel, 1, i},
                                               {MatrixRole::kCrossOutput, kModel, d_attn, 1, i}});
    }
    llm.vectors.push_back({(is_decoder ? 3 : 2) * kModel, i});
    const bool first = i % static_cast<int>(kLayers) == 0;
    if (first) llm.matrices.push_back({MatrixRole::kRelativeBias, kBuckets, kHeads, 1, i});
    if (first) llm.vectors.push_back({kModel, i});  // the stack's final norm
  }
  return llm;
}

// The article's model: a shape and a parameter count, no matrices. d_model is 24 heads × 128.
Llm Article3b() {
  Llm llm;
  llm.name = "article-3b";
  llm.source = "the article: 28 layers, 24 heads, 8 KV heads, d_head 128, 3e9 parameters";
  llm.d_model = 3072;
  llm.params_given = 3000000000;
  const Attention attention = SelfAttention(24, 8, 128, RotaryPosition("rope_half", 1e4, 128, 128));
  llm.layers.assign(28, {Stack::kDecoder, attention, {}, {}, {}});
  llm.warnings.push_back(
      "article-3b is known by its parameter count only: weights are parameters × bits, and every parameter "
      "counts as "
      "one that is read and multiplied for each token");
  return llm;
}

Llm FromConfig(const PresetConfig& preset) {
  const std::string where = std::string("preset ") + preset.name;
  Llm llm = HfConfigToLlm(nlohmann::json::parse(preset.config), where, preset.name);
  llm.source = preset.source;
  return llm;
}

struct PresetEntry {
  std::string name;
  std::function<Llm()> make;
};

std::vector<PresetEntry> Presets() {
  std::vector<PresetEntry> presets = {{"article-3b", Article3b}};
  for (const LlamaRow& row : kLlamaRows) presets.push_back({row.name, [&row] { return FromLlamaRow(row); }});
  for (const PresetConfig& preset : PresetConfigs())
    presets.push_back({preset.name, [&preset] { return FromConfig(preset); }});
  presets.insert(presets.end(), {{"gpt2", Gpt2}, {"bloom-7b1", Bloom7b1}, {"t5-base", T5Base}});
  return presets;
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const PresetEntry& preset : Presets()) names.push_back(preset.name);
  return names;
}

Llm Preset(std::string_view name, const Where& where) {
  std::string list;
  for (const PresetEntry& preset : Presets()) {
    if (preset.name == name) return preset.make();
    list += (list.empty() ? "" : ", ") + preset.name;
  }
  throw BadInput(where, Quoted(name) + " is not a known model", "one of " + list);
}

}  // namespace ropeline
