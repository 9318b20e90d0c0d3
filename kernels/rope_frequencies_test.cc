// Formulas worked out by hand, properties that join two schedules, and what each option changes. The walk
// over many reference cases is model/rope_reference_test.cc.
#include "kernels/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace ropeline {
namespace {

constexpr RopeLength kFull{32768, 32768};
constexpr double kTurn = 2 * std::numbers::pi;

// d 128, base 10000, 4096 tokens, extended eight times: DESIGN section 5's case.
RopeParameters Article(RopeType type) {
  RopeParameters p;
  p.type = type;
  p.d_head = p.d_rot = 128;
  p.base = 10000;
  p.factor = 8;
  p.factor_given = true;
  p.original_context = 4096;
  return p;
}

RopeFrequencies Hf(const RopeParameters& p, RopeLength length = kFull) {
  return FrequenciesOf(p, length, RopeSemantics::kHf);
}

RopeFrequencies Ggml(const RopeParameters& p, RopeLength length = kFull) {
  return FrequenciesOf(p, length, RopeSemantics::kGgml);
}

RopeFrequencies Paper(const RopeParameters& p) { return FrequenciesOf(p, kFull, RopeSemantics::kPaper); }

void ExpectRelative(double value, double expected, double tolerance = 1e-13) {
  EXPECT_LE(std::abs(value - expected), tolerance * std::abs(expected)) << value << " for " << expected;
}

TEST(RopeFrequenciesTest, DefaultIsTheLadder) {
  const auto inv_freq = Hf(Article(RopeType::kDefault)).inv_freq;
  ASSERT_EQ(inv_freq.size(), 64u);
  EXPECT_EQ(inv_freq[0], 1);
  ExpectRelative(inv_freq[32], 0.01);
  ExpectRelative(inv_freq[63], 1.1547819846894582e-4);
  ExpectRelative(kTurn / inv_freq[63], 54410.1, 1e-6);
  EXPECT_EQ(inv_freq, DefaultInvFreq(128, 10000));
}

TEST(RopeFrequenciesTest, InterpolationDividesEveryBand) {
  const auto original = UnscaledInvFreq(Article(RopeType::kLinear));
  const auto inv_freq = Hf(Article(RopeType::kLinear)).inv_freq;
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(inv_freq[i], original[i] / 8);
}

TEST(RopeFrequenciesTest, NtkDividesTheLastBandByTheFactorAndLeavesTheFirst) {
  for (const size_t d : {4, 20, 64, 128, 256}) {
    for (const double base : {100.0, 10000.0, 5e5, 1e7}) {
      for (const double s : {1.5, 2.0, 8.0, 40.0}) {
        RopeParameters p = Article(RopeType::kNtk);
        p.d_head = p.d_rot = d;
        p.base = base;
        p.factor = s;
        const auto inv_freq = Hf(p).inv_freq;
        EXPECT_EQ(inv_freq.front(), 1);
        ExpectRelative(inv_freq.back(), UnscaledInvFreq(p).back() / s);
      }
    }
  }
  // base' = 82,684: the second band is base'^(−2/128).
  ExpectRelative(std::pow(Hf(Article(RopeType::kNtk)).inv_freq[1], -64), 82684.62264056221);
}

TEST(RopeFrequenciesTest, DynamicIsUnchangedUpToTheContextAndNtkAtTheFactorBeyond) {
  RopeParameters p = Article(RopeType::kDynamic);
  p.original_context = 0;
  p.max_context = 4096;
  p.factor = 1;
  EXPECT_EQ(Hf(p, {100, 0}).inv_freq, UnscaledInvFreq(p));
  EXPECT_EQ(Hf(p, {4096, 0}).inv_freq, UnscaledInvFreq(p));
  EXPECT_LT(Hf(p, {4097, 0}).inv_freq.back(), UnscaledInvFreq(p).back());
  EXPECT_EQ(Hf(p).inv_freq, Hf(Article(RopeType::kNtk)).inv_freq);
  p.factor = 2;  // α = 2·8 − 1
  ExpectRelative(Hf(p).inv_freq.back(), UnscaledInvFreq(p).back() / 15);
  EXPECT_EQ(Ggml(p).inv_freq, UnscaledInvFreq(p));
}

TEST(RopeFrequenciesTest, QwensDynamicGoesInPowersOfTwo) {
  RopeParameters p = Article(RopeType::kQwenDynamic);
  p.factor = 1;
  p.original_context = 8192;
  const double last = UnscaledInvFreq(p).back();
  for (const auto& [tokens, alpha] :
       {std::pair{2048, 1}, {8192, 1}, {8193, 3}, {16384, 3}, {16385, 7}, {131072, 31}}) {
    ExpectRelative(Hf(p, {static_cast<uint64_t>(tokens), 0}).inv_freq.back(), last / alpha);
  }
  EXPECT_EQ(Ggml(p, {131072, 0}).inv_freq, UnscaledInvFreq(p));
}

TEST(RopeFrequenciesTest, YarnRampsFromBand20To46) {
  const RopeParameters p = Article(RopeType::kYarn);
  const auto original = UnscaledInvFreq(p);
  const RopeFrequencies yarn = Hf(p);
  for (size_t i = 0; i < 64; ++i) {
    const double keep = i <= 20 ? 1 : i >= 46 ? 0 : 1 - (static_cast<double>(i) - 20) / 26;
    ExpectRelative(yarn.inv_freq[i], original[i] * (keep + (1 - keep) / 8));
  }
  ExpectRelative(yarn.attention_factor, 0.1 * std::log(8.0) + 1);
  EXPECT_EQ(yarn.softmax_scale_multiplier, 1);
}

// DIFFERENCES D2: the paper's ramp is linear in turns; band 36 differs by 2.305.
TEST(RopeFrequenciesTest, ThePapersRampIsInTurns) {
  const RopeParameters p = Article(RopeType::kYarn);
  const auto original = UnscaledInvFreq(p);
  const auto paper = Paper(p).inv_freq;
  double worst = 0;
  size_t worst_band = 0;
  for (size_t i = 0; i < 64; ++i) {
    const double turns = 4096 * original[i] / kTurn;
    const double keep = turns >= 32 ? 1 : turns <= 1 ? 0 : (turns - 1) / 31;
    ExpectRelative(paper[i], original[i] * (keep + (1 - keep) / 8));
    if (const double ratio = Hf(p).inv_freq[i] / paper[i]; ratio > worst) worst = ratio, worst_band = i;
  }
  EXPECT_EQ(worst_band, 36u);
  EXPECT_NEAR(worst, 2.305, 0.0005);
  EXPECT_EQ(Paper(p).attention_factor, Hf(p).attention_factor);
}

TEST(RopeFrequenciesTest, Llama3IsThePapersRuleBetweenItsFactors) {
  for (const double low : {1.0, 2.0}) {
    for (const double high : {4.0, 8.0, 32.0}) {
      RopeParameters llama = Article(RopeType::kLlama3), yarn = Article(RopeType::kYarn);
      llama.low_freq_factor = low;
      llama.high_freq_factor = high;
      yarn.beta_slow = low;
      yarn.beta_fast = high;
      EXPECT_EQ(Hf(llama).inv_freq, Paper(yarn).inv_freq);
      EXPECT_EQ(Hf(llama).attention_factor, 1);
    }
  }
  // Without factors those of Llama 3.1, 1 and 4.
  RopeParameters named = Article(RopeType::kLlama3);
  named.low_freq_factor = 1;
  named.high_freq_factor = 4;
  EXPECT_EQ(Hf(Article(RopeType::kLlama3)).inv_freq, Hf(named).inv_freq);
}

// DIFFERENCES D1, gpt-oss-20b.
TEST(RopeFrequenciesTest, OnlyHfHonoursTruncate) {
  RopeParameters p = Article(RopeType::kYarn);
  p.d_head = p.d_rot = 64;
  p.base = 150000;
  p.factor = 32;
  p.truncate = false;
  EXPECT_NEAR(Hf(p).inv_freq[17], 1.293187e-4, 1e-10);
  EXPECT_NEAR(Ggml(p).inv_freq[17], 2.279478e-4, 1e-10);
  p.truncate = true;
  EXPECT_EQ(Hf(p).inv_freq, Ggml(p).inv_freq);
}

// DIFFERENCES D3: the upper bound is held at d − 1, not at the last band.
TEST(RopeFrequenciesTest, ARampMayEndBeyondTheLastBand) {
  RopeParameters p = Article(RopeType::kYarn);
  p.original_context = 131072;
  ExpectRelative(Hf(p).inv_freq[63], UnscaledInvFreq(p)[63] / 2.7027027027027, 1e-12);
}

// DIFFERENCES D4.
TEST(RopeFrequenciesTest, ReversedBetas) {
  RopeParameters p = Article(RopeType::kYarn);
  p.beta_fast = 1;
  p.beta_slow = 32;
  const auto original = UnscaledInvFreq(p), hf = Hf(p).inv_freq, ggml = Ggml(p).inv_freq;
  const size_t bands[] = {10, 33, 50};
  const double hf_kept[] = {0.125, 0.5625, 1}, ggml_kept[] = {1, 1, 0.125};
  for (size_t k = 0; k < 3; ++k) {
    ExpectRelative(hf[bands[k]], original[bands[k]] * hf_kept[k]);
    ExpectRelative(ggml[bands[k]], original[bands[k]] * ggml_kept[k]);
  }
}

// DIFFERENCES D5 to D8.
TEST(RopeFrequenciesTest, AttentionFactorsOfYarn) {
  RopeParameters p = Article(RopeType::kYarn);
  p.attention_factor = 1;
  EXPECT_EQ(Hf(p).attention_factor, 1);
  EXPECT_NEAR(Ggml(p).attention_factor, 1.2079441, 1e-7);
  p.attention_factor = 1.2079441541679836;
  EXPECT_NEAR(Ggml(p).attention_factor, 1.4591291, 1e-7);
  EXPECT_EQ(Paper(p).attention_factor, 1.2079441541679836);

  p = Article(RopeType::kYarn);
  p.factor = 0.5;
  EXPECT_EQ(Hf(p).attention_factor, 1);
  EXPECT_NEAR(Ggml(p).attention_factor, 0.930685, 1e-6);

  p.factor = 40;
  p.mscale = 0.5;
  EXPECT_NEAR(Hf(p).attention_factor, 1.368888, 1e-6);  // alone it is not read
  p.mscale = 0.707;
  p.mscale_all_dim = 1;
  EXPECT_NEAR(Hf(p).attention_factor, 0.921042, 1e-6);
  EXPECT_EQ(Ggml(p).attention_factor, 1);
  EXPECT_NEAR(Paper(p).attention_factor, 1.368888, 1e-6);
  EXPECT_NEAR(Hf(p).softmax_scale_multiplier, 1.873854, 1e-6);  // DeepSeek-V3
  p.mscale = p.mscale_all_dim = 0.707;
  EXPECT_EQ(Hf(p).attention_factor, 1);
  EXPECT_NEAR(Hf(p).softmax_scale_multiplier, 1.589626, 1e-6);  // DeepSeek-V2
}

RopeParameters Longrope() {
  RopeParameters p;
  p.type = RopeType::kLongrope;
  p.d_head = p.d_rot = 4;
  p.base = 10000;
  p.original_context = 4096;
  p.max_context = 131072;
  p.short_factor = {1, 2};
  p.long_factor = {4, 64};
  return p;
}

TEST(RopeFrequenciesTest, LongropeChoosesByLengthOrByCapacity) {
  const RopeParameters p = Longrope();
  const std::vector<double> near = {1, 0.01 / 2}, far = {0.25, 0.01 / 64};
  EXPECT_EQ(Hf(p, {4096, 131072}).inv_freq, near);
  EXPECT_EQ(Hf(p, {4097, 131072}).inv_freq, far);
  EXPECT_EQ(Ggml(p, {100, 131072}).inv_freq, far);
  EXPECT_EQ(Ggml(p, {100, 4096}).inv_freq, near);
  EXPECT_EQ(Ggml(p, {4097, 0}).inv_freq, far);  // no capacity given: as many as tokens
  ExpectRelative(Hf(p, {100, 0}).attention_factor, std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
}

TEST(RopeFrequenciesTest, LongropesFactors) {
  RopeParameters p = Longrope();
  p.short_mscale = 1.1;
  p.long_mscale = 1.2;
  EXPECT_EQ(Hf(p, {100, 0}).attention_factor, 1.1);
  EXPECT_EQ(Hf(p, {5000, 0}).attention_factor, 1.2);
  EXPECT_NEAR(Ggml(p, {5000, 0}).attention_factor, 1.190238, 1e-6);
  p.attention_factor = 1.5;
  EXPECT_EQ(Hf(p, {5000, 0}).attention_factor, 1.5);
  p = Longrope();
  p.max_context = 4096;  // MiniCPM3: no extension, no factor
  EXPECT_EQ(Hf(p).attention_factor, 1);
  p.factor = 4;
  p.factor_given = true;  // goes before the ratio
  ExpectRelative(Hf(p).attention_factor, std::sqrt(1 + std::log(4.0) / std::log(4096.0)));
}

TEST(RopeFrequenciesTest, ProportionalCountsExponentsOverTheWholeHead) {
  RopeParameters p;
  p.type = RopeType::kProportional;
  p.d_head = 512;
  p.d_rot = 128;
  p.base = 1e6;
  const auto inv_freq = Hf(p).inv_freq;
  ASSERT_EQ(inv_freq.size(), 256u);
  EXPECT_NEAR(inv_freq[63], 3.3376e-2, 5e-7);
  EXPECT_EQ(inv_freq[64], 0);
  EXPECT_EQ(inv_freq[255], 0);
  p.factor = 8;
  p.factor_given = true;
  EXPECT_EQ(Hf(p).inv_freq[63], inv_freq[63] / 8);
}

TEST(RopeFrequenciesTest, PartialRotaryHasItsOwnLadder) {
  RopeParameters p = Article(RopeType::kDefault);
  p.d_rot = 32;
  EXPECT_EQ(Hf(p).inv_freq, DefaultInvFreq(32, 10000));
  p.d_rot = 51;  // odd widths keep ⌈d/2⌉ bands
  ASSERT_EQ(Hf(p).inv_freq.size(), 26u);
  ExpectRelative(Hf(p).inv_freq[25], std::pow(10000, -50.0 / 51));
}

TEST(RopeFrequenciesTest, FreqFactorsDivide) {
  RopeParameters p = Longrope();
  p.type = RopeType::kDefault;
  p.freq_factors = {2, 8};
  EXPECT_EQ(Ggml(p).inv_freq, (std::vector<double>{0.5, 0.01 / 8}));
}

TEST(RopeFrequenciesTest, TheRatioStandsForAMissingFactor) {
  RopeParameters p = Article(RopeType::kYarn);
  p.factor_given = false;
  p.factor = 1;
  p.max_context = 32768;
  EXPECT_EQ(ExtensionFactor(p), 8);
  EXPECT_EQ(Hf(p).inv_freq, Hf(Article(RopeType::kYarn)).inv_freq);
  p.factor_given = true;
  p.factor = 4;  // goes first: transformers since PR 40320
  EXPECT_EQ(ExtensionFactor(p), 4);
}

TEST(RopeFrequenciesTest, TrainedContext) {
  RopeParameters p = Article(RopeType::kLinear);
  EXPECT_EQ(TrainedContext(p), 4096);
  p.original_context = 0;
  EXPECT_EQ(TrainedContext(p), 0);
  p.max_context = 16384;
  p.factor = 4;
  EXPECT_EQ(TrainedContext(p), 4096);
  p.type = RopeType::kDynamic;  // scales beyond max_context only
  EXPECT_EQ(TrainedContext(p), 16384);
}

TEST(RopeFrequenciesTest, WhatDependsOnTheLength) {
  for (const RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kNtk, RopeType::kYarn,
                              RopeType::kLlama3, RopeType::kProportional}) {
    EXPECT_FALSE(DependsOnLength(Article(type), RopeSemantics::kHf)) << RopeTypeName(type);
  }
  for (const RopeType type : {RopeType::kDynamic, RopeType::kQwenDynamic, RopeType::kLongrope}) {
    EXPECT_TRUE(DependsOnLength(Article(type), RopeSemantics::kHf)) << RopeTypeName(type);
    EXPECT_FALSE(DependsOnLength(Article(type), RopeSemantics::kGgml)) << RopeTypeName(type);
  }
}

TEST(RopeFrequenciesTest, NamesWhatIsWrong) {
  const auto key = [](const RopeParameters& p) {
    const auto problem = FindRopeProblem(p);
    return problem ? problem->key : "";
  };
  for (const RopeType type : {RopeType::kDefault, RopeType::kLinear, RopeType::kNtk, RopeType::kDynamic,
                              RopeType::kQwenDynamic, RopeType::kYarn, RopeType::kLlama3}) {
    EXPECT_EQ(key(Article(type)), "") << RopeTypeName(type);
  }
  RopeParameters p = Article(RopeType::kYarn);
  p.original_context = 0;
  EXPECT_EQ(key(p), "original_context");
  p = Article(RopeType::kLinear);
  p.factor_given = false;
  EXPECT_EQ(key(p), "factor");
  p.factor_given = true;
  p.factor = 0;
  EXPECT_EQ(key(p), "factor");
  p = Article(RopeType::kDefault);
  p.base = 1;
  EXPECT_EQ(key(p), "base");
  p = Article(RopeType::kDefault);
  p.d_rot = 130;
  EXPECT_EQ(key(p), "d_rot");
  p = Article(RopeType::kNtk);
  p.d_rot = 2;
  EXPECT_EQ(key(p), "d_rot");
  p = Article(RopeType::kLlama3);
  p.low_freq_factor = p.high_freq_factor = 4;
  EXPECT_EQ(key(p), "high_freq_factor");
  p = Longrope();
  p.long_factor.pop_back();
  EXPECT_EQ(key(p), "long_factor");
  p = Longrope();
  p.short_factor[1] = 0;
  EXPECT_EQ(key(p), "short_factor");
  p = Article(RopeType::kYarn);
  p.beta_fast = -1;
  EXPECT_EQ(key(p), "beta_fast");
}

TEST(RopeFrequenciesTest, SemanticsHaveNames) {
  for (const RopeSemantics semantics : kAllRopeSemantics) {
    EXPECT_EQ(ParseRopeSemantics(RopeSemanticsName(semantics)), semantics);
  }
  EXPECT_EQ(ParseRopeSemantics("HF"), std::nullopt);
}

}  // namespace
}  // namespace ropeline
