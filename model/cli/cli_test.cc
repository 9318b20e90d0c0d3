// Runs the program: what goes to stdout, to stderr, and how it exits.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/cli/cli_fixture.h"
#include "model/fake_results.h"

namespace ropeline {
namespace {

constexpr const char* kFigures = " --bandwidth 20GB/s --flops 50GFLOP/s";

TEST_F(CliTest, PredictsTheArticlesModelInJson) {
  const Outcome outcome =
      Run("predict article-3b --context 32k --weights q4_0 --kv f16 --json" + std::string(kFigures));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["kv"]["bytes_per_token"], 114688);
  EXPECT_NEAR(json["rule_of_thumb"]["decode_ms_kv_only"].get<double>(), 187.9, 0.05);
  EXPECT_NEAR(json["prefill"]["limit"]["flops_attention"].get<double>(), 1.847e14, 0.001e14);
  EXPECT_EQ(json["decode"]["limit"]["bound"], "memory");
  EXPECT_FALSE(json.contains("curve"));
}

TEST_F(CliTest, PredictsFromAMachineInATable) {
  const Outcome outcome = Run("predict llama-3.2-3b --context 32k --curve --machine '" + machine_ + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"112.0 KiB (114,688 bytes)", "3.50 GiB", "tok/s", "kernels: not available",
                           "Some CPU", "2 threads", "131,072", "rule of thumb"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST_F(CliTest, PredictsWithKernelsBesideTheLimit) {
  const std::string machine = " --machine '" + File("kernels.json", FakeKernelResults().dump()) + "'";
  const Outcome outcome = Run("predict llama-3.2-3b --context 32k --curve" + machine);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"with this suite's kernels", " kernels |", "224.0 ms", "kernels tok/s", "kernels prefill",
        "| attention/decode/f16/BEST/n:32768/h:24/hkv:8/d:128/cache:cold/threads:2 |",
        "kernels: weights at its limit: no rows weights/matvec/q4_K",
        "kernels: linear at its limit: no rows linear/matmul/q4_K", "kernels, prefill: attention",
        "scaled by flops: KV heads 1 → 8", "engine: not available: needs an engine profile"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  const Outcome kivi = Run("predict llama-3.2-3b --context 1k --kv kivi4" + machine);
  ASSERT_EQ(kivi.exit_code, 0) << kivi.err;
  EXPECT_NE(kivi.out.find("35.0 KiB (35,840 bytes) in kivi4"), std::string::npos) << kivi.out;
  EXPECT_NE(kivi.out.find("kernels: not available: needs measured rows attention/decode/kivi4 at 2 threads"),
            std::string::npos)
      << kivi.out;
}

TEST_F(CliTest, PredictsWaysOfKeepingThePast) {
  nlohmann::json results = FakeKernelResults();
  const auto add = [&](const std::string& name, const nlohmann::json& counters) {
    results["benchmarks"].push_back(FakeRow(name + "/cache:cold/threads:2", counters));
  };
  const std::string shape = "f16/BEST/n:32768/h:24/hkv:8/d:128";
  add("attention/decode/" + shape + "/window:4096/sinks:4", {{"call_ns", 1e6}, {"output_error", 0.5}});
  add("attention/retrieval/" + shape + "/summary:mean/chunk:256/best:16/sinks:32/window:256",
      {{"call_ns", 2e6}, {"recall", 0.875}});
  add("attention/decode/f16/BEST/n:2048/h:24/hkv:8/d:128", {{"call_ns", 0.5e6}, {"output_error", 0.000384}});
  add("attention/decode_unrotated/" + shape, {{"call_ns", 10e6}});
  add("kv_cache/evict/f16/BEST/n:32768/hkv:8/d:128/gap:32", {{"call_ns", 9e6}});
  add("kv_cache/evict_position_free/f16/BEST/n:32768/hkv:8/d:128/gap:32", {{"call_ns", 2e6}});
  add("kv_cache/reschedule/f16/BEST/n:8192/hkv:8/d:128", {{"call_ns", 1e6}});
  const std::string predict =
      "predict llama-3.2-3b --context 32k --machine '" + File("ways.json", results.dump()) + "'";
  const Outcome outcome = Run(predict + " --ways");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"## What long context costs here: llama-3.2-3b at 32,768 tokens", "| full f16 ",
        "output error 0.00038", "| window of 4096 + 4 sinks, f16 ", "–, forgets all but window and sinks",
        "recall 87.5 %", " 56.0 ms |", "not measured", "| ≤", "3.5 steps", "Recall: share",
        "Output error: relative", " 112.0 ms |"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  EXPECT_EQ(Run(predict).out.find("What long context costs"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(Run(predict + " --ways --json").out);
  EXPECT_EQ(json["ways"].size(), 7u);
  EXPECT_NEAR(json["upkeep"]["turning_points"][0]["break_even_steps"].get<double>(), 3.5, 1e-9);
  EXPECT_FALSE(nlohmann::json::parse(Run(predict + " --json").out).contains("ways"));
  const Outcome figures = Run("predict gpt2 --context 1k --ways" + std::string(kFigures));
  ASSERT_EQ(figures.exit_code, 0) << figures.err;
  EXPECT_NE(figures.out.find("not measured"), std::string::npos) << figures.out;
}

TEST_F(CliTest, ComparesTheEncodings) {
  const Outcome outcome = Run("compare --machine '" + machine_ + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part :
       {"once at the input", "O(h·N²) per layer", "O(N·d) per layer", "rope_half", "alibi", "learned"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(outcome.out.find("faster than their limit"), std::string::npos);
  nlohmann::json results = FakeResults();
  results["benchmarks"].push_back(
      FakeRow("qk_rotation/rope_half/f32/BEST/n:16/h:32/d:128/cache:hot/threads:2",
              {{"call_ns", 1.0}, {"tainted", 1}}));
  const Outcome doubtful = Run("compare --machine '" + File("fast.json", results.dump()) + "'");
  EXPECT_NE(doubtful.out.find("1 of 6 rows are faster than their limit"), std::string::npos);
  EXPECT_NE(doubtful.out.find("(tainted)"), std::string::npos);
}

TEST_F(CliTest, ComparesAtAnyN) {
  const std::string machine = " --machine '" + machine_ + "'";
  for (const char* flag : {"--n", "--context"}) {
    const Outcome json = Run("compare --json --model gpt2 " + std::string(flag) + " 32k,7,512,7" + machine);
    ASSERT_EQ(json.exit_code, 0) << json.err;
    EXPECT_EQ(nlohmann::json::parse(json.out)["inputs"]["contexts"], nlohmann::json({7, 512, 32768}));
  }
  const Outcome text = Run("compare --n 512,4096,32768" + machine);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  // Measured at this shape; worked out; only the limit is known. 24·32768²·4 bytes.
  for (const char* part :
       {" 14.0 ms |", "≈", "≥", "96.0 GiB", "too few rows", "position-free", "time 32k", "share 512"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  EXPECT_EQ(text.out.find("Ways to pay"), std::string::npos) << "this run has none";
}

TEST_F(CliTest, ComparesAChosenShapeDtypeAndEncodings) {
  const std::string machine = " --machine '" + machine_ + "'";
  const Outcome shape =
      Run("compare --json --n 512 --heads 12/4 --d 64 --encodings alibi,qk_rotation" + machine);
  ASSERT_EQ(shape.exit_code, 0) << shape.err;
  const nlohmann::json json = nlohmann::json::parse(shape.out);
  EXPECT_EQ(json["inputs"]["shape"]["n_heads"], 12);
  EXPECT_EQ(json["inputs"]["shape"]["n_kv_heads"], 4);
  EXPECT_EQ(json["inputs"]["shape"]["d_model"], 768);
  EXPECT_EQ(json["inputs"]["encodings"].front(), "alibi");
  for (const auto& line : json["glance"]) EXPECT_NE(line["placement"], "input_add");
  EXPECT_EQ(json["rows"].size(), 0u);
  // 12 + 4 heads of 64 turned at 512 tokens, read and written, and a table of f32 angles.
  for (const auto& share : json["shares"]) {
    if (share["encoding"] == "rope_half" && share["phase"] == "prefill") {
      EXPECT_EQ(share["bytes"], 2.0 * 4 * 512 * 16 * 64 + 4.0 * 512 * 64);
    }
  }
  const Outcome half = Run("compare --dtype f16 --encodings alibi --n 1k" + machine);
  ASSERT_EQ(half.exit_code, 0) << half.err;
  EXPECT_NE(half.out.find("48.0 MiB"), std::string::npos) << "24·1024²·2 bytes\n" << half.out;
  EXPECT_NE(half.out.find("≥"), std::string::npos) << "no f16 row was measured";
  const Outcome odd = Run("compare --d 127 --n 1k" + machine);
  ASSERT_EQ(odd.exit_code, 0) << odd.err;
  EXPECT_NE(odd.out.find("rope_half is left out: "), std::string::npos) << odd.out;
  const Outcome none = Run("compare --d 127 --n 1k --encodings qk_rotation" + machine);
  EXPECT_EQ(none.exit_code, 0) << none.err;
}

TEST_F(CliTest, ComparesOtherWaysToPay) {
  nlohmann::json results = FakeResults();
  const std::string rope = "qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/";
  results["benchmarks"].push_back(FakeRow(rope + "angles:recurrence/cache:cold/threads:2",
                                          {{"call_ns", 28e6}, {"angle_error_32k", 0.00125}}));
  results["benchmarks"].push_back(
      FakeRow("score_bias/alibi/f32/BEST/n:512/h:32/causal:1/form:materialised/bias:f16/cache:cold/threads:2",
              {{"call_ns", 6e6}, {"bias_bytes", 32 * 512 * 512 * 2}}));
  const Outcome outcome = Run("compare --machine '" + File("ways.json", results.dump()) + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"## Ways to pay", "recurrence", "2.00", "0.0013", "exact 32k",
                           "materialised, bias f16", "1.50", "16.0 MiB"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST_F(CliTest, ComparesPeers) {
  const std::string machine = " --machine '" + File("peers.json", FakePeerResults().dump()) + "'";
  const Outcome outcome = Run("compare --peers" + machine);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"| ggml | 1.2.3   | abc    | haswell", "A peer is faster in 1 of the 3 rows that both have",
        "- score_bias t5_bias f32, n 256, 8 heads, both ways, materialised, bias in f32, hot, 2 threads: "
        "ggml-1.2.3 150.0 µs, ours 200.0 µs; 1.33 times as fast",
        "0.75 ◄", "Rows without a counterpart of ours: 2.", "## Rotating Q and K", "16 heads of 128",
        "ggml-1.2.3 cpu_repack", "No limit (–)", "no such product", "24/8 heads of 128, alibi"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  const Outcome narrow = Run("compare --peers --n 4k --d 128 --threads 2 --json" + machine);
  ASSERT_EQ(narrow.exit_code, 0) << narrow.err;
  const nlohmann::json json = nlohmann::json::parse(narrow.out);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["faster"], "ours");
  ExpectRefused("compare --peers --machine '" + machine_ + "'", "scripts/peers.sh");
  ExpectRefused("compare --peers --n 5" + machine, "has no rows of peers with that --n");
  ExpectRefused("compare --peers --threads 1" + machine, "--threads: 1 threads were not measured");
  ExpectRefused("compare --peers --model gpt2" + machine, "--model excludes --peers");
}

TEST_F(CliTest, HelpAndVersionAreNoErrors) {
  for (const char* arguments :
       {"--help", "--version", "predict --help", "compare --help", "topology --help"}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.err, "") << arguments;
  }
}

TEST_F(CliTest, CommandLinesThatAreRefused) {
  ExpectRefused(
      "",
      "expected a sub-command: one of predict, inspect, compare, rope, lint, calibrate, validate, topology");
  ExpectRefused("predickt", "\"predickt\" is no sub-command, expected a sub-command: one of predict");
  ExpectRefused("--bogus", "--bogus");
  const std::string predict = "predict article-3b --context 1k";
  ExpectRefused(predict + kFigures + " --bogus", "--bogus");
  ExpectRefused(predict + kFigures + " extra", "extra");
  ExpectRefused(predict + kFigures + " --kv", "--kv");
  ExpectRefused("predict", "MODEL");
  ExpectRefused(std::string("predict article-3b") + kFigures, "--context is required");
  ExpectRefused(std::string("predict llama-99b --context 1k") + kFigures, "expected one of article-3b");
  ExpectRefused(predict + kFigures + " --weights q9", "--weights: \"q9\"");
  ExpectRefused(predict + kFigures + " --kv q9", "--kv: \"q9\"");
  ExpectRefused(predict + kFigures + " --batch 0", "--batch: \"0\"");
  ExpectRefused(predict + kFigures + " --memory 16", "--memory: \"16\" has no unit");
  ExpectRefused("compare --context 0 --machine '" + machine_ + "'", "--n: \"0\"");
  const std::string machine = " --machine '" + machine_ + "'";
  ExpectRefused("compare --n 7x" + machine, "--n: \"7x\"");
  ExpectRefused("compare --n 1k --context 2k" + machine, "--n");
  ExpectRefused("compare --dtype f8" + machine,
                "--dtype: \"f8\" is not known, expected one of f32, f16, bf16");
  ExpectRefused("compare --encodings rope" + machine, "--encodings: \"rope\" is not known, expected names");
  ExpectRefused("compare --encodings alibi," + machine, "--encodings: \"\" is not known");
  ExpectRefused("compare --heads 24/7" + machine, "--heads: \"24/7\" does not divide evenly");
  ExpectRefused("compare --heads 24/" + machine, "--heads: \"\"");
  ExpectRefused("compare --d 0" + machine, "--d: \"0\"");
  ExpectRefused("compare --d 64 --model article-3b" + machine, "--d: article-3b has no matrices");
  ExpectRefused("compare --model none --machine '" + machine_ + "'", "--model: \"none\"");
}

TEST_F(CliTest, ContextsThatAreNone) {
  for (const char* context : {"0", "-1", "3.5.2k", "99999999999k", "''", "1e400"}) {
    ExpectRefused("predict article-3b --context " + std::string(context) + kFigures, "--context: \"");
  }
}

TEST_F(CliTest, DevicesAndFiguresThatNoMachineHasAreRefused) {
  for (const char* file : {"/dev/zero", "/dev/null", "''"}) {
    ExpectRefused("predict gpt2 --context 1k --machine " + std::string(file), "expected");
  }
  ExpectRefused("predict gpt2 --context 1k --bandwidth 0.0000001B/s --flops 50GFLOP/s", "below any machine");
  ExpectRefused("predict gpt2 --context 1k --bandwidth 99999999TB/s --flops 50GFLOP/s", "beyond any machine");
  ExpectRefused("predict gpt2 --context 1k --bandwidth 20GB/s --flops 0.001FLOP/s", "below any machine");
}

TEST_F(CliTest, AMachineIsAFileOrTwoFigures) {
  const std::string predict = "predict article-3b --context 1k ";
  ExpectRefused(predict + "--bandwidth 20 --flops 50GFLOP/s", "--bandwidth: \"20\" has no unit");
  ExpectRefused(predict + "--bandwidth 20GB/s", "--flops: is missing");
  ExpectRefused(predict + "--flops 50GFLOP/s", "--bandwidth: is missing");
  ExpectRefused(predict + "--bandwidth 20GB/s --flops 50GFLOP/s --machine '" + machine_ + "'",
                "--machine: is given");
  ExpectRefused(predict + "--threads 3 --machine '" + machine_ + "'",
                "--threads: 3 threads were not measured");
  ExpectRefused(predict + "--machine '" + folder_.string() + "/none.json'", "none.json: cannot be opened");
  ExpectRefused(predict + "--machine /proc", "/proc: is not a regular file");
  EXPECT_EQ(Run(predict + "--machine '" + folder_.string() + "'").exit_code, 0)
      << "a folder that holds a bench.json";
}

TEST_F(CliTest, ResultsThatAreNone) {
  const std::string text = FakeResults().dump();
  nlohmann::json wrong = FakeResults();
  wrong["context"]["ropeline"]["topology"] = "none";
  const std::pair<std::string, std::string> files[] = {
      {File("empty.json", ""), "is empty"},
      {File("cut.json", text.substr(0, text.size() / 2)), "is truncated"},
      {File("text.json", "hello"), "is not JSON"},
      {File("other.json", R"({"context": {"executable": "a"}, "benchmarks": []})"),
       "context.ropeline: is missing"},
      {File("wrong.json", wrong.dump()), "context.ropeline.topology: is string"}};
  for (const auto& [file, part] : files) {
    ExpectRefused("predict article-3b --context 1k --machine '" + file + "'", part);
    ExpectRefused("compare --machine '" + file + "'", part);
  }
}

TEST_F(CliTest, AnUnwritableStdoutIsSaid) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Outcome outcome = Run(std::string("predict article-3b --context 1k") + kFigures, "/dev/full");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("standard output: cannot be written"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace ropeline
