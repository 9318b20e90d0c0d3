#include "model/read_params_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/hf_config.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

constexpr HfKey kWidth{"", 1, kMostWidth};
constexpr HfKey kHeads{"", 1, kMostHeads};
constexpr uint64_t kLlamaVocabulary = 32000;  // of Llama 1 and 2, whose files say −1

// The file's keys under the names of a config.json.
struct Translation {
  const JsonView& view;
  nlohmann::json config = nlohmann::json::object();
  std::vector<std::string> warnings{};

  std::optional<uint64_t> Find(const char* name, const HfKey& key) const {
    const auto found = view.Find(name);
    return found ? std::optional(CountIn(*found, key)) : std::nullopt;
  }

  void Copy(const char* name, const char* to, const HfKey& key) {
    if (const auto count = Find(name, key)) config[to] = *count;
  }

  void Sizes() {
    config["hidden_size"] = CountIn(view.At("dim"), kWidth);
    config["num_hidden_layers"] = CountIn(view.At("n_layers"), {"", 1, kMostLayers});
    config["num_attention_heads"] = CountIn(view.At("n_heads"), kHeads);
    config["num_key_value_heads"] =
        Find("n_kv_heads", kHeads).value_or(config["num_attention_heads"].get<uint64_t>());
    Copy("head_dim", "head_dim", kWidth);
    const auto vocabulary = view.Find("vocab_size");
    const bool said = vocabulary && !vocabulary->is_negative();
    config["vocab_size"] = said ? CountIn(*vocabulary, kHfVocabulary) : kLlamaVocabulary;
    if (!said) warnings.emplace_back("vocab_size is the tokenizer's: 32000, as Llama 1 and 2 have, is taken");
    for (const char* name : {"max_position_embeddings", "max_seq_len", "model_max_length"}) {
      Copy(name, "max_position_embeddings", {"", 1, kMostTokens});
    }
  }

  // Meta's rule, llama/model.py: two thirds of 4·dim, times a factor, rounded up to a multiple.
  void FeedForwardWidth() {
    if (const auto width = Find("hidden_dim", kWidth)) {
      config["intermediate_size"] = *width;
      return;
    }
    const auto multiple = CountIn(view.At("multiple_of"), kWidth);
    auto width = 2 * (4 * config["hidden_size"].get<uint64_t>()) / 3;
    const double times = view.FindNumber("ffn_dim_multiplier").value_or(1);
    if (!(times < 1e3)) throw BadInput(view.At("ffn_dim_multiplier").where(), "is too large", "below 1000");
    width = static_cast<uint64_t>(times * static_cast<double>(width));
    config["intermediate_size"] = (width + multiple - 1) / multiple * multiple;
  }

  void Rotation() {
    if (const auto theta = view.FindNumber("rope_theta")) config["rope_theta"] = *theta;
    if (const auto yarn = view.Find("yarn")) {  // Mistral: alpha and beta are the slow and the fast end
      config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", yarn->At("factor").Number()}};
      auto& scaling = config["rope_scaling"];
      const auto copy = [&](const char* name, const char* to) {
        if (const auto number = yarn->FindNumber(name)) scaling[to] = *number;
      };
      copy("original_max_position_embeddings", "original_max_position_embeddings");
      copy("beta", "beta_fast");
      copy("alpha", "beta_slow");
    }
    if (!view.FindBool("use_scaled_rope").value_or(false)) return;
    // Llama 3.1; the small ones of 3.2 are extended by 32 and tie their embeddings, which no key says.
    const bool small = config["hidden_size"].get<uint64_t>() < 4096;
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", small ? 32 : 8},
                              {"low_freq_factor", 1},
                              {"high_freq_factor", 4},
                              {"original_max_position_embeddings", 8192}};
    if (!config.contains("max_position_embeddings")) config["max_position_embeddings"] = 131072;
    if (small) config["tie_word_embeddings"] = true;
    warnings.emplace_back(
        small ? "use_scaled_rope below width 4096 is taken as Llama 3.2: factor 32, tied embeddings"
              : "use_scaled_rope is taken as Llama 3.1's: factor 8 from 8192 tokens");
  }

  // A figure for all layers, or a list that repeats over them.
  void Windows() {
    auto window = view.Find("_sliding_window");
    if (!window) window = view.Find("sliding_window");
    config["sliding_window"] = nullptr;
    if (!window) return;
    if (!window->is_array()) {
      config["sliding_window"] = CountIn(*window, {"", 1, kMostTokens});
      return;
    }
    const auto items = window->Items();
    if (items.empty()) return;
    uint64_t least = kMostTokens;
    for (const JsonView& item : items) least = std::min(least, CountIn(item, {"", 1, kMostTokens}));
    config["sliding_window"] = least;
    for (uint64_t i = 0; i < config["num_hidden_layers"].get<uint64_t>(); ++i) {
      const bool slides = items[i % items.size()].Count() == least;
      config["layer_types"].push_back(slides ? "sliding_attention" : "full_attention");
    }
  }

  void Experts() {
    const auto moe = view.Find("moe");
    if (view.Find("moe_args")) {
      throw BadInput(view.At("moe_args").where(), "is of Llama 4, whose other widths are not here",
                     "its config.json instead");
    }
    if (!moe) return;
    config["num_local_experts"] = CountIn(moe->At("num_experts"), {"", 1, kMostExperts});
    config["num_experts_per_tok"] = CountIn(moe->At("num_experts_per_tok"), {"", 1, kMostExperts});
    if (moe->Has("expert_hidden_dim"))
      config["moe_intermediate_size"] = CountIn(moe->At("expert_hidden_dim"), kWidth);
    if (moe->Has("num_shared_experts")) {
      config["n_shared_experts"] = CountIn(moe->At("num_shared_experts"), {"", 0, kMostExperts});
    }
    if (moe->Has("first_k_dense_replace")) {
      config["first_k_dense_replace"] = CountIn(moe->At("first_k_dense_replace"), {"", 0, kMostLayers});
    }
  }

  void Latent() {
    for (const char* name :
         {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
      Copy(name, name, kWidth);
    }
  }
};

}  // namespace

bool IsParamsJson(const nlohmann::json& root) {
  return root.contains("dim") && root.contains("n_layers") && !root.contains("model_type") &&
         !root.contains("architectures");
}

Llm ParamsJsonToLlm(const nlohmann::json& root, const std::string& file, const std::string& name) {
  const JsonView whole(root, {file, ""});
  const auto inner = whole.Find("text_config");
  const JsonView view = inner && inner->is_object() ? *inner : whole;
  Translation translation{view};
  translation.Sizes();
  translation.Experts();
  translation.FeedForwardWidth();
  translation.Rotation();
  translation.Windows();
  translation.Latent();
  nlohmann::json& config = translation.config;
  const bool latent = config.contains("kv_lora_rank"), moe = config.contains("num_local_experts");
  config["model_type"] = latent ? "deepseek_v2" : moe ? "mixtral" : "mistral";
  if (!config.contains("rope_theta")) config["rope_theta"] = 10000;
  if (!config.contains("max_position_embeddings")) config["max_position_embeddings"] = nullptr;
  if (!config.contains("tie_word_embeddings")) {
    config["tie_word_embeddings"] = view.FindBool("tied_embeddings").value_or(false);
  }
  Llm llm = HfConfigToLlm(config, file, name);
  llm.model_type = "params.json";
  // These weights keep the pairs beside each other; Hugging Face's copies are permuted into halves.
  for (Layer& layer : llm.layers) {
    if (!layer.self.position.empty()) layer.self.position.encoding = "rope_interleaved";
  }
  llm.warnings.insert(llm.warnings.end(), translation.warnings.begin(), translation.warnings.end());
  return llm;
}

}  // namespace ropeline
