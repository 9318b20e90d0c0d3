#include "model/measured_encoding.h"

#include <gtest/gtest.h>

#include "kernels/registry.h"
#include "model/fake_machine.h"

namespace ropeline {
namespace {

const MeasuredEncoding& Row(const std::vector<MeasuredEncoding>& rows, const std::string& name, uint64_t n) {
  for (const MeasuredEncoding& row : rows) {
    if (row.encoding->name == name && row.shape.n == n) return row;
  }
  throw std::out_of_range(name);
}

TEST(MeasuredEncodingTest, RowsStandBesideTheirLimit) {
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

TEST(MeasuredEncodingTest, OnlyRowsOfTheThreadsAskedFor) {
  nlohmann::json results = FakeResults();
  results["benchmarks"].push_back(
      FakeRow("qk_rotation/rope_half/f32/BEST/n:9/h:32/d:128/cache:hot/threads:1", {{"call_ns", 5.0}}));
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(FakeMachine(results), 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].shape.n, 9u);
  EXPECT_EQ(rows[0].bound, Bound::kUnknown) << "no stream rows at one thread";
  EXPECT_FALSE(rows[0].Ratio().has_value());
}

TEST(MeasuredEncodingTest, RowsThatLackAnArgumentAreLeftOut) {
  nlohmann::json results = FakeResults();
  for (const char* name : {"score_bias/alibi/f32/BEST/n:77/h:8/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/n:77/h:32/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/n:77/h:32/d:127/cache:hot/threads:2",
                           "qk_rotation/rope_half/f32/BEST/h:32/d:128/cache:hot/threads:2"}) {
    results["benchmarks"].push_back(FakeRow(name, {{"call_ns", 5.0}}));
  }
  EXPECT_EQ(MeasuredEncodings(FakeMachine(results), 2).size(), 5u);
}

TEST(MeasuredEncodingTest, OnlyRowsOfTheDtypeAskedForAndTheirBytes) {
  const Machine machine = FakeMachine(
      FakeResultsWith({{"qk_rotation/rope_half/f16/BEST/n:8/h:32/d:128/cache:cold/threads:2", 7.0}}));
  EXPECT_EQ(MeasuredEncodings(machine, 2, Dtype::kF32).size(), 5u);
  EXPECT_EQ(MeasuredEncodings(machine, 2, Dtype::kBf16).size(), 0u);
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(machine, 2, Dtype::kF16);
  ASSERT_EQ(rows.size(), 1u);
  // 2 bytes read and written of each element; angles stay f32.
  EXPECT_EQ(rows[0].cost.Bytes(), 2.0 * 2 * 8 * 32 * 128 + 4.0 * 8 * 128);
}

TEST(MeasuredEncodingTest, OtherWaysToPayAreNoRowsAndOtherArgumentsNoPlainOnes) {
  const std::string rope = "qk_rotation/rope_half/f32/BEST/n:8/h:32/d:128/";
  const std::string alibi = "score_bias/alibi/f32/BEST/n:8/h:32/";
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(
      FakeMachine(FakeResultsWith({{rope + "angles:per_head/cache:cold/threads:2", 1},
                                   {rope + "form:out_of_place/cache:cold/threads:2", 1},
                                   {alibi + "causal:1/form:materialised/bias:f16/cache:cold/threads:2", 1},
                                   {alibi + "d:64/causal:1/form:tile/cache:hot/threads:2", 1},
                                   {rope + "inverse:1/cache:cold/threads:2", 1},
                                   {rope + "positions:gaps/layout:fused_qkv/cache:cold/threads:2", 1}})),
      2);
  ASSERT_EQ(rows.size(), 7u);
  std::vector<std::string> variants;
  for (const MeasuredEncoding& row : rows) {
    if (!row.plain()) variants.push_back(row.variant);
  }
  EXPECT_EQ(variants, (std::vector<std::string>{"inverse:1", "positions:gaps layout:fused_qkv"}));
}

TEST(MeasuredEncodingTest, KvHeadsAndPartialRotationAreInTheShape) {
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(
      FakeMachine(FakeResultsWith(
          {{"qk_rotation/rope_half/f32/BEST/n:8/h:24/d:128/kv:8/rot:64/cache:cold/threads:2", 1},
           {"qk_rotation/rope_half/f32/BEST/n:9/h:24/d:128/rot:256/cache:cold/threads:2", 1}})),
      2);
  const MeasuredEncoding& row = Row(rows, "rope_half", 8);
  EXPECT_TRUE(row.plain());
  EXPECT_EQ(row.shape.n_heads, 24u);
  EXPECT_EQ(row.shape.n_kv_heads, 8u);
  EXPECT_EQ(row.cost.Bytes(), 8.0 * 8 * 32 * 64 + 4.0 * 8 * 64);
  EXPECT_THROW(Row(rows, "rope_half", 9), std::out_of_range) << "more dimensions turned than there are";
}

TEST(MeasuredEncodingTest, SelectionByEncodingAndShape) {
  const std::vector<MeasuredEncoding> rows = MeasuredEncodings(FakeMachine(), 2);
  const auto kept = [&](const RowFilter& filter) { return Select(rows, filter).size(); };
  EXPECT_EQ(kept({}), 5u);
  EXPECT_EQ(kept({.encodings = {FindEncoding("rope_half")}}), 2u);
  EXPECT_EQ(kept({.d_model = 4096}), 5u);
  EXPECT_EQ(kept({.d_model = 3072}), 4u) << "only input adds have a d_model";
  EXPECT_EQ(kept({.score_heads = 24}), 3u);
  EXPECT_EQ(kept({.rotated_heads = 32, .d_head = 128}), 5u);
  EXPECT_EQ(kept({.d_head = 64}), 3u);
  EXPECT_EQ(kept({.rotated_heads = 24}), 3u);
}

}  // namespace
}  // namespace ropeline
