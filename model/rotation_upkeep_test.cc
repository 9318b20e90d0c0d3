#include "model/rotation_upkeep.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/fake_machine.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "request"};
const std::string kCold = "/cache:cold/threads:2";

PredictRequest Request(const char* model, const Machine& machine, uint64_t context) {
  return {.llm = Preset(model, kWhere),
          .context = context,
          .weights = FindWeightMix("q4_k_m", kWhere),
          .kv = FindKvFormat("f16", kWhere),
          .machine = &machine,
          .threads = 2,
          .batch = 1,
          .memory_bytes = std::nullopt};
}

// Decode at 32768 takes 8 ms in FakeKernelResults.
nlohmann::json Results(const std::vector<std::pair<std::string, double>>& rows) {
  nlohmann::json results = FakeKernelResults();
  for (const auto& [name, ns] : rows) results["benchmarks"].push_back(FakeRow(name, {{"call_ns", ns}}));
  return results;
}

const std::string kUnrotated = "attention/decode_unrotated/f16/BEST/n:32768/h:24/hkv:8/d:128" + kCold;
const std::string kEvict = "kv_cache/evict/f16/BEST/n:8256/hkv:8/d:128/gap:32" + kCold;
const std::string kMove = "kv_cache/evict_position_free/f16/BEST/n:8256/hkv:8/d:128/gap:32" + kCold;
const std::string kReschedule = "kv_cache/reschedule/f16/BEST/n:8192/hkv:8/d:128" + kCold;

TEST(RotationUpkeepTest, BreakEvenIsTheEvictionsExtraOverTheStepsExtra) {
  const Machine machine =
      FakeMachine(Results({{kUnrotated, 9e6},
                           {"attention/decode_unrotated/f16/BEST/n:8192/h:24/hkv:8/d:128" + kCold, 1e13},
                           {kEvict, 4e6},
                           {"kv_cache/evict/f16/BEST/n:8256/hkv:8/d:128/gap:1024" + kCold, 1e13},
                           {kMove, 1e6}}));
  // 32832 − 64 tokens move, four times 8256 − 64; one more in a thousand of decode's tokens.
  const RotationUpkeep upkeep = RotationUpkeepOf(Request("llama-3.2-3b", machine, 32832));
  ASSERT_EQ(upkeep.turns.size(), 1u);
  const TurnBreakEven& turn = upkeep.turns[0];
  EXPECT_EQ(turn.format, "f16");
  EXPECT_NEAR(turn.turning_ms, 28 * 1.0 * 32832 / 32768, 1e-9);
  EXPECT_NEAR(turn.evicting_ms, 28 * 16.0, 1e-9);
  EXPECT_NEAR(turn.moving_ms.value(), 28 * 4.0, 1e-9);
  EXPECT_NEAR(turn.steps.value(), 12.0 * 32768 / 32832, 1e-9);
  EXPECT_EQ(turn.rows.size(), 4u);
  EXPECT_TRUE(upkeep.reschedules.empty());
}

TEST(RotationUpkeepTest, WithoutTheMoveItIsFreeAndWithoutTheStepsExtraThereIsNoBreakEven) {
  const Machine machine = FakeMachine(Results({{kUnrotated, 9e6}, {kEvict, 4e6}}));
  const RotationUpkeep upkeep = RotationUpkeepOf(Request("llama-3.2-3b", machine, 32832));
  ASSERT_EQ(upkeep.turns.size(), 1u);
  EXPECT_FALSE(upkeep.turns[0].moving_ms);
  EXPECT_NEAR(upkeep.turns[0].steps.value(), 16.0 * 32768 / 32832, 1e-9);
  const Machine free = FakeMachine(Results({{kUnrotated, 7.9e6}, {kEvict, 4e6}}));
  EXPECT_FALSE(RotationUpkeepOf(Request("llama-3.2-3b", free, 32832)).turns.at(0).steps);
}

TEST(RotationUpkeepTest, ReschedulingStandsBesidePrefill) {
  const Machine machine = FakeMachine(Results({{kReschedule, 2e6}}));
  const PredictRequest request = Request("llama-3.2-3b", machine, 32768);
  const RotationUpkeep upkeep = RotationUpkeepOf(request);
  EXPECT_TRUE(upkeep.turns.empty());
  ASSERT_EQ(upkeep.reschedules.size(), 1u);
  const Reschedule& reschedule = upkeep.reschedules[0];
  EXPECT_NEAR(reschedule.ms, 28 * 4 * 2.0, 1e-9);
  EXPECT_EQ(reschedule.row, kReschedule);
  const Prediction p = Predict(request);
  EXPECT_EQ(reschedule.prefill_limit_seconds, p.prefill.limit.value->seconds);
  EXPECT_EQ(reschedule.prefill_kernels_seconds.value(), p.prefill.kernels.value->seconds);
  // 16 layers, 8 KV heads of 64: half the bytes.
  EXPECT_NEAR(RotationUpkeepOf(Request("llama-3.2-1b", machine, 8192)).reschedules.at(0).ms, 16 * 1.0, 1e-9);
  const nlohmann::ordered_json json = RotationUpkeepJson(upkeep);
  EXPECT_NEAR(json["reschedule"][0]["ms"].get<double>(), 224, 1e-9);
  EXPECT_TRUE(json["turning_points"].empty());
}

TEST(RotationUpkeepTest, NothingForAModelWithoutRotationOrWithoutRows) {
  const Machine machine = FakeMachine(Results({{kUnrotated, 9e6}, {kEvict, 4e6}, {kReschedule, 2e6}}));
  EXPECT_FALSE(RotationUpkeepOf(Request("llama-3.2-3b", machine, 1024)).empty());
  EXPECT_TRUE(RotationUpkeepOf(Request("bloom-7b1", machine, 1024)).empty());
  const Machine without = FakeMachine();
  EXPECT_TRUE(RotationUpkeepOf(Request("gpt2", machine, 1024)).empty());
  EXPECT_TRUE(RotationUpkeepOf(Request("llama-3.2-3b", without, 1024)).empty());
  PredictRequest one = Request("llama-3.2-3b", machine, 1024);
  one.threads = 1;
  EXPECT_TRUE(RotationUpkeepOf(one).empty()) << "the rows are of two threads";
}

}  // namespace
}  // namespace ropeline
