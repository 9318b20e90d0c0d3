#include "model/weight_rates.h"

#include <gtest/gtest.h>

#include "model/fake_machine.h"
#include "model/kernel_terms.h"
#include "model/predict.h"

namespace ropeline {
namespace {

constexpr double kMs = 1e6;

Machine MachineWith(const std::vector<std::pair<std::string, double>>& rows) {
  return FakeMachine(FakeResultsWith(rows));
}

std::string MatVecRow(const char* format, int n, int rows, int cols, int threads = 2,
                      const char* cache = "cold") {
  return "weights/matvec/" + std::string(format) + "/BEST/n:" + std::to_string(n) +
         "/rows:" + std::to_string(rows) + "/cols:" + std::to_string(cols) + "/cache:" + cache +
         "/threads:" + std::to_string(threads);
}

TEST(WeightRatesTest, ARowsOwnShapeGivesItsOwnTime) {
  const Machine machine = MachineWith({{MatVecRow("q4_K", 1, 8192, 3072), 2 * kMs},
                                       {MatVecRow("q4_K", 1, 512, 2048), 0.1 * kMs},
                                       {MatVecRow("q4_K", 1, 512, 2048, 1), 7 * kMs},
                                       {MatVecRow("q4_K", 1, 8192, 3072, 2, "hot"), 9 * kMs}});
  const WeightRates rates(machine, 2);
  const auto time = rates.MatVec(kBlockQ4K, 8192, 3072, 1);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->ns, 2 * kMs);
  EXPECT_EQ(time->row, MatVecRow("q4_K", 1, 8192, 3072));
  EXPECT_EQ(time->note, "");
  EXPECT_DOUBLE_EQ(rates.MatVec(kBlockQ4K, 512, 2048, 1)->ns, 0.1 * kMs);
  EXPECT_FALSE(rates.MatVec(kBlockQ6K, 512, 2048, 1));
  EXPECT_DOUBLE_EQ(WeightRates(machine, 1).MatVec(kBlockQ4K, 512, 2048, 1)->ns, 7 * kMs);
}

// Time per weight, linear in the logarithm of the weights, the ends kept.
TEST(WeightRatesTest, OtherShapesLieBetween) {
  const Machine machine = MachineWith({{MatVecRow("f16", 1, 1024, 1024), 2.0 * 1024 * 1024},
                                       {MatVecRow("f16", 1, 4096, 4096), 1.0 * 4096 * 4096},
                                       {MatVecRow("f16", 1, 16384, 1024), 1.5 * 4096 * 4096}});
  const WeightRates rates(machine, 2);
  EXPECT_NEAR(rates.MatVec(kBlockF16, 2048, 2048, 1)->ns, 1.5 * 2048 * 2048, 1);
  EXPECT_NEAR(rates.MatVec(kBlockF16, 512, 512, 1)->ns, 2.0 * 512 * 512, 1);
  EXPECT_NEAR(rates.MatVec(kBlockF16, 128256, 4096, 1)->ns, 1.0 * 128256 * 4096, 1);
  // Of two of the same size the one whose width is nearer.
  EXPECT_NEAR(rates.MatVec(kBlockF16, 32768, 1024, 1)->ns, 1.5 * 32768 * 1024, 1);
  EXPECT_EQ(rates.MatVec(kBlockF16, 32768, 1024, 1)->note, "by weights from 16384 × 1024 to 32768 × 1024");
}

TEST(WeightRatesTest, CountsOfVectorsLieBetweenToo) {
  const Machine machine =
      MachineWith({{MatVecRow("q8_0", 1, 1024, 1024), 100}, {MatVecRow("q8_0", 4, 1024, 1024), 160}});
  const WeightRates rates(machine, 2);
  EXPECT_NEAR(rates.MatVec(kBlockQ80, 1024, 1024, 2)->ns, 120, 1e-9);
  EXPECT_NEAR(rates.MatVec(kBlockQ80, 1024, 1024, 8)->ns, 320, 1e-9) << "two passes of four";
}

// A decode step is the sum of its matrices, and of its vectors made ready: once for q, k and v.
TEST(WeightRatesTest, AStepIsTheSumOfItsMatrices) {
  const Machine machine = MachineWith({
      {MatVecRow("q8_0", 1, 1024, 1024), 1024.0 * 1024},  // 1 ns a weight
      {"weights/prepare/q8_0/BEST/n:1/cols:2048/cache:hot/threads:1", 2048.0 * 10},
      {"attention/decode/f16/BEST/n:4096/h:32/hkv:8/d:64/cache:cold/threads:2", 1000},
  });
  PredictRequest request{.llm = Preset("llama-3.2-1b", {"test", "model"}),
                         .context = 4096,
                         .weights = FindWeightMix("q8_0", {"test", "weights"}),
                         .kv = kBlockF16,
                         .machine = &machine,
                         .threads = 2,
                         .memory_bytes = {}};
  const Prediction p = Predict(request);
  ASSERT_TRUE(p.decode.kernels.value);
  double layers = 0, head = 0;
  for (const Term& term : p.decode.kernels.value->terms) {
    if (term.name == "weights") layers = term.ms;
    if (term.name == "lm_head") head = term.ms;
  }
  const double weights = 16.0 * (2.0 * 2048 * 2048 + 2.0 * 512 * 2048 + 3.0 * 2048 * 8192);
  const double ready = 16.0 * 10 * (3 * 2048 + 8192);
  EXPECT_NEAR(layers * kMs, weights + ready, 1);
  EXPECT_NEAR(head * kMs, 128256.0 * 2048 + 10 * 2048, 1);
}

}  // namespace
}  // namespace ropeline
