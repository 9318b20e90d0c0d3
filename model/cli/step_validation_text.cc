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
  Table table({{"model", Align::kLeft},
               {"weights", Align::kLeft},
               {"kv", Align::kLeft},
               {"depth"},
               {"threads"},
               {"predicted"},
               {"measured"},
               {"error"},
               {"of the limit"},
               {"term furthest off, predicted → measured", Align::kLeft}});
  for (const StepPoint& point : validation.points) {
    if (point.phase != phase) continue;
    table.Add({point.model, point.weights, point.kv, FormatCount(point.context),
               std::to_string(point.threads) + (point.tainted ? " (disturbed)" : ""),
               FormatMilliseconds(point.predicted_ms), FormatMilliseconds(point.measured_ms),
               Percent(point.error), fmt::format("{:.0f} %", 100 * point.limit_ms / point.measured_ms),
               BlameText(point)});
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
  return fmt::format(
      "{}: {} points, median error {:.1f} %, worst {:.1f} %; the term most often furthest off: {}\n", what,
      errors.points, errors.median * 100, errors.worst * 100, errors.blame);
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
