#include "model/lint_source.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model/config_json.h"
#include "model/gguf_file.h"
#include "model/gguf_keys.h"
#include "model/hf_config.h"
#include "model/open_model.h"
#include "model/presets.h"
#include "model/read_gguf.h"
#include "model/read_hf_config.h"
#include "model/rope_keys.h"
#include "model/rope_settings.h"
#include "model/units.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The object that TextPart found: "text_config.llm_config" from the root down.
Json TextObject(const Json& root, const std::string& name) {
  const std::string found = TextPart(root, name).where().key;
  std::string_view path = found;
  const Json* part = &root;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    part = &part->at(std::string(path.substr(0, dot)));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return *part;
}

std::string TextAt(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

void Complete(LintSource* source) {
  if (source->refusal.empty()) source->layers = RopeLayersOf(source->llm);
  source->family = FindRopeFamily(source->model_type, source->vocabulary);
}

// The keys that the checks look at, whatever the reader of whole models makes of them.
GgufRopeKeys RopeKeysOf(const GgufFile& file, const GgufKeys& keys) {
  GgufRopeKeys found;
  found.architecture = keys.architecture();
  for (const char* name : {"rope.freq_base", "rope.dimension_count", "rope.scaling.factor",
                           "rope.scaling.original_context_length"}) {
    const GgufValue* value = file.metadata.Find(keys.architecture() + "." + name);
    if (value != nullptr && !value->numbers.empty() && !value->is_array)
      found.numbers[name] = value->numbers[0];
  }
  const GgufValue* type = file.metadata.Find(keys.architecture() + ".rope.scaling.type");
  if (type != nullptr) found.scaling_type = type->text;
  found.has_tensors = !file.tensors.empty();
  found.has_rope_freqs = keys.FindTensor("rope_freqs.weight") != nullptr;
  return found;
}

LintSource OfGguf(const std::string& path) {
  const GgufFile file = ReadGgufFile(path);
  const GgufKeys keys(file);
  LintSource source;
  source.name = path;
  source.gguf = RopeKeysOf(file, keys);
  source.model_type = keys.architecture();
  try {
    source.llm = GgufToLlm(file, path);
    source.vocabulary = source.llm.vocabulary;
  } catch (const BadInput& e) {
    source.refusal = e.what();
  }
  Complete(&source);
  return source;
}

LintSource OfModel(const std::string& what, const Where& where) {
  LintSource source;
  source.llm = OpenModel(what, where);
  if (LooksLikeGguf(source.llm.source)) return OfGguf(source.llm.source);  // of a folder
  source.name = source.llm.name;
  source.model_type = source.llm.model_type;
  source.vocabulary = source.llm.vocabulary;
  Complete(&source);
  return source;
}

bool IsPreset(const std::string& what) {
  const std::vector<std::string> presets = PresetNames();
  return std::find(presets.begin(), presets.end(), what) != presets.end();
}

template <class T>
T Named(const std::map<std::string, T>& names, const std::string& value, const Where& where) {
  const auto it = names.find(value);
  if (it != names.end()) return it->second;
  std::string expected = "one of";
  for (const auto& entry : names) expected += " " + entry.first;
  throw BadInput(where, Quoted(value) + " is not known", expected);
}

// True where the key is one of a run's own, not of the schedule.
bool TakeRunKey(const std::string& key, const std::string& value, const Where& where, LintRuntime* runtime) {
  using Names = std::map<std::string, std::string>;
  if (key == "pairing" || key == "layout") {
    runtime->pairing = Named<std::string>(Names{{"half", "half"},
                                                {"neox", "half"},
                                                {"interleaved", "interleaved"},
                                                {"norm", "interleaved"},
                                                {"adjacent", "interleaved"}},
                                          value, where);
  } else if (key == "reader") {
    runtime->reader = Named<std::string>(Names{{"v4", "v4"}, {"v5", "v5"}}, value, where);
  } else if (key == "engine" || key == "semantics") {
    const auto hf = RopeSemantics::kHf, ggml = RopeSemantics::kGgml, paper = RopeSemantics::kPaper;
    runtime->semantics = Named<RopeSemantics>({{"hf", hf},
                                               {"transformers", hf},
                                               {"vllm", hf},
                                               {"ggml", ggml},
                                               {"llama.cpp", ggml},
                                               {"ollama", ggml},
                                               {"paper", paper}},
                                              value, where);
  } else if (key == "context" || key == "n_ctx" || key == "ctx_size" || key == "max_model_len") {
    runtime->context = ParseCount(value, where);
  } else if (key == "prompt") {
    runtime->prompt = ParseCount(value, where);
  } else {
    return false;
  }
  return true;
}

}  // namespace

LintSource LintSourceOf(const Json& root, const std::string& name) {
  LintSource source;
  source.name = name;
  source.config = TextObject(root, name);
  // Keys that a multimodal file has at the top only.
  source.model_type = TextAt(source.config, "model_type");
  if (source.model_type.empty()) source.model_type = TextAt(root, "model_type");
  for (const char* key : {"padded_vocab_size", "vocab_size"}) {
    const double vocabulary = NumberAt(source.config, key).value_or(0);
    if (vocabulary > 0 && vocabulary < 1e9) source.vocabulary = static_cast<uint64_t>(vocabulary);
  }
  try {
    source.llm = HfConfigToLlm(root, name, name);
  } catch (const BadInput& e) {
    source.refusal = e.what();
  }
  Complete(&source);
  return source;
}

LintSource OpenLintSource(const std::string& what, const Where& where) {
  std::error_code error;
  fs::path path = what;
  if (fs::is_directory(path, error) && fs::is_regular_file(path / "config.json", error))
    path /= "config.json";
  if (!IsPreset(what) && fs::is_regular_file(path, error) && LooksLikeGguf(path.string()))
    return OfGguf(path.string());
  const bool json = !IsPreset(what) && path.extension() == ".json" && fs::is_regular_file(path, error);
  if (!json || path.filename() == "params.json") return OfModel(what, where);
  return LintSourceOf(ReadConfigJson(path.string(), "a model's config.json"), path.string());
}

LintRuntime ParseLintRuntime(const std::vector<std::string>& settings, const Where& where) {
  LintRuntime runtime;
  for (const std::string& text : settings) {
    const size_t equals = text.find('=');
    std::string key = text.substr(0, equals);
    std::replace(key.begin(), key.end(), '-', '_');
    const Where at{where.file, where.key + " " + OneLine(key, 60)};
    if (equals != std::string::npos && TakeRunKey(key, text.substr(equals + 1), at, &runtime)) continue;
    const RopeSetting setting = ParseRopeSetting(text, where);
    RopeParameters checked;
    ApplyRopeSetting(setting, where, &checked);
    runtime.settings.emplace_back(setting.key, setting.value);
  }
  return runtime;
}

}  // namespace ropeline
