#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();  // a token ruled out
const std::vector<size_t> kLengths = {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 129, 1023, 1024, 1025, 3000};

class Sampling : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

std::vector<float> Logits(size_t n, size_t seed) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = 8 * HashToFloat(i, seed);
  return logits;
}

TEST_P(Sampling, ArgMaxIsTheFirstOfTheLargest) {
  for (const size_t n : kLengths) {
    for (const size_t at : {size_t{0}, n / 3, n - 1}) {
      std::vector<float> logits = Logits(n, 1);
      logits[at] = 9;
      ASSERT_EQ(ArgMax(logits.data(), n), at) << n;
      logits[n - 1] = 9;
      ASSERT_EQ(ArgMax(logits.data(), n), at) << n << ", twice";
      for (float& logit : logits) logit -= 100;
      ASSERT_EQ(ArgMax(logits.data(), n), at) << n << ", below 0";
    }
  }
}

TEST_P(Sampling, ArgMaxPassesOverNaN) {
  std::vector<float> logits = Logits(100, 1);
  logits[70] = 9;
  for (const size_t at : {0, 33, 69, 71, 99}) logits[at] = NAN;
  EXPECT_EQ(ArgMax(logits.data(), logits.size()), 70u);
  const std::vector<float> none(5, NAN), all_out(5, kOut);
  EXPECT_EQ(ArgMax(none.data(), 5), 0u);
  EXPECT_EQ(ArgMax(all_out.data(), 5), 0u);
}

// u goes through the middle of every token's share of [0, 1), in double.
TEST_P(Sampling, EveryTokenHasItsShare) {
  for (const size_t n : kLengths) {
    for (const float temperature : {0.5f, 1.0f, 3.0f}) {
      const std::vector<float> logits = Logits(n, 2);
      const auto largest = static_cast<double>(logits[ArgMax(logits.data(), n)]);
      std::vector<double> weights(n);
      double total = 0;
      for (size_t i = 0; i < n; ++i) {
        weights[i] = std::exp((static_cast<double>(logits[i]) - largest) / static_cast<double>(temperature));
        total += weights[i];
      }
      double before = 0;
      for (size_t i = 0; i < n; ++i) {
        const double share = weights[i] / total;
        // A share must be wider than the rounding of u and of the sums.
        if (share > 4e-6) {
          const auto u = static_cast<float>(before + share / 2);
          ASSERT_EQ(SampleToken(logits.data(), n, temperature, u), i) << n << " temperature " << temperature;
        }
        before += share;
      }
    }
  }
}

TEST_P(Sampling, NeverATokenThatIsRuledOut) {
  for (const size_t n : {size_t{5}, size_t{70}, size_t{1024}, size_t{2500}}) {
    std::vector<float> logits(n, kOut);
    const size_t only = n / 2;
    logits[only] = -3;
    for (const float u : {0.0f, 0.5f, 0x1.fffffep-1f}) {
      ASSERT_EQ(SampleToken(logits.data(), n, 1, u), only) << n << " u " << u;
    }
  }
  // Cold enough that nothing but the largest has a weight.
  const std::vector<float> logits = Logits(2000, 3);
  for (const float temperature : {1e-6f, 1e-42f}) {
    EXPECT_EQ(SampleToken(logits.data(), logits.size(), temperature, 0.999f), ArgMax(logits.data(), 2000));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Sampling, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(SamplingCost, ReadsTheLogitsOnce) {
  EXPECT_EQ(ArgMaxCost(100).Bytes(), 400);
  EXPECT_EQ(ArgMaxCost(100).flops, 0);
  EXPECT_EQ(SampleTokenCost(100).Bytes(), 400);
  EXPECT_EQ(SampleTokenCost(100).flops, 300);
}

}  // namespace
}  // namespace ropeline
