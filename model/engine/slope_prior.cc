#include "model/engine/slope_prior.h"

#include <cmath>

namespace ropeline {
namespace {

constexpr double kGrowthTokens = 10000;
constexpr double kNormalHalfWidth = 2 * 1.645;  // standard deviations between the 5 % and 95 % quantiles

}  // namespace

SlopePrior PrefillPrior(const ModelFacts* facts, double first_s, const PriorConstants& constants) {
  if (facts == nullptr || facts->prefill_attention_flops <= 0 || facts->prefill_linear_flops <= 0) {
    return {first_s * constants.prefill_growth / kGrowthTokens, constants.prefill_growth_spread};
  }
  const double linear_rate = facts->prefill_linear_flops / first_s;
  return {facts->prefill_attention_flops / (linear_rate * constants.prefill_attention_rate),
          constants.prefill_spread};
}

SlopePrior DecodePrior(const ModelFacts* facts, double first_s, const std::optional<PrefillKnown>& prefill,
                       const PriorConstants& constants) {
  double median = first_s * constants.decode_growth / kGrowthTokens;
  double spread = constants.decode_growth_spread;
  if (facts != nullptr && facts->kv_bytes > 0 && facts->decode_weight_bytes > 0) {
    const double reading = constants.kv_passes * facts->kv_bytes * first_s / facts->decode_weight_bytes;
    double computing = 0;
    if (prefill) {
      computing = constants.decode_flops * facts->decode_attention_flops * prefill->first_s /
                  facts->prefill_linear_flops;
    } else if (facts->latent) {
      computing = 1.5 * reading;  // every head multiplies the whole latent row
    }
    median = reading + computing;
    spread = constants.decode_spread;
  }
  if (!prefill || !prefill->slope) return {median, spread};
  // Two opinions, each weighted by what it is sure of.
  const double of_prefill = std::log(prefill->slope->high / prefill->slope->low) / kNormalHalfWidth;
  const double variance = std::pow(constants.decode_by_prefill_spread, 2) + of_prefill * of_prefill;
  const double weight = 1 / (spread * spread), other = 1 / variance;
  const double log =
      (weight * std::log(median) + other * std::log(constants.decode_by_prefill * prefill->slope->value)) /
      (weight + other);
  return {std::exp(log), 1 / std::sqrt(weight + other)};
}

}  // namespace ropeline
