// What is known of a curve's slope before a run's rows are looked at: attention's bytes and flops per token
// of depth, at rates that are in proportion to those at which the same engine on the same machine does the
// rest. A rate of gigabytes per second cannot be known beforehand (6 to 90 in ../shared/sweeps); its ratio to
// the rate of the weights can, within a factor of two.
#ifndef ROPELINE_MODEL_ENGINE_SLOPE_PRIOR_H_
#define ROPELINE_MODEL_ENGINE_SLOPE_PRIOR_H_

#include <optional>

#include "model/engine/curve.h"
#include "model/engine/model_facts.h"

namespace ropeline {

// Medians and spreads (standard deviations of the logarithm) over the groups of machine × model of
// ../shared/sweeps.
struct PriorConstants {
  double prefill_attention_rate =
      0.55;  // flops per second in attention against those in products with weights
  double prefill_spread = 0.5;
  double kv_passes = 1.2;     // time of reading the cache's bytes against reading as many bytes of weights
  double decode_flops = 2.4;  // time of a flop of a step's attention against one of a prompt's products
  double decode_spread = 0.9;
  double decode_by_prefill = 4;  // slope of decode against that of prefill, which shares its reads
  double decode_by_prefill_spread = 0.5;
  // Without flash attention the scores of a prompt's rows pass through memory, which costs the more the
  // deeper (Curve::bend).
  double bend_of_scores = 0.08;
  // Without a model: slope × 10,000 tokens against the time at depth 0.
  double prefill_growth = 0.9, prefill_growth_spread = 1.0;
  double decode_growth = 0.45, decode_growth_spread = 1.1;
};

// `first_s`: seconds per token of a prompt near depth 0. `facts` may be nullptr.
SlopePrior PrefillPrior(const ModelFacts* facts, double first_s, const PriorConstants& constants = {});

// `first_s`: seconds of a decode step near depth 0. The prompt's time per token near depth 0 and its fitted
// slope sharpen the prior where the run has them.
struct PrefillKnown {
  double first_s = 0;
  std::optional<Estimate> slope;  // seconds per token and token of depth
};
SlopePrior DecodePrior(const ModelFacts* facts, double first_s, const std::optional<PrefillKnown>& prefill,
                       const PriorConstants& constants = {});

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_SLOPE_PRIOR_H_
