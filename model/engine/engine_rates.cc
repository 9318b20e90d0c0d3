#include "model/engine/engine_rates.h"

#include <algorithm>

namespace ropeline {
namespace {

constexpr double kInt8OverF32 = 4;
constexpr double kGiga = 1e9;
constexpr double kSure = 0.9;

// amount ÷ seconds, the ends exchanged.
Estimate Rate(double amount, const Estimate& seconds) {
  return {amount / seconds.value / kGiga, amount / seconds.high / kGiga, amount / seconds.low / kGiga};
}

bool SlopeKnown(const CurveFit& fit) {
  const Estimate slope = fit.Slope();
  return fit.curve().rows.size() > 1 && slope.high < 3 * slope.low;
}

EngineRate Undetermined(const char* name, const char* note) { return {name, {}, {}, note}; }

constexpr const char* kNoModel = "no model was given";
constexpr const char* kNoDecode = "the run has no decode rows";
constexpr const char* kNoPrefill = "the run has no prefill rows";
constexpr const char* kNoSlope = "the rows do not tell the slope within a factor of three: deeper rows would";

EngineRate FromIntercept(const char* name, double amount, const CurveFit* fit, const char* no_rows) {
  if (fit == nullptr) return Undetermined(name, no_rows);
  return {name, Rate(amount, fit->Intercept()), {}, "what depth does not change, overhead included"};
}

EngineRate FromSlope(const char* name, double amount, const CurveFit* fit, const char* no_rows) {
  if (fit == nullptr) return Undetermined(name, no_rows);
  if (!SlopeKnown(*fit)) return Undetermined(name, kNoSlope);
  return {name, Rate(amount, fit->Slope()), {}, ""};
}

}  // namespace

double MachineLimits::DecodeSlope(const ModelFacts* facts) const {
  if (facts == nullptr || !decode_bytes_per_second) return 0;
  return facts->kv_bytes / *decode_bytes_per_second;
}

double MachineLimits::PrefillSlope(const ModelFacts* facts) const {
  if (facts == nullptr || !prefill_flops_per_second) return 0;
  return facts->prefill_attention_flops / (kInt8OverF32 * *prefill_flops_per_second);
}

MachineLimits LimitsOf(const Machine* machine, const EngineRun& run) {
  MachineLimits limits;
  if (machine == nullptr) return limits;
  const auto threads_of = [&](std::optional<int> asked) -> std::optional<int> {
    const std::vector<int> measured = machine->Threads();
    if (measured.empty()) return 1;  // two figures hold for any
    if (asked && std::find(measured.begin(), measured.end(), *asked) != measured.end()) return asked;
    return asked ? std::nullopt : machine->threads_default;
  };
  if (const auto threads = threads_of(run.threads)) {
    limits.decode_bytes_per_second = machine->roofline.MemoryBandwidth(Traffic::kRead, *threads);
  }
  const auto batch = threads_of(run.threads_batch ? run.threads_batch : run.threads);
  if (batch && machine->peak_is_measured()) {
    limits.prefill_flops_per_second = machine->roofline.PeakFlops(*batch);
  }
  return limits;
}

std::vector<EngineRate> RatesOf(const ModelFacts* facts, const CurveFit* tg, const CurveFit* pp,
                                const MachineLimits& limits) {
  std::vector<EngineRate> rates;
  if (facts == nullptr) {
    for (const char* name : {kRateWeights, kRateKv, kRateLinear, kRateAttention, kRateOverhead}) {
      rates.push_back(Undetermined(name, kNoModel));
    }
    return rates;
  }
  rates.push_back(FromIntercept(kRateWeights, facts->decode_weight_bytes, tg, kNoDecode));
  rates.push_back(FromSlope(kRateKv, facts->kv_bytes, tg, kNoDecode));
  rates.push_back(FromIntercept(kRateLinear, facts->prefill_linear_flops, pp, kNoPrefill));
  rates.push_back(FromSlope(kRateAttention, facts->prefill_attention_flops, pp, kNoPrefill));
  rates.push_back(
      Undetermined(kRateOverhead,
                   "one model does not tell a step's overhead from the reading of its weights: it "
                   "is in weights_gb_s"));
  if (limits.decode_bytes_per_second) {
    rates[0].limit = rates[1].limit = *limits.decode_bytes_per_second / kGiga;
  }
  if (limits.prefill_flops_per_second) {
    rates[2].limit = rates[3].limit = *limits.prefill_flops_per_second / kGiga;
  }
  return rates;
}

EnginePolicy PolicyOf(const ModelFacts* facts, const CurveFit* tg, const CurveFit* pp,
                      const std::vector<EngineRate>& rates) {
  EnginePolicy policy;
  if (tg != nullptr && tg->curve().window) {
    const double skipped = tg->WindowSkipped();
    if (skipped > kSure || skipped < 1 - kSure) policy.skips_window = skipped > kSure;
  }
  if (tg != nullptr && tg->Teeth() > 0) policy.splits_unevenly = true;
  if (facts != nullptr && facts->latent) policy.keeps_latent = true;
  // A prompt's rows share what they read of the cache, a step reads it for one: where both cost the same per
  // token of depth, every query row is worked on alone.
  const bool slopes = tg != nullptr && pp != nullptr && SlopeKnown(*tg) && SlopeKnown(*pp);
  if (slopes && rates[3].value) policy.rereads_kv = tg->Slope().value < 2.5 * pp->Slope().value;
  return policy;
}

}  // namespace ropeline
