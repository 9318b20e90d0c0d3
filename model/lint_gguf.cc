// Checks of a GGUF's rotary keys (ggml's docs/gguf.md; llama.cpp's src/llama-model.cpp for what an absent one
// means).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/lint.h"

namespace ropeline {
namespace {

struct Keys {
  const LintSource& source;
  const GgufRopeKeys& gguf;
  std::vector<Finding>* findings;

  std::optional<double> Number(const char* key) const {
    const auto it = gguf.numbers.find(key);
    return it == gguf.numbers.end() ? std::nullopt : std::optional(it->second);
  }
  std::string Name(const char* key) const { return gguf.architecture + "." + key; }
  void Add(Severity severity, const char* check, std::string evidence, std::string consequence,
           std::string remedy) const {
    findings->push_back(
        {severity, check, source.name, std::move(evidence), std::move(consequence), std::move(remedy)});
  }
};

bool Among(double theta, const std::vector<double>& thetas) {
  // A GGUF keeps the base in f32, and converters have lost digits: 999999.4375.
  return std::any_of(thetas.begin(), thetas.end(),
                     [&](double known) { return std::abs(theta / known - 1) < 1e-4; });
}

void CheckBase(const Keys& keys) {
  const RopeFamily* family = keys.source.family;
  const auto base = keys.Number("rope.freq_base");
  const double taken = base.value_or(10000);
  const std::string evidence = base
                                   ? fmt::format("{} is {:.12g}", keys.Name("rope.freq_base"), *base)
                                   : fmt::format("no {}: llama.cpp takes 10000", keys.Name("rope.freq_base"));
  if (family == nullptr) {
    if (base) return;
    keys.Add(Severity::kWarning, "gguf_freq_base", evidence,
             "whether it was trained with that is not known here",
             "convert again with a converter that writes the key, or pass --rope-freq-base");
  } else if (Among(taken, family->thetas)) {
    if (base) return;
    keys.Add(Severity::kNote, "gguf_freq_base",
             fmt::format("{}; {} was trained with it", evidence, family->name),
             "right, if the file is of that family", "convert again to have it written");
  } else {
    const bool silent = taken == 10000;
    keys.Add(silent && family->certain ? Severity::kError : Severity::kWarning, "gguf_freq_base",
             fmt::format("{}; {} is published with {:.12g}", evidence, family->name, family->thetas.front()),
             silent ? "fluent, wrong text" : "right only if this copy was trained on with that base",
             fmt::format("convert again, or pass --rope-freq-base {:.12g}", family->thetas.front()));
  }
}

void CheckScaling(const Keys& keys) {
  static constexpr std::array<const char*, 5> kTypes = {"", "none", "linear", "yarn", "longrope"};
  const std::string& type = keys.gguf.scaling_type;
  const auto original = keys.Number("rope.scaling.original_context_length"),
             factor = keys.Number("rope.scaling.factor");
  if (std::none_of(kTypes.begin(), kTypes.end(), [&](const char* known) { return type == known; })) {
    keys.Add(Severity::kError, "gguf_scaling_type",
             fmt::format("{} is \"{}\"", keys.Name("rope.scaling.type"), type),
             "llama.cpp applies no scaling", "none, linear, yarn or longrope");
  }
  if (type == "yarn" && !original) {
    keys.Add(Severity::kError, "gguf_original_missing",
             fmt::format("yarn without {}", keys.Name("rope.scaling.original_context_length")),
             "llama.cpp takes context_length, and keeps bands that the trained context turned too rarely",
             "convert again, or pass --yarn-orig-ctx");
  }
  if ((type == "yarn" || type == "linear") && !factor) {
    keys.Add(Severity::kError, "gguf_factor_missing",
             fmt::format("{} without {}", type, keys.Name("rope.scaling.factor")), "llama.cpp scales by 1",
             "convert again, or pass --rope-scale");
  }
  if (type.empty() && factor && *factor != 1) {
    keys.Add(Severity::kWarning, "gguf_scaling_type",
             fmt::format("{} is {:g} without {}", keys.Name("rope.scaling.factor"), *factor,
                         keys.Name("rope.scaling.type")),
             "llama.cpp takes it as linear", "name the type");
  }
}

}  // namespace

void LintGguf(const LintSource& source, std::vector<Finding>* findings) {
  if (!source.gguf || (source.layers.empty() && source.refusal.empty())) return;
  const Keys keys{source, *source.gguf, findings};
  CheckBase(keys);
  CheckScaling(keys);
}

}  // namespace ropeline
