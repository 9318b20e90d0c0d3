// Checks of what the keys come to: rotated widths, windows, and contexts against what training showed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/lint.h"
#include "model/rope_keys.h"
#include "model/units.h"

namespace ropeline {
namespace {

const RopeLayers* FarReaching(const LintSource& source) {
  for (const RopeLayers& layers : source.layers) {
    if (layers.layer_type != "sliding_attention") return &layers;
  }
  return source.layers.empty() ? nullptr : &source.layers.front();
}

bool AnyUnlimited(const LintSource& source, const RopeLayers& layers) {
  return layers.layers.empty() || std::any_of(layers.layers.begin(), layers.layers.end(),
                                              [&](size_t i) { return !source.llm.layers[i].self.limited(); });
}

void CheckPartial(const LintSource& source, const RopeLayers& layers, std::vector<Finding>* findings) {
  const RopeFamily* family = source.family;
  if (family == nullptr || !(family->partial_rotary > 0) || family->partial_rotary >= 1) return;
  const double share = static_cast<double>(layers.rope.d_rot) / static_cast<double>(layers.rope.d_head);
  // Widths are whole: a share may be off by a dimension or two.
  const bool as_published =
      std::abs(share - family->partial_rotary) * static_cast<double>(layers.rope.d_head) < 2;
  bool given = source.gguf && source.gguf->numbers.count("rope.dimension_count") > 0;
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rotary_dim", "rope_pct"}) {
    given = given || NumberAt(source.config, key).has_value();
  }
  if (source.config.is_object()) {
    for (const RopePlace& place : FindRopeKeys(source.config).places) {
      given = given || place.Has("partial_rotary_factor");
    }
  }
  if (as_published && given) return;
  const std::string evidence = fmt::format(
      "{} turns {:g} of each head; here {} of {} dimensions turn{}", family->name, family->partial_rotary,
      layers.rope.d_rot, layers.rope.d_head, given ? "" : ", and no key says how many should");
  if (as_published) {
    findings->push_back({Severity::kNote, "partial_default", source.name, evidence,
                         "right by the family's default; a reader without that default turns the whole head",
                         fmt::format("write partial_rotary_factor {:g}", family->partial_rotary)});
  } else if (share == 1 || !given) {
    findings->push_back({Severity::kError, "partial_lost", source.name, evidence,
                         "dimensions that carry no position are turned, and every frequency is another",
                         fmt::format("partial_rotary_factor {:g}", family->partial_rotary)});
  }
}

void CheckPartialAgreement(const LintSource& source, const RopeLayers& layers,
                           std::vector<Finding>* findings) {
  const auto factor = NumberAt(source.config, "partial_rotary_factor"),
             pct = NumberAt(source.config, "rotary_pct"), dim = NumberAt(source.config, "rotary_dim");
  const auto head = static_cast<double>(layers.rope.d_head);
  const auto clash = [&](const char* a, double wide, const char* b, double other) {
    if (std::abs(wide - other) < 1) return;
    findings->push_back({Severity::kError, "partial_twice", source.name,
                         fmt::format("{} means {:g} dimensions and {} {:g}", a, wide, b, other),
                         "which of the two is used depends on the reader", "one value"});
  };
  if (factor && pct) clash("partial_rotary_factor", *factor * head, "rotary_pct", *pct * head);
  if (factor && dim) clash("partial_rotary_factor", *factor * head, "rotary_dim", *dim);
  if (pct && dim) clash("rotary_pct", *pct * head, "rotary_dim", *dim);
}

void CheckDroppedScaling(const LintSource& source, const RopeLayers& layers, std::vector<Finding>* findings) {
  const RopeFamily* family = source.family;
  const RopeParameters& p = layers.rope;
  if (family == nullptr || !(family->native_context > 0) || p.type != RopeType::kDefault) return;
  if (!p.freq_factors.empty() || !(p.max_context > family->native_context)) return;
  if (source.gguf && !source.gguf->has_tensors) return;  // the divisors are a tensor
  findings->push_back(
      {Severity::kError, "scaling_dropped", source.name,
       fmt::format(
           "{} reaches beyond {} tokens by scaling only; here max_position_embeddings is {} and nothing "
           "scales",
           family->name, FormatTokens(family->native_context), FormatTokens(p.max_context)),
       fmt::format(
           "every token is rotated by another schedule than in training, short prompts included, and beyond "
           "{} tokens angles are new",
           FormatTokens(family->native_context)),
       "take rope_scaling from the publisher's config.json"});
}

void CheckWindow(const LintSource& source, std::vector<Finding>* findings) {
  const auto window = NumberAt(source.config, "sliding_window");
  if (!window) return;
  const auto most = NumberAt(source.config, "max_position_embeddings");
  const bool disabled =
      source.config.contains("use_sliding_window") && source.config["use_sliding_window"] == false;
  if (disabled) {
    findings->push_back(
        {Severity::kNote, "window_disabled", source.name,
         fmt::format("sliding_window is {} and use_sliding_window is false", FormatTokens(*window)),
         most && *window < *most
             ? "a reader that passes over use_sliding_window forgets everything beyond the window"
             : "no token is ever outside the window, whether a reader heeds it or not",
         "sliding_window null says the same to every reader"});
  } else if (most && *window >= *most) {
    findings->push_back({Severity::kNote, "window_disabled", source.name,
                         fmt::format("sliding_window {} is not below max_position_embeddings {}",
                                     FormatTokens(*window), FormatTokens(*most)),
                         "no token is ever outside the window",
                         "sliding_window null says the same to every reader"});
  }
}

void CheckShortPrompts(const LintSource& source, const RopeLayers& layers, const LintRuntime& runtime,
                       std::vector<Finding>* findings) {
  const RopeParameters& p = layers.rope;
  const bool fixed = p.type == RopeType::kYarn || p.type == RopeType::kLinear;
  const double original = TrainedContext(p);
  if (!fixed || !(ExtensionFactor(p) > 1) || !(original > 0) || FindRopeProblem(p)) return;
  const bool is_short = runtime.prompt && static_cast<double>(*runtime.prompt) <= original;
  const RopeFrequencies frequencies = FrequenciesOf(
      p, {static_cast<uint64_t>(std::min(original, static_cast<double>(kMaxTokens))), 0}, RopeSemantics::kHf);
  const auto unscaled = UnscaledInvFreq(p);
  size_t squeezed = 0;
  for (size_t i = 0; i < unscaled.size(); ++i)
    squeezed += frequencies.inv_freq[i] < unscaled[i] * 0.999 ? 1 : 0;
  findings->push_back(
      {is_short ? Severity::kWarning : Severity::kNote, "static_scaling", source.name,
       fmt::format(
           "{} by {:g} at every length{}", RopeTypeName(p.type), ExtensionFactor(p),
           is_short ? fmt::format(", prompts of {}, trained context {}",
                                  FormatTokens(static_cast<double>(*runtime.prompt)), FormatTokens(original))
                    : ""),
       fmt::format("{} of {} bands are squeezed for prompts below {} tokens too; a model that was not "
                   "trained on with "
                   "it reads short texts worse",
                   squeezed, unscaled.size(), FormatTokens(original)),
       "serve short prompts without it, unless the model was trained on with it"});
}

// Men et al. 2024, "Base of RoPE bounds context length", figure 1: the base below which a model of that
// context no longer tells a matching token from another, fitted for d_head 128.
double BaseFor(double context) { return 0.0424 * std::pow(context, 1.628); }

void CheckNominal(const LintSource& source, const RopeLayers& layers, std::vector<Finding>* findings) {
  const RopeParameters& p = layers.rope;
  if (!(p.max_context > 0) || FindRopeProblem(p) || !AnyUnlimited(source, layers)) return;
  Finding finding{Severity::kNote,
                  "nominal_context",
                  source.name,
                  "",
                  "",
                  "measure retrieval at that length before relying on it"};
  const double trained = TrainedContext(p);
  if (p.type == RopeType::kDefault) {
    const double lacking = BaseFor(p.max_context) / p.base;
    if (lacking < 10) return;
    if (lacking > 100) finding.severity = Severity::kWarning;
    finding.evidence = fmt::format("max_position_embeddings {} with base {:.12g} and no scaling",
                                   FormatTokens(p.max_context), p.base);
    finding.consequence = fmt::format(
        "that length asks for a base of about {:.1e} (Men et al. 2024), {:.0f} times as "
        "much: far tokens are found no better than others",
        BaseFor(p.max_context), lacking);
  } else {
    const RopeReport report =
        CheckRope(layers, {static_cast<uint64_t>(p.max_context), 0}, RopeSemantics::kHf, {source.name, ""});
    const double reach = ExtensionFactor(p) * trained;
    if (report.coverage.out_of_distribution == 0 || !(p.max_context > 1.01 * reach)) return;
    if (p.max_context > 4 * reach) finding.severity = Severity::kWarning;
    finding.evidence = fmt::format(
        "max_position_embeddings {} is {:.3g} times what the schedule reaches, {:g} × {}",
        FormatTokens(p.max_context), p.max_context / reach, ExtensionFactor(p), FormatTokens(trained));
    finding.consequence = fmt::format(
        "{} of {} bands go beyond the arc that the first training showed; of band {} "
        "{} was never seen",
        report.coverage.out_of_distribution, report.coverage.bands, report.coverage.worst_band,
        FormatPercent(report.coverage.worst_unseen));
  }
  findings->push_back(finding);
}

}  // namespace

void LintLayers(const LintSource& source, const LintRuntime& runtime, std::vector<Finding>* findings) {
  if (source.config.is_object()) CheckWindow(source, findings);
  const RopeLayers* layers = FarReaching(source);
  if (layers == nullptr) return;
  CheckPartial(source, *layers, findings);
  if (source.config.is_object()) CheckPartialAgreement(source, *layers, findings);
  CheckDroppedScaling(source, *layers, findings);
  CheckShortPrompts(source, *layers, runtime, findings);
  CheckNominal(source, *layers, findings);
}

}  // namespace ropeline
