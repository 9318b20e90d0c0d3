#include "kernels/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

// Of the result: exp's 2e-7 is 3.4; a sum, a quotient and two products more.
constexpr double kEpsilons = 6;

class SwiGlus : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

double Expected(float gate, float up) {
  const auto g = static_cast<double>(gate);
  return g / (1 + std::exp(-g)) * static_cast<double>(up);
}

TEST_P(SwiGlus, AreTheFormulaInDouble) {
  for (const size_t n : {0, 1, 3, 15, 16, 17, 31, 32, 33, 63, 65, 127, 1000}) {
    std::vector<float> gate(n), up(n), out(n + 8, -7);
    for (size_t i = 0; i < n; ++i) {
      gate[i] = (i % 3 == 0 ? 80 : 4) * HashToFloat(i, 1);
      up[i] = 2 * HashToFloat(i, 2);
    }
    SwiGlu(gate.data(), up.data(), n, out.data());
    for (size_t i = 0; i < n; ++i) {
      const double expected = Expected(gate[i], up[i]);
      ASSERT_NEAR(out[i], expected, kEpsilons * 0x1p-24 * std::abs(expected))
          << n << " element " << i << " gate " << gate[i] << " up " << up[i];
    }
    for (size_t i = n; i < out.size(); ++i) ASSERT_EQ(out[i], -7) << "wrote beyond the end";
    std::vector<float> in_place = gate;
    SwiGlu(in_place.data(), up.data(), n, in_place.data());
    out.resize(n);
    ASSERT_EQ(in_place, out);
  }
}

// Where exp(−gate) is beyond f32 either way.
TEST_P(SwiGlus, FarFromZeroIsTheGateOrNothing) {
  const std::vector<float> gate = {90, 1e4f, 1e30f, -90, -1e4f, -1e30f, 0}, up(gate.size(), 1.0f);
  std::vector<float> out(gate.size(), -7);
  SwiGlu(gate.data(), up.data(), gate.size(), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    EXPECT_NEAR(out[i], gate[i] > 0 ? gate[i] : 0, 1e-30) << gate[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SwiGlus, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(SwiGluCost, CountsTwoReadsAndAWrite) {
  const Cost cost = SwiGluCost(100);
  EXPECT_EQ(cost.bytes_read, 800);
  EXPECT_EQ(cost.bytes_written, 400);
  EXPECT_EQ(cost.flops, 300);
}

}  // namespace
}  // namespace ropeline
