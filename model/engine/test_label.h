// llama-bench's name of a test: what was timed, at which depth.
#ifndef ROPELINE_MODEL_ENGINE_TEST_LABEL_H_
#define ROPELINE_MODEL_ENGINE_TEST_LABEL_H_

#include <optional>
#include <string_view>

#include "model/engine/engine_run.h"

namespace ropeline {

// "pp512", "tg 128", "pp512+tg128", "tg128 @ d4096", and ik_llama.cpp's "tg64@pp4096" (the prompt before it
// is not timed). Sets phase, n_kv, n_prompt and n_generated; nothing where it is none of these.
std::optional<RunRow> ParseTestLabel(std::string_view label);

// The same from the counts in the machine-readable formats.
RunRow RowOfCounts(uint64_t n_prompt, uint64_t n_generated, uint64_t n_depth);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_TEST_LABEL_H_
