#include "model/lint_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/lint_source.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

RopeFrequencies Of(std::vector<double> inv_freq, double factor = 1) {
  return {std::move(inv_freq), factor, 1};
}

TEST(RopeDifferenceTest, CountsBandsAndRadians) {
  const RopeDifference difference = Differ(Of({1, 0.1, 0.01}), Of({1, 0.05, 0.01}), 1001);
  ASSERT_EQ(difference.bands_that_differ.size(), 1u);
  EXPECT_EQ(difference.Worst()->i, 1u);
  EXPECT_NEAR(difference.Worst()->angle, 50, 1e-9);
  EXPECT_EQ(DifferenceText(difference),
            "1 of 3 bands differ; band 1 is 2 times as slow; at 1,001 tokens band 1 is off by 50 rad");
  EXPECT_TRUE(Differ(Of({1, 0.1}), Of({1, 0.1000001}), 1001).Same()) << "a float's rounding";
  EXPECT_FALSE(Differ(Of({1, 0.1}), Of({1, 0.1}, 1.1), 1001).Same());
  EXPECT_FALSE(Differ(Of({1, 0.1}), Of({1}), 1001).comparable);
  EXPECT_FALSE(Differ(Of({1, 0}), Of({1, 0.1}), 11).Same()) << "one stands still";
}

TEST(RopeDifferenceTest, AKeyIsOffByItsPositionTimesTheDifference) {
  // Band 1 is off by 0.01 rad a token: position 11 is the first beyond 0.1 rad.
  const RopeDifference difference = Differ(Of({1, 0.02}), Of({1, 0.01}), 4096);
  const Invalidation invalidation = InvalidationOf(difference, 1000);
  EXPECT_EQ(invalidation.first_wrong, 11);
  EXPECT_EQ(invalidation.Wrong(), 989);
  double kept = 0;  // by the sum itself
  for (int p = 0; p < 1000; ++p) kept += (1 + std::cos(0.01 * p)) / 2 / 1000;
  EXPECT_NEAR(invalidation.logit_kept, kept, 1e-12);
  EXPECT_NEAR(LargestError(difference.bands_that_differ[0], 101), 1, 1e-12);
  EXPECT_EQ(LargestError(difference.bands_that_differ[0], 1000), std::numbers::pi);
  EXPECT_EQ(LargestError(difference.bands_that_differ[0], 0), 0);
}

TEST(RopeDifferenceTest, AnotherAttentionFactorSpoilsEveryKey) {
  const Invalidation invalidation = InvalidationOf(Differ(Of({1}), Of({1}, 1.25), 4096), 100);
  EXPECT_EQ(invalidation.Wrong(), 100);
  EXPECT_NEAR(invalidation.logit_kept, 0.8, 1e-12);
}

TEST(RopeDifferenceTest, FewKeysMayAllBeRight) {
  const Invalidation invalidation = InvalidationOf(Differ(Of({1, 0.02}), Of({1, 0.01}), 4096), 5);
  EXPECT_EQ(invalidation.Wrong(), 0);
}

Json Config(const char* model_type, double theta) {
  return {{"model_type", model_type}, {"vocab_size", 1000},       {"hidden_size", 256},
          {"num_attention_heads", 4}, {"num_key_value_heads", 4}, {"num_hidden_layers", 2},
          {"intermediate_size", 512}, {"rope_theta", theta},      {"max_position_embeddings", 8192}};
}

LintReport Between(const Json& before, const Json& after, double cached = 0,
                   const std::vector<std::string>& runtime = {}) {
  const LintSource a = LintSourceOf(before, "old.json"), b = LintSourceOf(after, "new.json");
  return Lint(a, &b, ParseLintRuntime(runtime, {"test", "--runtime"}), cached);
}

const Finding* Find(const LintReport& report, const std::string& check) {
  for (const Finding& finding : report.findings) {
    if (finding.check == check) return &finding;
  }
  return nullptr;
}

TEST(LintChangeTest, TwoFilesThatAreAlike) {
  const LintReport report = Between(Config("llama", 10000), Config("llama", 10000), 4096);
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_TRUE(report.changes[0].difference.Same());
  EXPECT_FALSE(report.changes[0].invalidation);
  EXPECT_EQ(LintExitCode(report.findings), 0);
}

TEST(LintChangeTest, AScalingFactorThatChangesMakesTheCacheStale) {
  Json scaled = Config("llama", 10000);
  scaled["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
  const LintReport report = Between(Config("llama", 10000), scaled, 4096);
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_EQ(report.changes[0].difference.bands_that_differ.size(), 32u);
  EXPECT_EQ(report.changes[0].invalidation->first_wrong, 1);
  const Finding* stale = Find(report, "cache_stale");
  ASSERT_NE(stale, nullptr);
  EXPECT_EQ(stale->severity, Severity::kError);
  EXPECT_NE(stale->consequence.find("4,095 of 4,096 cached keys are wrong"), std::string::npos)
      << stale->consequence;
  ASSERT_NE(Find(report, "schedules_differ"), nullptr);
  EXPECT_EQ(Find(report, "schedules_differ")->severity, Severity::kWarning);
  EXPECT_EQ(LintExitCode(report.findings), 2);
}

TEST(LintChangeTest, ARunThatChangesTheFactorMakesTheCacheStale) {
  Json scaled = Config("llama", 10000);
  scaled["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
  const LintSource source = LintSourceOf(scaled, "config.json");
  const LintReport report =
      Lint(source, nullptr, ParseLintRuntime({"factor=4"}, {"test", "--runtime"}), 1024);
  ASSERT_NE(Find(report, "cache_stale"), nullptr);
  EXPECT_EQ(report.changes[0].after, "what is served");
}

TEST(LintChangeTest, LayoutAndWidthAreErrors) {
  Json partial = Config("llama", 10000);
  partial["partial_rotary_factor"] = 0.5;
  const LintReport width = Between(Config("llama", 10000), partial);
  ASSERT_NE(Find(width, "rotated_width"), nullptr);
  EXPECT_EQ(Find(width, "rotated_width")->severity, Severity::kError);

  const LintReport layout = Between(Config("llama", 10000), Config("cohere", 10000));
  ASSERT_NE(Find(layout, "pairing"), nullptr);
  EXPECT_EQ(Find(layout, "pairing")->severity, Severity::kError);
}

TEST(LintChangeTest, RotationMayBeLostAltogether) {
  const Json alibi = {
      {"model_type", "bloom"}, {"vocab_size", 1000}, {"hidden_size", 256}, {"n_head", 4}, {"n_layer", 2}};
  const LintReport lost = Between(Config("llama", 10000), alibi),
                   gained = Between(alibi, Config("llama", 10000));
  EXPECT_NE(Find(lost, "rotation_lost"), nullptr);
  EXPECT_NE(Find(gained, "rotation_lost"), nullptr);
}

TEST(LintChangeTest, PerLayerTypeIsComparedWithItsOwn) {
  const auto gemma = [](double local) {
    Json config = Config("qwen3", 1e6);
    config["layer_types"] = {"sliding_attention", "full_attention"};
    config["sliding_window"] = 512;
    config["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
    return config;
  };
  const LintReport report = Between(gemma(10000), gemma(20000));
  ASSERT_EQ(report.changes.size(), 2u);
  for (const RopeChange& change : report.changes) {
    EXPECT_EQ(change.difference.Same(), change.layer_type == "full_attention") << change.layer_type;
  }
}

TEST(LintChangeTest, JsonHasBandsAndCosts) {
  Json scaled = Config("llama", 10000);
  scaled["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2}};
  const Json json =
      Json::parse(LintJson(Between(Config("llama", 10000), scaled, 4096, {"context=8k"})).dump());
  const auto& change = json["changes"][0];
  EXPECT_EQ(change["context"], 8192);
  EXPECT_EQ(change["bands"].size(), 32u);
  EXPECT_NEAR(change["bands"][0]["radians_at_context"].get<double>(), 4095.5, 1e-9);
  EXPECT_NEAR(change["bands"][0]["largest_error"].get<double>(), std::numbers::pi, 1e-12);
  EXPECT_EQ(change["invalidation"]["wrong_keys"], 4095);
  EXPECT_EQ(json["summary"]["errors"], 1);
  for (const char* key : {"severity", "check", "source", "evidence", "consequence", "remedy"}) {
    EXPECT_TRUE(json["findings"][0].contains(key)) << key;
  }
}

TEST(LintRuntimeTest, ParsesWhatARunIsTold) {
  const Where where{"test", "--runtime"};
  const LintRuntime runtime = ParseLintRuntime(
      {"rope-freq-base=10000", "layout=neox", "reader=v4", "engine=ollama", "n-ctx=32k", "prompt=512"},
      where);
  ASSERT_EQ(runtime.settings.size(), 1u);
  EXPECT_EQ(runtime.settings[0].first, "base");
  EXPECT_EQ(runtime.pairing, "half");
  EXPECT_EQ(runtime.reader, "v4");
  EXPECT_EQ(runtime.semantics, RopeSemantics::kGgml);
  EXPECT_EQ(runtime.context, 32768u);
  EXPECT_EQ(runtime.prompt, 512u);
  EXPECT_THROW(ParseLintRuntime({"pairing=zigzag"}, where), BadInput);
  EXPECT_THROW(ParseLintRuntime({"reader=v6"}, where), BadInput);
  EXPECT_THROW(ParseLintRuntime({"rope_theta=x"}, where), BadInput);
  EXPECT_THROW(ParseLintRuntime({"theta"}, where), BadInput);
}

}  // namespace
}  // namespace ropeline
