// The collected published runs of ../shared/sweeps: one JSON object with what is known of a run and its rows.
// In rows of sweep-bench, tokens are generated at n_kv, the cache is cut back to n_kv and the prompt comes
// next, at n_kv too; in the others n_kv is what the cache held before the row.
#ifndef ROPELINE_MODEL_ENGINE_READ_SWEEP_JSON_H_
#define ROPELINE_MODEL_ENGINE_READ_SWEEP_JSON_H_

#include <string>
#include <vector>

#include "model/engine/engine_run.h"
#include "model/json_view.h"

namespace ropeline {

bool IsSweepJson(const JsonView& root);
// One run, or one per "quant" that its rows name. Throws BadInput where a value is not of its kind; runs
// without a usable row are returned too.
std::vector<EngineRun> SweepJsonRuns(const JsonView& root, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_READ_SWEEP_JSON_H_
