// The rates that an engine's curves amount to, given what the model makes it do, and the machine's limits of
// them.
#ifndef ROPELINE_MODEL_ENGINE_ENGINE_RATES_H_
#define ROPELINE_MODEL_ENGINE_ENGINE_RATES_H_

#include <optional>
#include <vector>

#include "model/engine/curve.h"
#include "model/engine/engine.h"
#include "model/engine/model_facts.h"
#include "model/machine.h"

namespace ropeline {

// Nothing where the machine is not known, or has no row for the run's threads.
struct MachineLimits {
  std::optional<double> decode_bytes_per_second;
  std::optional<double> prefill_flops_per_second;  // of a measured peak in f32: int8 may go beyond it

  // Least seconds per token of depth; 0 where unknown. The f32 peak does not bound what may run in int8, so
  // prefill is bounded at four times of it (int8 products of AVX-512 VNNI against f32 FMAs).
  double DecodeSlope(const ModelFacts* facts) const;
  double PrefillSlope(const ModelFacts* facts) const;
};
MachineLimits LimitsOf(const Machine* machine, const EngineRun& run);

// tg, pp: nullptr where there are no rows. facts nullptr: no rate is determined, and each says why.
std::vector<EngineRate> RatesOf(const ModelFacts* facts, const CurveFit* tg, const CurveFit* pp,
                                const MachineLimits& limits);

EnginePolicy PolicyOf(const ModelFacts* facts, const CurveFit* tg, const CurveFit* pp,
                      const std::vector<EngineRate>& rates);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ENGINE_RATES_H_
