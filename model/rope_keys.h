// Where a config.json says something about rotation. Files of transformers 4 have rope_theta and a
// rope_scaling object at the top; files of transformers 5 have both in rope_parameters, which may hold an
// object per kind of layer.
#ifndef ROPELINE_MODEL_ROPE_KEYS_H_
#define ROPELINE_MODEL_ROPE_KEYS_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

struct RopePlace {
  std::string path;                      // "rope_scaling", "rope_parameters.full_attention"
  const nlohmann::json* dict = nullptr;  // an object
  std::string layer_type;                // "" where it is for all layers
  bool v5 = false;                       // below rope_parameters

  bool Has(std::string_view key) const;                      // there, and not null
  std::optional<double> Number(std::string_view key) const;  // nothing where absent or not a number
  std::string Text(std::string_view key) const;              // "" where absent or not a string
  // rope_type, or type, or for an object of transformers 5 without either "default".
  std::string Type() const;
};

struct RopeTheta {
  std::string path;
  const nlohmann::json* value = nullptr;
  std::string layer_type;
  bool top_level = true;
};

struct RopeKeys {
  std::vector<RopePlace> places;
  std::vector<RopeTheta> thetas;
};

// `text`: the object that describes the text model. It must outlive the result.
RopeKeys FindRopeKeys(const nlohmann::json& text);

// The value of a key at the top, where it is a number.
std::optional<double> NumberAt(const nlohmann::json& object, std::string_view key);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_KEYS_H_
