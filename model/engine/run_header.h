// What a row says of its run: the engine, the model, the settings.
#ifndef ROPELINE_MODEL_ENGINE_RUN_HEADER_H_
#define ROPELINE_MODEL_ENGINE_RUN_HEADER_H_

#include <string>
#include <string_view>

#include "model/engine/bench_record.h"
#include "model/engine/engine_run.h"

namespace ropeline {

// An EngineRun without rows.
EngineRun RunHeader(const BenchRecord& record, RecordKind kind, bool decimal_comma, const std::string& file);

// Whether RunHeader makes something of a field of that name; others tell runs apart by their text alone.
bool IsHeaderField(std::string_view name);

// Why rows of this phase were not, or may not have been, on the CPU alone: "ran on a GPU (CUDA)". "" where
// they were.
std::string OffCpu(const BenchRecord& record, RunPhase phase);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_RUN_HEADER_H_
