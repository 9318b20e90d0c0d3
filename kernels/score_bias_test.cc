#include "kernels/score_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/registry.h"
#include "kernels/targets.h"

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

// Values worked out apart from this code: −0.75 · log(1 + 1.5 · 10) and −0.25 · √9.
TEST(Kerple, LogAndPower) {
  EXPECT_DOUBLE_EQ(KerpleLog(0.75, 1.5, 10), -2.0794415416798357);
  EXPECT_EQ(KerpleLog(0.75, 1.5, 0), 0);
  EXPECT_DOUBLE_EQ(KerplePower(0.25, 0.5, 9), -0.75);
  EXPECT_EQ(KerplePower(0.25, 0.5, 0), 0);
}

TEST(Sandwich, IsACosineSumBelowItsValueAtNoDistance) {
  EXPECT_EQ(Sandwich(0, 8, 0), 0);
  EXPECT_NEAR(Sandwich(0, 8, 1), -1.4466185051004956, 1e-12);
  EXPECT_NEAR(Sandwich(3, 8, 100), -33.318914170380374 / 4, 1e-12);  // the fourth head of eight: 8 · 4/8
  EXPECT_NEAR(Sandwich(11, 12, 5000), -63.7222615148792 / 8, 1e-12);
}

// One unit that is on: −2 · log(0.1·10 + 1) / log(0.1·max(q, 4096) + 1).
TEST(Fire, NormalisesByTheThresholdThenByTheQuery) {
  FireNet net = {};
  net.in_weight[0] = 1;
  net.out_weight[0] = -2;
  net.in_weight[1] = -1;  // a unit that is off
  net.out_weight[1] = 100;
  EXPECT_NEAR(Fire(net, 50, 10), -0.2303725518144959, 1e-15);
  EXPECT_EQ(Fire(net, 50, 10), Fire(net, 4096, 10));
  EXPECT_NEAR(Fire(net, 5000, 10), -0.22299858452958235, 1e-15);
}

// The kernel on both sides of FIRE's threshold: rows that are shared, then a row for each query.
TEST(Fire, QueriesBeyondTheThresholdHaveRowsOfTheirOwn) {
  const Encoding& fire = *FindEncoding("fire");
  Shape shape;
  shape.n = 6;
  shape.n_k = 4100;  // queries 4094 … 4099
  shape.n_heads = 2;
  for (const bool causal : {true, false}) {
    shape.causal = causal;
    std::vector<float> s(TensorElements(fire.placement, shape), 0.0f);
    fire.apply(*fire.setup(shape), shape, s.data());
    for (size_t h = 0; h < 2; ++h) {
      for (size_t t = 0; t < 6; ++t) {
        for (const size_t k : {size_t{0}, size_t{4000}, size_t{4094}, size_t{4099}}) {
          const size_t q = 4094 + t;
          const double distance = std::abs(static_cast<double>(q) - static_cast<double>(k));
          const double expected =
              causal && k > q ? 0 : Fire(FireStandIn(h), static_cast<double>(q), distance);
          EXPECT_NEAR(s[(h * 6 + t) * 4100 + k], expected, 1e-6) << h << " " << t << " " << k;
        }
      }
    }
  }
  shape.n = shape.n_k = 70000;
  EXPECT_NE(fire.reject(shape), nullptr);
}

class EveryForm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

Shape ScoreShape(size_t n, size_t n_k, bool causal, Dtype dtype) {
  Shape shape;
  shape.n = n;
  shape.n_k = n_k;
  shape.n_heads = 2;
  shape.causal = causal;
  shape.dtype = dtype;
  return shape;
}

// A tensor that holds an encoding's bias adds what the encoding adds; f16 biases beside f32 scores too.
TEST_P(EveryForm, BiasTensorEqualsTheEncoding) {
  for (const bool causal : {true, false}) {
    for (const size_t n_k : {1, 7, 16, 33, 100}) {
      for (const auto& [dtype, bias_dtype] : {std::pair{Dtype::kF32, Dtype::kF32},
                                              {Dtype::kF32, Dtype::kF16},
                                              {Dtype::kF16, Dtype::kF16},
                                              {Dtype::kBf16, Dtype::kBf16}}) {
        const Shape shape = ScoreShape(n_k < 4 ? 1 : n_k - 3, n_k, causal, dtype);
        const Encoding& t5 = *FindEncoding("t5_bias");
        const size_t elements = TensorElements(t5.placement, shape);
        // A trained bias is exact in each dtype: the two must agree bit for bit.
        Shape plain = shape;
        plain.dtype = Dtype::kF32;
        std::vector<float> bias(elements, 0.0f), stored(elements), a(elements + 8, 7), b(elements + 8, 7);
        t5.apply(*t5.setup(plain), plain, bias.data());
        for (size_t i = 0; i < elements; ++i) {
          StoreElement(bias_dtype, stored.data(), i, bias[i]);
          StoreElement(dtype, a.data(), i, HashToFloat(i, 1));
          StoreElement(dtype, b.data(), i, HashToFloat(i, 1));
        }
        t5.apply(*t5.setup(shape), shape, a.data());
        AddBiasTensor(stored.data(), bias_dtype, shape, b.data());
        EXPECT_EQ(a, b) << DtypeName(dtype) << " " << DtypeName(bias_dtype) << " " << n_k;
        EXPECT_NE(LoadElement(dtype, b.data(), 0), HashToFloat(0, 1));
      }
    }
  }
}

TEST_P(EveryForm, BucketGatherEqualsTheDistanceRow) {
  for (const bool causal : {true, false}) {
    for (const Dtype dtype : kAllDtypes) {
      for (const size_t n_k : {1, 15, 64, 300}) {
        const Shape shape = ScoreShape(n_k < 4 ? 1 : n_k - 3, n_k, causal, dtype);
        const Encoding& t5 = *FindEncoding("t5_bias");
        std::vector<float> a(TensorElements(t5.placement, shape) + 8, 0.25f), b = a;
        t5.apply(*t5.setup(shape), shape, a.data());
        AddT5ByGather(T5Gather(shape), shape, b.data());
        EXPECT_EQ(a, b) << DtypeName(dtype) << " " << n_k << (causal ? " causal" : "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryForm, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(BiasTensor, CountsItsMemory) {
  const Shape shape = ScoreShape(100, 100, true, Dtype::kF32);
  EXPECT_EQ(BiasTensorBytes(shape, Dtype::kF16), 2 * 2 * 100 * 100);
  EXPECT_EQ(BiasTensorCost(shape, Dtype::kF16).Bytes(), 2 * 5050 * (4 + 4 + 2));
  EXPECT_EQ(T5GatherCost(shape).bytes_read, 2 * 5050 * 4 + 4 * 100 + 4 * 32 * 2);
}

}  // namespace
}  // namespace ropeline
