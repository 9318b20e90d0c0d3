#include "model/compare.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/registry.h"
#include "model/fake_machine.h"
#include "model/reshape.h"

namespace ropeline {
namespace {

nlohmann::json JsonOf(const CompareRequest& request, const Machine& machine) {
  return CompareJson(request, machine, Compare(request, machine));
}

TEST(CompareTest, JsonHasEveryRowAndShare) {
  const nlohmann::json json = JsonOf(FakeRequest("llama-3.2-3b", {4096}), FakeMachine());
  EXPECT_EQ(json["rows"].size(), 5u);
  EXPECT_EQ(json["shares"].size(), 2 * AllEncodings().size());
  for (const char* key :
       {"encoding", "placement", "cost_class", "shape", "cache", "bytes", "flops", "working_set_bytes",
        "limit_ns", "bound", "measured_ns", "ratio", "tainted", "row"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  for (const char* key :
       {"encoding", "placement", "cost_class", "phase", "n", "applications", "bytes", "flops", "score_bytes",
        "limit_ms", "ratio", "ratio_row", "expected_ms", "beside", "beside_ms", "share"}) {
    EXPECT_TRUE(json["shares"][0].contains(key)) << key;
  }
  std::set<std::string> classes;
  for (const auto& share : json["shares"]) classes.insert(share["cost_class"]);
  EXPECT_EQ(classes.size(), 3u);
  for (const char* key : {"model", "weights_format", "kv_format", "contexts", "threads", "dtype", "encodings",
                          "shape", "bandwidth_bytes_per_second", "peak_flops_per_second", "machine"}) {
    EXPECT_TRUE(json["inputs"].contains(key)) << key;
  }
  EXPECT_EQ(json["inputs"]["threads"], 2);
  EXPECT_EQ(json["inputs"]["shape"]["n_kv_heads"], 8);
}

TEST(CompareTest, JsonHasGlanceLawsFormsAndCurve) {
  const Machine machine = FakeMachine(FakeResultsWith(
      {{"qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/angles:per_head/cache:cold/threads:2", 28e6}}));
  const nlohmann::json json = JsonOf(FakeRequest("llama-3.2-3b", {512, 4096}), machine);
  ASSERT_EQ(json["glance"].size(), AllEncodings().size());
  for (const auto& line : json["glance"]) {
    EXPECT_EQ(line["prefill"].size(), 2u);
    EXPECT_EQ(line["decode"].size(), 2u);
    EXPECT_FALSE(line["cached_key"].get<std::string>().empty());
    const bool bias = line["placement"] == "score_bias";
    EXPECT_EQ(line["bias_bytes"].is_null(), !bias);
    if (bias) {
      EXPECT_EQ(line["bias_bytes"], 4.0 * 24 * 4096 * 4096) << "at the largest N";
    }
  }
  // rope_half: one hot and one cold row; too few for a law.
  ASSERT_EQ(json["laws"].size(), 5u);
  for (const auto& law : json["laws"]) {
    EXPECT_EQ(law["fitted"], false);
    EXPECT_TRUE(law["residual_rms"].is_null());
  }
  ASSERT_EQ(json["forms"].size(), 2u);
  EXPECT_EQ(json["forms"][0]["base"], true);
  EXPECT_EQ(json["forms"][1]["way"], "per_head");
  EXPECT_EQ(json["forms"][1]["ratio_to_base"], 2.0);
  ASSERT_EQ(json["curve"].size(), AllEncodings().size());
  for (const auto& line : json["curve"]) {
    ASSERT_FALSE(line["points"].empty());
    EXPECT_LE(line["points"].size(), 11u);
    if (line["encoding"] == "rope_half") {
      EXPECT_EQ(line["points"].size(), 11u);
    }
    for (const auto& point : line["points"]) {
      EXPECT_EQ(point["measured"], line["encoding"] == "rope_half" && point["n"] == 4096) << line["encoding"];
      EXPECT_FALSE(point["measured"].get<bool>() && point["extrapolated"].get<bool>());
    }
  }
  EXPECT_EQ(json["beside"].size(), 11u);
  EXPECT_TRUE(json["rejected"].is_array());
}

TEST(CompareTest, AnotherShapeFiltersRowsAndChangesWork) {
  CompareRequest request = FakeRequest("llama-3.2-3b", {512});
  request.llm = Reshaped(request.llm, HeadCounts{32, 0}, 128, {"test", "x"});
  request.given_heads = request.given_d_head = true;
  const Machine machine = FakeMachine();
  const Comparison comparison = Compare(request, machine);
  EXPECT_EQ(comparison.rows.size(), 5u) << "32 heads of 128 are what was measured";
  EXPECT_EQ(ShareOf(comparison.shares, "alibi", Phase::kPrefill, 512).source, TimeSource::kMeasured);
  EXPECT_EQ(ShareOf(comparison.shares, "learned", Phase::kPrefill, 512).source, TimeSource::kMeasured);
  request.llm = Reshaped(request.llm, HeadCounts{16, 4}, 64, {"test", "x"});
  EXPECT_TRUE(Compare(request, machine).rows.empty());
}

// A cost of zero has no limit, no ratio and no law, and divides by nothing.
TEST(CompareTest, NothingToDoIsZeroEverywhere) {
  Encoding nothing = *FindEncoding("rope_half");
  nothing.cost = [](const Shape&) { return Cost{}; };
  CompareRequest request = FakeRequest("llama-3.2-3b", {512});
  request.encodings = {&nothing};
  const nlohmann::json json = JsonOf(request, FakeMachine());
  EXPECT_EQ(json["glance"][0]["prefill"][0]["time_ms"], 0.0);
  EXPECT_EQ(json["glance"][0]["prefill"][0]["share"], 0.0);
  EXPECT_EQ(json["curve"][0]["points"][0]["prefill_ms"], 0.0);
  EXPECT_TRUE(json["laws"].empty());
}

}  // namespace
}  // namespace ropeline
