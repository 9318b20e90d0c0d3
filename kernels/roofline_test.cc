#include "kernels/roofline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ropeline {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

Roofline SmallMachine() {
  Roofline limits;
  limits.AddRow("stream/read/f32/AVX2/ws:16384/threads:1", 100e9, 0);
  limits.AddRow("stream/read/f32/AVX2/ws:65536/threads:1", 50e9, 0);
  limits.AddRow("stream/read/f32/AVX2/ws:1048576/threads:1", 10e9, 0);
  limits.AddRow("peak/fma/f32/AVX2/threads:1", 0, 200e9);
  limits.AddRow("peak/fma/f32/SSE4/threads:1", 0, 50e9);
  return limits;
}

TEST(Roofline, InterpolatesInTheLogarithmAndClampsAtTheEnds) {
  const Roofline limits = SmallMachine();
  EXPECT_EQ(*limits.Bandwidth(Traffic::kRead, 1, 16384), 100e9);
  EXPECT_NEAR(*limits.Bandwidth(Traffic::kRead, 1, 32768), 75e9, 1);  // half way in log2
  EXPECT_EQ(*limits.Bandwidth(Traffic::kRead, 1, 1), 100e9);
  EXPECT_EQ(*limits.Bandwidth(Traffic::kRead, 1, 1e15), 10e9);
  EXPECT_EQ(*limits.MemoryBandwidth(Traffic::kRead, 1), 10e9);
  EXPECT_FALSE(limits.Bandwidth(Traffic::kRead, 2, 16384));
  EXPECT_FALSE(limits.Bandwidth(Traffic::kCopy, 1, 16384));
  EXPECT_EQ(*limits.PeakFlops(1), 200e9) << "the fastest target counts";
  EXPECT_EQ(limits.Threads(), std::vector<int>{1});
}

TEST(Roofline, TakesMediansAndPrefersUntaintedRows) {
  Roofline limits;
  for (double rate : {10e9, 12e9, 90e9}) limits.AddRow("stream/copy/f32/AVX2/ws:4096/threads:2", rate, 0);
  EXPECT_EQ(*limits.Bandwidth(Traffic::kCopy, 2, 4096), 12e9);
  limits.AddRow("stream/copy/f32/AVX2/ws:8192/threads:2", 1e9, 0, /*tainted=*/true);
  EXPECT_EQ(*limits.Bandwidth(Traffic::kCopy, 2, 8192), 1e9) << "better than nothing";
  limits.AddRow("stream/copy/f32/AVX2/ws:8192/threads:2", 8e9, 0);
  EXPECT_EQ(*limits.Bandwidth(Traffic::kCopy, 2, 8192), 8e9);
}

TEST(Roofline, IgnoresRowsThatAreNoLimits) {
  Roofline limits;
  limits.AddRow("stream/latency/u64/any/ws:4096/threads:1", 5e9, 0);
  limits.AddRow("stream/read/f32/AVX2/ws:4096/pages:4k/threads:1", 5e9, 0);
  limits.AddRow("qk_rotation/rope_half/f32/AVX2/n:1/h:1/d:2/cache:hot/threads:1", 5e9, 1);
  limits.AddRow("nonsense", 5e9, 1);
  EXPECT_TRUE(limits.Threads().empty());
  EXPECT_FALSE(limits.PeakFlops(1));
}

TEST(Roofline, TimeIsTheLargerOfBytesAndFlops) {
  const Roofline limits = SmallMachine();
  const LimitTime memory = limits.TimeAtLimit({1e9, 0, 1e9}, Traffic::kRead, 1, 1e9);
  EXPECT_EQ(memory.bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(memory.seconds, 0.1);
  const LimitTime compute = limits.TimeAtLimit({1e9, 0, 1e12}, Traffic::kRead, 1, 1e9);
  EXPECT_EQ(compute.bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(compute.seconds, 5);
  // A table look-up has no flops: no 0/0, and no peak is needed.
  const LimitTime lookup = limits.TimeAtLimit({1e9, 0, 0}, Traffic::kRead, 1, 1e9);
  EXPECT_EQ(lookup.bound, Bound::kMemory);
  EXPECT_EQ(limits.TimeAtLimit({1, 1, 0}, Traffic::kAdd, 1, 1).bound, Bound::kUnknown);
  EXPECT_EQ(limits.TimeAtLimit({}, Traffic::kAdd, 1, 1).seconds, 0);
}

TEST(Roofline, FlatMachineHasTwoNumbers) {
  Roofline limits;
  limits.SetFlat(20e9, 50e9);
  EXPECT_EQ(*limits.Bandwidth(Traffic::kUpdate, 7, 1), 20e9);
  EXPECT_EQ(*limits.MemoryBandwidth(Traffic::kRead, 1), 20e9);
  EXPECT_EQ(*limits.PeakFlops(64), 50e9);
}

// A curve on a √2 grid with plateaus that end at the given capacities.
std::vector<BandwidthPoint> Staircase(const std::vector<std::pair<double, double>>& levels, double memory) {
  std::vector<BandwidthPoint> curve;
  for (double ws = 16 * kKiB; ws <= 512 * kMiB; ws *= std::sqrt(2.0)) {
    double rate = memory;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      if (ws <= level->first * 1.0001) rate = level->second;
    }
    curve.push_back({ws, rate});
  }
  return curve;
}

TEST(FindKnees, FindsEachCache) {
  const auto knees = FindKnees(Staircase({{32 * kKiB, 300e9}, {1 * kMiB, 120e9}, {32 * kMiB, 40e9}}, 15e9));
  ASSERT_EQ(knees.size(), 3u);
  EXPECT_NEAR(knees[0].capacity_bytes, 32 * kKiB, 1);
  EXPECT_NEAR(knees[1].capacity_bytes, 1 * kMiB, 1e3);
  EXPECT_NEAR(knees[2].capacity_bytes, 32 * kMiB, 1e5);
  EXPECT_EQ(knees[1].bytes_per_second, 120e9);
}

TEST(FindKnees, ToleratesNoiseAndSlopingFalls) {
  auto curve = Staircase({{64 * kKiB, 200e9}, {2 * kMiB, 90e9}}, 12e9);
  for (size_t i = 0; i < curve.size(); ++i) curve[i].bytes_per_second *= i % 2 == 0 ? 1.04 : 0.96;
  // The fall from the second cache takes three steps.
  for (auto& point : curve) {
    if (point.working_set_bytes > 2.1 * kMiB && point.working_set_bytes < 3 * kMiB)
      point.bytes_per_second = 60e9;
    if (point.working_set_bytes > 3 * kMiB && point.working_set_bytes < 4.1 * kMiB)
      point.bytes_per_second = 30e9;
  }
  const auto knees = FindKnees(curve);
  ASSERT_EQ(knees.size(), 2u);
  EXPECT_NEAR(knees[0].capacity_bytes, 64 * kKiB, 1);
  EXPECT_NEAR(knees[1].capacity_bytes, 2 * kMiB, 1e3);
}

// As measured once: the first plateau reads low at its small end, and the second is only a quarter slower.
TEST(FindKnees, FindsAShallowFirstKnee) {
  std::vector<BandwidthPoint> curve;
  double ws = 16 * kKiB;
  for (double rate :
       {148., 157., 176., 195., 131., 126., 129., 128., 130., 128., 127., 128., 123., 44., 31., 30.,
        30.,  30.,  30.,  28.,  27.,  20.,  13.,  13.,  12.,  12.,  12.,  13.,  13.,  13., 12.}) {
    curve.push_back({ws, rate * 1e9});
    ws *= std::sqrt(2.0);
  }
  const auto knees = FindKnees(curve);
  ASSERT_EQ(knees.size(), 3u);
  EXPECT_NEAR(knees[0].capacity_bytes, 45 * kKiB, kKiB);
  EXPECT_NEAR(knees[1].capacity_bytes, 1 * kMiB, kKiB);
  EXPECT_NEAR(knees[2].capacity_bytes, 16 * kMiB, 100 * kKiB);
}

// A fall that pauses for one step is one fall.
TEST(FindKnees, APauseWithinAFallIsNoCache) {
  std::vector<BandwidthPoint> curve;
  double ws = 16 * kKiB;
  for (double rate :
       {180., 188., 189., 189., 122., 128., 130., 126., 129., 126., 124., 47., 57., 39., 32., 31.,
        30.,  30.,  30.,  30.,  27.,  22.,  14.,  12.,  12.,  12.,  12.,  12., 11., 12., 12.}) {
    curve.push_back({ws, rate * 1e9});
    ws *= std::sqrt(2.0);
  }
  const auto knees = FindKnees(curve);
  ASSERT_EQ(knees.size(), 3u);
  EXPECT_NEAR(knees[1].capacity_bytes, 512 * kKiB, kKiB);
}

TEST(FindKnees, AFlatCurveHasNone) {
  EXPECT_TRUE(FindKnees(Staircase({}, 30e9)).empty());
  EXPECT_TRUE(FindKnees({}).empty());
  EXPECT_TRUE(FindKnees({{1, 10}, {2, 5}, {3, 1}}).empty());
}

}  // namespace
}  // namespace ropeline
