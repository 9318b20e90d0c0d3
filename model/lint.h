// Checks of what a model's files say about rotary positions: the mistakes that give fluent, wrong text
// instead of an error.
#ifndef ROPELINE_MODEL_LINT_H_
#define ROPELINE_MODEL_LINT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/finding.h"
#include "model/llm.h"
#include "model/rope_check.h"
#include "model/rope_families.h"

namespace ropeline {

// Rotary metadata of a GGUF. Numbers by key without the architecture's prefix ("rope.freq_base"), as far as
// they are there.
struct GgufRopeKeys {
  std::string architecture;
  std::map<std::string, double> numbers;
  std::string scaling_type;  // "" absent
  bool has_tensors = false;  // false: a vocabulary or a header alone, which proves nothing by what it lacks
  bool has_rope_freqs = false;
};

struct LintSource {
  std::string name;       // as the user gave it
  nlohmann::json config;  // config.json's part that describes the text model; null for others
  std::optional<GgufRopeKeys> gguf;
  Llm llm;              // meaningless where `refusal` is not empty
  std::string refusal;  // why the reader of the whole model gave up
  std::vector<RopeLayers> layers;
  std::string model_type;
  uint64_t vocabulary = 0;
  const RopeFamily* family = nullptr;  // nullptr unknown
};

// What a run is told beside the files. `settings` are rotary parameters that replace the file's.
struct LintRuntime {
  std::vector<std::pair<std::string, std::string>> settings;  // canonical key (rope_settings.h), value
  std::optional<std::string> pairing;                         // "half", "interleaved"
  std::optional<std::string> reader;  // "v4": top-level rope_theta and rope_scaling; "v5": rope_parameters
  std::optional<RopeSemantics> semantics;
  std::optional<uint64_t> context;  // tokens of the cache
  std::optional<uint64_t> prompt;   // tokens that are usual
  bool empty() const { return settings.empty() && !pairing && !reader && !semantics && !context && !prompt; }
};

// Each appends what it finds about one source.
void LintThetas(const LintSource& source, const LintRuntime& runtime, std::vector<Finding>* findings);
void LintScaling(const LintSource& source, std::vector<Finding>* findings);
void LintLayers(const LintSource& source, const LintRuntime& runtime, std::vector<Finding>* findings);
void LintGguf(const LintSource& source, std::vector<Finding>* findings);

// All of these; errors first, then warnings, each in the order of the checks.
std::vector<Finding> LintOne(const LintSource& source, const LintRuntime& runtime);

void SortBySeverity(std::vector<Finding>* findings);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LINT_H_
