#include "kernels/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

// Of the result: the sum's rounding, halved by the root, and those of the root, the quotient and two
// products.
constexpr double kEpsilons = 6;

class RmsNorms : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(RmsNorms, AreTheFormulaInDouble) {
  constexpr float kEpsilon = 1e-5f;
  for (const size_t d : {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 130, 1000, 2048, 3072}) {
    for (const size_t n : {size_t{1}, size_t{3}}) {
      std::vector<float> x(n * d), weight(d), y(n * d + 8, -7);
      for (size_t i = 0; i < x.size(); ++i) x[i] = 5 * HashToFloat(i, 1);
      for (size_t i = 0; i < d; ++i) weight[i] = 1 + HashToFloat(i, 2);
      RmsNorm(x.data(), weight.data(), kEpsilon, n, d, y.data());
      for (size_t t = 0; t < n; ++t) {
        double squares = 0;
        for (size_t i = 0; i < d; ++i) squares += std::pow(static_cast<double>(x[t * d + i]), 2);
        const double root = std::sqrt(squares / static_cast<double>(d) + static_cast<double>(kEpsilon));
        for (size_t i = 0; i < d; ++i) {
          const double expected = static_cast<double>(x[t * d + i]) / root * static_cast<double>(weight[i]);
          ASSERT_NEAR(y[t * d + i], expected, kEpsilons * 0x1p-24 * std::abs(expected))
              << "n " << n << " d " << d << " token " << t << " element " << i;
        }
      }
      for (size_t i = n * d; i < y.size(); ++i) ASSERT_EQ(y[i], -7) << "wrote beyond the end";
      std::vector<float> in_place = x;
      RmsNorm(in_place.data(), weight.data(), kEpsilon, n, d, in_place.data());
      y.resize(n * d);
      ASSERT_EQ(in_place, y);
    }
  }
}

// Where all elements are 0 epsilon keeps the quotient finite.
TEST_P(RmsNorms, ZeroStaysZero) {
  const std::vector<float> x(20, 0.0f), weight(20, 3.0f);
  std::vector<float> y(20, -7.0f);
  RmsNorm(x.data(), weight.data(), 1e-6f, 1, 20, y.data());
  EXPECT_EQ(y, x);
}

INSTANTIATE_TEST_SUITE_P(Targets, RmsNorms, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(RmsNormCost, CountsTheWeightsOnce) {
  const Cost cost = RmsNormCost(3, 100);
  EXPECT_EQ(cost.bytes_read, 4 * (300 + 100));
  EXPECT_EQ(cost.bytes_written, 4 * 300);
  EXPECT_EQ(cost.flops, 4 * 300);
}

}  // namespace
}  // namespace ropeline
