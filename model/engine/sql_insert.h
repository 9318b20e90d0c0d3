// llama-bench -o sql: one INSERT statement per row, in one line.
#ifndef ROPELINE_MODEL_ENGINE_SQL_INSERT_H_
#define ROPELINE_MODEL_ENGINE_SQL_INSERT_H_

#include <optional>
#include <string_view>

#include "model/engine/bench_record.h"

namespace ropeline {

// Nothing where the line is no INSERT. `cut` where it ends early or has not as many values as columns.
std::optional<BenchRecord> SqlInsert(std::string_view line);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_SQL_INSERT_H_
