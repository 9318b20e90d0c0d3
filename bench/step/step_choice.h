// What the step family is asked to execute, from the command line.
#ifndef ROPELINE_BENCH_STEP_STEP_CHOICE_H_
#define ROPELINE_BENCH_STEP_STEP_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/step/step_plan.h"
#include "kernels/kv_format.h"

namespace ropeline {

inline constexpr size_t kStepChunk = 512;  // tokens of a prefill row

struct StepChoice {
  StepPlan plan;
  std::string model;               // as row names have it
  std::string weights;             // the mix's name
  std::vector<size_t> contexts{};  // tokens in the cache before the step, ascending
  std::vector<KvFormat> kv{};      // as given

  // Tokens that a cache has room for.
  size_t Capacity() const { return contexts.back() + kStepChunk; }
  // Of the largest format.
  double NeededBytes() const;
};

// Nothing where no model was asked for. Throws BadUsage: unknown or not executed, options without a model, or
// more memory than `memory_bytes` (0: unknown).
std::optional<StepChoice> ChooseStep(const Options& options, uint64_t memory_bytes);

// One for each model of --model, a list with commas; empty where none was asked for. They are in memory one
// after the other. Throws BadUsage as above.
std::vector<StepChoice> ChooseSteps(const Options& options, uint64_t memory_bytes);

// What a program may still take: the least of what is installed, what the group of processes may have and
// what is free. 0: unknown.
uint64_t FreeMemoryBytes(const Topology& topology);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_CHOICE_H_
