#include "bench/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/fake_root.h"

namespace ropeline {
namespace {

Row MakeRow(const std::string& family, const std::string& variant, const std::string& peer = "") {
  Row row;
  row.name = {family, variant, "f32", peer.empty() ? "AVX3_DL" : "icelake", {}, peer};
  row.name.With("n", size_t{16}).With("threads", size_t{1});
  return row;
}

std::vector<Row> ExampleRows() {
  return {MakeRow("stream", "read"),
          MakeRow("peak", "fma"),
          MakeRow("qk_rotation", "rope_half"),
          MakeRow("qk_rotation", "rope_half", "ggml-1.2.3"),
          MakeRow("qk_rotation", "xpos"),
          MakeRow("attention", "decode"),
          MakeRow("attention", "decode", "ggml-1.2.3"),
          MakeRow("weights", "matvec", "openblas-0.3")};
}

std::vector<std::string> Chosen(const std::vector<std::string>& families, const std::string& filter) {
  Options options;
  options.families = families;
  options.filter = filter;
  std::vector<std::string> names;
  for (const Row& row : ChooseRows(ExampleRows(), options)) names.push_back(row.name.Text());
  return names;
}

const std::string kLimits[] = {"stream/read/f32/AVX3_DL/n:16/threads:1",
                               "peak/fma/f32/AVX3_DL/n:16/threads:1"};

TEST(ChooseRows, BringsTheRowsThatPeersStandBeside) {
  EXPECT_EQ(
      Chosen({"peer"}, ""),
      (std::vector<std::string>{kLimits[0], kLimits[1], "qk_rotation/rope_half/f32/AVX3_DL/n:16/threads:1",
                                "peer/ggml-1.2.3/qk_rotation/rope_half/f32/icelake/n:16/threads:1",
                                "attention/decode/f32/AVX3_DL/n:16/threads:1",
                                "peer/ggml-1.2.3/attention/decode/f32/icelake/n:16/threads:1",
                                "peer/openblas-0.3/weights/matvec/f32/icelake/n:16/threads:1"}));
}

TEST(ChooseRows, OnlyOfPeersThatTheFilterLetsThrough) {
  EXPECT_EQ(Chosen({"peer"}, "ggml.*decode"),
            (std::vector<std::string>{kLimits[0], kLimits[1], "attention/decode/f32/AVX3_DL/n:16/threads:1",
                                      "peer/ggml-1.2.3/attention/decode/f32/icelake/n:16/threads:1"}));
}

TEST(ChooseRows, ThePeersOfAFamilyAreNoneOfIt) {
  EXPECT_EQ(
      Chosen({"qk_rotation"}, ""),
      (std::vector<std::string>{kLimits[0], kLimits[1], "qk_rotation/rope_half/f32/AVX3_DL/n:16/threads:1",
                                "qk_rotation/xpos/f32/AVX3_DL/n:16/threads:1"}));
}

TEST(ChooseRows, RefusesAFilterThatMatchesNothing) {
  EXPECT_THROW(Chosen({}, "nothing of the kind"), BadUsage);
}

// A library's threads are its own: the loop runs on one, the row tells of all, and what one call counts is
// shared out over the operations in it.
TEST(RunRows, ALibrarysRowIsCalledOnOneThread) {
  Row row = MakeRow("attention", "decode", "ggml-1.2.3");
  row.threads = 2;
  row.library_threads = true;
  row.operations = 4;
  row.cost = {1000, 24, 512};
  row.items = 10;
  int calls = 0, most_threads = 0;
  row.body = [&](benchmark::State& state, const Row& self) {
    most_threads = std::max(most_threads, state.threads());
    TimeCalls(state, self, [&] {
      ++calls;
      for (int i = 0; i < 20000; ++i) benchmark::DoNotOptimize(i);
    });
  };
  const FakeRoot root;
  Options options;
  options.rounds = 2;
  options.min_seconds = 1e-5;
  const std::vector<Row> rows = {row};
  ResultsFile results(root.Path("out"));
  results.SetRows(rows);
  ASSERT_TRUE(RunRows(rows, options, &results));
  EXPECT_EQ(most_threads, 1);
  ASSERT_EQ(results.Benchmarks().size(), 2u) << "one for each round";
  int64_t iterations = 0;
  for (const Json& json : results.Benchmarks()) {
    EXPECT_EQ(json["name"], row.name.Text());
    EXPECT_EQ(json["run_name"], row.name.Text());
    EXPECT_EQ(json["threads"], 2) << "those that the library runs";
    iterations = json["iterations"].get<int64_t>();
    const double seconds = json["call_ns"].get<double>() * 1e-9;
    EXPECT_EQ(json["time_unit"], "ns");
    // Google Benchmark's clock runs from before ours to after it.
    EXPECT_LE(row.operations * json["call_ns"].get<double>(), 1.0001 * json["real_time"].get<double>());
    EXPECT_NEAR(json["bytes_per_second"].get<double>() * seconds, 1024, 1e-3) << "of one operation";
    EXPECT_NEAR(json["items_per_second"].get<double>() * seconds, 10, 1e-3);
  }
  EXPECT_GT(calls, iterations);
}

}  // namespace
}  // namespace ropeline
