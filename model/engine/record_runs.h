// Rows by name → runs.
#ifndef ROPELINE_MODEL_ENGINE_RECORD_RUNS_H_
#define ROPELINE_MODEL_ENGINE_RECORD_RUNS_H_

#include <string>
#include <vector>

#include "model/engine/bench_record.h"
#include "model/engine/engine_run.h"

namespace ropeline {

// Rows of one run share every setting, and in sweep-bench and batched-bench the table; a row that is there
// already begins another run. Prefill and decode rows that differ in threads alone are one run. Runs may be
// without rows; their warnings say why.
std::vector<EngineRun> RunsOf(const std::vector<BenchRecord>& records, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_RECORD_RUNS_H_
