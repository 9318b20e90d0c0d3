// Reads what an engine's own benchmark printed: llama-bench (JSON, JSONL, CSV, Markdown, SQL), ik_llama.cpp's
// sweep-bench and llama-batched-bench (table, JSONL), and the collected runs of ../shared/sweeps (JSON). A
// table or an object may stand in the middle of prose. Columns are found by their names, never by position.
//
// One EngineRun per combination of everything but depth and phase that the file tells apart; tables of
// several runs split. Rows that cannot be used (no number, no tokens, on a GPU …) are left out and said so in
// the run's `warnings`.
#ifndef ROPELINE_MODEL_ENGINE_READ_ENGINE_RUN_H_
#define ROPELINE_MODEL_ENGINE_READ_ENGINE_RUN_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/engine/engine_run.h"

namespace ropeline {

// `path` "-" is standard input. Both throw BadInput where the text holds no usable row; what they return is
// not empty, and no run in it is without rows.
std::vector<EngineRun> ReadEngineRuns(const std::string& path);
// `file` names the source in messages and in the runs.
std::vector<EngineRun> ParseEngineRuns(std::string_view text, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_READ_ENGINE_RUN_H_
