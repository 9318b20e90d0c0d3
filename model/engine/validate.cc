#include "model/engine/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/engine/calibrate.h"
#include "model/engine/curve_flags.h"
#include "model/engine/model_facts.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMsPerS = 1e3;

double Quantile(std::vector<double> values, double of) {
  std::sort(values.begin(), values.end());
  const double at = of * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (at - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

std::optional<ValidationSummary> SummaryOf(const std::vector<ValidatedRow>& rows, bool prefill) {
  std::vector<const ValidatedRow*> used, unused;
  for (const ValidatedRow& row : rows) {
    if (row.prefill == prefill) (row.used_in_fit ? used : unused).push_back(&row);
  }
  const std::vector<const ValidatedRow*>& counted = unused.empty() ? used : unused;
  if (counted.empty()) return std::nullopt;
  ValidationSummary summary;
  summary.rows = counted.size();
  summary.of_unused_rows = !unused.empty();
  std::vector<double> errors;
  for (const ValidatedRow* row : counted) {
    errors.push_back(std::abs(row->Error()));
    summary.mean_error += errors.back() / static_cast<double>(counted.size());
    summary.inside_range += (row->Inside() ? 1.0 : 0.0) / static_cast<double>(counted.size());
  }
  summary.median_error = Quantile(errors, 0.5);
  summary.p90_error = Quantile(errors, 0.9);
  return summary;
}

bool UsedIn(const Curve& curve, const RunRow& row) {
  return std::any_of(curve.rows.begin(), curve.rows.end(), [&](const CurveRow& used) {
    return used.n_kv == static_cast<double>(row.n_kv) && used.depth == row.MeanDepth() &&
           std::abs(used.seconds / row.SecondsPerToken() - 1) < 1e-6;
  });
}

// Flags of the run's own whole curve: is it normal?
void AddFlags(const Curve& calibrated, const std::vector<RunRow>& rows, std::vector<EngineFlag>* flags) {
  Curve whole = calibrated;
  whole.rows.clear();
  for (const RunRow& row : rows) {
    whole.rows.push_back({static_cast<double>(row.n_kv), row.MeanDepth(), row.SecondsPerToken()});
  }
  std::vector<EngineFlag> found = FlagsOf(CurveFit(whole));
  if (calibrated.rows.size() < rows.size()) {
    const std::vector<EngineFlag> of_fit = FlagsOf(CurveFit(calibrated));
    found.insert(found.end(), of_fit.begin(), of_fit.end());
  }
  for (const EngineFlag& flag : found) {
    const bool known = std::any_of(flags->begin(), flags->end(), [&](const EngineFlag& other) {
      return other.name == flag.name && other.phase == flag.phase;
    });
    if (!known) flags->push_back(flag);
  }
}

Json SummaryJson(const std::optional<ValidationSummary>& summary) {
  if (!summary) return nullptr;
  return {{"rows", summary->rows},
          {"of", summary->of_unused_rows ? "rows that the fit did not use" : "rows of the fit"},
          {"median_error", summary->median_error},
          {"p90_error", summary->p90_error},
          {"mean_error", summary->mean_error},
          {"inside_range", summary->inside_range}};
}

}  // namespace

double Validation::WorstMean() const {
  double worst = 0;
  for (const auto* summary : {&tg, &pp}) {
    if (*summary) worst = std::max(worst, (*summary)->mean_error);
  }
  return worst;
}

Validation Validate(const Engine& engine, const std::vector<EngineRun>& runs, const Llm* llm) {
  Validation validation;
  for (const EngineRun& run : runs) {
    const EngineConfig* config = ConfigFor(engine, run);
    if (config == nullptr) {
      validation.warnings.push_back(
          fmt::format("a run of {} is left out: the profile has none with its threads, "
                      "formats and options",
                      Quoted(run.model)));
      continue;
    }
    if (llm != nullptr && llm->name != config->geometry) {
      validation.warnings.push_back(
          fmt::format("{} is not the model of the profile, which {}", llm->name,
                      config->geometry.empty() ? "was calibrated without one" : "is " + config->geometry));
    }
    if (llm != nullptr) {
      for (const std::string& text : Mismatches(*llm, run)) validation.warnings.push_back(text);
    }
    for (const RunPhase phase : {RunPhase::kDecode, RunPhase::kPrefill}) {
      const std::vector<RunRow> rows = RowsOf(run, phase);
      const bool prefill = phase == RunPhase::kPrefill;
      const std::optional<Curve>& curve = prefill ? config->pp : config->tg;
      if (rows.empty()) continue;
      if (!curve) {
        validation.warnings.push_back(
            fmt::format("{} rows are left out: the profile has no curve of them", prefill ? "pp" : "tg"));
        continue;
      }
      const CurveFit fit(*curve);
      const std::optional<int>& threads = prefill && run.threads_batch ? run.threads_batch : run.threads;
      for (const RunRow& row : rows) {
        const Estimate seconds = fit.At(static_cast<double>(row.n_kv), row.MeanDepth());
        validation.rows.push_back({row.n_kv,
                                   row.n_prompt,
                                   prefill,
                                   threads,
                                   row.SecondsPerToken() * kMsPerS,
                                   {seconds.value * kMsPerS, seconds.low * kMsPerS, seconds.high * kMsPerS},
                                   UsedIn(*curve, row)});
      }
      AddFlags(*curve, rows, &validation.flags);
    }
  }
  if (validation.rows.empty()) {
    throw BadInput({runs.empty() ? "run" : runs.front().file, ""},
                   validation.warnings.empty() ? "has no row to compare" : validation.warnings.front(),
                   "pp or tg rows of the engine that was calibrated");
  }
  validation.tg = SummaryOf(validation.rows, false);
  validation.pp = SummaryOf(validation.rows, true);
  return validation;
}

nlohmann::ordered_json ValidationJson(const Validation& validation) {
  Json json = {{"rows", Json::array()}};
  for (const ValidatedRow& row : validation.rows) {
    json["rows"].push_back({{"n_kv", row.n_kv},
                            {"phase", row.prefill ? "pp" : "tg"},
                            {"n_prompt", row.prefill ? Json(row.n_prompt) : Json(nullptr)},
                            {"threads", row.threads ? Json(*row.threads) : Json(nullptr)},
                            {"measured_ms", row.measured_ms},
                            {"predicted_ms", row.predicted_ms.value},
                            {"low_ms", row.predicted_ms.low},
                            {"high_ms", row.predicted_ms.high},
                            {"error", row.Error()},
                            {"used_in_fit", row.used_in_fit}});
  }
  json["summary"] = {{"tg", SummaryJson(validation.tg)}, {"pp", SummaryJson(validation.pp)}};
  json["flags"] = Json::array();
  for (const EngineFlag& flag : validation.flags) {
    json["flags"].push_back({{"name", flag.name}, {"phase", flag.phase}, {"detail", flag.detail}});
  }
  json["warnings"] = validation.warnings;
  return json;
}

}  // namespace ropeline
