#include <fmt/format.h>

#include "model/engine/engine_predict.h"
#include "model/units.h"

namespace ropeline {
namespace {

// Ours for the engine's term; nothing where level kernels has none.
std::optional<double> OurMs(const std::vector<Term>& kernels, const std::string& term) {
  std::optional<double> ms;
  for (const Term& ours : kernels) {
    // What depth does not change is several terms of ours.
    const bool mine = term == "attention"
                          ? ours.name == "attention"
                          : ours.name == term || ours.name == "experts" || ours.name == "lm_head";
    if (mine) ms = ms.value_or(0) + ours.ms;
  }
  return ms;
}

template <class Value>
std::string Verdict(const Levels<Value>& levels, const char* doing, double limit_ms, double engine_ms,
                    const std::string& at) {
  const Value& engine = *levels.engine.value;
  std::string text =
      fmt::format("{}: your engine reaches {} of the limit at {}; the term that costs most is {}", doing,
                  FormatPercent(limit_ms / engine_ms), at, engine.binding_term);
  double most = 0;
  for (const Term& term : engine.terms) {
    if (term.name == engine.binding_term) most = term.ms;
  }
  text += fmt::format(" ({})", FormatMilliseconds(most));
  if (!levels.kernels.value) return text + "; our kernel for that term was not measured here.";
  const std::optional<double> ours = OurMs(levels.kernels.value->terms, engine.binding_term);
  if (!ours) return text + "; we have no kernel for that term.";
  return text + fmt::format("; our kernel for that term runs at {}.", FormatMilliseconds(*ours));
}

}  // namespace

std::string EngineVerdict(const PredictRequest& request, const Prediction& prediction) {
  std::string text;
  if (request.engine != nullptr && OfAnotherMachine(request)) return "";
  const std::string at = FormatCount(request.context) + " tokens";
  if (const auto& engine = prediction.decode.engine.value) {
    text += Verdict(prediction.decode, "decode", prediction.decode.limit.value->ms_per_token,
                    engine->ms_per_token, at) +
            "\n";
  }
  if (const auto& engine = prediction.prefill.engine.value) {
    text +=
        Verdict(prediction.prefill, "prefill", prediction.prefill.limit.value->seconds, engine->seconds, at) +
        "\n";
  }
  return text;
}

}  // namespace ropeline
