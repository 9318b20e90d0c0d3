// What a step moves and computes, all terms together, counted as the model counts it (model/limit_terms.h):
// weights and cache; activations stay in caches.
#ifndef ROPELINE_BENCH_STEP_STEP_COST_H_
#define ROPELINE_BENCH_STEP_STEP_COST_H_

#include <cstddef>

#include "bench/step/step_plan.h"
#include "kernels/cost.h"

namespace ropeline {

// One token after `depth` others.
Cost DecodeStepCost(const StepPlan& plan, KvFormat format, size_t depth);
// `count` tokens after `depth` others.
Cost PrefillStepCost(const StepPlan& plan, KvFormat format, size_t depth, size_t count);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_COST_H_
