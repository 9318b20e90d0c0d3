#include "model/engine/engine_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "model/engine/run_words.h"
#include "model/presets.h"

namespace ropeline {
namespace {

// llama.cpp's architecture, the first word of its description, and the presets of that architecture whose
// parameter count tells them from every other model of it. mistral-7b is not there: v0.2 has its count and no
// window.
struct Architecture {
  std::string_view name;
  std::string_view presets;  // between blanks
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama-3.2-1b llama-3.2-3b llama-3.1-8b tinyllama-1.1b smollm2-1.7b"},
    {"qwen2", "qwen2.5-0.5b qwen2.5-1.5b qwen2.5-7b qwen2.5-72b"},
    {"qwen3", "qwen3-8b qwen3-14b"},
    {"qwen3moe", "qwen3-30b-a3b qwen3-235b-a22b"},
    {"qwen35moe", "qwen3.6-35b-a3b"},
    {"gemma3", "gemma-3-12b gemma-3-27b"},
    {"gpt-oss", "gpt-oss-20b"},
    {"glm4moe", "glm-4.5-air"},
    {"deepseek2", "deepseek-v2-lite deepseek-v3 kimi-k2"},
    {"bailingmoe2", "ling-mini-2.0"},
    {"bitnet-25", "bitnet-2b"},
    {"gpt2", "gpt2"},
    {"bloom", "bloom-7b1"},
};

// A name without what is neither letter, digit nor point, and the presets it stands for.
struct Name {
  std::string_view letters;
  std::string_view preset;
};

constexpr Name kNames[] = {
    {"tinyllama1.1b", "tinyllama-1.1b"},
    {"llama3.21b", "llama-3.2-1b"},
    {"llama3.23b", "llama-3.2-3b"},
    {"llama3.18b", "llama-3.1-8b"},
    {"llama38b", "llama-3.1-8b"},  // Llama 3: another base and context, the same shape
    {"qwen2.50.5b", "qwen2.5-0.5b"},
    {"qwen2.51.5b", "qwen2.5-1.5b"},
    {"qwen2.57b", "qwen2.5-7b"},
    {"qwen2.572b", "qwen2.5-72b"},
    {"kimidev72b", "qwen2.5-72b"},
    {"qwen38b", "qwen3-8b"},
    {"qwen314b", "qwen3-14b"},
    {"qwen330ba3b", "qwen3-30b-a3b"},
    {"qwen3coder30ba3b", "qwen3-30b-a3b"},
    {"qwen3moe30b.a3b", "qwen3-30b-a3b"},
    {"qwen3235ba22b", "qwen3-235b-a22b"},
    {"qwen3moe235b.a22b", "qwen3-235b-a22b"},
    {"qwen3.635ba3b", "qwen3.6-35b-a3b"},
    {"qwen3.535ba3b", "qwen3.6-35b-a3b"},
    {"qwen35moe35b.a3b", "qwen3.6-35b-a3b"},
    {"smollm21.7b", "smollm2-1.7b"},
    {"gemma312b", "gemma-3-12b"},
    {"gemma327b", "gemma-3-27b"},
    {"gptoss20b", "gpt-oss-20b"},
    {"glm4.5air", "glm-4.5-air"},
    {"glm4moe106b.a12b", "glm-4.5-air"},
    {"deepseekv2lite", "deepseek-v2-lite"},
    {"deepseekcoderv2lite", "deepseek-v2-lite"},
    {"deepseek216b", "deepseek-v2-lite"},
    {"deepseekv3", "deepseek-v3"},
    {"deepseekr1", "deepseek-v3"},
    {"kimik2", "kimi-k2"},
    {"lingmini2.0", "ling-mini-2.0"},
    {"bailingmoe216b.a1b", "ling-mini-2.0"},
    {"bitnetb1.582b", "bitnet-2b"},
    {"mistral7bv0.1", "mistral-7b"},
};

// Of llama.cpp's counts, which round and may hold a layer more than the model uses.
constexpr double kSameModel = 0.02;
// Of a model known by its name: its file may have untied embeddings.
constexpr double kSameName = 0.15;

bool Near(const std::string& preset, uint64_t params, double tolerance) {
  const auto published = static_cast<double>(Preset(preset, {"preset", ""}).ParamsTotal());
  return std::abs(static_cast<double>(params) / published - 1) <= tolerance;
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; (at = text.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<std::string> ByArchitecture(std::string_view description, uint64_t params) {
  const std::string lower = LowerCase(description);
  const std::string_view first = std::string_view(lower).substr(0, lower.find(' '));
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name != first) continue;
    for (const std::string& preset : Words(architecture.presets)) {
      if (Near(preset, params, kSameModel)) return preset;
    }
  }
  return std::nullopt;
}

std::optional<std::string> ByName(std::string_view text) {
  std::string letters;
  for (const char c : LowerCase(text)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.') letters += c;
  }
  // A distilled model has the shape of what it was distilled into.
  if (letters.find("distill") != std::string::npos) return std::nullopt;
  std::set<std::string_view> found;
  for (const Name& name : kNames) {
    if (letters.find(name.letters) != std::string::npos) found.insert(name.preset);
  }
  if (found.size() != 1) return std::nullopt;
  return std::string(*found.begin());
}

}  // namespace

std::optional<std::string> PresetForEngineModel(const EngineRun& run) {
  if (run.model_params) {
    if (std::optional<std::string> preset = ByArchitecture(run.model, *run.model_params)) return preset;
  }
  std::optional<std::string> preset = ByName(run.model);
  if (!preset && run.model.empty()) preset = ByName(run.title);
  if (preset && run.model_params && !Near(*preset, *run.model_params, kSameName)) return std::nullopt;
  return preset;
}

}  // namespace ropeline
