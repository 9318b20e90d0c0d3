#include "bench/step/step_cost.h"

#include <gtest/gtest.h>

#include <string>

#include "model/limit_terms.h"
#include "model/presets.h"

namespace ropeline {
namespace {

struct Sum {
  double bytes = 0, flops = 0;
};

Sum Add(const std::vector<Term>& terms, double sign, Sum sum) {
  for (const Term& term : terms) {
    // A prompt's last token alone pays for it, not each chunk's.
    if (term.name == "lm_head" && sign < 0) continue;
    sum.bytes += sign * term.bytes;
    sum.flops += sign * term.flops;
  }
  return sum;
}

// What a row counts is what the model predicts; the model leaves a decode step's queries out and counts half
// of the diagonal of a prefill's scores.
TEST(StepCost, IsWhatTheModelPredicts) {
  const Where where{"test", ""};
  const Machine machine = MachineFromFigures(20e9, 50e9);
  for (const char* name : {"llama-3.2-1b", "qwen2.5-7b", "mistral-7b", "tinyllama-1.1b"}) {
    for (const char* weights : {"q4_0", "f16"}) {
      for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ80}) {
        const Llm llm = Preset(name, where);
        const WeightMix& mix = FindWeightMix(weights, where);
        const WeightLayout layout = LayOutWeights(llm, mix);
        const KvFormats kv = ParseKvFormats(KvFormatName(format), where);
        const StepPlan plan = PlanStep(llm, mix, where);
        const std::string what = std::string(name) + " " + weights + " " + KvFormatName(format);
        for (const size_t depth : {0, 4096, 16384}) {
          Workload work{.llm = &llm, .weights = &layout, .kv_formats = &kv, .context = depth + 1};
          const Sum step = Add(DecodeTermsAtLimit(work, machine, 1), 1, {});
          const Cost cost = DecodeStepCost(plan, format, depth);
          EXPECT_NEAR(cost.Bytes(), step.bytes, 2e-3 * step.bytes) << what << " at " << depth;
          EXPECT_NEAR(cost.flops, step.flops, 2e-3 * step.flops) << what << " at " << depth;
          work.prefill_chunk = 512;
          work.context = depth + 512;
          Sum chunk = Add(PrefillTermsAtLimit(work, machine, 1), 1, {});
          work.context = depth;
          if (depth > 0) chunk = Add(PrefillTermsAtLimit(work, machine, 1), -1, chunk);
          const Cost prefill = PrefillStepCost(plan, format, depth, 512);
          EXPECT_NEAR(prefill.flops, chunk.flops, 2e-3 * chunk.flops) << what << " at " << depth;
          EXPECT_NEAR(prefill.Bytes(), chunk.bytes, 1e-2 * chunk.bytes) << what << " at " << depth;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ropeline
