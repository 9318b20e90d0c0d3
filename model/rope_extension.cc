#include "model/rope_extension.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/units.h"

namespace ropeline {
namespace {

// "82,684.6"
std::string Tenths(double value) {
  const auto tenths = static_cast<uint64_t>(std::llround(value * 10));
  return fmt::format("{}.{}", FormatCount(tenths / 10), tenths % 10);
}

std::string NoteFor(const Extension& extension, double context, RopeSemantics semantics) {
  const RopeParameters& p = extension.rope;
  switch (p.type) {
    case RopeType::kLinear:
      return fmt::format("position {} → {}", FormatTokens(context - 1), Tenths((context - 1) / p.factor));
    case RopeType::kNtk:
      return fmt::format("base {}; band 0 unchanged, the last ÷ {:.6g}", Tenths(*extension.effective_base),
                         p.factor);
    case RopeType::kDynamic:
      if (semantics == RopeSemantics::kGgml) return "ggml has no such type and leaves every band alone";
      return fmt::format("base {} at this length, {} up to {}; cached keys keep the base of their step",
                         Tenths(*extension.effective_base), Tenths(p.base), FormatTokens(p.max_context));
    case RopeType::kYarn:
      return fmt::format("attention factor {:.4f} = 0.1·ln({:g}) + 1", extension.frequencies.attention_factor,
                         p.factor);
    case RopeType::kLlama3:
      return fmt::format("kept above {:g} turns, ÷ {:.6g} below {:g}",
                         p.high_freq_factor > 0 ? p.high_freq_factor : 4, p.factor,
                         p.low_freq_factor > 0 ? p.low_freq_factor : 1);
    case RopeType::kLongrope:
      return fmt::format("the {} list", context > p.original_context ? "long" : "short");
    case RopeType::kDefault:
    case RopeType::kQwenDynamic:
    case RopeType::kProportional:
      break;
  }
  return "";
}

}  // namespace

const std::vector<ExtensionMethod>& ExtensionMethods() {
  static const auto* const methods = new std::vector<ExtensionMethod>{
      {"none", RopeType::kDefault, "positions beyond training, as they come",
       "would need training at that length"},
      {"pi", RopeType::kLinear, "every band ÷ s", "usual: 1,000 steps (PI, section 3)"},
      {"ntk", RopeType::kNtk, "base · s^(d/(d−2)): first band kept, last ÷ s",
       "not needed at modest s; quality falls as s grows (YaRN, section 3.1)"},
      {"dynamic", RopeType::kDynamic, "NTK by the tokens there are now",
       "not needed at modest s (YaRN, section 3.3)"},
      {"yarn", RopeType::kYarn, "kept above 32 turns, ÷ s below one, a ramp between, and a temperature",
       "usual: 400 steps, a tenth of PI's tokens (YaRN, section 4)"},
      {"llama3", RopeType::kLlama3, "kept above 4 turns, ÷ s below one, a ramp in turns between",
       "usual: long-context training in stages (Llama 3, section 3.4.2)"},
      {"longrope", RopeType::kLongrope, "a searched divisor per band, one list for short and one for long",
       "usual, after the search for the divisors (LongRoPE, section 3)"}};
  return *methods;
}

std::vector<const ExtensionMethod*> ParseExtensionMethods(std::string_view text, const Where& where) {
  std::string expected = "all, or names separated by commas:";
  for (const ExtensionMethod& method : ExtensionMethods()) expected += std::string(" ") + method.name;
  std::vector<const ExtensionMethod*> chosen = {&ExtensionMethods().front()};
  if (text == "all") {
    for (const ExtensionMethod& method : ExtensionMethods()) {
      if (&method != chosen.front()) chosen.push_back(&method);
    }
    return chosen;
  }
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    const ExtensionMethod* found = nullptr;
    for (const ExtensionMethod& method : ExtensionMethods()) {
      if (name == method.name || (name == "linear" && method.type == RopeType::kLinear)) found = &method;
    }
    if (found == nullptr) throw BadInput(where, Quoted(name) + " is not an extension method", expected);
    if (std::find(chosen.begin(), chosen.end(), found) == chosen.end()) chosen.push_back(found);
    if (comma == std::string_view::npos) return chosen;
    text.remove_prefix(comma + 1);
  }
}

Extension Extend(const ExtensionMethod& method, const RopeParameters& trained, double context,
                 std::optional<double> factor, RopeSemantics semantics) {
  const double trained_tokens = TrainedContext(trained);
  Extension extension;
  extension.method = &method;
  RopeParameters& p = extension.rope = trained;
  p.type = method.type;
  p.freq_factors.clear();
  p.original_context = p.max_context = trained_tokens;
  p.factor = factor.value_or(method.type == RopeType::kDynamic ? 1 : context / trained_tokens);
  p.factor_given = true;
  if (method.type == RopeType::kLongrope && (p.short_factor.empty() || p.long_factor.empty())) {
    extension.missing = "needs short_factor and long_factor, which a search finds for a model";
    return extension;
  }
  if (const auto problem = FindRopeProblem(p)) {
    extension.missing = problem->key + " " + problem->wrong + ", expected " + problem->expected;
    return extension;
  }
  const RopeLength length{static_cast<uint64_t>(context), 0};
  extension.frequencies = FrequenciesOf(p, length, semantics);
  const std::vector<double>& inv_freq = extension.frequencies.inv_freq;
  if (method.type == RopeType::kNtk || method.type == RopeType::kDynamic) {
    extension.effective_base = std::pow(inv_freq[1], -static_cast<double>(p.d_rot) / 2);
  }
  extension.bands = RopeBands(UnscaledInvFreq(p), inv_freq, trained_tokens, context);
  extension.coverage = Summarise(extension.bands);
  extension.note = NoteFor(extension, context, semantics);
  return extension;
}

}  // namespace ropeline
