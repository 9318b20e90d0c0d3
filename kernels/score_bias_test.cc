#include "kernels/score_bias.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ropeline {
namespace {

// Press et al. 2022, section 3: eight heads have 1/2, 1/4 … 1/256; sixteen start at 2^-0.5.
TEST(AlibiSlopes, PowersOfTwoAreGeometric) {
  const auto eight = AlibiSlopes(8);
  ASSERT_EQ(eight.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(eight[i], std::exp2(-static_cast<double>(i + 1)));
  EXPECT_DOUBLE_EQ(AlibiSlopes(16)[0], std::exp2(-0.5));
}

// The authors' rule for other counts: slopes of 8, then every second one of 16.
TEST(AlibiSlopes, OtherCountsInterleaveTheNextPowerOfTwo) {
  const auto twelve = AlibiSlopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_DOUBLE_EQ(twelve[7], 1.0 / 256);
  const double expected[] = {-0.5, -1.5, -2.5, -3.5};
  for (size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(twelve[8 + i], std::exp2(expected[i])) << i;
  EXPECT_EQ(AlibiSlopes(1).size(), 1u);
  EXPECT_DOUBLE_EQ(AlibiSlopes(1)[0], std::exp2(-8.0));
  EXPECT_TRUE(AlibiSlopes(0).empty());
}

// Values of the published T5 rule, computed by hand: 16 exact distances, then 16 · log(d/16) / log(8) more
// buckets.
TEST(T5Bucket, CausalBuckets) {
  EXPECT_EQ(T5Bucket(0, true), 0);
  EXPECT_EQ(T5Bucket(5, true), 0) << "a key after the query";
  EXPECT_EQ(T5Bucket(-15, true), 15);
  EXPECT_EQ(T5Bucket(-16, true), 16);
  EXPECT_EQ(T5Bucket(-18, true), 16);  // 16 + 0.906
  EXPECT_EQ(T5Bucket(-19, true), 17);  // 16 + 1.32
  EXPECT_EQ(T5Bucket(-32, true), 21);  // 16 + 5.33
  EXPECT_EQ(T5Bucket(-64, true), 26);  // 16 + 10.67
  EXPECT_EQ(T5Bucket(-127, true), 31);
  EXPECT_EQ(T5Bucket(-128, true), 31);
  EXPECT_EQ(T5Bucket(-1000000, true), 31);
}

TEST(T5Bucket, BidirectionalBucketsSplitBySide) {
  EXPECT_EQ(T5Bucket(0, false), 0);
  EXPECT_EQ(T5Bucket(-7, false), 7);
  EXPECT_EQ(T5Bucket(-8, false), 8);
  EXPECT_EQ(T5Bucket(-16, false), 10);  // 8 + 8 · log 2 / log 16, exactly on an edge
  EXPECT_EQ(T5Bucket(-32, false), 12);
  EXPECT_EQ(T5Bucket(-64, false), 14);
  EXPECT_EQ(T5Bucket(-128, false), 15);
  EXPECT_EQ(T5Bucket(1, false), 17);
  EXPECT_EQ(T5Bucket(16, false), 26);
  EXPECT_EQ(T5Bucket(5000, false), 31);
}

}  // namespace
}  // namespace ropeline
