#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/hf_family.h"

namespace ropeline {
namespace {

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool StartsWithAny(std::string_view words, std::string_view text) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (end > 0 && text.starts_with(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

template <class Match>
const HfFamily* First(const Match& match) {
  for (const auto& families : {LlamaFamilies(), WindowFamilies(), GptFamilies(), ExpertFamilies(),
                               LatentFamilies(), HybridFamilies(), EncoderFamilies()}) {
    for (const HfFamily& family : families) {
      if (match(family)) return &family;
    }
  }
  return nullptr;
}

const HfFamily* ByType(const std::optional<std::string>& type) {
  if (!type || type->empty()) return nullptr;
  return First([&](const HfFamily& family) { return HasWord(family.model_types, *type); });
}

}  // namespace

void DropPositions(Blueprint* model, const std::function<bool(size_t layer)>& drops) {
  for (size_t i = 0; i < model->layers.size(); ++i) {
    if (drops(i)) model->layers[i].layer.self.position = {};
  }
}

void ShareLastLayers(const HfConfig& config, Blueprint* model) {
  constexpr HfKey kShared{"num_kv_shared_layers", 0, kMostLayers};
  const uint64_t shared = config.CountOr(kShared, 0), n = model->layers.size();
  if (shared >= n) {
    throw BadInput(config.Find(kShared)->where(), "is " + std::to_string(shared),
                   "fewer than the " + std::to_string(n) + " layers");
  }
  for (size_t i = n - shared; i < n; ++i) {
    Attention& self = model->layers[i].layer.self;
    for (size_t j = 0; j < n - shared; ++j) {
      if (model->layers[j].layer.self.kind == self.kind) self.shares_kv_with = static_cast<int>(j);
    }
    if (self.shares_kv_with < 0) {
      throw BadInput(config.Find(kShared)->where(),
                     "leaves layer " + std::to_string(i) + " no layer of its kind to share with",
                     "layers of each kind before the shared ones");
    }
  }
}

const HfFamily* FindHfFamily(const nlohmann::json& root, const std::string& file) {
  const JsonView whole(root, {file, ""});
  const JsonView text = TextPart(root, file);
  if (const HfFamily* family = ByType(text.FindString("model_type"))) return family;
  if (const HfFamily* family = ByType(whole.FindString("model_type"))) return family;
  for (const JsonView& view : {text, whole}) {
    const auto architectures = view.Find("architectures");
    if (!architectures || !architectures->is_array() || architectures->Items().empty()) continue;
    const std::string name = architectures->Items().front().String();
    const HfFamily* family =
        First([&](const HfFamily& row) { return StartsWithAny(row.architectures, name); });
    if (family != nullptr) return family;
  }
  return nullptr;
}

}  // namespace ropeline
