#include "kernels/residual.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Residual : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(Residual, AddsEveryElementOnce) {
  for (const size_t n : {0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 1000}) {
    std::vector<float> x(n), acc(n + 8, -7);
    for (size_t i = 0; i < n; ++i) {
      x[i] = HashToFloat(i, 1);
      acc[i] = HashToFloat(i, 2);
    }
    const std::vector<float> before = acc;
    AddResidual(x.data(), n, acc.data());
    for (size_t i = 0; i < acc.size(); ++i) {
      // One rounding, as the same sum in f32 has.
      ASSERT_EQ(acc[i], i < n ? before[i] + x[i] : -7) << n << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Residual, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(ResidualCost, CountsTwoReadsAndAWrite) {
  const Cost cost = ResidualCost(100);
  EXPECT_EQ(cost.bytes_read, 800);
  EXPECT_EQ(cost.bytes_written, 400);
  EXPECT_EQ(cost.flops, 100);
}

}  // namespace
}  // namespace ropeline
