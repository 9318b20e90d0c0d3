#include "model/cli/lint_text.h"

#include <fmt/format.h>

#include "model/cli/rope_text.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string Counted(size_t n, const char* one) { return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s"); }

std::string FindingText(const Finding& finding) {
  return fmt::format("{}: {} [{}]\n  evidence     {}\n  consequence  {}\n  remedy       {}\n",
                     SeverityName(finding.severity), finding.source, finding.check, finding.evidence,
                     finding.consequence, finding.remedy);
}

// The bands that differ most, and how far.
std::string BandsTable(const RopeChange& change) {
  const std::string at = "at " + FormatTokens(change.difference.tokens);
  std::vector<Column> columns = {{"band"}, {"θ before"}, {"θ after"}, {"radians " + at}};
  if (change.invalidation) columns.push_back({"largest error of a cached key"});
  Table table(columns);
  const auto& bands = change.difference.bands_that_differ;
  constexpr size_t kShown = 8;
  for (size_t k = 0; k < bands.size(); ++k) {
    // Evenly, with both ends.
    if (bands.size() > kShown &&
        k * (kShown - 1) / (bands.size() - 1) == (k + 1) * (kShown - 1) / (bands.size() - 1) && k != 0) {
      continue;
    }
    const BandDifference& band = bands[k];
    std::vector<std::string> cells = {
        std::to_string(band.i), StepText(band.before), StepText(band.after),
        band.angle >= 1000 ? FormatTokens(band.angle) : fmt::format("{:.4g}", band.angle)};
    if (change.invalidation) {
      cells.push_back(fmt::format("{:.4g} rad", LargestError(band, change.invalidation->cached)));
    }
    table.Add(cells);
  }
  return table.Text();
}

std::string ChangeText(const RopeChange& change) {
  if (change.difference.Same()) {
    return fmt::format("\nLayers of type {}: {} and {} turn alike.\n", change.layer_type, change.before,
                       change.after);
  }
  std::string text = fmt::format("\nLayers of type {}, {} before and {} after:\n", change.layer_type,
                                 change.before, change.after);
  if (!change.difference.bands_that_differ.empty()) text += "\n" + BandsTable(change);
  if (!change.invalidation) return text;
  const Invalidation& invalidation = *change.invalidation;
  text += fmt::format(
      "\nOf {} cached keys {} are wrong (from position {} on a band is off by more than {:g} rad). A "
      "query that matches a key in all bands gets {} of its logit, on average.\n",
      FormatTokens(invalidation.cached), FormatTokens(invalidation.Wrong()),
      FormatTokens(invalidation.first_wrong), kWrongAngle,
      FormatPercent(std::max(0.0, invalidation.logit_kept)));
  return text;
}

std::string UpkeepText(const RotationUpkeep& upkeep) {
  if (upkeep.reschedules.empty()) return "";
  Table table({{"cache", Align::kLeft},
               {"turn every key"},
               {"prefill again, at best"},
               {"with this suite's kernels"},
               {"row", Align::kLeft}});
  for (const Reschedule& reschedule : upkeep.reschedules) {
    table.Add({reschedule.format, FormatMilliseconds(reschedule.ms),
               FormatSeconds(reschedule.prefill_limit_seconds),
               reschedule.prefill_kernels_seconds ? FormatSeconds(*reschedule.prefill_kernels_seconds)
                                                  : "not measured",
               reschedule.row});
  }
  return "\nMending that cache:\n\n" + table.Text() +
         "\nTurning is exact in the first layer only: deeper keys and all values were computed from what "
         "attention "
         "gave under the old schedule.\n";
}

}  // namespace

std::string LintText(const LintReport& report, const std::optional<RotationUpkeep>& upkeep) {
  std::string text;
  for (const Finding& finding : report.findings) text += FindingText(finding) + "\n";
  text += Counted(Count(report.findings, Severity::kError), "error") + ", " +
          Counted(Count(report.findings, Severity::kWarning), "warning") + ", " +
          Counted(Count(report.findings, Severity::kNote), "note") + "\n";
  bool stale = false;
  for (const RopeChange& change : report.changes) {
    text += ChangeText(change);
    stale = stale || change.invalidation.has_value();
  }
  if (stale && upkeep) text += UpkeepText(*upkeep);
  return text;
}

}  // namespace ropeline
