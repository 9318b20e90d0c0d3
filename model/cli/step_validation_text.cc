#include "model/cli/step_validation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string Percent(double share) { return fmt::format("{:+.1f} %", share * 100); }

// Where the blamed term stands.
std::string BlameText(const StepPoint& point) {
  for (const StepTermError& term : point.terms) {
    if (term.name != point.blame) continue;
    return fmt::format("{} {} → {}", term.name, FormatMilliseconds(term.predicted_ms),
                       FormatMilliseconds(term.measured_ms));
  }
  return "";
}

std::string Points(const StepValidation& validation, Phase phase) {
  const bool speeds = std::any_of(validation.points.begin(), validation.points.end(), [&](const auto& point) {
    return point.phase == phase && point.error_at_that;
  });
  std::vector<Column> columns = {{"model", Align::kLeft},
                                 {"weights", Align::kLeft},
                                 {"kv", Align::kLeft},
                                 {"depth"},
                                 {"threads"},
                                 {"predicted"},
                                 {"measured"},
                                 {"error"},
                                 {"of the limit"},
                                 {"term furthest off, predicted → measured", Align::kLeft}};
  if (speeds) columns.insert(columns.begin() + 9, {{"memory then"}, {"error at that"}});
  Table table(columns);
  for (const StepPoint& point : validation.points) {
    if (point.phase != phase) continue;
    std::vector<std::string> cells = {point.model,
                                      point.weights,
                                      point.kv,
                                      FormatCount(point.context),
                                      std::to_string(point.threads) + (point.tainted ? " (disturbed)" : ""),
                                      FormatMilliseconds(point.predicted_ms),
                                      FormatMilliseconds(point.measured_ms),
                                      Percent(point.error),
                                      fmt::format("{:.0f} %", 100 * point.limit_ms / point.measured_ms),
                                      BlameText(point)};
    if (speeds) {
      const std::string speed = point.memory_gb_s ? fmt::format("{:.1f} GB/s", *point.memory_gb_s) : "";
      cells.insert(cells.begin() + 9, {speed, point.error_at_that ? Percent(*point.error_at_that) : ""});
    }
    table.Add(cells);
  }
  return table.empty() ? "" : table.Text();
}

// By term, over all points of a phase: how far off its sum is, and what share of the time it is.
std::string Terms(const StepValidation& validation, Phase phase) {
  struct Sum {
    std::string name;
    double measured = 0, predicted = 0;
    std::vector<double> errors;
  };
  std::vector<Sum> sums;
  double total = 0;
  for (const StepPoint& point : validation.points) {
    if (point.phase != phase) continue;
    total += point.measured_ms;
    for (const StepTermError& term : point.terms) {
      auto at = std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) { return sum.name == term.name; });
      if (at == sums.end()) at = sums.insert(at, {term.name, 0, 0, {}});
      at->measured += term.measured_ms;
      at->predicted += term.predicted_ms;
      at->errors.push_back(std::abs(term.predicted_ms - term.measured_ms) / point.measured_ms);
    }
  }
  Table table({{"term", Align::kLeft},
               {"share of the time"},
               {"sum predicted against measured"},
               {"median error, of the step"},
               {"worst, of the step"}});
  for (Sum& sum : sums) {
    std::sort(sum.errors.begin(), sum.errors.end());
    table.Add({sum.name, fmt::format("{:.1f} %", 100 * sum.measured / total),
               sum.measured > 0 ? Percent(sum.predicted / sum.measured - 1) : "not measured",
               fmt::format("{:.1f} %", 100 * sum.errors[sum.errors.size() / 2]),
               fmt::format("{:.1f} %", 100 * sum.errors.back())});
  }
  return table.Text();
}

std::string Summary(const char* what, const StepErrors& errors) {
  std::string text = fmt::format(
      "{}: {} points, median error {:.1f} %, worst {:.1f} %; the term most often furthest off: {}\n", what,
      errors.points, errors.median * 100, errors.worst * 100, errors.blame);
  if (!errors.median_at_that) return text;
  return text + fmt::format(
                    "{}, with memory as fast as the step's own weights were read beside it, not as in the "
                    "stream rows minutes earlier: median error {:.1f} %, worst {:.1f} %\n",
                    what, *errors.median_at_that * 100, *errors.worst_at_that * 100);
}

}  // namespace

std::string StepValidationText(const Machine& machine, const StepValidation& validation) {
  std::string text =
      fmt::format("Steps executed on {} against what its rows of single kernels predict (level kernels).\n",
                  machine.cpu_model.empty() ? machine.file : machine.cpu_model);
  const auto section = [&](const char* title, Phase phase, const StepErrors& errors) {
    if (errors.points == 0) return;
    text += fmt::format("\n{}\n\n{}\n{}\n{}", title, Points(validation, phase), Terms(validation, phase),
                        Summary(phase == Phase::kDecode ? "decode" : "prefill", errors));
  };
  section("Decode: one token after so many", Phase::kDecode, validation.decode);
  section("Prefill: a chunk after so many tokens", Phase::kPrefill, validation.prefill);
  for (const std::string& warning : validation.warnings) text += "\nwarning: " + warning + "\n";
  return text;
}

}  // namespace ropeline
