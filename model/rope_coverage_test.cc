#include "model/rope_coverage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/rope_frequencies.h"

namespace ropeline {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

// DESIGN section 5: d_head 128, base 10000, trained on 4096, used at 32,768.
TEST(RopeCoverageTest, TheArticlesBands) {
  const auto inv_freq = DefaultInvFreq(128, 10000);
  const std::vector<RopeBand> bands = RopeBands(inv_freq, inv_freq, 4096, 32768);
  ASSERT_EQ(bands.size(), 64u);
  EXPECT_NEAR(bands[0].turns_train, 651.9, 0.05);
  EXPECT_EQ(bands[0].unseen, 0);
  EXPECT_FALSE(bands[0].out_of_distribution);
  const RopeBand& last = bands[63];
  EXPECT_NEAR(last.theta, 1.1548e-4, 5e-9);
  EXPECT_NEAR(last.wavelength, 54410, 1);
  EXPECT_NEAR(last.arc_train, 0.4729, 5e-5);
  EXPECT_NEAR(last.arc_train / kDegree, 27.1, 0.05);
  EXPECT_NEAR(last.arc_context, 3.784, 5e-4);
  EXPECT_NEAR(last.arc_context / kDegree, 216.8, 0.05);
  EXPECT_NEAR(last.unseen, 0.87503, 5e-6);
  EXPECT_TRUE(last.out_of_distribution);

  const RopeCoverage coverage = Summarise(bands);
  EXPECT_EQ(coverage.bands, 64u);
  EXPECT_EQ(coverage.out_of_distribution, 18u);  // bands 46 to 63 had not turned once
  EXPECT_EQ(coverage.worst_band, 63u);
  EXPECT_EQ(coverage.local_resolution, 1);
}

TEST(RopeCoverageTest, CapsTheArcAtOneTurnButNotTheTravel) {
  const double turn = 2 * std::numbers::pi;
  // Trained on half a turn, used over four turns.
  const RopeBand band = RopeBands({turn / 200}, {turn / 200}, 101, 801)[0];
  EXPECT_NEAR(band.unseen, 0.5, 1e-12);
  EXPECT_NEAR(band.unseen_travel, 1 - 0.5 / 4, 1e-12);
}

TEST(RopeCoverageTest, InterpolationLeavesLessThanAStepBeyond) {
  const auto trained = DefaultInvFreq(128, 10000);
  std::vector<double> inv_freq = trained;
  for (double& theta : inv_freq) theta /= 8;
  const RopeCoverage coverage = Summarise(RopeBands(trained, inv_freq, 4096, 32768));
  EXPECT_EQ(coverage.out_of_distribution, 0u);
  EXPECT_NEAR(coverage.worst_unseen, 2.136e-4, 5e-8);  // 4095.875 against 4095
  EXPECT_EQ(coverage.local_resolution, 0.125);
  // Two steps further is beyond.
  EXPECT_GT(Summarise(RopeBands(trained, inv_freq, 4096, 32768 + 16)).out_of_distribution, 0u);
}

TEST(RopeCoverageTest, ResolutionIsOfBandsThatTurnedOften) {
  // 100 turns and half a turn in training; only the slow one is squeezed.
  const double turn = 2 * std::numbers::pi;
  const std::vector<double> trained = {turn / 10, turn / 2000};
  EXPECT_EQ(Summarise(RopeBands(trained, {turn / 10, turn / 16000}, 1000, 8000)).local_resolution, 1);
  EXPECT_EQ(Summarise(RopeBands(trained, {turn / 20, turn / 16000}, 1000, 8000)).local_resolution, 0.5);
}

TEST(RopeCoverageTest, BandsThatStandStillAreSeen) {
  const std::vector<RopeBand> bands = RopeBands({1, 0}, {1, 0}, 4096, 32768);
  EXPECT_TRUE(std::isinf(bands[1].wavelength));
  EXPECT_EQ(bands[1].unseen, 0);
  EXPECT_EQ(bands[1].squeeze, 1);
  EXPECT_EQ(Summarise(bands).bands, 1u);
}

TEST(RopeCoverageTest, NoTokensAreNoArc) {
  const std::vector<RopeBand> bands = RopeBands({0.1}, {0.1}, 0, 0);
  EXPECT_EQ(bands[0].arc_train, 0);
  EXPECT_EQ(bands[0].unseen, 0);
  EXPECT_EQ(Summarise({}).ShareOut(), 0);
}

}  // namespace
}  // namespace ropeline
