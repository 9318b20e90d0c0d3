#include "model/rope_keys.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

const Json* Find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// rope_parameters is one object, or holds one per kind of layer.
bool PerLayerType(const Json& dict) {
  if (dict.empty()) return false;
  for (const auto& [key, value] : dict.items()) {
    if (!value.is_object()) return false;
  }
  return true;
}

void AddTheta(const Json& object, std::string_view key, const std::string& path,
              const std::string& layer_type, bool top_level, RopeKeys* keys) {
  if (const Json* value = Find(object, key)) keys->thetas.push_back({path, value, layer_type, top_level});
}

void AddPlace(const Json& dict, const std::string& path, const std::string& layer_type, RopeKeys* keys) {
  const bool v5 = path.starts_with("rope_parameters");
  keys->places.push_back({path, &dict, layer_type, v5});
  AddTheta(dict, "rope_theta", path + ".rope_theta", layer_type, false, keys);
}

}  // namespace

bool RopePlace::Has(std::string_view key) const { return Find(*dict, key) != nullptr; }

std::optional<double> RopePlace::Number(std::string_view key) const { return NumberAt(*dict, key); }

std::string RopePlace::Text(std::string_view key) const {
  const Json* value = Find(*dict, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::string RopePlace::Type() const {
  if (Has("rope_type")) return Text("rope_type");
  return v5 && !Has("type") ? "default" : Text("type");
}

RopeKeys FindRopeKeys(const Json& text) {
  RopeKeys keys;
  for (const char* name : {"rope_theta", "rotary_emb_base", "rope_embedding_base", "rope_base"}) {
    AddTheta(text, name, name, "", true, &keys);
  }
  if (const Json* attention = Find(text, "attn_config")) {
    AddTheta(*attention, "rope_theta", "attn_config.rope_theta", "", true, &keys);
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* dict = Find(text, name);
    if (dict == nullptr || !dict->is_object()) continue;
    if (!PerLayerType(*dict)) {
      AddPlace(*dict, name, "", &keys);
      continue;
    }
    for (const auto& [layer_type, nested] : dict->items()) {
      AddPlace(nested, std::string(name) + "." + layer_type, layer_type, &keys);
    }
  }
  return keys;
}

std::optional<double> NumberAt(const Json& object, std::string_view key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

}  // namespace ropeline
