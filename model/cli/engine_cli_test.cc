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
