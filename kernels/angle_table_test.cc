#include "kernels/angle_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

// |actual − exact| in ulps of the float nearest to exact.
double Ulps(float actual, long double exact) {
  const float nearest = std::abs(static_cast<float>(exact));
  const float ulp = std::nextafter(nearest, INFINITY) - nearest;
  return static_cast<double>(std::abs(static_cast<long double>(actual) - exact) / ulp);
}

struct Worst {
  double ulps = 0;
  std::string where;
};

// Every pair of `table`, which starts at first_position, against long double.
Worst WorstOf(const std::vector<float>& table, const std::vector<double>& inv_freq, size_t first_position,
              size_t n, AngleLayout layout, size_t step = 1) {
  Worst worst;
  const size_t bands = inv_freq.size();
  for (size_t t = 0; t < n; t += step) {
    for (size_t i = 0; i < bands; ++i) {
      const long double angle = static_cast<long double>(first_position + t) * inv_freq[i];
      const float* row = &table[t * 2 * bands];
      const float c = row[layout == AngleLayout::kSplit    ? i
                          : layout == AngleLayout::kCosSin ? 2 * i
                                                           : 2 * i + 1];
      const float s = row[layout == AngleLayout::kSplit    ? bands + i
                          : layout == AngleLayout::kCosSin ? 2 * i + 1
                                                           : 2 * i];
      for (const double ulps : {Ulps(c, std::cos(angle)), Ulps(s, std::sin(angle))}) {
        if (ulps <= worst.ulps) continue;
        worst = {ulps, "position " + std::to_string(first_position + t) + " band " + std::to_string(i)};
      }
    }
  }
  return worst;
}

class AngleTable : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(AngleTable, IsWithinOneUlpOfLongDouble) {
  for (AngleLayout layout : {AngleLayout::kSplit, AngleLayout::kCosSin, AngleLayout::kSinCos}) {
    for (size_t position : {0, 1, 499, 4095, 32767, 131071, 1048575}) {
      for (size_t d : {2, 6, 16, 34, 80, 128}) {
        const auto inv_freq = DefaultInvFreq(d, 10000);
        constexpr size_t kRows = 9;
        std::vector<float> table(kRows * d + 8, -7.0f);
        BuildAngleTable(inv_freq, position, kRows, layout, table.data());
        const Worst worst = WorstOf(table, inv_freq, position, kRows, layout);
        EXPECT_LE(worst.ulps, 1.0) << "d " << d << " " << worst.where;
        for (size_t i = kRows * d; i < table.size(); ++i)
          ASSERT_EQ(table[i], -7.0f) << "wrote beyond the table";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AngleTable, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

// The size the project promises: 32,768 positions of d 128, every 37th row (all bands) checked.
TEST(AngleTableLarge, HoldsItsUlpTo32kAndWithABaseOf500000) {
  for (double base : {10000.0, 500000.0}) {
    const auto inv_freq = DefaultInvFreq(128, base);
    std::vector<float> table(32768 * 128);
    BuildAngleTable(inv_freq, 0, 32768, AngleLayout::kSplit, table.data());
    const Worst worst = WorstOf(table, inv_freq, 0, 32768, AngleLayout::kSplit, 37);
    EXPECT_LE(worst.ulps, 1.0) << worst.where;
    EXPECT_GT(worst.ulps, 0.4) << "no table is exact";
  }
}

TEST(AngleTableLarge, ScalarLoopAgreesToOneUlpOfOne) {
  const auto inv_freq = DefaultInvFreq(64, 10000);
  std::vector<float> a(300 * 64), b(a.size());
  BuildAngleTable(inv_freq, 1000, 300, AngleLayout::kCosSin, a.data());
  BuildAngleTableScalar(inv_freq, 1000, 300, AngleLayout::kCosSin, b.data());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1.2e-7) << i;
}

// Article, "Why naive extrapolation breaks rotary": d 128, base 10000.
TEST(DefaultInvFreq, GivesTheArticlesBands) {
  const auto inv_freq = DefaultInvFreq(128, 10000);
  ASSERT_EQ(inv_freq.size(), 64u);
  EXPECT_EQ(inv_freq[0], 1.0);
  EXPECT_NEAR(inv_freq[63], 1.1548e-4, 5e-9);
  EXPECT_NEAR(2 * 3.14159265358979 / inv_freq[63], 54410, 1);
  EXPECT_NEAR(4096 * inv_freq[63], 0.473, 5e-4);
  EXPECT_NEAR(32768 * inv_freq[63], 3.784, 5e-4);
}

}  // namespace
}  // namespace ropeline
