#include "bench/step/step_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "bench/step/tiny_llm.h"
#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"command line", "--model"};

StepPlan Plan(const Llm& llm, const char* weights) {
  return PlanStep(llm, FindWeightMix(weights, {"command line", "--weights"}), kWhere);
}

std::string Refusal(const Llm& llm, const char* weights = "q4_0") {
  try {
    Plan(llm, weights);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "accepted";
}

// What is predicted and what is executed are the same bytes.
TEST(StepPlan, HoldsTheBytesThatTheModelPredicts) {
  for (const char* name :
       {"llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "tinyllama-1.1b", "qwen2.5-7b", "mistral-7b"}) {
    for (const char* weights : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m", "q6_k"}) {
      const Llm llm = Preset(name, kWhere);
      // tinyllama's 5632 and qwen2.5-7b's 3584 and 18944 are multiples of 256 too.
      const StepPlan plan = Plan(llm, weights);
      const WeightLayout layout = LayOutWeights(llm, FindWeightMix(weights, kWhere));
      EXPECT_EQ(plan.MatrixBytes() + plan.VectorBytes(), layout.total_bytes) << name << " " << weights;
    }
  }
}

TEST(StepPlan, KnowsTheModelsOwnParts) {
  const StepPlan llama = Plan(Preset("llama-3.2-1b", kWhere), "q4_0");
  EXPECT_TRUE(llama.tied);
  EXPECT_EQ(llama.embedding.dtype, WeightDtype::kQ6K) << "the output matrix too";
  EXPECT_EQ(llama.layers[15].down.dtype, WeightDtype::kQ40);
  EXPECT_TRUE(llama.layers[15].rotated);
  EXPECT_FALSE(llama.layers[15].qkv_bias);
  const StepPlan qwen = Plan(Preset("qwen2.5-7b", kWhere), "q4_0");
  EXPECT_TRUE(qwen.layers[0].qkv_bias);
  EXPECT_FALSE(qwen.layers[0].qk_norm);
  EXPECT_EQ(Plan(Preset("mistral-7b", kWhere), "q8_0").layers[3].window, 4096u);
  const StepPlan norms = Plan(TinyLlm{.qk_norm = true}.Make(), "f32");
  EXPECT_TRUE(norms.layers[1].qk_norm);
  EXPECT_FALSE(norms.layers[1].qkv_bias);
}

TEST(StepPlan, SaysWhatIsMissing) {
  EXPECT_EQ(
      Refusal(Preset("article-3b", kWhere)),
      "command line: --model: article-3b is known by its parameter count only, expected a model with the "
      "shapes of its matrices");
  EXPECT_EQ(
      Refusal(Preset("gpt2", kWhere)),
      "command line: --model: gpt2 has a feed-forward of kind mlp in layer 0, which the executed step has "
      "not, expected a decoder of layers like Llama's");
  EXPECT_NE(Refusal(Preset("t5-base", kWhere)).find("an encoder in layer 0"), std::string::npos);
  Llm llm = TinyLlm{}.Make();
  llm.layers[1].ffn.kind = FfnKind::kMoe;
  EXPECT_NE(Refusal(llm).find("a mixture of experts in layer 1"), std::string::npos);
  llm = TinyLlm{}.Make();
  llm.layers[1].self.kind = AttentionKind::kMla;
  EXPECT_NE(Refusal(llm).find("latent attention (MLA) in layer 1"), std::string::npos);
  llm = TinyLlm{}.Make();
  llm.layers[0].recurrent.form = "mamba2";
  EXPECT_NE(Refusal(llm).find("a recurrent state (mamba2) in layer 0"), std::string::npos);
  llm = TinyLlm{.encoding = "fire"}.Make();
  EXPECT_NE(Refusal(llm).find("the position encoding fire in layer 0"), std::string::npos);
  llm = TinyLlm{}.Make();
  llm.vectors[0].elements += 64;
  EXPECT_NE(Refusal(llm).find("192 norm weights and biases"), std::string::npos) << Refusal(llm);
  EXPECT_NE(Refusal(Preset("llama-3.2-1b", kWhere), "q5_k_m").find("q5_K with weights q5_k_m"),
            std::string::npos)
      << Refusal(Preset("llama-3.2-1b", kWhere), "q5_k_m");
}

TEST(StepPlan, NeedsItsWeightsItsCacheAndLittleMore) {
  const StepPlan plan = Plan(Preset("llama-3.2-1b", kWhere), "q4_0");
  const auto weights = static_cast<double>(plan.MatrixBytes() + plan.VectorBytes());
  const double empty = plan.NeededBytes(KvFormat::kF16, 0, 512),
               deep = plan.NeededBytes(KvFormat::kF16, 32768, 512);
  EXPECT_GT(empty, weights);
  EXPECT_LT(empty, 1.2 * weights);
  // 16 layers of 8 heads of 64, K and V in f16: 32 KiB a token; and 64 angles.
  EXPECT_EQ(deep - empty, 32768.0 * (32768 + 256));
}

}  // namespace
}  // namespace ropeline
