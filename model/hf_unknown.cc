#include "model/hf_unknown.h"

#include <algorithm>
#include <array>
#include <span>

namespace ropeline {
namespace {

constexpr const char* kExpected = "a model_type of plain attention, or one that this reader knows";

// Published types whose keys would pass for a llama's.
constexpr std::string_view kNoLlama[] = {
    "albert",        "deberta", "deberta-v2", "electra", "esm",        "jetmoe",         "kimi_linear",
    "longcat_flash", "mpnet",   "retnet",     "rwkv",    "rwkv5",      "rwkv6",          "rwkv7",
    "xlnet",         "xlstm",   "zamba",      "zamba2",  "nomic_bert", "recurrent_gemma"};

// Parts of keys that only models with other layers have.
constexpr std::string_view kForeign[] = {"alibi",
                                         "attn_layer_period",
                                         "attn_mode",
                                         "attn_type_list",
                                         "block_configs",
                                         "block_types",
                                         "conv1d",
                                         "conv_L_cache",
                                         "conv_kernel",
                                         "conv_size",
                                         "cross_attention_layers",
                                         "expand_k",
                                         "expand_v",
                                         "attn_layer_idxs",
                                         "hybrid",
                                         "hyena",
                                         "is_encoder_decoder",
                                         "kv_shared_layers",
                                         "layer_group_size",
                                         "layers_block_type",
                                         "linear_attention",
                                         "linear_attn",
                                         "linear_key",
                                         "linear_num",
                                         "low_rank_dim",
                                         "lru_",
                                         "mamba",
                                         "mixer_types",
                                         "qk_dim_factor",
                                         "relative_attention",
                                         "rescale_every",
                                         "retention",
                                         "ssm_",
                                         "state_size",
                                         "type_vocab_size",
                                         "zero_expert"};

// The same of windows, where there is one: a llama's rule is a window in every layer.
constexpr std::string_view kPattern[] = {
    "attention_chunk", "global_attn_every", "local_attention", "max_window_layers", "swa_", "window_pattern"};

bool HasAny(std::string_view key, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return key.find(part) != std::string_view::npos; });
}

// False, 0, and empty lists and texts say that the model has no such thing.
bool SaysNothing(const JsonView& value) {
  if (value.is_boolean()) return !value.Bool();
  if (value.is_array()) return value.Items().empty();
  if (value.is_object()) return value.Keys().empty();
  if (value.is_string()) return value.String().empty();
  return !value.is_negative() && value.Number() == 0;
}

[[noreturn]] void Refuse(const HfConfig& config, const JsonView& value) {
  throw BadInput(value.where(),
                 "is of a model_type (" + Quoted(config.ModelType()) + ") whose layers are not known",
                 kExpected);
}

}  // namespace

void RefuseUnlikeLlama(const HfConfig& config) {
  const JsonView& text = config.text();
  const std::string type = config.ModelType();
  if (std::find(std::begin(kNoLlama), std::end(kNoLlama), type) != std::end(kNoLlama)) {
    throw BadInput({text.where().file, "model_type"}, "is " + Quoted(type) + ", which is not read here",
                   kExpected);
  }
  const bool windows =
      config.Find(kHfWindow) && config.Is({"use_sliding_window", true}) && !config.Find(kHfLayerTypes);
  for (const std::string& key : text.Keys()) {
    const auto value = text.Find(key);
    if (!value || SaysNothing(*value)) continue;
    if (HasAny(key, kForeign) || (windows && HasAny(key, kPattern))) Refuse(config, *value);
  }
  const auto position = text.Find("position_embedding_type");
  if (position && position->is_string()) {
    const std::string kind = position->String();
    if (kind.find("rope") == std::string::npos && kind.find("rotary") == std::string::npos) {
      Refuse(config, *position);
    }
  }
  const auto architectures = config.root().Find("architectures");
  if (!architectures || !architectures->is_array()) return;
  for (const JsonView& name : architectures->Items()) {
    if (name.is_string() &&
        HasAny(name.String(), std::to_array<std::string_view>({"ForMaskedLM", "ForPreTraining"}))) {
      Refuse(config, name);
    }
  }
}

}  // namespace ropeline
