#include "kernels/angle_ways.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class AngleWays : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

// cos and sin of the angle that each way claims to use.
double ClaimedAngle(AngleWay way, size_t position, double inv_freq) {
  const bool f32 = way == AngleWay::kSharedF32 || way == AngleWay::kPerHeadLibm;
  if (f32) return static_cast<double>(static_cast<float>(position) * static_cast<float>(inv_freq));
  return static_cast<double>(position) * inv_freq;
}

TEST_P(AngleWays, MakeTheCosinesAndSinesTheyClaim) {
  for (const AngleWay way : kAllAngleWays) {
    // One rounding of a value near 1 is 6e-8; a chain of 63 products adds up.
    const double allowed = way == AngleWay::kRecurrence ? 5e-6 : 1.5e-7;
    double worst = 0;
    for (const size_t d : {2, 6, 30, 64, 80, 128, 200}) {
      for (const size_t position : {0, 1, 499, 4095, 131071, 1048575}) {
        const auto inv_freq = DefaultInvFreq(d, 10000);
        constexpr size_t kN = 70;  // beyond one resynchronisation
        std::vector<float> rows(kN * d + 8, -7);
        MakeAngles(way, inv_freq, position, kN, rows.data());
        for (size_t t = 0; t < kN; ++t) {
          for (size_t i = 0; i < d / 2; ++i) {
            const double angle = ClaimedAngle(way, position + t, inv_freq[i]);
            const double error =
                std::max(std::abs(static_cast<double>(rows[t * d + i]) - std::cos(angle)),
                         std::abs(static_cast<double>(rows[t * d + d / 2 + i]) - std::sin(angle)));
            ASSERT_LE(error, allowed)
                << AngleWayName(way) << " d " << d << " position " << position + t << " band " << i;
            worst = std::max(worst, error);
          }
        }
        for (size_t i = kN * d; i < rows.size(); ++i) ASSERT_EQ(rows[i], -7) << "wrote beyond the rows";
      }
    }
    EXPECT_GT(worst, 1e-8) << AngleWayName(way) << ": nothing is exact";
  }
}

// A chain of products drifts; it starts anew from exact values at regular distances, for ever.
TEST_P(AngleWays, RecurrenceStartsAnew) {
  const auto inv_freq = DefaultInvFreq(64, 10000);
  constexpr size_t kN = 8 * kResynchronise + 5;
  std::vector<float> chain(kN * 64), exact(kN * 64);
  MakeAngles(AngleWay::kRecurrence, inv_freq, 3000, kN, chain.data());
  MakeAngles(AngleWay::kShared, inv_freq, 3000, kN, exact.data());
  for (size_t t = 0; t < kN; ++t) {
    for (size_t i = 0; i < 64; ++i) {
      const size_t at = t * 64 + i;
      if (t % kResynchronise == 0) {
        ASSERT_EQ(chain[at], exact[at]) << "token " << t << " element " << i;
      } else {
        ASSERT_NEAR(chain[at], exact[at], 5e-6) << "token " << t << " element " << i;
      }
    }
  }
}

TEST_P(AngleWays, RotateByTheAnglesTheyMake) {
  for (const AngleWay way : kAllAngleWays) {
    if (way == AngleWay::kTable) continue;
    constexpr size_t kN = 66, kHeads = 3, kD = 40;
    const auto inv_freq = DefaultInvFreq(kD, 10000);
    std::vector<float> rows(kN * kD), x(kN * kHeads * kD);
    for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 9);
    const std::vector<float> before = x;
    MakeAngles(way, inv_freq, 1000, kN, rows.data());
    RotateMakingAngles(way, inv_freq, 1000, kN, kHeads, x.data());
    for (size_t t = 0; t < kN; ++t) {
      for (size_t h = 0; h < kHeads; ++h) {
        for (size_t i = 0; i < kD / 2; ++i) {
          const size_t at = (t * kHeads + h) * kD + i;
          const double c = rows[t * kD + i], s = rows[t * kD + kD / 2 + i];
          const double a = before[at], b = before[at + kD / 2];
          ASSERT_NEAR(x[at], a * c - b * s, 2e-7) << AngleWayName(way) << " token " << t << " head " << h;
          ASSERT_NEAR(x[at + kD / 2], a * s + b * c, 2e-7) << AngleWayName(way) << " token " << t;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AngleWays, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

// An angle in f32 near 131,071 has steps of 2^-7, so that it is off by up to 2^-8 = 3.9e-3, and the f32
// inv_freq by 131,071 · 2^-25 more: DIFFERENCES.md names 1.3e-2 for ggml's chain of products.
TEST(AngleError, TellsDoubleFromF32) {
  for (const AngleWay way : {AngleWay::kTable, AngleWay::kShared, AngleWay::kPerHead}) {
    EXPECT_LT(WorstAngleError(way, 131071).exact, 2e-7) << AngleWayName(way);
    EXPECT_LT(WorstAngleError(way, 1048575).exact, 2e-7) << AngleWayName(way);
    EXPECT_GT(WorstAngleError(way, 131071).trained, 2e-3) << AngleWayName(way);
  }
  for (const AngleWay way : {AngleWay::kSharedF32, AngleWay::kPerHeadLibm}) {
    EXPECT_LT(WorstAngleError(way, 1048575).trained, 2e-7) << AngleWayName(way);
    EXPECT_GT(WorstAngleError(way, 131071).exact, 2e-3) << AngleWayName(way);
    EXPECT_LT(WorstAngleError(way, 131071).exact, 8e-3) << AngleWayName(way);
  }
  const AngleError recurrence = WorstAngleError(AngleWay::kRecurrence, 1048575);
  EXPECT_LT(recurrence.exact, 5e-6);
  EXPECT_GT(recurrence.exact, 2e-7);
}

TEST(MakingAnglesCost, CountsAnglesOnceOrPerHead) {
  // 2 tokens, 4 heads of 8: 64 elements; 8 angles once, 32 per head.
  EXPECT_EQ(MakingAnglesCost(AngleWay::kShared, 2, 4, 8).flops, 3 * 64 + 3 * 8);
  EXPECT_EQ(MakingAnglesCost(AngleWay::kPerHead, 2, 4, 8).flops, 3 * 64 + 3 * 32);
  EXPECT_EQ(MakingAnglesCost(AngleWay::kRecurrence, 2, 4, 8).flops, 3 * 64 + 6 * 8);
  EXPECT_EQ(MakingAnglesCost(AngleWay::kShared, 2, 4, 8).bytes_written, 4 * 64);
}

}  // namespace
}  // namespace ropeline
