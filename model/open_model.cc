#include "model/open_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/config_json.h"
#include "model/file_tensors.h"
#include "model/gguf_file.h"
#include "model/presets.h"
#include "model/read_gguf.h"
#include "model/read_hf_config.h"
#include "model/read_params_json.h"
#include "model/safetensors.h"
#include "model/stored_weights.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

// The file in a folder that describes its model; nothing where there is none.
std::optional<fs::path> DescriptionIn(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"config.json", "params.json"}) {
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  }
  return std::nullopt;
}

Llm OpenFile(const fs::path& path) {
  if (LooksLikeGguf(path.string())) return ReadGguf(path.string());
  const nlohmann::json root = ReadConfigJson(path.string(), "a model's config.json or params.json");
  const std::string folder = fs::absolute(path).parent_path().filename().string();
  const bool named = path.filename() == "config.json" || path.filename() == "params.json";
  const std::string name = named && !folder.empty() ? folder : path.stem().string();
  return IsParamsJson(root) ? ParamsJsonToLlm(root, path.string(), name)
                            : HfConfigToLlm(root, path.string(), name);
}

}  // namespace

Llm OpenModel(const std::string& what, const Where& where) {
  const std::vector<std::string> presets = PresetNames();
  if (std::find(presets.begin(), presets.end(), what) != presets.end()) return Preset(what, where);
  std::error_code error;
  const fs::path path = what;
  if (!what.empty() && fs::is_directory(path, error)) {
    if (const auto file = DescriptionIn(path)) {
      Llm llm = OpenFile(*file);
      if (const auto weights = FindSafetensors(what)) TakeSafetensors(*weights, &llm);
      return llm;
    }
    if (const auto file = FindGgufIn(what)) return ReadGguf(*file);
    throw BadInput({what, ""}, "is a folder without a model", "one with a config.json, params.json or .gguf");
  }
  if (!what.empty() && (fs::exists(path, error) || LooksLikeGguf(what))) return OpenFile(path);
  return Preset(what, where);  // says what there is
}

}  // namespace ropeline
