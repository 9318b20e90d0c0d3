// What evictions do to keys that stay: the table, and the laws by which the error grows. The bounds hold for
// ten seeds with a margin; the test runs three.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/kv_error.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr size_t kEvictions[] = {0, 1, 10, 100, 1000};
constexpr uint64_t kSeeds[] = {1, 2, 3};

KvError ErrorOf(KvFormat format, size_t evictions, uint64_t seed, size_t largest_gap, Pairing pairing) {
  KvErrorCase c;
  c.format = format;
  c.evictions = evictions;
  c.seed = seed;
  c.largest_gap = largest_gap;
  c.pairing = pairing;
  return RerotationError(c);
}

// One rounding, for keys of which 4 in 128 channels are 10 to 20 times larger.
struct Range {
  double least, most;
};
const std::map<KvFormat, Range> kOnce = {
    {KvFormat::kF32, {1.5e-8, 4e-8}}, {KvFormat::kF16, {1.5e-4, 2.7e-4}}, {KvFormat::kBf16, {1.2e-3, 2.2e-3}},
    {KvFormat::kQ80, {8e-3, 1.5e-2}}, {KvFormat::kQ40, {0.12, 0.21}},     {KvFormat::kKivi4, {0.06, 0.1}}};

TEST(RerotationError, GrowsWithTheRootWhileItIsSmall) {
  std::printf("gaps of 1 to 64 tokens: relative error of keys / of logits after k evictions\n%8s", "");
  for (const size_t k : kEvictions) std::printf("   k = %-13zu", k);
  std::printf("\n");
  for (const KvFormat format : kAllKvFormats) {
    std::printf("%8s", KvFormatName(format));
    for (const size_t k : kEvictions) {
      for (const uint64_t seed : kSeeds) {
        const KvError error =
            ErrorOf(format, k, seed, 64, seed == 2 ? Pairing::kInterleaved : Pairing::kHalf);
        if (seed == 1) std::printf("   %8.2e/%8.2e", error.key, error.logit);
        const std::string name =
            std::string(KvFormatName(format)) + " k " + std::to_string(k) + " seed " + std::to_string(seed);
        // Normal queries weigh all channels alike.
        if (error.key < 100) {
          EXPECT_GT(error.logit, 0.6 * error.key) << name;
          EXPECT_LT(error.logit, 1.6 * error.key) << name;
        }
        if (k == 0) {
          EXPECT_GT(error.key, kOnce.at(format).least) << name;
          EXPECT_LT(error.key, kOnce.at(format).most) << name;
          continue;
        }
        // k + 1 independent roundings.
        const double root = error.key / ErrorOf(format, 0, seed, 64, Pairing::kHalf).key /
                            std::sqrt(static_cast<double>(k + 1));
        switch (format) {
          case KvFormat::kF32:
            // Cosines and sines are rounded too: the same for every token, so that their errors add up.
            EXPECT_LT(error.key, k <= 100 ? 1e-6 : 1e-5) << name;
            EXPECT_GT(root, 0.6) << name;
            break;
          case KvFormat::kF16:
            EXPECT_GT(root, 0.6) << name;
            EXPECT_LT(root, 1.8) << name;
            break;
          case KvFormat::kBf16:
            // From 100 on also what OneByOneAddsUp is about.
            EXPECT_GT(root, 0.6) << name;
            EXPECT_LT(root, k <= 10 ? 1.6 : 3.5) << name;
            break;
          case KvFormat::kQ80:
            EXPECT_GT(root, 0.7) << name;
            EXPECT_LT(root, 2.5) << name;
            break;
          default:
            // Each rounding is relative to keys that have the errors of all before in them: ten times bear
            // the root's law, a hundred leave nothing, a thousand grow without bound (to NaN, where q4_0's
            // scale leaves f16).
            if (k <= 10) {
              EXPECT_GT(root, 0.4) << name;
              EXPECT_LT(root, 1.2) << name;
            } else {
              EXPECT_FALSE(error.key < (k == 100 ? 0.4 : 1.5)) << name << ": " << error.key;
            }
        }
      }
    }
    std::printf("\n");
  }
}

// A turn by one position moves the slow bands by less than a 16-bit format's rounding (sin θ < 2^-9 of bf16):
// a key that is rounded back each time never turns. The error is that of the whole angle, k · θ: it grows
// with k, not with its root. Evict many tokens at once.
TEST(RerotationError, OneByOneAddsUp) {
  std::printf("gaps of one token\n");
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBf16}) {
    for (const uint64_t seed : kSeeds) {
      const double hundred = ErrorOf(format, 100, seed, 1, Pairing::kHalf).key;
      const double thousand = ErrorOf(format, 1000, seed, 1, Pairing::kHalf).key;
      if (seed == 1)
        std::printf("%8s   k = 100: %8.2e   k = 1000: %8.2e\n", KvFormatName(format), hundred, thousand);
      // The root would give 3.2.
      EXPECT_GT(thousand / hundred, 4.5) << KvFormatName(format) << " seed " << seed;
      EXPECT_GT(thousand, 2.5 * ErrorOf(format, 1000, seed, 64, Pairing::kHalf).key)
          << KvFormatName(format) << " seed " << seed;
    }
  }
}

TEST(RerotationError, IsTheSameOnEveryTarget) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ80, KvFormat::kQ40}) {
    const double best = ErrorOf(format, 10, 5, 64, Pairing::kHalf).key;
    for (const std::string& target : SupportedTargetNames()) {
      ASSERT_TRUE(UseTarget(target));
      EXPECT_NEAR(ErrorOf(format, 10, 5, 64, Pairing::kHalf).key / best, 1, 0.05)
          << target << " " << KvFormatName(format);
    }
    UseBestTarget();
  }
}

TEST(KeysWithOutliers, FourChannelsOf128AreLarge) {
  constexpr size_t kTokens = 2000, kHead = 128;
  const std::vector<float> keys = KeysWithOutliers(kTokens, kHead, 3);
  size_t large = 0;
  for (size_t i = 0; i < kHead; ++i) {
    double square = 0;
    for (size_t t = 0; t < kTokens; ++t) square += std::pow(static_cast<double>(keys[t * kHead + i]), 2);
    const double deviation = std::sqrt(square / kTokens);
    if (deviation > 5) {
      ++large;
      EXPECT_GT(deviation, 9);
      EXPECT_LT(deviation, 22);
    } else {
      EXPECT_NEAR(deviation, 1, 0.1);
    }
  }
  EXPECT_EQ(large, 4u);
}

}  // namespace
}  // namespace ropeline
