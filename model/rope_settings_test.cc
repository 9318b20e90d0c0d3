#include "model/rope_settings.h"

#include <gtest/gtest.h>

namespace ropeline {
namespace {

const Where kWhere{"test", "--set"};

RopeParameters With(const std::vector<std::string>& settings) {
  RopeParameters p;
  for (const std::string& text : settings) ApplyRopeSetting(ParseRopeSetting(text, kWhere), kWhere, &p);
  return p;
}

void ExpectRefused(const std::string& text, const std::string& part) {
  try {
    With({text});
    FAIL() << text;
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(RopeSettingsTest, WritesEachKey) {
  const RopeParameters p =
      With({"rope_type=yarn", "base=5e5", "factor=8", "d_head=128", "d_rot=64", "original_context=8k",
            "max_context=64k", "attention_factor=1.2", "beta_fast=16", "beta_slow=2", "mscale=0.5",
            "mscale_all_dim=0.7", "truncate=false", "low_freq_factor=1.5", "high_freq_factor=5",
            "short_mscale=1.1", "long_mscale=1.3", "short_factor=1,1.5", "long_factor=2"});
  EXPECT_EQ(p.type, RopeType::kYarn);
  EXPECT_EQ(p.base, 5e5);
  EXPECT_EQ(p.factor, 8);
  EXPECT_TRUE(p.factor_given);
  EXPECT_EQ(p.d_head, 128u);
  EXPECT_EQ(p.d_rot, 64u);
  EXPECT_EQ(p.original_context, 8192);
  EXPECT_EQ(p.max_context, 65536);
  EXPECT_EQ(p.attention_factor, 1.2);
  EXPECT_EQ(p.beta_fast, 16);
  EXPECT_EQ(p.beta_slow, 2);
  EXPECT_EQ(p.mscale, 0.5);
  EXPECT_EQ(p.mscale_all_dim, 0.7);
  EXPECT_FALSE(p.truncate);
  EXPECT_EQ(p.low_freq_factor, 1.5);
  EXPECT_EQ(p.high_freq_factor, 5);
  EXPECT_EQ(p.short_mscale, 1.1);
  EXPECT_EQ(p.long_mscale, 1.3);
  EXPECT_EQ(p.short_factor, (std::vector<double>{1, 1.5}));
  EXPECT_EQ(p.long_factor, (std::vector<double>{2}));
}

TEST(RopeSettingsTest, KnowsWhatEnginesAndFilesCallThem) {
  const RopeParameters p = With({"rope-scaling=linear", "rope-freq-base=1000000", "rope-freq-scale=0.25",
                                 "yarn-orig-ctx=4096", "max_position_embeddings=32768"});
  EXPECT_EQ(p.type, RopeType::kLinear);
  EXPECT_EQ(p.base, 1e6);
  EXPECT_EQ(p.factor, 4);
  EXPECT_EQ(p.original_context, 4096);
  EXPECT_EQ(p.max_context, 32768);
  EXPECT_EQ(With({"rope_type=none"}).type, RopeType::kDefault);
  EXPECT_EQ(With({"rope_type=su"}).type, RopeType::kLongrope);
}

TEST(RopeSettingsTest, RefusesWhatItCannotRead) {
  ExpectRefused("beta_fast", "sets nothing");
  ExpectRefused("beta_fast=", "sets nothing");
  ExpectRefused("beta=3", "\"beta\" is not a rotary parameter");
  ExpectRefused("beta_fast=fast", "beta_fast: \"fast\" is not a number");
  ExpectRefused("base=nan", "is not a number");
  ExpectRefused("base=1e999", "is not a number");
  ExpectRefused("base= 5", "is not a number");
  ExpectRefused("truncate=no", "true or false");
  ExpectRefused("rope_type=yam", "\"yam\" is not known");
  ExpectRefused("long_factor=1,,2", "is not a number");
  ExpectRefused("original_context=-1", "original_context");
}

}  // namespace
}  // namespace ropeline
