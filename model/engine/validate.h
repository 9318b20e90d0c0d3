// An engine's profile against a run: predicted and measured time of each row, and what is odd about the run's
// own curve.
#ifndef ROPELINE_MODEL_ENGINE_VALIDATE_H_
#define ROPELINE_MODEL_ENGINE_VALIDATE_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/engine/engine.h"
#include "model/engine/engine_run.h"
#include "model/llm.h"

namespace ropeline {

struct ValidatedRow {
  uint64_t n_kv = 0;
  uint64_t n_prompt = 0;  // of a prefill row; tokens
  bool prefill = false;
  std::optional<int> threads;
  double measured_ms = 0;  // per token
  Estimate predicted_ms;   // 90 % between low and high
  bool used_in_fit = false;

  double Error() const { return predicted_ms.value / measured_ms - 1; }
  bool Inside() const { return measured_ms >= predicted_ms.low && measured_ms <= predicted_ms.high; }
};

// Over the rows that the fit did not use; over all where it used all.
struct ValidationSummary {
  size_t rows = 0;
  bool of_unused_rows = false;
  double median_error = 0, p90_error = 0, mean_error = 0;  // of |error|
  double inside_range = 0;                                 // share of the rows
};

struct Validation {
  std::vector<ValidatedRow> rows;
  std::optional<ValidationSummary> tg, pp;  // nothing without such rows
  std::vector<EngineFlag> flags;            // of the run's whole curves, and of the fit
  std::vector<std::string> warnings;

  double WorstMean() const;  // the larger mean |error| of the phases
};

// Rows of phases that the profile has no curve of are left out with a warning, as are runs of another
// configuration. llm: only to say whether it is the model that was calibrated; may be nullptr. Throws
// BadInput where nothing is left to compare.
Validation Validate(const Engine& engine, const std::vector<EngineRun>& runs, const Llm* llm);

nlohmann::ordered_json ValidationJson(const Validation& validation);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_VALIDATE_H_
