#include "model/read_hf_config.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/config_json.h"
#include "model/hf_family.h"
#include "model/hf_layers.h"
#include "model/hf_unknown.h"

namespace ropeline {
namespace {

// Stands in for a family that is not known.
constexpr HfFamily kUnknown{.model_types = "llama", .recipe = {.windows = WindowRule::kAll}};

std::string TypeOf(const nlohmann::json& root, const std::string& file) {
  const JsonView view(root, {file, ""});
  if (const auto type = view.FindString("model_type")) return *type;
  return TextPart(root, file).FindString("model_type").value_or("");
}

}  // namespace

Llm HfConfigToLlm(const nlohmann::json& root, const std::string& file, const std::string& name) {
  const HfFamily* known = FindHfFamily(root, file);
  const HfFamily& family = known != nullptr ? *known : kUnknown;
  const HfConfig config(root, file, family.Name(), family.defaults);
  if (known == nullptr) RefuseUnlikeLlama(config);
  Blueprint model = FillBlueprint(config, family);
  if (family.adjust != nullptr) family.adjust(config, &model);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].layer.recurrent.form != kUnsaidForm) continue;
    // Of two stacks only the decoder's list is at hand.
    const auto list = config.Find(kHfLayerTypes);
    const std::vector<JsonView> types = list && list->is_array() ? list->Items() : std::vector<JsonView>();
    throw BadInput(i < types.size() ? types[i].where() : Where{file, "layer_types"},
                   "is no kind of layer that is known here",
                   "full_attention, sliding_attention or chunked_attention");
  }
  for (const LayerPlan& layer : model.layers) {
    const FeedForward& ffn = layer.layer.ffn;
    if (ffn.kind != FfnKind::kNone && ffn.width == 0 && ffn.expert_width == 0) {
      config.Missing(kHfFfn, "the width of the feed-forward");
    }
  }
  model.llm.name = name;
  model.llm.source = file;
  model.llm.model_type = TypeOf(root, file);
  Llm llm = Assemble(model, file);
  if (known == nullptr) {
    llm.warnings.insert(
        llm.warnings.begin(),
        "model_type " + Quoted(llm.model_type) +
            " is not known: read as a llama, so parameters may be off by norms, biases and the form of "
            "the feed-forward");
  }
  if (std::string filled = config.FilledWarning(); !filled.empty()) llm.warnings.push_back(std::move(filled));
  return llm;
}

Llm ReadHfConfig(const std::string& path) {
  const nlohmann::json root = ReadConfigJson(path, "a model's config.json");
  const std::filesystem::path full = std::filesystem::absolute(path);
  std::string name = full.parent_path().filename().string();
  if (name.empty()) name = TypeOf(root, path);
  return HfConfigToLlm(root, path, name);
}

}  // namespace ropeline
