#include "kernels/kv_format_error.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

namespace ropeline {
namespace {

using Errors = std::map<KvFormat, KvFormatError>;

// Prints a row for each format. Half of llama-3.2-3b's heads.
Errors ErrorsOf(KeyStatistics statistics, uint64_t seed) {
  Errors errors;
  for (const KvFormat format : kAllKvFormats) {
    const KvFormatError e = ErrorOfKvFormat(
        {.format = format, .statistics = statistics, .n = 700, .n_heads = 12, .n_kv_heads = 4, .seed = seed});
    errors[format] = e;
    std::printf("| %-8s | seed %d | %-5s | logit %.2e | weights %.2e | output %.2e |\n",
                KeyStatisticsName(statistics), static_cast<int>(seed), KvFormatName(format), e.logit,
                e.weights, e.output);
  }
  return errors;
}

// Each of the three errors of a is below that of b times `factor`.
void ExpectBelow(const Errors& errors, KvFormat a, KvFormat b, double factor) {
  const KvFormatError &low = errors.at(a), &high = errors.at(b);
  const auto expect = [&](const char* what, double x, double y) {
    EXPECT_LT(x, factor * y) << what << " of " << KvFormatName(a) << " against " << KvFormatName(b);
  };
  expect("logits", low.logit, high.logit);
  expect("weights", low.weights, high.weights);
  expect("output", low.output, high.output);
}

// Factors leave a fifth or more to what seeds 1 to 5 showed, unless a comment says otherwise.
TEST(KvFormatError, OrderOnWhiteNoise) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Errors errors = ErrorsOf(KeyStatistics::kWhite, seed);
    EXPECT_EQ(errors.at(KvFormat::kF32).logit, 0);
    EXPECT_EQ(errors.at(KvFormat::kF32).weights, 0);
    EXPECT_LT(errors.at(KvFormat::kF32).output, 3e-6);  // f32 sums
    EXPECT_GT(errors.at(KvFormat::kF16).logit, 1e-4);
    EXPECT_LT(errors.at(KvFormat::kF16).output, 4e-4);
    ExpectBelow(errors, KvFormat::kF16, KvFormat::kBf16, 1 / 6.0);  // three bits: 8
    ExpectBelow(errors, KvFormat::kBf16, KvFormat::kQ80, 1 / 2.0);
    ExpectBelow(errors, KvFormat::kQ80, KvFormat::kQ40, 1 / 10.0);  // four bits: 16
    // Much the same: logits 0.92 of q4_0's, outputs 0.86 to 1.02.
    ExpectBelow(errors, KvFormat::kKivi4, KvFormat::kQ40, 1.25);
    ExpectBelow(errors, KvFormat::kQ40, KvFormat::kKivi4, 1.4);
  }
}

TEST(KvFormatError, OrderWithOutliers) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Errors white = ErrorsOf(KeyStatistics::kWhite, seed);
    const Errors errors = ErrorsOf(KeyStatistics::kOutliers, seed);
    ExpectBelow(errors, KvFormat::kF16, KvFormat::kBf16, 1 / 6.0);
    ExpectBelow(errors, KvFormat::kBf16, KvFormat::kQ80, 1 / 8.0);
    ExpectBelow(errors, KvFormat::kQ80, KvFormat::kKivi4, 0.75);
    // A scale for each channel leaves the small ones their precision; a token's scale is the outlier's.
    ExpectBelow(errors, KvFormat::kKivi4, KvFormat::kQ40, 1 / 4.0);
    EXPECT_GT(errors.at(KvFormat::kQ80).logit, 6 * white.at(KvFormat::kQ80).logit);
    EXPECT_GT(errors.at(KvFormat::kQ40).logit, 6 * white.at(KvFormat::kQ40).logit);
    EXPECT_LT(errors.at(KvFormat::kKivi4).logit, 1.2 * white.at(KvFormat::kKivi4).logit);
  }
}

TEST(KvFormatError, ConcentratedAttention) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const Errors errors = ErrorsOf(KeyStatistics::kTopics, seed);
    ExpectBelow(errors, KvFormat::kF16, KvFormat::kBf16, 1 / 5.0);
    ExpectBelow(errors, KvFormat::kBf16, KvFormat::kQ80, 1 / 2.0);
    ExpectBelow(errors, KvFormat::kQ80, KvFormat::kQ40, 1 / 10.0);
  }
}

}  // namespace
}  // namespace ropeline
