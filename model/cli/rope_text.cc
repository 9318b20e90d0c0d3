#include "model/cli/rope_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

std::string Real(double value) {
  return value >= 1000 ? FormatTokens(value)
                       : fmt::format("{:.{}f}", value,
                                     value >= 100  ? 0
                                     : value >= 10 ? 1
                                                   : 3);
}

std::string Wavelength(double tokens) { return std::isfinite(tokens) ? Real(tokens) : "stands still"; }

std::string Counted(size_t n, const char* one) { return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s"); }

std::string Pairs(const RopeLayers& layers) {
  if (layers.pairing == "interleaved") return "(2i, 2i+1), interleaved";
  const bool whole = layers.rope.type == RopeType::kProportional;
  return fmt::format("(i, i+{}), half", (whole ? layers.rope.d_head : layers.rope.d_rot) / 2);
}

std::string CoverageText(const RopeCoverage& coverage) {
  if (coverage.out_of_distribution == 0) return fmt::format("none of {}", coverage.bands);
  return fmt::format("{} of {} ({}), worst band {} with {} unseen", coverage.out_of_distribution,
                     coverage.bands, FormatPercent(coverage.ShareOut()), coverage.worst_band,
                     FormatPercent(coverage.worst_unseen));
}

std::string SummaryTable(const RopeReport& report, const RopeAnswer& answer) {
  const RopeParameters& p = report.layers.rope;
  Table table({{"layers of type " + report.layers.layer_type, Align::kLeft}, {"", Align::kLeft}});
  if (!report.layers.layers.empty()) table.Add({"layers", Counted(report.layers.layers.size(), "layer")});
  table.Add(
      {"schedule",
       fmt::format("{}{}", RopeTypeName(p.type),
                   p.type == RopeType::kDefault ? "" : fmt::format(", factor {:g}", ExtensionFactor(p)))});
  table.Add({"base", fmt::format("{:.12g}", p.base)});
  table.Add(
      {"rotated", fmt::format("{} of {} dimensions, pairs {}", p.d_rot, p.d_head, Pairs(report.layers))});
  table.Add({"trained on", report.trained_tokens > 0
                               ? FormatTokens(report.trained_tokens) + " tokens before any extension"
                               : "not known: every angle counts as seen"});
  table.Add(
      {"attention factor", fmt::format("{:.6g}{}", report.frequencies.attention_factor,
                                       report.frequencies.softmax_scale_multiplier == 1
                                           ? ""
                                           : fmt::format(", softmax scale × {:.6g}",
                                                         report.frequencies.softmax_scale_multiplier))});
  table.Add({fmt::format("bands beyond training at {}", FormatCount(answer.length.tokens)),
             CoverageText(report.coverage)});
  return table.Text();
}

// The ends, eight between, and the bands where turns pass 32 and 1.
std::set<size_t> Shown(const std::vector<RopeBand>& bands, bool all) {
  std::set<size_t> shown;
  const size_t n = bands.size();
  const size_t count = all ? n : std::min<size_t>(n, 10);
  for (size_t k = 0; k < count; ++k) shown.insert(count == 1 ? 0 : k * (n - 1) / (count - 1));
  for (const double turns : {32.0, 1.0}) {
    for (size_t i = 1; i < n; ++i) {
      if (bands[i - 1].turns_train >= turns && bands[i].turns_train < turns) shown.insert({i - 1, i});
    }
  }
  return shown;
}

std::string BandsTable(const std::vector<RopeBand>& bands, double context, bool all) {
  const std::string at = "at " + FormatTokens(context);
  Table table({{"band"},
               {"θ, rad per token"},
               {"wavelength, tokens"},
               {"turns trained"},
               {"arc trained"},
               {"arc " + at},
               {"unseen"},
               {"squeezed"}});
  for (const size_t i : Shown(bands, all)) {
    const RopeBand& band = bands[i];
    table.Add({std::to_string(i), StepText(band.theta), Wavelength(band.wavelength), Real(band.turns_train),
               AngleText(band.arc_train), AngleText(band.arc_context),
               band.out_of_distribution ? FormatPercent(band.unseen) : "–",
               band.squeeze == 1 ? "–" : fmt::format("÷ {:.4g}", band.squeeze)});
  }
  return table.Text();
}

std::string MethodsTable(const std::vector<Extension>& extensions) {
  Table table({{"method", Align::kLeft},
               {"bands beyond training"},
               {"worst band"},
               {"unseen there"},
               {"neighbours' angle kept"},
               {"attention factor"}});
  for (const Extension& extension : extensions) {
    if (!extension.missing.empty()) continue;
    const RopeCoverage& coverage = extension.coverage;
    const bool any = coverage.out_of_distribution > 0;
    table.Add({extension.method->name,
               fmt::format("{} of {} ({})", coverage.out_of_distribution, coverage.bands,
                           FormatPercent(coverage.ShareOut())),
               any ? std::to_string(coverage.worst_band) : "–",
               any ? FormatPercent(coverage.worst_unseen) : "–", FormatPercent(coverage.local_resolution),
               fmt::format("{:.4f}", extension.frequencies.attention_factor)});
  }
  return table.Text();
}

std::string NotesTable(const std::vector<Extension>& extensions) {
  Table table({{"method", Align::kLeft}, {"here", Align::kLeft}, {"fine-tuning", Align::kLeft}});
  for (const Extension& extension : extensions) {
    const std::string& here = extension.missing.empty() ? extension.note : extension.missing;
    table.Add({extension.method->name, here.empty() ? extension.method->rule : here,
               extension.method->fine_tuning});
  }
  return table.Text();
}

std::string ExtensionsText(const RopeAnswer& answer, bool all_bands) {
  const RopeReport& report = *FarReaching(answer.reports);
  std::string text = fmt::format(
      "\nFrom {} to {} tokens (s = {:.6g}), the ladder of base {:.12g} extended; semantics {}:\n\n",
      FormatTokens(report.trained_tokens), FormatTokens(answer.extended_context),
      answer.extended_context / report.trained_tokens, report.layers.rope.base,
      RopeSemanticsName(answer.semantics));
  text += MethodsTable(answer.extensions) + "\n" + NotesTable(answer.extensions);
  text +=
      "\nBeyond training: a band that had not turned once and goes more than one trained step further. "
      "Neighbours' angle kept: θ against the trained one, the smallest of the bands that had turned 32 "
      "times.\n";
  if (!all_bands) return text;
  for (const Extension& extension : answer.extensions) {
    if (!extension.missing.empty()) continue;
    text += fmt::format("\n{}: {}\n\n", extension.method->name, extension.method->rule);
    text += BandsTable(extension.bands, answer.extended_context, true);
  }
  return text;
}

}  // namespace

std::string AngleText(double radians) {
  if (radians >= kTurn) return Real(radians / kTurn) + " turns";
  return fmt::format("{:.3f} rad ({:.1f}°)", radians, radians * 360 / kTurn);
}

std::string StepText(double theta) {
  if (theta < 0) return "−" + StepText(-theta);
  if (theta == 0 || theta >= 1e-2) return fmt::format("{:.5g}", theta);
  const int exponent = static_cast<int>(std::floor(std::log10(theta)));
  return fmt::format("{:.4f}e{}", theta / std::pow(10, exponent), exponent);
}

std::string RopeText(const RopeAnswer& answer, bool all_bands) {
  std::string text;
  for (const RopeReport& report : answer.reports) {
    text += text.empty() ? "" : "\n";
    text += SummaryTable(report, answer) + "\n";
    text += BandsTable(report.bands, static_cast<double>(answer.length.tokens), all_bands);
  }
  if (!answer.extensions.empty()) text += ExtensionsText(answer, all_bands);
  return text;
}

}  // namespace ropeline
