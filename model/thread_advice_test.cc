#include "model/thread_advice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/fake_machine.h"

namespace ropeline {
namespace {

PredictRequest Request(const Machine& machine) {
  return {.llm = Preset("llama-3.2-3b", {"test", "model"}),
          .context = 4096,
          .weights = FindWeightMix("q4_0", {"test", "weights"}),
          .kv = kBlockF16,
          .machine = &machine,
          .memory_bytes = {}};
}

TEST(ThreadAdviceTest, TheFastestCountAndWhatTheSlowestCosts) {
  // Beside the fake machine's two threads one of half their bandwidth and peak.
  nlohmann::json results = FakeResults();
  for (const char* traffic : {"read", "copy", "update", "add"}) {
    results["benchmarks"].push_back(
        FakeRow("stream/" + std::string(traffic) + "/f32/BEST/ws:1000000000/threads:1",
                {{"bytes_per_second", 10e9}, {"call_ns", 1.0}}));
  }
  results["benchmarks"].push_back(
      FakeRow("peak/fma/f32/BEST/threads:1", {{"flops", 25e9}, {"call_ns", 1.0}}));
  const Machine machine = FakeMachine(results);
  ASSERT_EQ(machine.Threads(), (std::vector{1, 2}));
  const ThreadAdvice advice = AdviseThreads(Request(machine));
  ASSERT_EQ(advice.choices.size(), machine.Threads().size());
  EXPECT_EQ(advice.level, "limit") << "no rows of attention at every count";
  double fastest = 1e300, slowest = 0;
  for (const ThreadChoice& choice : advice.choices) {
    PredictRequest request = Request(machine);
    request.threads = choice.threads;
    EXPECT_DOUBLE_EQ(choice.decode_ms, Predict(request).decode.limit.value->ms_per_token);
    fastest = std::min(fastest, choice.decode_ms);
    slowest = std::max(slowest, choice.decode_ms);
  }
  EXPECT_EQ(advice.decode_threads, 2);
  EXPECT_EQ(advice.prefill_threads, 2);
  EXPECT_NEAR(advice.prefill_loss, 1, 0.01) << "half the rate";
  EXPECT_DOUBLE_EQ(advice.decode_loss, slowest / fastest - 1);
  EXPECT_NE(ThreadAdviceText(advice).find("for decode"), std::string::npos);
  EXPECT_EQ(ThreadAdviceJson(advice)["choices"].size(), advice.choices.size());
}

TEST(ThreadAdviceTest, TypedFiguresHoldForAnyCount) {
  const Machine machine = MachineFromFigures(20e9, 50e9);
  const ThreadAdvice advice = AdviseThreads(Request(machine));
  EXPECT_TRUE(advice.choices.empty());
  EXPECT_EQ(ThreadAdviceText(advice), "");
}

}  // namespace
}  // namespace ropeline
