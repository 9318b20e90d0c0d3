#include "model/rope_extension.h"

#include <gtest/gtest.h>

namespace ropeline {
namespace {

const Where kWhere{"test", "--method"};

RopeParameters Trained() {
  RopeParameters p;
  p.d_head = p.d_rot = 128;
  p.base = 10000;
  p.original_context = 4096;
  return p;
}

Extension Named(const char* name, const RopeParameters& trained = Trained(), double context = 32768,
                std::optional<double> factor = {}) {
  const ExtensionMethod* method = ParseExtensionMethods(name, kWhere).back();
  return Extend(*method, trained, context, factor, RopeSemantics::kHf);
}

TEST(RopeExtensionTest, EachMethodAtTheArticlesNumbers) {
  const struct {
    const char* name;
    size_t out;
    double resolution, attention_factor;
    const char* note;
  } kCases[] = {
      {"pi", 0, 0.125, 1, "position 32,767 → 4,095.9"},
      {"ntk", 17, 0.517, 1, "base 82,684.6; band 0 unchanged, the last ÷ 8"},
      {"dynamic", 17, 0.517, 1,
       "base 82,684.6 at this length, 10,000.0 up to 4,096; cached keys keep the base of their step"},
      {"yarn", 0, 1, 1.2079441541679836, "attention factor 1.2079 = 0.1·ln(8) + 1"},
      {"llama3", 0, 1, 1, "kept above 4 turns, ÷ 8 below 1"},
  };
  for (const auto& expected : kCases) {
    const Extension extension = Named(expected.name);
    EXPECT_EQ(extension.coverage.out_of_distribution, expected.out) << expected.name;
    EXPECT_NEAR(extension.coverage.local_resolution, expected.resolution, 5e-4) << expected.name;
    EXPECT_NEAR(extension.frequencies.attention_factor, expected.attention_factor, 1e-12) << expected.name;
    EXPECT_EQ(extension.note, expected.note);
    EXPECT_EQ(extension.missing, "");
  }
}

TEST(RopeExtensionTest, StartsFromTheUnscaledLadder) {
  RopeParameters scaled = Trained();  // already interpolated twice, with divisors of a GGUF
  scaled.type = RopeType::kLinear;
  scaled.factor = 2;
  scaled.factor_given = true;
  scaled.freq_factors.assign(64, 3);
  EXPECT_EQ(Named("pi", scaled).frequencies.inv_freq, Named("pi").frequencies.inv_freq);
  EXPECT_EQ(Named("none", scaled).frequencies.inv_freq, DefaultInvFreq(128, 10000));
}

TEST(RopeExtensionTest, AFactorOfOnesOwn) {
  EXPECT_EQ(Named("pi", Trained(), 32768, 16).frequencies.inv_freq[0], 1.0 / 16);
  EXPECT_EQ(Named("pi", Trained(), 32768, 16).coverage.out_of_distribution, 0u);
  EXPECT_GT(Named("pi", Trained(), 32768, 4).coverage.out_of_distribution, 0u);
  EXPECT_EQ(Named("dynamic").rope.factor, 1);  // NTK at the full length
  EXPECT_EQ(Named("dynamic").frequencies.inv_freq, Named("ntk").frequencies.inv_freq);
}

TEST(RopeExtensionTest, LongropeNeedsItsLists) {
  EXPECT_NE(Named("longrope").missing.find("long_factor"), std::string::npos);
  RopeParameters listed = Trained();
  listed.short_factor.assign(64, 1);
  listed.long_factor.assign(64, 8);
  const Extension extension = Named("longrope", listed);
  EXPECT_EQ(extension.missing, "");
  EXPECT_EQ(extension.note, "the long list");
  EXPECT_EQ(extension.coverage.out_of_distribution, 0u);
  listed.long_factor.pop_back();
  EXPECT_NE(Named("longrope", listed).missing.find("63"), std::string::npos);
}

TEST(RopeExtensionTest, GgmlHasNoDynamicType) {
  const ExtensionMethod* method = ParseExtensionMethods("dynamic", kWhere).back();
  const Extension extension = Extend(*method, Trained(), 32768, {}, RopeSemantics::kGgml);
  EXPECT_EQ(extension.frequencies.inv_freq, DefaultInvFreq(128, 10000));
  EXPECT_EQ(extension.note, "ggml has no such type and leaves every band alone");
}

TEST(RopeExtensionTest, ParsesLists) {
  EXPECT_EQ(ParseExtensionMethods("all", kWhere).size(), 7u);
  const auto chosen = ParseExtensionMethods("yarn,linear,yarn", kWhere);
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_STREQ(chosen[0]->name, "none");
  EXPECT_STREQ(chosen[1]->name, "yarn");
  EXPECT_STREQ(chosen[2]->name, "pi");
  EXPECT_THROW(ParseExtensionMethods("yarm", kWhere), BadInput);
  EXPECT_THROW(ParseExtensionMethods("", kWhere), BadInput);
}

}  // namespace
}  // namespace ropeline
