// An engine's profile from its own short benchmark. Pure functions of the run, and of the model and the
// machine where they are known. Without a model it knows the curve and not its cause, and says so.
#ifndef ROPELINE_MODEL_ENGINE_CALIBRATE_H_
#define ROPELINE_MODEL_ENGINE_CALIBRATE_H_

#include <cstdint>
#include <vector>

#include "model/engine/engine.h"
#include "model/engine/engine_run.h"
#include "model/engine/model_facts.h"
#include "model/engine/slope_prior.h"
#include "model/llm.h"
#include "model/machine.h"

namespace ropeline {

struct CalibrateRequest {
  std::vector<EngineRun> runs;       // of one engine on one machine
  const Llm* llm = nullptr;          // nullptr: each run's by its name (engine_model.h), or else curves only
  const Machine* machine = nullptr;  // nullptr: no limits
  uint64_t max_context = 2048;
};

// Rows of that phase, by depth. Decode: one sequence. Combined rows are of neither phase.
std::vector<RunRow> RowsOf(const EngineRun& run, RunPhase phase);

// Whether calibration at that depth may look at the row: it begins no deeper, and a whole prompt among others
// of an empty cache is no longer. `rows` are all of the phase.
bool WithinBudget(const RunRow& row, const std::vector<RunRow>& rows, uint64_t max_context);

// Throws BadInput where no run has a row of one sequence within max_context. engine.date is left to the
// caller.
Engine Calibrate(const CalibrateRequest& request);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_CALIBRATE_H_
