#include "model/context_ways.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/fake_machine.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "request"};
const std::string kShape = "n:32768/h:24/hkv:8/d:128/", kEnd = "cache:cold/threads:2";

PredictRequest Request(const char* model, const Machine& machine, uint64_t context) {
  return {.llm = Preset(model, kWhere),
          .context = context,
          .weights = FindWeightMix("q4_k_m", kWhere),
          .kv = FindKvFormat("f16", kWhere),
          .machine = &machine,
          .threads = 2,
          .batch = 1,
          .memory_bytes = std::nullopt};
}

// FakeKernelResults with rows of a window and of retrieval, and some that are neither at times that would
// show.
nlohmann::json Results() {
  nlohmann::json results = FakeKernelResults();
  const auto add = [&](const std::string& name, nlohmann::json counters) {
    results["benchmarks"].push_back(FakeRow(name, counters));
  };
  add("attention/decode/f16/BEST/" + kShape + "window:4096/sinks:4/" + kEnd,
      {{"call_ns", 1e6}, {"output_error", 0.5}});
  add("attention/decode/f16/BEST/" + kShape + "window:4096/sinks:8/" + kEnd, {{"call_ns", 1e13}});
  add("attention/decode/f16/BEST/" + kShape + "window:4096/" + kEnd, {{"call_ns", 1e13}});
  add("attention/decode/f16/OTHER/" + kShape + "window:4096/sinks:4/" + kEnd, {{"call_ns", 1e13}});
  add("attention/decode/f16/BEST/" + kShape + "window:4096/sinks:4/cache:cold/threads:1",
      {{"call_ns", 1e13}});
  const std::string retrieval = "attention/retrieval/f16/BEST/" + kShape;
  add(retrieval + "summary:mean/chunk:256/best:16/sinks:32/window:256/" + kEnd,
      {{"call_ns", 2e6}, {"recall", 0.75}});
  add(retrieval + "summary:bounds/chunk:256/best:16/sinks:32/window:256/" + kEnd,
      {{"call_ns", 3e6}, {"recall", 0.875}});
  add(retrieval + "summary:mean/chunk:128/best:16/sinks:32/window:256/" + kEnd,
      {{"call_ns", 1e13}, {"recall", 0.1}});
  add("attention/decode/q8_0/BEST/n:4096/h:24/hkv:8/d:128/" + kEnd,
      {{"call_ns", 1e6}, {"output_error", 0.01}});
  add("kv_cache/append/q8_0/BEST/n:1/hkv:8/d:128/" + kEnd, {{"call_ns", 500.0}});
  return results;
}

const ContextWay& Way(const std::vector<ContextWay>& ways, const std::string& name) {
  for (const ContextWay& way : ways) {
    if (way.name == name) return way;
  }
  throw std::out_of_range(name);
}

const std::string kWindowName = "window of 4096 + 4 sinks, f16";
const std::string kMeanName = "16 chunks of 256 by mean, f16",
                  kBoundsName = "16 chunks of 256 by bounds, f16";

double TermMs(const std::vector<Term>& terms, const std::string& name) {
  for (const Term& term : terms) {
    if (term.name == name) return term.ms;
  }
  throw std::out_of_range(name);
}

TEST(ContextWaysTest, FullIsWhatPredictSays) {
  const Machine machine = FakeMachine(Results());
  PredictRequest request = Request("llama-3.2-3b", machine, 32768);
  request.batch = 3;
  const std::vector<ContextWay> ways = ContextWays(request);
  for (const char* format : {"f16", "q8_0", "q4_0", "kivi4"}) {
    request.kv = FindKvFormat(format, kWhere);
    const Prediction p = Predict(request);
    const ContextWay& way = Way(ways, std::string("full ") + format);
    EXPECT_EQ(way.cache_bytes, p.memory.kv_bytes) << format;
    EXPECT_EQ(way.read_bytes, 3.0 * static_cast<double>(p.kv.total.read_bytes_per_step)) << format;
    EXPECT_NEAR(way.limit.attention_ms, TermMs(p.decode.limit.value->terms, "attention"), 1e-9) << format;
    EXPECT_NEAR(way.limit.ms, p.decode.limit.value->ms_per_token, 1e-9) << format;
    EXPECT_EQ(way.kernels.has_value(), p.decode.kernels.value.has_value()) << format;
    if (!way.kernels) continue;
    EXPECT_NEAR(way.kernels->ms, p.decode.kernels.value->ms_per_token, 1e-9) << format;
    EXPECT_NEAR(way.kernels->tok_per_s, p.decode.kernels.value->tok_per_s, 1e-9) << format;
  }
  EXPECT_TRUE(Way(ways, "full q8_0").kernels) << "the fake rows have it";
  EXPECT_FALSE(Way(ways, "full q4_0").kernels) << "and no q4_0";
}

TEST(ContextWaysTest, AWindowKeepsAndReadsItsTokensWhateverTheContext) {
  const Machine machine = FakeMachine(Results());
  for (const uint64_t context : {uint64_t{32768}, uint64_t{131072}}) {
    const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-3b", machine, context));
    const ContextWay& way = Way(ways, kWindowName);
    EXPECT_EQ(way.cache_bytes, 4100u * 114688);
    EXPECT_EQ(way.read_bytes, 4100.0 * 114688);
    EXPECT_NEAR(way.kernels.value().attention_ms, 28 * 1.0, 1e-9);
    EXPECT_EQ(way.row, "attention/decode/f16/BEST/" + kShape + "window:4096/sinks:4/" + kEnd);
    EXPECT_EQ(way.note, "");
    EXPECT_FALSE(way.accuracy) << "output_error is the format's";
    const ContextWay& full = Way(ways, "full f16");
    EXPECT_NEAR(way.kernels->ms - way.kernels->attention_ms, full.kernels->ms - full.kernels->attention_ms,
                1e-9)
        << "the other terms are the same";
    EXPECT_NEAR(way.limit.attention_ms / full.limit.attention_ms, 4100.0 / static_cast<double>(context),
                1e-9);
  }
}

TEST(ContextWaysTest, RetrievalReadsSummariesAndChosenTokens) {
  const Machine machine = FakeMachine(Results());
  const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-3b", machine, 32768));
  const ContextWay &mean = Way(ways, kMeanName), &bounds = Way(ways, kBoundsName);
  // 128 chunks, 8 KV heads, 128 f32 of a mean and 256 of the bounds; Q as the kernel counts it.
  const double mean_bytes = 28.0 * 128 * 8 * 128 * 4, q_bytes = 28.0 * 24 * 128 * 4;
  const double tokens = 16 * 256 + 32 + 256;
  EXPECT_EQ(mean.attended_tokens, 4384u);
  EXPECT_EQ(static_cast<double>(mean.cache_bytes), 32768 * 114688.0 + mean_bytes);
  EXPECT_EQ(static_cast<double>(bounds.cache_bytes), 32768 * 114688.0 + 2 * mean_bytes);
  EXPECT_EQ(mean.read_bytes, tokens * 114688 + mean_bytes + q_bytes);
  EXPECT_EQ(bounds.read_bytes, tokens * 114688 + 2 * mean_bytes + q_bytes);
  EXPECT_NEAR(mean.kernels.value().attention_ms, 28 * 2.0, 1e-9);
  EXPECT_NEAR(bounds.kernels.value().attention_ms, 28 * 3.0, 1e-9);
  EXPECT_EQ(mean.accuracy, 0.75);
  EXPECT_EQ(bounds.accuracy, 0.875);
  EXPECT_EQ(mean.figure, "recall");
  EXPECT_EQ(Way(ways, "full q8_0").accuracy, 0.01) << "from another n: it is the format's";
  EXPECT_EQ(Way(ways, "full q8_0").figure, "output_error");
  EXPECT_FALSE(Way(ways, "full f16").accuracy) << "the window's row is not the full cache's";
  EXPECT_THROW(Way(ways, "16 chunks of 256 by mean, q8_0"), std::out_of_range) << "not measured";
}

TEST(ContextWaysTest, AnotherShapeIsScaledByTheBytesOfAStep) {
  const Machine machine = FakeMachine(Results());
  const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-1b", machine, 65536));
  // 16 layers, 32 heads, 8 KV heads of 64.
  const ContextWay& window = Way(ways, kWindowName);
  EXPECT_NEAR(window.kernels.value().attention_ms, 16 * 0.5, 1e-9);
  EXPECT_EQ(window.note, "scaled by bytes: group 3 → 4, d_head 128 → 64");
  const ContextWay& mean = Way(ways, kMeanName);
  const double row_bytes = 4384 * 4096.0 + 128 * 8 * 128 * 4 + 24 * 128 * 4;
  const double layer_bytes = 4384 * 2048.0 + 256 * 8 * 64 * 4 + 32 * 64 * 4;
  EXPECT_NEAR(mean.kernels.value().attention_ms, 16 * 2 * layer_bytes / row_bytes, 1e-9);
  EXPECT_EQ(mean.note, "scaled by bytes: n 32768 → 65536, group 3 → 4, d_head 128 → 64");
}

TEST(ContextWaysTest, AContextThatFitsAWayIsReadInFull) {
  const Machine machine = FakeMachine(Results());
  for (const uint64_t context : {uint64_t{1024}, uint64_t{4100}}) {
    const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-3b", machine, context));
    const ContextWay& full = Way(ways, "full f16");
    for (const std::string& name : {kWindowName, kMeanName, kBoundsName}) {
      const ContextWay& way = Way(ways, name);
      EXPECT_EQ(way.cache_bytes, full.cache_bytes) << name;
      EXPECT_EQ(way.read_bytes, full.read_bytes) << name;
      EXPECT_EQ(way.kernels.value().ms, full.kernels.value().ms) << name;
      EXPECT_EQ(way.row, full.row) << name;
      EXPECT_EQ(way.accuracy, 1) << name;
    }
  }
  // Mistral's own window of 4096 is the smaller one.
  const std::vector<ContextWay> ways = ContextWays(Request("mistral-7b", machine, 32768));
  EXPECT_EQ(Way(ways, kWindowName).read_bytes, Way(ways, "full f16").read_bytes);
}

TEST(ContextWaysTest, WithoutRowsTheLimitStands) {
  const Machine measured = FakeMachine(), figures = MachineFromFigures(20e9, 50e9);
  for (const Machine* machine : {&measured, &figures}) {
    const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-3b", *machine, 32768));
    ASSERT_EQ(ways.size(), 7u);
    for (const ContextWay& way : ways) {
      EXPECT_FALSE(way.kernels) << way.name;
      EXPECT_FALSE(way.accuracy) << way.name;
      EXPECT_EQ(way.row, "") << way.name;
      EXPECT_GT(way.limit.attention_ms, 0) << way.name;
      EXPECT_GT(way.limit.ms, way.limit.attention_ms) << way.name;
    }
    EXPECT_TRUE(ContextWaysJson(ways)[0]["kernels"].is_null());
  }
  const std::vector<ContextWay> ways = ContextWays(Request("llama-3.2-3b", figures, 32768));
  EXPECT_NEAR(Way(ways, "full f16").limit.attention_ms, 187.9, 0.05) << "two figures: bound by memory alone";
}

TEST(ContextWaysTest, TheWindowsRecallIsShownWhereItsRowHasOne) {
  nlohmann::json results = Results();
  for (auto& row : results["benchmarks"]) {
    const auto name = row["name"].get<std::string>();
    if (name.find("sinks:4/cache:cold/threads:2") != std::string::npos) row["recall"] = 0.25;
  }
  const Machine machine = FakeMachine(results);
  const nlohmann::ordered_json json = ContextWaysJson(ContextWays(Request("llama-3.2-3b", machine, 32768)));
  EXPECT_EQ(json[4]["kind"], "window");
  EXPECT_EQ(json[4]["accuracy"]["value"], 0.25);
  EXPECT_EQ(json[5]["summary"], "mean");
  EXPECT_NEAR(json[5]["kernels"]["attention_ms"].get<double>(), 56, 1e-9);
}

}  // namespace
}  // namespace ropeline
