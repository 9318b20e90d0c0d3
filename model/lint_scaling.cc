// Checks of the object that extends the context: its type, its factor, its contexts and its lists.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/lint.h"
#include "model/rope_difference.h"
#include "model/rope_keys.h"
#include "model/units.h"

namespace ropeline {
namespace {

struct Scaling {
  const LintSource& source;
  const RopePlace& place;
  std::string type;
  std::optional<double> factor, original, top_original, max_context;
  std::vector<Finding>* findings;

  void Add(Severity severity, const char* check, std::string evidence, std::string consequence,
           std::string remedy) const {
    findings->push_back({severity, check, source.name, place.path + ": " + std::move(evidence),
                         std::move(consequence), std::move(remedy)});
  }
  double Original() const { return original.value_or(top_original.value_or(0)); }
};

constexpr std::array<const char*, 9> kTypes = {"default",  "linear", "dynamic",      "yarn", "llama3",
                                               "longrope", "su",     "proportional", "mrope"};

bool Known(const std::string& type) {
  return std::any_of(kTypes.begin(), kTypes.end(), [&](const char* known) { return type == known; });
}

void CheckType(const Scaling& s) {
  const std::string a = s.place.Text("type"), b = s.place.Text("rope_type");
  if (s.place.Has("type") && s.place.Has("rope_type")) {
    const bool same = a == b || (a == "su" && b == "longrope") || (a == "mrope" && b == "default");
    s.Add(same ? Severity::kNote : Severity::kError, "type_twice",
          fmt::format("type is \"{}\" and rope_type \"{}\"", a, b),
          same ? "both are read alike" : "old readers take type, new ones rope_type",
          same ? "rope_type alone is enough for transformers 4.45 and later" : "one type, under rope_type");
  }
  if (s.type.empty() && !s.place.v5) {
    s.Add(Severity::kError, "type_missing", "has neither type nor rope_type",
          "readers fail or apply no scaling at all", "write rope_type");
  } else if (!Known(s.type)) {
    s.Add(Severity::kError, "type_unknown", fmt::format("rope_type is \"{}\"", s.type),
          "readers fail, or take the frequencies as unscaled",
          "one of default, linear, dynamic, yarn, llama3, longrope, proportional");
  } else if (s.type == "su") {
    s.Add(Severity::kNote, "type_su", "type is \"su\"",
          "the older name of longrope; some readers know one only", "rename it longrope");
  }
}

void CheckUnknownKeys(const Scaling& s) {
  static constexpr std::array<const char*, 27> kKeys = {"type",
                                                        "rope_type",
                                                        "factor",
                                                        "original_max_position_embeddings",
                                                        "rope_theta",
                                                        "attention_factor",
                                                        "beta_fast",
                                                        "beta_slow",
                                                        "mscale",
                                                        "mscale_all_dim",
                                                        "truncate",
                                                        "low_freq_factor",
                                                        "high_freq_factor",
                                                        "short_factor",
                                                        "long_factor",
                                                        "short_mscale",
                                                        "long_mscale",
                                                        "partial_rotary_factor",
                                                        "mrope_section",
                                                        "mrope_interleaved",
                                                        "alpha",
                                                        "finetuned",
                                                        "attn_factor",
                                                        "extrapolation_factor",
                                                        "max_position_embeddings",
                                                        "llama_4_scaling_beta",
                                                        "head_dim"};
  for (const auto& [key, value] : s.place.dict->items()) {
    const std::string name = key;
    if (std::any_of(kKeys.begin(), kKeys.end(), [&](const char* known) { return name == known; })) continue;
    s.Add(Severity::kWarning, "key_unknown", "holds " + Quoted(key), "no reader known here looks at it",
          "check its spelling");
  }
}

void CheckFactor(const Scaling& s) {
  const bool needed = s.type == "linear" || s.type == "dynamic" || s.type == "llama3" ||
                      (s.type == "yarn" && !(s.Original() > 0 && s.max_context));
  if (!s.factor) {
    if (!needed) return;
    s.Add(Severity::kError, "factor_missing",
          s.place.Has("factor") ? "factor is no number" : "factor is missing",
          "readers fail or apply no scaling at all", "write factor");
  } else if (!(*s.factor >= 1)) {
    s.Add(Severity::kError, "factor_value", fmt::format("factor is {:g}", *s.factor),
          "below 1 the context shrinks and every angle runs ahead of training; Hugging Face's YaRN and ggml "
          "part "
          "over the temperature as well (1 against 0.1·ln s + 1)",
          "the ratio of the new context to the trained one, above 1");
  } else if (*s.factor == 1 && s.type != "dynamic" && s.type != "proportional") {
    s.Add(Severity::kNote, "factor_one", "factor is 1", "nothing is scaled",
          "drop the object, or write the factor");
  }
}

// factor × original = max_position_embeddings, where a file that raised its maximum means that.
void CheckProduct(const Scaling& s) {
  if (s.type != "yarn" || !s.factor || !(s.Original() > 0) || !s.max_context) return;
  const double product = *s.factor * s.Original(), most = *s.max_context;
  if (std::abs(product / most - 1) < 0.01) return;
  const std::string evidence =
      fmt::format("factor {:g} × original_max_position_embeddings {} is {}, max_position_embeddings is {}",
                  *s.factor, FormatTokens(s.Original()), FormatTokens(product), FormatTokens(most));
  if (most < 1.5 * s.Original()) {
    s.Add(Severity::kWarning, "factor_product", evidence,
          fmt::format(
              "transformers before 4.56 took {:.3g} = max / original for the factor, so that nothing was "
              "scaled; newer ones take {:g}",
              most / s.Original(), *s.factor),
          fmt::format("max_position_embeddings {}, or a transformers that takes factor as given",
                      FormatTokens(product)));
    return;
  }
  s.Add(
      Severity::kError, "factor_product", evidence,
      product < most ? fmt::format("beyond {} tokens slow bands reach angles that training never showed",
                                   FormatTokens(product))
                     : fmt::format("bands are squeezed {:.3g} times more than {} tokens need", product / most,
                                   FormatTokens(most)),
      fmt::format("factor {:g}, or the contexts that {:g} is the ratio of", most / s.Original(), *s.factor));
}

void CheckOriginal(const Scaling& s) {
  if (s.original && s.top_original && *s.original != *s.top_original) {
    s.Add(Severity::kError, "original_twice",
          fmt::format("original_max_position_embeddings is {} here and {} at the top",
                      FormatTokens(*s.original), FormatTokens(*s.top_original)),
          "transformers 5 takes the one at the top, others the one inside", "one value");
  }
  const bool needed = s.type == "yarn" || s.type == "llama3" || s.type == "longrope" || s.type == "su";
  if (needed && !(s.Original() > 0)) {
    const double factor = s.factor.value_or(1);
    std::string consequence = "readers fail";
    if (s.type == "llama3") consequence += ", or take 8192 (llama.cpp's converter)";
    if (s.type == "yarn") {
      consequence = fmt::format(
          "readers take max_position_embeddings{}, and keep bands that the trained context "
          "turned too rarely",
          s.max_context ? ", " + FormatTokens(*s.max_context) : "");
    }
    s.Add(Severity::kError, "original_missing",
          "original_max_position_embeddings is missing, here and at the top", consequence,
          s.max_context && factor > 1
              ? fmt::format("write the trained context; {} / {:g} would be {}", FormatTokens(*s.max_context),
                            factor, FormatTokens(*s.max_context / factor))
              : "write the trained context");
  }
  if (s.Original() > 0 && s.max_context && s.Original() > *s.max_context) {
    s.Add(Severity::kError, "original_above",
          fmt::format("original_max_position_embeddings {} is above max_position_embeddings {}",
                      FormatTokens(s.Original()), FormatTokens(*s.max_context)),
          "the two are swapped, or one has a digit too many", "the trained context, then the extended one");
  }
}

void CheckList(const Scaling& s, const char* key, size_t pairs) {
  if (!s.place.Has(key) || !s.place.dict->at(key).is_array()) {
    s.Add(Severity::kError, "longrope_lists", fmt::format("{} is missing", key), "readers fail",
          fmt::format("a divisor for each of {} pairs", pairs));
    return;
  }
  const auto& list = s.place.dict->at(key);
  if (pairs > 0 && list.size() != pairs) {
    s.Add(Severity::kError, "longrope_lists", fmt::format("{} has {} numbers", key, list.size()),
          fmt::format(
              "{} dimensions turn, which are {} pairs: readers fail or pair bands with others' divisors",
              2 * pairs, pairs),
          fmt::format("{} numbers, or the partial_rotary_factor that the list was made for", pairs));
  }
  const bool numbers = std::all_of(
      list.begin(), list.end(), [](const auto& x) { return x.is_number() && x.template get<double>() > 0; });
  if (!numbers) {
    s.Add(Severity::kError, "longrope_lists",
          fmt::format("{} holds something that is no number above 0", key), "readers fail or bands run away",
          "divisors above 0");
  }
}

// Pairs that turn, from the model or from the file's own widths.
size_t RotatedPairs(const LintSource& source) {
  if (!source.layers.empty()) return source.layers.front().rope.d_rot / 2;
  const auto number = [&](const char* key) { return NumberAt(source.config, key).value_or(0); };
  double width = number("qk_rope_head_dim");
  if (width == 0) {
    width = number("head_dim");
    const double heads = number("num_attention_heads");
    if (width == 0 && heads > 0) width = number("hidden_size") / heads;
    width *= NumberAt(source.config, "partial_rotary_factor").value_or(1);
  }
  return width >= 0 && width < 1e6 ? static_cast<size_t>(width / 2) : 0;
}

void CheckLongrope(const Scaling& s) {
  if (s.type != "longrope" && s.type != "su") return;
  const size_t pairs = RotatedPairs(s.source);
  CheckList(s, "short_factor", pairs);
  CheckList(s, "long_factor", pairs);
  if (s.Original() > 0 && s.max_context && *s.max_context > s.Original()) {
    s.Add(Severity::kNote, "longrope_switch",
          fmt::format("two lists, changed at {} tokens", FormatTokens(s.Original())),
          "Hugging Face chooses by the tokens there are now, llama.cpp by the capacity of the cache: a short "
          "prompt "
          "in a large cache runs on other frequencies there, and crossing the border makes every cached key "
          "stale",
          fmt::format("a capacity of at most {} for short work", FormatTokens(s.Original())));
  }
}

void CheckYarn(const Scaling& s) {
  if (s.type != "yarn") return;
  const double fast = s.place.Number("beta_fast").value_or(32),
               slow = s.place.Number("beta_slow").value_or(1);
  if (fast < slow) {
    s.Add(Severity::kError, "betas", fmt::format("beta_fast {:g} is below beta_slow {:g}", fast, slow),
          "the ramp is inverted: fast bands are divided and slow ones kept (ggml makes it a step instead)",
          fmt::format("beta_fast {:g}, beta_slow {:g}", slow, fast));
  }
  const auto given = s.place.Number("attention_factor");
  const double expected = s.factor ? 0.1 * std::log(*s.factor) + 1 : 0;
  if (given && s.factor && *s.factor >= 1 && std::abs(*given / expected - 1) > 1e-3) {
    s.Add(Severity::kWarning, "attention_factor",
          fmt::format("attention_factor is {:g}, 0.1·ln({:g}) + 1 is {:.6g}", *given, *s.factor, expected),
          "Hugging Face takes the given one; ggml multiplies both",
          "drop it, unless the model was trained with it");
  }
  const auto mscale = s.place.Number("mscale"), all_dim = s.place.Number("mscale_all_dim");
  if (mscale.value_or(0) != 0 && all_dim.value_or(0) == 0) {
    s.Add(Severity::kWarning, "mscale", fmt::format("mscale is {:g} without mscale_all_dim", *mscale),
          "Hugging Face ignores it then; DeepSeek's own code does not", "give both, or attention_factor");
  }
  if (s.place.Has("truncate") && s.place.dict->at("truncate") == false) {
    const bool nested = !s.place.layer_type.empty();
    s.Add(
        nested ? Severity::kWarning : Severity::kNote, nested ? "truncate_nested" : "truncate",
        "truncate is false",
        nested
            ? "transformers 5 reads it from the outer object only, and rounds the ramp's bounds here"
            : "GGUF has no key for it: llama.cpp rounds the ramp's bounds, which moves bands within the ramp",
        nested ? "compare frequencies with `ropeline rope`"
               : "expect small differences between the two engines");
  }
}

void CheckLlama3(const Scaling& s) {
  if (s.type != "llama3") return;
  const auto low = s.place.Number("low_freq_factor"), high = s.place.Number("high_freq_factor");
  if (!low || !high) {
    s.Add(Severity::kError, "llama3_factors",
          fmt::format("{} is missing", low ? "high_freq_factor" : "low_freq_factor"), "readers fail",
          "Llama 3.1's are 1 and 4");
  } else if (!(*low < *high)) {
    s.Add(Severity::kError, "llama3_factors",
          fmt::format("low_freq_factor {:g} is not below high_freq_factor {:g}", *low, *high),
          "the ramp between them divides by zero or is inverted", "low below high; Llama 3.1's are 1 and 4");
  }
}

void CheckDynamic(const Scaling& s) {
  if (s.type != "dynamic") return;
  s.Add(Severity::kNote, "dynamic",
        fmt::format("the base grows with the length beyond {}",
                    s.max_context ? FormatTokens(*s.max_context) : "the maximum"),
        "llama.cpp has no such type and runs unscaled; in Hugging Face a cached key keeps the base of its "
        "own step",
        "prefill anew when the length grows, or use a static schedule");
}

// Kinds of layers that the file lists and gives no parameters for.
void CheckLayerTypes(const LintSource& source, const RopeKeys& keys, std::vector<Finding>* findings) {
  const auto types = source.config.find("layer_types");
  const bool nested = std::any_of(keys.places.begin(), keys.places.end(),
                                  [](const RopePlace& place) { return !place.layer_type.empty(); });
  if (!nested || types == source.config.end() || !types->is_array()) return;
  std::vector<std::string> missing;
  for (const auto& type : *types) {
    if (!type.is_string()) continue;
    const std::string name = type.get<std::string>();
    const bool has = std::any_of(keys.places.begin(), keys.places.end(),
                                 [&](const RopePlace& place) { return place.layer_type == name; });
    const bool attention = name.find("attention") != std::string::npos && name != "linear_attention";
    if (has || !attention || std::find(missing.begin(), missing.end(), name) != missing.end()) continue;
    missing.push_back(name);
    findings->push_back({Severity::kError, "layer_type_missing", source.name,
                         "layer_types has \"" + name + "\" and rope_parameters has nothing for it",
                         "readers fail, or these layers get the default base without scaling",
                         "rope_parameters." + name});
  }
}

}  // namespace

void LintScaling(const LintSource& source, std::vector<Finding>* findings) {
  if (!source.config.is_object()) return;
  const RopeKeys keys = FindRopeKeys(source.config);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto it = source.config.find(name);
    if (it == source.config.end() || it->is_null() || it->is_object()) continue;
    findings->push_back({Severity::kError, "scaling_value", source.name, std::string(name) + " is no object",
                         "readers fail or apply no scaling at all", "an object, or null"});
  }
  for (const RopePlace& place : keys.places) {
    Scaling s{source, place, place.Type(), {}, {}, {}, {}, findings};
    s.factor = place.Number("factor");
    s.original = place.Number("original_max_position_embeddings");
    s.top_original = NumberAt(source.config, "original_max_position_embeddings");
    s.max_context = NumberAt(source.config, "max_position_embeddings");
    if (place.dict->empty()) continue;
    CheckType(s);
    CheckUnknownKeys(s);
    CheckFactor(s);
    CheckOriginal(s);
    CheckProduct(s);
    CheckLongrope(s);
    CheckYarn(s);
    CheckLlama3(s);
    CheckDynamic(s);
  }
  CheckLayerTypes(source, keys, findings);
}

}  // namespace ropeline
