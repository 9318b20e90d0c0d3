#include "model/step_validation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/fake_machine.h"
#include "model/predict.h"

namespace ropeline {
namespace {

const char* const kDecodeRow = "step/decode/q8_0/BEST/model:llama-3.2-1b/context:4095/kv:f16/threads:2";
const char* const kPrefillRow =
    "step/prefill/q8_0/BEST/model:llama-3.2-1b/context:3584/kv:f16/chunk:512/threads:2";

// 1 ns a weight in a step, a tenth of it a token in a chunk; attention 0.5 ms a layer, whole prompts at 1e11.
nlohmann::json Components() {
  return FakeResultsWith({
      {"weights/matvec/q8_0/BEST/n:1/rows:1024/cols:1024/cache:cold/threads:2", 1024.0 * 1024},
      {"linear/matmul/q8_0/BEST/n:512/rows:1024/cols:1024/cache:hot/threads:2", 51.2 * 1024 * 1024},
      {"attention/decode/f16/BEST/n:4096/h:32/hkv:8/d:64/cache:cold/threads:2", 5e5},
      {"attention/prefill/f16/BEST/n:4096/m:4096/h:4/hkv:1/d:64/causal:1/cache:hot/threads:2",
       4096.0 * 4096 / 2 * 4 * 4 * 64 / 100},
  });
}

nlohmann::json WithStep(nlohmann::json results, const char* row, double ms, double attention_ms,
                        bool tainted = false) {
  nlohmann::json counters{{"call_ns", ms * 1e6}, {"term_attention_ms", attention_ms}, {"working_set", 1e9}};
  if (tainted) counters["tainted"] = 1.0;
  results["benchmarks"].push_back(FakeRow(row, counters));
  return results;
}

TEST(StepValidationTest, ErrorsAreAgainstTheKernelsOfTheRun) {
  const Machine machine = FakeMachine(WithStep(Components(), kDecodeRow, 1250, 10));
  const StepValidation validation = ValidateSteps(machine);
  ASSERT_EQ(validation.points.size(), 1u);
  const StepPoint& point = validation.points.front();
  PredictRequest request{.llm = Preset("llama-3.2-1b", {"test", "model"}),
                         .context = 4096,
                         .weights = FindWeightMix("q8_0", {"test", "weights"}),
                         .kv = kBlockF16,
                         .machine = &machine,
                         .threads = 2,
                         .memory_bytes = {}};
  const DecodeLevel kernels = Predict(request).decode.kernels.value.value();
  EXPECT_DOUBLE_EQ(point.predicted_ms, kernels.ms_per_token);
  EXPECT_DOUBLE_EQ(point.error, kernels.ms_per_token / 1250 - 1);
  EXPECT_EQ(point.measured_ms, 1250);
  EXPECT_EQ(validation.decode.points, 1u);
  EXPECT_DOUBLE_EQ(validation.decode.median, std::abs(point.error));
  EXPECT_EQ(validation.prefill.points, 0u);
  // Weights were not measured apart: they are furthest off.
  EXPECT_EQ(point.blame, "weights");
  for (const StepTermError& term : point.terms) {
    if (term.name == "attention") EXPECT_NEAR(term.predicted_ms, 16 * 0.5, 1e-9);
    if (term.name == "attention") EXPECT_EQ(term.measured_ms, 10);
  }
}

// 512 queries after 3,584 tokens: the last rows of a triangle of 4,096.
TEST(StepValidationTest, AChunkReadsWhatCameBeforeIt) {
  const Machine machine = FakeMachine(WithStep(Components(), kPrefillRow, 60000, 100));
  const StepValidation validation = ValidateSteps(machine);
  ASSERT_EQ(validation.points.size(), 1u);
  double linear = 0, attention = 0;
  for (const StepTermError& term : validation.points.front().terms) {
    if (term.name == "linear") linear = term.predicted_ms;
    if (term.name == "attention") attention = term.predicted_ms;
  }
  const double weights = 16.0 * (2.0 * 2048 * 2048 + 2.0 * 512 * 2048 + 3.0 * 2048 * 8192);
  EXPECT_NEAR(linear, weights * 51.2 / 1e6, 1e-3);
  const double pairs = (4096.0 * 4096 - 3584.0 * 3584) / 2;
  EXPECT_NEAR(attention, 16 * pairs * 32 * 4 * 64 / 100 / 1e6, 1e-6);
}

TEST(StepValidationTest, DisturbedRowsDoNotCountWhereThereAreOthers) {
  auto results = WithStep(Components(), kDecodeRow, 1250, 10);
  const char* const disturbed = "step/decode/q8_0/BEST/model:llama-3.2-1b/context:0/kv:f16/threads:2";
  results = WithStep(results, disturbed, 5000, 10, true);
  const StepValidation validation = ValidateSteps(FakeMachine(results));
  EXPECT_EQ(validation.points.size(), 2u);
  EXPECT_EQ(validation.decode.points, 1u);
  EXPECT_EQ(validation.decode.worst_row, kDecodeRow);
}

// FakeResults reads memory at its stream rows' speed; beside this step it was half of that.
TEST(StepValidationTest, ASlowMemoryIsToldFromASlowStep) {
  auto results = WithStep(Components(), kDecodeRow, 1250, 10);
  const Machine before = FakeMachine(results);
  const StepPoint plain = ValidateSteps(before).points.at(0);
  EXPECT_FALSE(plain.error_at_that);
  EXPECT_FALSE(ValidateSteps(before).decode.median_at_that);
  const double rows = before.roofline.MemoryBandwidth(Traffic::kRead, 2).value();
  results["benchmarks"].back()["weights_read_gb_s"] = rows / 2e9;
  const StepValidation validation = ValidateSteps(FakeMachine(results));
  const StepPoint point = validation.points.at(0);
  EXPECT_EQ(point.error, plain.error);
  EXPECT_DOUBLE_EQ(point.memory_gb_s.value(), rows / 2e9);
  // Every byte takes as long again: 1.236e9 weights of 34/32 bytes and 4,096 tokens of 32 KiB.
  const double bytes = 1235814400.0 * 34 / 32 + 4096.0 * 32768;
  const double more = 1e3 * bytes / rows;
  EXPECT_NEAR(point.error_at_that.value(), (point.predicted_ms + more) / 1250 - 1, 1e-3 * more / 1250);
  EXPECT_EQ(validation.decode.median_at_that, std::abs(*point.error_at_that));
  EXPECT_EQ(StepValidationJson(before, validation)["rows"][0]["memory_gb_s"].get<double>(), rows / 2e9);
}

TEST(StepValidationTest, WithoutStepsOrKernelsItSaysSo) {
  EXPECT_THROW(ValidateSteps(FakeMachine(Components())), BadInput);
  const StepValidation validation = ValidateSteps(FakeMachine(WithStep(FakeResults(), kDecodeRow, 1250, 10)));
  EXPECT_TRUE(validation.points.empty());
  ASSERT_EQ(validation.warnings.size(), 1u);
  EXPECT_NE(validation.warnings[0].find("attention/decode/f16"), std::string::npos);
}

}  // namespace
}  // namespace ropeline
