#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/hash.h"
#include "kernels/kv_cache.h"

namespace ropeline {
namespace {

// Bit for bit, whatever the split into heads and the count of tokens written together.
TEST(KvCacheWriteHeads, PartsMakeUpAnAppend) {
  constexpr size_t kHeads = 3, kDim = 40, kTokens = 77;
  std::vector<float> x(kTokens * kHeads * kDim), y(x.size()), angles(kTokens * kDim);
  for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 1);
  for (size_t i = 0; i < y.size(); ++i) y[i] = HashToFloat(i, 2);
  for (size_t i = 0; i < angles.size(); ++i) angles[i] = HashToFloat(i, 3);
  for (const KvFormat format : kAllKvFormats) {
    for (const float* turn : {static_cast<const float*>(nullptr), static_cast<const float*>(angles.data())}) {
      KvCache whole({format, kHeads, kDim, kDim}, 96), parts({format, kHeads, kDim, kDim}, 96);
      turn == nullptr ? whole.Append(x.data(), y.data(), kTokens)
                      : whole.AppendRotated(x.data(), y.data(), turn, kTokens);
      for (const auto& [head, end] : {std::pair<size_t, size_t>{1, 3}, {0, 1}}) {
        for (const auto& [first, last] : {std::pair<size_t, size_t>{0, 5}, {5, 70}, {70, kTokens}}) {
          parts.WriteHeads(head, end, first, x.data() + first * kHeads * kDim,
                           y.data() + first * kHeads * kDim, turn == nullptr ? turn : turn + first * kDim,
                           last - first);
        }
      }
      EXPECT_EQ(parts.n(), 0u);
      parts.SetTokens(kTokens);
      for (size_t head = 0; head < kHeads; ++head) {
        for (size_t token = 0; token < kTokens; ++token) {
          for (size_t i = 0; i < kDim; ++i) {
            ASSERT_EQ(parts.Key(head, token, i), whole.Key(head, token, i))
                << KvFormatName(format) << " head " << head << " token " << token << " element " << i;
            ASSERT_EQ(parts.Value(head, token, i), whole.Value(head, token, i))
                << KvFormatName(format) << " head " << head << " token " << token << " element " << i;
          }
        }
      }
      bool written = false;
      for (size_t i = 0; i < kDim; ++i) written = written || parts.Value(kHeads - 1, kTokens - 1, i) != 0;
      EXPECT_TRUE(written) << KvFormatName(format) << ": the last token";
    }
  }
}

TEST(KvCacheWriteHeadsDeathTest, BeyondTheCapacityAborts) {
  KvCache cache({KvFormat::kF32, 1, 8, 8}, 32);
  std::vector<float> x(33 * 8);
  EXPECT_DEATH(cache.WriteHeads(0, 1, 30, x.data(), x.data(), nullptr, 3),
               "3 tokens appended to 30 of a cache for 32");
}

}  // namespace
}  // namespace ropeline
