// The fit against curves whose truth is known.
#include "model/engine/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/engine/curve_flags.h"
#include "model/engine/spd.h"

namespace ropeline {
namespace {

constexpr double kFirst = 0.05;  // seconds at depth 0
constexpr double kSlope = 2e-6;  // seconds per token of depth
constexpr double kTimed = 64;    // half of what a row times

CurveRow RowAt(double n_kv, double seconds) { return {n_kv, n_kv + kTimed, seconds, 0}; }

// Rows 0, 512 … last, of a + b·depth with relative noise.
Curve StraightCurve(double last, double noise, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  Curve curve;
  curve.prior = {kSlope, 1.0};
  for (double n = 0; n <= last; n += 512) {
    curve.rows.push_back(RowAt(n, (kFirst + kSlope * (n + kTimed)) * (1 + normal(random))));
  }
  return curve;
}

double Truth(double n_kv) { return kFirst + kSlope * (n_kv + kTimed); }

double ErrorAt(const CurveFit& fit, double n_kv, double truth) {
  return fit.At(n_kv, n_kv + kTimed).value / truth - 1;
}

bool HasFlag(const CurveFit& fit, const std::string& name) {
  for (const EngineFlag& flag : FlagsOf(fit)) {
    if (flag.name == name) return true;
  }
  return false;
}

TEST(SpdTest, InvertsAndGivesTheDeterminant) {
  std::vector<double> matrix = {4, 2, 0, 2, 5, 1, 0, 1, 3};
  const std::vector<double> original = matrix;
  const double log_det = InvertSpd(3, &matrix);
  EXPECT_NEAR(std::exp(log_det), 4 * (15 - 1) - 2 * 6, 1e-9);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += original[i * 3 + k] * matrix[k * 3 + j];
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-12);
    }
  }
}

TEST(CurveTest, RecoversAStraightLine) {
  const CurveFit fit(StraightCurve(2048, 0));
  EXPECT_NEAR(fit.Slope().value, kSlope, 0.02 * kSlope);
  EXPECT_NEAR(fit.Intercept().value, kFirst, 0.005 * kFirst);
  EXPECT_NEAR(ErrorAt(fit, 16384, Truth(16384)), 0, 0.01);
  EXPECT_TRUE(FlagsOf(fit).empty());
}

// A prior that is wrong by a factor of three does not matter where rows are clean.
TEST(CurveTest, RowsOverruleThePrior) {
  Curve curve = StraightCurve(4096, 0.001);
  curve.prior = {3 * kSlope, 0.5};
  EXPECT_NEAR(ErrorAt(CurveFit(curve), 32768, Truth(32768)), 0, 0.03);
}

// … and decides where there is one row only.
TEST(CurveTest, ThePriorSpeaksWhereRowsAreSilent) {
  Curve curve = StraightCurve(0, 0);
  const CurveFit fit(curve);
  EXPECT_NEAR(fit.Slope().value, kSlope, 0.05 * kSlope);
  const Estimate deep = fit.At(16384, 16384 + kTimed);
  EXPECT_GT(deep.high / deep.low, 2);
  EXPECT_TRUE(HasFlag(fit, "too_few_rows"));
}

TEST(CurveTest, AColdFirstRowDoesNotTurnTheLine) {
  Curve curve = StraightCurve(2048, 0.001);
  curve.rows[0].seconds *= 1.5;
  const CurveFit fit(curve);
  EXPECT_NEAR(ErrorAt(fit, 16384, Truth(16384)), 0, 0.1) << "a line through all rows is off by half";
  EXPECT_TRUE(HasFlag(fit, "cold_first_row"));
}

TEST(CurveTest, ABadRowDoesNotTurnTheLine) {
  Curve curve = StraightCurve(4096, 0.002);
  curve.rows[3].seconds *= 1.4;
  EXPECT_NEAR(ErrorAt(CurveFit(curve), 16384, Truth(16384)), 0, 0.06);
}

// What a run's own repetitions say of its rows: a row that they scatter around counts for less than one that
// they agree on, and predictions are as unsure as the rows.
TEST(CurveTest, ARowCountsByItsOwnRepetitions) {
  Curve curve = StraightCurve(2048, 0);
  curve.rows.back().seconds *= 1.08;
  const double plain = std::abs(ErrorAt(CurveFit(curve), 16384, Truth(16384)));
  curve.rows.back().error = 0.08;
  EXPECT_LT(std::abs(ErrorAt(CurveFit(curve), 16384, Truth(16384))), 0.5 * plain);
  Curve sure = StraightCurve(2048, 0), unsure = sure;
  for (CurveRow& row : unsure.rows) row.error = 0.05;
  const Estimate narrow = CurveFit(sure).At(16384, 16384 + kTimed);
  const Estimate wide = CurveFit(unsure).At(16384, 16384 + kTimed);
  EXPECT_GT(wide.high - wide.low, 2 * (narrow.high - narrow.low));
  EXPECT_NEAR(wide.value, narrow.value, 0.1 * narrow.value);
  const Estimate sharp = CurveFit(sure).Slope(), blunt = CurveFit(unsure).Slope();
  EXPECT_GT(blunt.high / blunt.low, 1.3 * sharp.high / sharp.low);
  EXPECT_LT(CurveFit(unsure).Noise(), 0.02) << "the rows' own noise is not taken for the curve's";
}

TEST(CurveTest, RangesHoldNineOfTen) {
  int inside = 0, rows = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    const CurveFit fit(StraightCurve(2048, 0.01, seed));
    for (const double n : {4096.0, 8192.0, 16384.0}) {
      const Estimate estimate = fit.At(n, n + kTimed);
      EXPECT_LT(estimate.low, estimate.value);
      EXPECT_LT(estimate.value, estimate.high);
      inside += estimate.low <= Truth(n) && Truth(n) <= estimate.high ? 1 : 0;
      ++rows;
    }
  }
  EXPECT_GE(inside, 0.85 * rows);
}

TEST(CurveTest, RangesWidenWithDepth) {
  const CurveFit fit(StraightCurve(2048, 0.005));
  double last = 0;
  for (const double n : {2048.0, 4096.0, 8192.0, 32768.0, 131072.0}) {
    const Estimate estimate = fit.At(n, n + kTimed);
    const double width = (estimate.high - estimate.low) / estimate.value;
    EXPECT_GT(width, last);
    last = width;
  }
}

// 5 of 6 layers have a window of 1024: the rows beyond it decide whether the engine skips.
TEST(CurveTest, FindsTheKneeOfAWindow) {
  for (const bool skips : {false, true}) {
    Curve curve;
    curve.window = WindowShape{1024, 5.0 / 6};
    curve.prior = {kSlope, 0.7};
    const auto truth = [&](double n_kv) {
      const double depth = n_kv + kTimed;
      return kFirst + kSlope * (skips ? depth / 6 + std::min(depth, 1024.0) * 5 / 6 : depth);
    };
    for (double n = 0; n <= 4096; n += 512) curve.rows.push_back(RowAt(n, truth(n)));
    const CurveFit fit(curve);
    EXPECT_NEAR(fit.WindowSkipped(), skips ? 1 : 0, 0.1);
    EXPECT_NEAR(ErrorAt(fit, 32768, truth(32768)), 0, 0.03);
    EXPECT_EQ(HasFlag(fit, "window_knee"), skips);
  }
}

// Every third row's keys split evenly over the threads: half the slope.
TEST(CurveTest, FindsASawTooth) {
  Curve curve;
  curve.prior = {2 * kSlope, 0.7};
  const auto truth = [](double n_kv) {
    const bool even = std::fmod(n_kv / 512, 3) == 1;
    return kFirst + (even ? 1 : 2.5) * 5 * kSlope * (n_kv + kTimed);
  };
  for (double n = 0; n <= 4096; n += 512) curve.rows.push_back(RowAt(n, truth(n)));
  const CurveFit fit(curve);
  EXPECT_EQ(fit.Teeth(), 3);
  EXPECT_TRUE(HasFlag(fit, "saw_tooth"));
  EXPECT_NEAR(ErrorAt(fit, 15872, truth(15872)), 0, 0.15);  // row 31 of the low teeth
  EXPECT_NEAR(ErrorAt(fit, 15360, truth(15360)), 0, 0.15);
  EXPECT_EQ(CurveFit(StraightCurve(4096, 0.01)).Teeth(), 0);
}

TEST(CurveTest, FlagsABend) {
  Curve curve;
  curve.prior = {kSlope, 1};
  for (double n = 0; n <= 4096; n += 512) curve.rows.push_back(RowAt(n, kFirst + 4 * kSlope * n * n / 4096));
  EXPECT_TRUE(HasFlag(CurveFit(curve), "super_linear"));
}

TEST(CurveTest, FlagsAFall) {
  Curve curve = StraightCurve(4096, 0);
  curve.rows[6].seconds *= 0.8;
  EXPECT_TRUE(HasFlag(CurveFit(curve), "not_monotone"));
}

TEST(CurveTest, TheMachineBoundsTheSlope) {
  Curve curve = StraightCurve(1024, 0.02, 3);
  curve.prior.slope_min_s = 3 * kSlope;
  EXPECT_GE(CurveFit(curve).Slope().value, 2.9 * kSlope);
}

}  // namespace
}  // namespace ropeline
