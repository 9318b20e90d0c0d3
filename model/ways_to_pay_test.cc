#include "model/ways_to_pay.h"

#include <gtest/gtest.h>

#include "kernels/registry.h"
#include "model/fake_machine.h"

namespace ropeline {
namespace {

const std::string kRope = "qk_rotation/rope_half/f32/BEST/n:512/h:32/d:128/";
const std::string kScores = "/f32/BEST/n:512/h:32/d:64/causal:1/form:tile";
const std::string kEnd = "/cache:cold/threads:2";

const WayToPay& Way(const std::vector<WayToPay>& ways, const std::string& encoding, const std::string& text) {
  for (const WayToPay& way : ways) {
    if (way.row->name.variant == encoding && way.way == text) return way;
  }
  throw std::out_of_range(encoding + " " + text);
}

TEST(WaysToPayTest, NoneWhereTheRunHasNone) {
  const Machine machine = FakeMachine();
  EXPECT_TRUE(WaysToPay(FakeRequest("llama-3.2-3b", {512}), machine).empty());
}

TEST(WaysToPayTest, ThePlainRowIsTheBaseWhereverItStands) {
  const Machine machine = FakeMachine(FakeResultsWith(
      {{kRope + "angles:per_head/cache:cold/threads:2", 3000},
       {kRope + "form:out_of_place/cache:cold/threads:2", 1500},
       {kRope + "cache:cold/threads:2", 1000},
       {kRope + "cache:hot/threads:2", 1},
       {kRope + "angles:per_head/cache:cold/threads:1", 1},
       {"score_bias/alibi/f32/BEST/n:512/h:32/causal:1/form:materialised/bias:f16" + kEnd, 8e6}}));
  const std::vector<WayToPay> ways = WaysToPay(FakeRequest("llama-3.2-3b", {512}), machine);
  ASSERT_EQ(ways.size(), 5u);
  EXPECT_TRUE(ways[0].base);
  EXPECT_EQ(ways[0].way, "plain");
  EXPECT_EQ(ways[0].shape, "n:512 h:32 d:128");
  EXPECT_EQ(ways[0].row->call_ns, 1000);
  EXPECT_EQ(Way(ways, "rope_half", "per_head").ratio, 3);
  EXPECT_EQ(Way(ways, "rope_half", "out_of_place").ratio, 1.5);
  EXPECT_EQ(Way(ways, "alibi", "materialised, bias f16").ratio, 2) << "FakeResults has the plain row at 4e6";
  EXPECT_NE(ways[0].group, Way(ways, "alibi", "plain").group);
}

TEST(WaysToPayTest, WaysThatReplaceEachOtherAreComparedWithEachOther) {
  const Machine machine = FakeMachine(FakeResultsWith({{kRope + "form:write_only" + kEnd, 500},
                                                       {kRope + "form:cache_write" + kEnd, 900},
                                                       {kRope + "form:rotate_then_write" + kEnd, 1000},
                                                       {kRope + "cache:cold/threads:2", 7},
                                                       {kRope + "form:q_in_attention" + kEnd, 50}}));
  const std::vector<WayToPay> ways = WaysToPay(FakeRequest("llama-3.2-3b", {512}), machine);
  ASSERT_EQ(ways.size(), 4u);
  EXPECT_TRUE(Way(ways, "rope_half", "rotate_then_write").base);
  EXPECT_EQ(Way(ways, "rope_half", "cache_write").ratio, 0.9);
  EXPECT_EQ(Way(ways, "rope_half", "write_only").ratio, 0.5);
  EXPECT_TRUE(Way(ways, "rope_half", "q_in_attention").base) << "its base was not measured";
}

TEST(WaysToPayTest, ATileIsComparedWithATileWithoutBias) {
  const Machine machine =
      FakeMachine(FakeResultsWith({{"score_bias/alibi" + kScores + "/cache:hot/threads:2", 130},
                                   {"score_bias/t5_bias" + kScores + "/bias:f32/cache:hot/threads:2", 150},
                                   {"score_bias/none" + kScores + "/cache:hot/threads:2", 100}}));
  CompareRequest request = FakeRequest("llama-3.2-3b", {512});
  const std::vector<WayToPay> ways = WaysToPay(request, machine);
  ASSERT_EQ(ways.size(), 3u);
  EXPECT_TRUE(Way(ways, "none", "tile").base);
  EXPECT_EQ(Way(ways, "alibi", "tile").ratio, 1.3);
  EXPECT_EQ(Way(ways, "t5_bias", "tile, bias f32").ratio, 1.5);
  request.encodings = {FindEncoding("alibi")};
  EXPECT_EQ(WaysToPay(request, machine).size(), 2u);
  request.encodings = {FindEncoding("rope_half")};
  EXPECT_TRUE(WaysToPay(request, machine).empty());
  request.encodings = {};
  request.dtype = Dtype::kF16;
  EXPECT_TRUE(WaysToPay(request, machine).empty());
}

TEST(WaysToPayTest, CountersAreKeptByTheirNamesShortContextsFirst) {
  nlohmann::json results = FakeResults();
  results["benchmarks"].push_back(FakeRow(kRope + "angles:recurrence" + kEnd, {{"call_ns", 1.0},
                                                                               {"bytes_per_second", 3e9},
                                                                               {"angle_error_1m", 0.5},
                                                                               {"angle_error_131k", 0.25},
                                                                               {"angle_error_32k", 0.125},
                                                                               {"angle_error_vs_f32_32k", 0},
                                                                               {"bias_bytes", 64},
                                                                               {"steal_ms", 5}}));
  const Machine machine = FakeMachine(results);
  const std::vector<WayToPay> ways = WaysToPay(FakeRequest("llama-3.2-3b", {512}), machine);
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].row->counters.size(), 5u) << "no other counter is kept";
  EXPECT_EQ(ways[0].row->counters.at("angle_error_131k"), 0.25);
  EXPECT_EQ(ways[0].bytes, 3);
  EXPECT_EQ(CounterKeys(ways, "angle_error"),
            (std::vector<std::string>{"angle_error_32k", "angle_error_131k", "angle_error_1m",
                                      "angle_error_vs_f32_32k"}));
  EXPECT_EQ(CounterKeys(ways, "bias"), (std::vector<std::string>{"bias_bytes"}));
}

}  // namespace
}  // namespace ropeline
