#include "kernels/stream.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Stream : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(Stream, EveryKernelTouchesEveryElementAndNoOther) {
  for (size_t n : {0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000}) {
    std::vector<float> a(n + 8, 9.0f), b(n + 8, 9.0f);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      a[i] = HashToFloat(i, 1);
      sum += static_cast<double>(a[i]);
    }
    const std::vector<float> in = a;
    EXPECT_NEAR(StreamRead(a.data(), n), sum, 1e-4) << n;
    StreamCopy(a.data(), b.data(), n);
    for (size_t i = 0; i < n + 8; ++i) ASSERT_EQ(b[i], i < n ? in[i] : 9.0f) << n << " copy " << i;
    StreamUpdate(a.data(), n);
    for (size_t i = 0; i < n + 8; ++i) ASSERT_EQ(a[i], i < n ? 1 - in[i] : 9.0f) << n << " update " << i;
    StreamAdd(a.data(), b.data(), n);
    for (size_t i = 0; i < n + 8; ++i)
      ASSERT_EQ(a[i], i < n ? (1 - in[i]) + in[i] : 9.0f) << n << " add " << i;
  }
}

TEST_P(Stream, SumAndStoredUpdates) {
  for (size_t n : {0, 1, 15, 33, 64, 65, 130, 1000}) {
    std::vector<float> a(n), b(n), c(n + 8, 9.0f);
    for (size_t i = 0; i < n; ++i) {
      a[i] = HashToFloat(i, 1);
      b[i] = HashToFloat(i, 2);
    }
    StreamSum(a.data(), b.data(), c.data(), n);
    for (size_t i = 0; i < n + 8; ++i) ASSERT_EQ(c[i], i < n ? a[i] + b[i] : 9.0f) << n << " sum " << i;
    for (const Dtype dtype : kAllDtypes) {
      std::vector<float> stored(n + 8, 9.0f);
      for (size_t i = 0; i < n; ++i) StoreElement(dtype, stored.data(), i, TrainedEntry(i, 3));
      StreamUpdateAs(dtype, stored.data(), n);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(LoadElement(dtype, stored.data(), i), 1 - TrainedEntry(i, 3)) << DtypeName(dtype) << i;
      }
      ASSERT_EQ(stored[n], 9.0f);
    }
  }
}

TEST_P(Stream, PeakCountsItsFlopsAndKeepsItsChains) {
  float sink[2] = {0.5f, 0};
  const double one = PeakFma(1, sink);
  EXPECT_GT(one, 0);
  EXPECT_EQ(PeakFma(50, sink), 50 * one);
  // Every chain tends to 1: the sum is chains × lanes, half of the flops of one round.
  EXPECT_NEAR(sink[1], one / 2, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Targets, Stream, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(StreamCost, CountsBytesByTheFormula) {
  EXPECT_EQ(StreamCost(Traffic::kRead, 100).Bytes(), 400);
  EXPECT_EQ(StreamCost(Traffic::kCopy, 100).Bytes(), 800);
  EXPECT_EQ(StreamCost(Traffic::kUpdate, 100).Bytes(), 800);
  EXPECT_EQ(StreamCost(Traffic::kAdd, 100).Bytes(), 1200);
  EXPECT_EQ(StreamCost(Traffic::kSum, 100).Bytes(), 1200);
  EXPECT_EQ(StreamCost(Traffic::kUpdate, 100, Dtype::kF16).Bytes(), 400);
}

TEST(Chase, IsOneCycleThroughEveryLine) {
  constexpr size_t kLines = 257;
  std::vector<uint64_t> slots(kLines * 8, 0);
  BuildChase(kLines * 64, 5, slots.data());
  std::set<uint64_t> seen;
  uint64_t at = 0;
  for (size_t i = 0; i < kLines; ++i) {
    seen.insert(at);
    at = Chase(slots.data(), at, 1);
  }
  EXPECT_EQ(seen.size(), kLines);
  EXPECT_EQ(at, 0u) << "back at the start after one round";
  EXPECT_EQ(Chase(slots.data(), 3, kLines), 3u);
}

}  // namespace
}  // namespace ropeline
