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
          .machine = &machine};
}

TEST(ThreadAdviceTest, TheFastestCountAndWhatTheSlowestCosts) {
  const Machine machine = FakeMachine();
  ASSERT_GE(machine.Threads().size(), 2u);
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
    if (choice.threads == advice.decode_threads) EXPECT_LE(choice.decode_ms, 1.02 * fastest);
  }
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
