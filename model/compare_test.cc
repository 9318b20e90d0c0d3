#include "model/compare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "kernels/registry.h"
#include "model/fake_results.h"
#include "model/kv_layout.h"
#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "x"};

Machine FakeMachine(const nlohmann::json& results = FakeResults()) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "compare_test.json";
  std::ofstream(path) << results.dump();
  Machine machine = ReadMachine(path.string());
  std::filesystem::remove(path);
  return machine;
}

const MeasuredEncoding& Row(const std::vector<MeasuredEncoding>& rows, const std::string& name, uint64_t n) {
  for (const MeasuredEncoding& row : rows) {
    if (row.encoding->name == name && row.shape.n == n) return row;
  }
  throw std::out_of_range(name);
}

ShareRequest Request(const char* model, std::vector<uint64_t> contexts) {
  return {Preset(model, kWhere), FindWeightMix("q4_0", kWhere), FindKvFormat("f16", kWhere),
          std::move(contexts), 2};
}

const EncodingShare& Share(const std::vector<EncodingShare>& shares, const std::string& name, Phase phase,
                           uint64_t n) {
  for (const EncodingShare& share : shares) {
    if (share.encoding->name == name && share.phase == phase && share.n == n) return share;
  }
  throw std::out_of_range(name);
}

TEST(CompareTest, RowsStandBesideTheirLimit) {
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(FakeMachine(), 2);
  ASSERT_EQ(rows.size(), 5u) << "rows of another target are left out";
  // Rotation of 32 heads of 128, 4096 tokens: reads tensor and table, writes the tensor; at 20 GB/s.
  const MeasuredEncoding& cold = Row(rows, "rope_half", 4096);
  const double tensor = 4096.0 * 32 * 128 * 4;
  const double table = 4096.0 * 128 * 4;
  EXPECT_TRUE(cold.cold);
  EXPECT_DOUBLE_EQ(cold.cost.Bytes(), 2 * tensor + table);
  EXPECT_NEAR(cold.limit_ns, (2 * tensor + table) / 20e9 * 1e9, 1e-3);
  EXPECT_EQ(cold.measured_ns, 14e6);
  EXPECT_NEAR(cold.Ratio().value(), 14e6 / cold.limit_ns, 1e-12);
  // Hot: 66 KB are below the smallest point of the curve, 400 GB/s; but 3 flops per element at 50 GFLOP/s
  // take longer.
  const MeasuredEncoding& hot = Row(rows, "rope_half", 4);
  EXPECT_FALSE(hot.cold);
  EXPECT_EQ(hot.bound, Bound::kCompute);
  EXPECT_NEAR(hot.limit_ns, 3.0 * 4 * 32 * 128 / 50, 1e-6);
  // Input add at three accesses per element and a 4-byte row number per token.
  EXPECT_NEAR(Row(rows, "learned", 512).limit_ns, (12.0 * 512 * 4096 + 4 * 512) / 20, 1e-3);
  // A causal bias touches half of the scores and the diagonal.
  EXPECT_NEAR(Row(rows, "alibi", 512).limit_ns, 8.0 * 32 * 512 * 513 / 2 / 20, 1e-3);
}

TEST(CompareTest, OnlyRowsOfTheThreadsAskedFor) {
  nlohmann::json results = FakeResults();
  results["benchmarks"].push_back(
      FakeRow("qk_rotation/rope_half/f32/BEST/n:9/h:32/d:128/cache:hot/threads:1", {{"call_ns", 5.0}}));
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(FakeMachine(results), 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].shape.n, 9u);
  EXPECT_EQ(rows[0].bound, Bound::kUnknown) << "no stream rows at one thread";
  EXPECT_FALSE(rows[0].Ratio().has_value());
}

TEST(CompareTest, RowsThatLackAnArgumentAreLeftOut) {
  nlohmann::json results = FakeResults();
  for (const char* name : {"score_bias/alibi/f32/BEST/n:77/h:8/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/n:77/h:32/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/n:77/h:32/d:127/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/h:32/d:128/cache:hot/threads:2"}) {
    results["benchmarks"].push_back(FakeRow(name, {{"call_ns", 5.0}}));
  }
  EXPECT_EQ(MeasuredEncodings(FakeMachine(results), 2).size(), 5u);
}

TEST(CompareTest, SelectionByNAndD) {
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(FakeMachine(), 2);
  EXPECT_EQ(Select(rows, {}, {}, kWhere, kWhere).size(), 5u);
  EXPECT_EQ(Select(rows, {512}, {}, kWhere, kWhere).size(), 3u);
  EXPECT_EQ(Select(rows, {}, {128}, kWhere, kWhere).size(), 4u) << "a score bias has no d";
  EXPECT_EQ(Select(rows, {512, 4}, {4096}, kWhere, kWhere).size(), 3u);
  try {
    Select(rows, {513}, {}, {"command line", "--n"}, kWhere);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(), "command line: --n: 513 was not measured, expected any of 4, 512, 4096");
  }
  EXPECT_THROW(Select(rows, {}, {64}, kWhere, kWhere), BadInput);
}

TEST(CompareTest, EveryEncodingHasAShareInBothPhases) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares =
      EncodingShares(Request("llama-3.2-3b", {1024, 2048}), machine, MeasuredEncodings(machine, 2));
  EXPECT_EQ(shares.size(), 2 * 2 * AllEncodings().size());
  for (const EncodingShare& share : shares) {
    EXPECT_GT(share.expected_ms, 0) << share.encoding->name;
    EXPECT_GT(share.Share(), 0);
    EXPECT_LT(share.Share(), 1);
  }
}

// The article's cost classes, from the registry's costs on one shape.
TEST(CompareTest, TheThreeCostClassesGrowAsTheySay) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares =
      EncodingShares(Request("llama-3.2-3b", {1024, 8192}), machine, {});
  for (const Encoding* encoding : AllEncodings()) {
    const EncodingShare& a = Share(shares, encoding->name, Phase::kPrefill, 1024);
    const EncodingShare& b = Share(shares, encoding->name, Phase::kPrefill, 8192);
    const bool bias = encoding->placement == Placement::kScoreBias;
    EXPECT_NEAR(b.cost.Bytes() / a.cost.Bytes(), bias ? 64 : 8, bias ? 0.2 : 1e-6) << encoding->name;
    EXPECT_EQ(a.applications, encoding->placement == Placement::kInputAdd ? 1 : 28) << encoding->name;
    EXPECT_EQ(a.whole_pass, encoding->placement == Placement::kInputAdd) << encoding->name;
    EXPECT_EQ(a.score_bytes, bias ? 4.0 * 24 * 1024 * 1024 : 0) << encoding->name;
  }
}

TEST(CompareTest, SharesAreScaledByTheNearestMeasuredRatio) {
  const Machine machine = FakeMachine();
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(machine, 2);
  const std::vector<EncodingShare> shares = EncodingShares(Request("llama-3.2-3b", {4096}), machine, rows);
  const EncodingShare& prefill = Share(shares, "rope_half", Phase::kPrefill, 4096);
  EXPECT_EQ(prefill.ratio_row, "qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/cache:cold/threads:2");
  EXPECT_NEAR(prefill.expected_ms, 14, 1e-9) << "the same shape: 24 + 8 heads of 128";
  const EncodingShare& decode = Share(shares, "rope_half", Phase::kDecode, 4096);
  EXPECT_EQ(decode.ratio_row, "qk_rotation/rope_half/f32/BEST/n:4/h:32/d:128/cache:hot/threads:2");
  EXPECT_NEAR(decode.expected_ms, 1e-3 / 4, 1e-9) << "a quarter of the four tokens' time";
  const EncodingShare& unmeasured = Share(shares, "rope_interleaved", Phase::kPrefill, 4096);
  EXPECT_FALSE(unmeasured.ratio.has_value());
  EXPECT_EQ(unmeasured.expected_ms, unmeasured.limit_ms);
}

TEST(CompareTest, OfEqualRowsPrefillTakesTheColdOneAndDecodeTheHotOne) {
  for (const bool cold_first : {false, true}) {
    nlohmann::json results = FakeResults();
    for (const bool cold : {cold_first, !cold_first}) {
      for (const char* n : {"1", "4096"}) {
        const std::string name = "qk_rotation/rope_half/f32/BEST/n:" + std::string(n) +
                                 "/h:32/d:128/cache:" + (cold ? "cold" : "hot") + "/threads:2";
        results["benchmarks"].push_back(FakeRow(name, {{"call_ns", 1e3}, {"working_set", 1e9}}));
      }
    }
    const Machine machine = FakeMachine(results);
    const std::vector<EncodingShare> shares =
        EncodingShares(Request("llama-3.2-3b", {4096}), machine, MeasuredEncodings(machine, 2));
    EXPECT_NE(
        Share(shares, "rope_half", Phase::kPrefill, 4096).ratio_row.find("n:4096/h:32/d:128/cache:cold"),
        std::string::npos);
    EXPECT_NE(Share(shares, "rope_half", Phase::kDecode, 4096).ratio_row.find("n:1/h:32/d:128/cache:hot"),
              std::string::npos);
  }
}

TEST(CompareTest, ALayerIsItsMatricesAndAttentionAndAPassHasTheHeadToo) {
  const Machine machine = FakeMachine();
  const std::vector<EncodingShare> shares = EncodingShares(Request("llama-3.2-3b", {4096}), machine, {});
  const double n = 4096;
  const double layer_flops = 2 * n * 100663296 + 2 * n * n * 128 * 24;  // matrices of a layer; attention
  const double append_s = n * 2048 * (4 + 2) / 20e9;                    // K and V rows: read f32, write f16
  EXPECT_NEAR(Share(shares, "rope_half", Phase::kPrefill, 4096).beside_ms,
              (layer_flops / 50e9 + append_s) * 1e3, 1e-6);
  EXPECT_NEAR(Share(shares, "learned", Phase::kPrefill, 4096).beside_ms,
              28 * (layer_flops / 50e9 + append_s) * 1e3 + 2.0 * 128256 * 3072 / 50e9 * 1e3, 1e-6);
}

TEST(CompareTest, JsonHasEveryRowAndShare) {
  const Machine machine = FakeMachine();
  const ShareRequest request = Request("llama-3.2-3b", {4096});
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(machine, 2);
  const nlohmann::json json = CompareJson(request, machine, rows, EncodingShares(request, machine, rows));
  EXPECT_EQ(json["rows"].size(), 5u);
  EXPECT_EQ(json["shares"].size(), 2 * AllEncodings().size());
  for (const char* key :
       {"encoding", "placement", "cost_class", "bytes", "flops", "limit_ns", "measured_ns", "ratio"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  std::set<std::string> classes;
  for (const auto& share : json["shares"]) classes.insert(share["cost_class"]);
  EXPECT_EQ(classes.size(), 3u);
  EXPECT_EQ(json["inputs"]["threads"], 2);
}

}  // namespace
}  // namespace ropeline
