// `ropeline calibrate`, `validate` and `predict --engine` as programs: a run, its profile, its deeper rows.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/cli/cli_fixture.h"

namespace ropeline {
namespace {

// ik_llama.cpp's sweep-bench: a step takes 80 ms and 1.6 µs more per token of depth, a prompt's token 3 ms
// and 0.5 µs.
std::string SweepBench(int rows) {
  std::string text =
      "main: n_kv_max = 16384, n_batch = 2048, n_ubatch = 512, flash_attn = 1, n_gpu_layers = 0, n_threads = "
      "8, "
      "n_threads_batch = 8\n\n"
      "|    PP |     TG |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |\n"
      "|-------|--------|--------|----------|----------|----------|----------|\n";
  for (int i = 0; i < rows; ++i) {
    const double n = 512.0 * i;
    const double pp = 512 * (3e-3 + 0.5e-6 * (n + 256)), tg = 128 * (80e-3 + 1.6e-6 * (n + 64));
    text += fmt::format("| 512 | 128 | {} | {:.4f} | {:.4f} | {:.4f} | {:.4f} |\n", 512 * i, pp, 512 / pp, tg,
                        128 / tg);
  }
  return text;
}

nlohmann::json JsonOf(const std::string& text) { return nlohmann::json::parse(text); }

TEST_F(CliTest, CalibratesAndValidates) {
  const std::string run = File("run.txt", SweepBench(32));
  const std::string profile = (folder_ / "engine.json").string();
  const Outcome calibrated = Run("calibrate " + run + " --model llama-3.1-8b -o " + profile);
  ASSERT_EQ(calibrated.exit_code, 0) << calibrated.err;
  EXPECT_NE(calibrated.out.find("kv_gb_s"), std::string::npos) << calibrated.out;
  const nlohmann::json engine = JsonOf(Text(profile));
  EXPECT_EQ(engine["kind"], "engine");
  EXPECT_EQ(engine["configs"][0]["tg"]["rows"].size(), 5);

  const Outcome validated = Run("validate " + run + " --engine " + profile + " --json");
  ASSERT_EQ(validated.exit_code, 0) << validated.err;
  const nlohmann::json json = JsonOf(validated.out);
  ASSERT_EQ(json["rows"].size(), 64);
  const nlohmann::json& row = json["rows"][31];
  for (const char* key : {"n_kv", "phase", "threads", "measured_ms", "predicted_ms", "low_ms", "high_ms",
                          "error", "used_in_fit"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_EQ(row["phase"], "tg");
  EXPECT_EQ(row["n_kv"], 31 * 512);
  EXPECT_NEAR(row["measured_ms"], 80 + 1.6e-3 * (31 * 512 + 64), 0.05);
  EXPECT_LT(json["summary"]["tg"]["p90_error"], 0.02);
  EXPECT_GT(json["summary"]["tg"]["inside_range"], 0.95);
  EXPECT_TRUE(json["summary"]["pp"].contains("median_error"));
  EXPECT_EQ(json["flags"].size(), 0);
}

TEST_F(CliTest, ValidateExitsWithOneAboveMaxError) {
  const std::string run = File("run.txt", SweepBench(9)), profile = (folder_ / "engine.json").string();
  ASSERT_EQ(Run("calibrate " + run + " -o " + profile).exit_code, 0);
  EXPECT_EQ(Run("validate " + run + " --engine " + profile + " --max-error 10%").exit_code, 0);
  std::string slow = SweepBench(9);
  for (size_t at = 0; (at = slow.find("| 128 |", at)) != std::string::npos; at += 7) slow[at + 3] = '9';
  const std::string other = File("slow.txt", slow);
  const Outcome outcome = Run("validate " + other + " --engine " + profile + " --max-error 0.00001");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("above --max-error"), std::string::npos);
}

TEST_F(CliTest, CalibrateSaysWhatItDoesNotKnow) {
  const std::string run = File("run.txt", SweepBench(9));
  const Outcome outcome = Run("calibrate " + run);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("no model was given"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("not determined"), std::string::npos) << outcome.out;
}

TEST_F(CliTest, PredictFillsLevelEngine) {
  const std::string run = File("run.txt", SweepBench(9)), profile = (folder_ / "engine.json").string();
  ASSERT_EQ(Run("calibrate " + run + " --model llama-3.1-8b -o " + profile).exit_code, 0);
  const std::string asked =
      "predict llama-3.1-8b --context 16k --bandwidth 60GB/s --flops 1TFLOP/s --engine " + profile;
  const Outcome outcome = Run(asked + " --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = JsonOf(outcome.out);
  const nlohmann::json& engine = json["decode"]["engine"];
  EXPECT_TRUE(engine["available"]);
  const double truth = 80 + 1.6e-3 * 16384;
  EXPECT_NEAR(engine["ms_per_token"], truth, 0.03 * truth);
  EXPECT_LT(engine["low_ms"], truth);
  EXPECT_GT(engine["high_ms"], truth);
  EXPECT_TRUE(json["prefill"]["engine"]["available"]);
  EXPECT_NE(Run(asked).out.find("your engine reaches"), std::string::npos);
}

TEST_F(CliTest, TheEngineHasItsColumnsOverTheContext) {
  const std::string run = File("run.txt", SweepBench(9)), profile = (folder_ / "engine.json").string();
  ASSERT_EQ(Run("calibrate " + run + " --model llama-3.1-8b -o " + profile).exit_code, 0);
  const std::string asked =
      "predict llama-3.1-8b --context 16k --bandwidth 60GB/s --flops 1TFLOP/s --curve --engine " + profile;
  const nlohmann::json curve = JsonOf(Run(asked + " --json").out)["curve"];
  ASSERT_GT(curve.size(), 4u);
  for (const nlohmann::json& point : curve) {
    const double n = point["context"], truth = 80 + 1.6e-3 * n;
    const nlohmann::json& ms = point["engine_ms_per_token"];
    EXPECT_NEAR(ms["value"], truth, 0.1 * truth) << n;
    EXPECT_LT(ms["low"], ms["value"]);
    EXPECT_GT(ms["high"], ms["value"]);
    EXPECT_GT(point["engine_prefill_seconds"]["value"], 0);
  }
  EXPECT_NE(Run(asked).out.find("engine tok/s (90 % range)"), std::string::npos);
  const std::string without =
      "predict llama-3.1-8b --context 16k --bandwidth 60GB/s --flops 1TFLOP/s --curve";
  EXPECT_TRUE(JsonOf(Run(without + " --json").out)["curve"][0]["engine_ms_per_token"].is_null());
  EXPECT_EQ(Run(without).out.find("engine tok/s"), std::string::npos);
}

// llama-bench's rows: a step of 100 ms at depth 0 and 10 µs more a token, weights in `format`.
std::string LlamaBench(const std::string& cpu, const std::string& format) {
  std::string text;
  for (const int depth : {0, 512, 1024, 2048}) {
    text += fmt::format(
        R"({{"cpu_info":"{}","model_filename":"m.gguf","model_type":"llama 1B {}","model_n_params":1235814432,)"
        R"("n_threads":4,"type_k":"f16","type_v":"f16","n_prompt":0,"n_gen":16,"n_depth":{},"avg_ts":{:.4f}}})"
        "\n",
        cpu, format, depth, 1e3 / (100 + 10e-3 * (depth + 8)));
  }
  return text;
}

TEST_F(CliTest, WeightsOfAnotherFormatAreNotTheProfiles) {
  const std::string run = File("run.jsonl", LlamaBench("a CPU", "Q8_0"));
  const std::string profile = (folder_ / "engine.json").string();
  const Outcome calibrated = Run("calibrate " + run + " --model llama-3.2-1b -o " + profile);
  ASSERT_EQ(calibrated.exit_code, 0) << calibrated.err;
  const auto predict = [&](const std::string& weights) {
    return JsonOf(
        Run("predict llama-3.2-1b --context 4k --bandwidth 60GB/s --flops 1TFLOP/s --json --engine " +
            profile + weights)
            .out);
  };
  const nlohmann::json own = predict(" --weights q8_0"), half = predict(" --weights q4_0");
  EXPECT_NEAR(own["decode"]["engine"]["ms_per_token"], 100 + 10e-3 * 4096, 3);
  // 18 bytes for 34: the step's 100 ms shrink so, its attention does not.
  EXPECT_NEAR(half["decode"]["engine"]["ms_per_token"], 100 * 18.0 / 34 + 10e-3 * 4096, 8);
  EXPECT_GT(
      half["decode"]["engine"]["high_ms"].get<double>() / half["decode"]["engine"]["low_ms"].get<double>(),
      1.5);
  EXPECT_EQ(own["warnings"].dump().find("weights in"), std::string::npos) << own["warnings"];
  EXPECT_NE(half["warnings"].dump().find("weights in Q8_0"), std::string::npos) << half["warnings"];
  // Not asked for: the profile's own.
  EXPECT_EQ(predict("")["decode"]["engine"]["ms_per_token"], own["decode"]["engine"]["ms_per_token"]);
}

TEST_F(CliTest, AnotherMachinesEngineIsNoShareOfThisOnesLimit) {
  const std::string run = File("run.jsonl", LlamaBench("a CPU that nobody has", "Q8_0"));
  const std::string profile = (folder_ / "engine.json").string();
  ASSERT_EQ(Run("calibrate " + run + " --model llama-3.2-1b -o " + profile).exit_code, 0);
  nlohmann::json results = FakeResults();
  results["context"]["ropeline"]["topology"]["cpu_model"] = "a fake CPU";
  const std::string machine = File("other.json", results.dump());
  const std::string asked = "predict llama-3.2-1b --context 4k --engine " + profile + " --machine " + machine;
  const Outcome outcome = Run(asked);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("your engine reaches"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("a CPU that nobody has; limit and kernels are of a fake CPU"), std::string::npos)
      << outcome.out;
}

TEST_F(CliTest, CalibrateWritesFilesOnly) {
  const std::string run = File("run.jsonl", LlamaBench("a CPU", "Q8_0"));
  ExpectRefused("calibrate " + run + " -o " + folder_.string(), "no regular file");
  ExpectRefused("calibrate " + run + " -o " + run, "the run itself");
  EXPECT_EQ(Text(run), LlamaBench("a CPU", "Q8_0"));
  const fs::path target = folder_ / "target.json", link = folder_ / "link.json";
  File("target.json", "old");
  fs::create_symlink(target, link);
  ASSERT_EQ(Run("calibrate " + run + " -o " + link.string()).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_NE(Text(target.string()).find("\"kind\""), std::string::npos);
}

TEST_F(CliTest, DamagedAndRepeatedRowsAreSpokenOf) {
  const std::string rows = LlamaBench("a CPU", "Q8_0");
  const auto warnings = [&](const std::string& text) {
    const Outcome outcome = Run("calibrate " + File("run.jsonl", text) + " --model llama-3.2-1b --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return JsonOf(outcome.out)["warnings"].dump();
  };
  EXPECT_EQ(warnings(rows).find("left out"), std::string::npos);
  EXPECT_NE(warnings(rows + rows.substr(0, 150)).find("a row of JSON is cut short"), std::string::npos);
  const auto with = [&](const std::string& key, const std::string& value) {
    std::string changed = rows;
    const size_t at = changed.rfind(key) + key.size();
    return changed.replace(at, changed.find_first_of(",}", at) - at, value);
  };
  EXPECT_NE(warnings(with("\"avg_ts\":", "null")).find("no speed"), std::string::npos);
  EXPECT_NE(warnings(with("\"n_depth\":", "-4")).find("n_depth is no count"), std::string::npos);
  EXPECT_NE(warnings(with("\"avg_ts\":", "9,\"avg_ns\":1000000")).find("disagree"), std::string::npos);
  EXPECT_NE(warnings(rows + rows).find("the first run counts"), std::string::npos) << warnings(rows + rows);
}

TEST_F(CliTest, RefusesBadProfilesAndRuns) {
  const std::string run = File("run.txt", SweepBench(9));
  ExpectRefused("validate " + run, "--engine");
  ExpectRefused("validate --engine " + machine_, "RUN");
  ExpectRefused("validate " + run + " --engine " + machine_, "kind");
  ExpectRefused("validate " + run + " --engine " + run, "run.txt");
  ExpectRefused("calibrate " + run + " --max-context 0", "--max-context");
  ExpectRefused("calibrate " + File("prose.txt", "nothing here\n"), "prose.txt");
  ExpectRefused("calibrate " + run + " -o " + (folder_ / "no" / "such" / "e.json").string(), "-o");
  ExpectRefused("validate " + run + " --engine x.json --max-error wide", "--max-error");
  ExpectRefused("predict llama-3.1-8b --context 4k --bandwidth 60GB/s --flops 1TFLOP/s --engine " + run,
                "run.txt");
  EXPECT_FALSE(fs::exists(folder_ / "engine.json"));
}

}  // namespace
}  // namespace ropeline
