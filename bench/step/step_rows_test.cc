// The rows as bench_all runs them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "bench/fake_root.h"
#include "bench/results_file.h"
#include "bench/runner.h"
#include "bench/step/step_choice.h"
#include "bench/step/tiny_llm.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

StepChoice Tiny(const TinyLlm& llm) {
  StepChoice choice{.plan = PlanStep(llm.Make(), FindWeightMix("q8_0", {"test", ""}), {"test", ""}),
                    .model = "tiny",
                    .weights = "q8_0"};
  choice.contexts = {0, 64};
  choice.kv = {KvFormat::kF16, KvFormat::kKivi4};
  return choice;
}

// As a row's thread was pinned the process has one core: before any.
const Topology& Machine() {
  static const auto* const topology = new Topology(DetectTopology());
  return *topology;
}

Json RunSteps(const StepChoice& choice, std::vector<int> threads, const std::string& filter) {
  Plan plan;
  plan.topology = Machine();
  plan.threads = std::move(threads);
  plan.targets = {BestTargetName()};
  std::vector<Row> rows;
  AddStepRows(plan, choice, &rows);
  Options options;
  options.filter = filter;
  options.rounds = 1;
  options.min_seconds = 1e-3;
  rows = ChooseRows(std::move(rows), options);
  const FakeRoot root;
  ResultsFile results(root.Path("out"));
  results.SetRows(rows);
  CalibrateCores(plan.topology);
  EXPECT_TRUE(RunRows(rows, options, &results));
  UnpinThread(plan.topology);
  return results.Benchmarks();
}

TEST(StepRows, TermsAddUpToTheStep) {
  const Json rows = RunSteps(Tiny({}), {1}, "");
  ASSERT_EQ(rows.size(), 8u) << "two contexts, two caches, decode and prefill";
  for (const Json& row : rows) {
    const std::string name = row["name"];
    const bool prefill = name.find("/prefill/") != std::string::npos;
    double terms = 0;
    for (const char* term :
         {"embedding", "position_encoding", "cache_append", "attention", "small_operations", "lm_head",
          "synchronisation", prefill ? "linear" : "weights"}) {
      const std::string key = std::string("term_") + term + "_ms";
      ASSERT_TRUE(row.contains(key)) << name << " " << key;
      EXPECT_GE(row[key].get<double>(), 0) << name << " " << key;
      terms += row[key].get<double>();
    }
    const double ms = row["call_ns"].get<double>() / 1e6;
    // The clock itself, and what a busy machine takes between two calls.
    EXPECT_LE(terms, ms) << name;
    EXPECT_GE(terms, 0.5 * ms) << name;
    EXPECT_NEAR(row["tok_per_s"].get<double>(), (prefill ? 512 : 1) * 1e3 / ms, 1e-6 * 512e3 / ms) << name;
    EXPECT_GT(row["step_bytes"].get<double>(), 0);
    EXPECT_GT(row["weights_read_gb_s"].get<double>(), 0) << name;
    EXPECT_GT(row["step_flops"].get<double>(), 0);
  }
  EXPECT_EQ(rows[0]["name"],
            std::string("step/decode/q8_0/") + BestTargetName() + "/model:tiny/context:0/kv:f16/threads:1");
  EXPECT_EQ(rows[1]["name"], std::string("step/prefill/q8_0/") + BestTargetName() +
                                 "/model:tiny/context:0/kv:f16/chunk:512/threads:1");
}

// Busy loops take turns with the row's thread, which is pinned to a core of theirs.
TEST(StepRows, InterferenceMarksTheRow) {
  const TinyLlm wide{.d_model = 256, .d_ffn = 1024};
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 3 * std::thread::hardware_concurrency(); ++i) {
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  const Json rows = RunSteps(Tiny(wide), {1}, "prefill/.*context:64/kv:f16");
  stop = true;
  for (std::thread& thread : busy) thread.join();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["tainted"].get<double>(), 1) << rows[0].dump();
}

TEST(StepRows, ATeamOfTwoRuns) {
  if (Machine().UsableCores().size() < 2) GTEST_SKIP() << "two threads need two cores";
  const Json rows = RunSteps(Tiny({}), {2}, "context:0/kv:f16");
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["threads"], 2);
    EXPECT_GT(row["tok_per_s"].get<double>(), 0);
    EXPECT_GT(row["term_synchronisation_ms"].get<double>(), 0);
  }
}

}  // namespace
}  // namespace ropeline
