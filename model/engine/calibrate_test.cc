#include "model/engine/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/engine/engine_predict.h"
#include "model/engine/validate.h"
#include "model/presets.h"

namespace ropeline {
namespace {

// llama-3.1-8b in 4.5 bits: weights at 50 GB/s, its f16 cache at 40, products at 400 GFLOP/s, attention at
// 200.
constexpr double kWeightsGbS = 50, kKvGbS = 40, kLinear = 400, kAttention = 200;

Llm Model() { return Preset("llama-3.1-8b", {"test", ""}); }

EngineRun EmptyRun() {
  EngineRun run;
  run.file = "run.json";
  run.engine = "llama.cpp";
  run.model = "llama 8B Q4_0";
  run.model_params = 8030261248;
  run.model_bytes = static_cast<uint64_t>(4.5 / 8 * 8030261248);
  run.threads = 8;
  run.type_k = run.type_v = "f16";
  run.flash_attention = true;
  return run;
}

EngineRun SweepRun(uint64_t last = 16384) {
  EngineRun run = EmptyRun();
  const ModelFacts facts = FactsOf(Model(), run);
  for (uint64_t n = 0; n <= last; n += 512) {
    RunRow tg;
    tg.n_kv = n;
    tg.n_generated = 128;
    tg.tok_per_s = 1e9 / (facts.decode_weight_bytes / kWeightsGbS + facts.kv_bytes / kKvGbS * tg.MeanDepth());
    run.rows.push_back(tg);
    RunRow pp;
    pp.phase = RunPhase::kPrefill;
    pp.n_kv = n;
    pp.n_prompt = 512;
    pp.tok_per_s = 1e9 / (facts.prefill_linear_flops / kLinear +
                          facts.prefill_attention_flops / kAttention * pp.MeanDepth());
    run.rows.push_back(pp);
  }
  return run;
}

Engine CalibrateTo(const EngineRun& run, const Llm* llm, uint64_t max_context = 2048) {
  CalibrateRequest request;
  request.runs = {run};
  request.llm = llm;
  request.max_context = max_context;
  return Calibrate(request);
}

const EngineRate& RateNamed(const Engine& engine, const std::string& name) {
  for (const EngineRate& rate : engine.configs[0].rates) {
    if (rate.name == name) return rate;
  }
  throw std::out_of_range(name);
}

bool Mentions(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(CalibrateTest, RecoversTheRates) {
  const Llm llm = Model();
  const Engine engine = CalibrateTo(SweepRun(), &llm);
  EXPECT_NEAR(RateNamed(engine, kRateWeights).value->value, kWeightsGbS, 0.02 * kWeightsGbS);
  // Rows up to 2k leave the slope to the prior in part.
  EXPECT_NEAR(RateNamed(engine, kRateKv).value->value, kKvGbS, 0.1 * kKvGbS);
  EXPECT_NEAR(RateNamed(engine, kRateLinear).value->value, kLinear, 0.02 * kLinear);
  EXPECT_NEAR(RateNamed(engine, kRateAttention).value->value, kAttention, 0.1 * kAttention);
  const EngineRate& overhead = RateNamed(engine, kRateOverhead);
  EXPECT_FALSE(overhead.value.has_value()) << "one model cannot tell it";
  EXPECT_FALSE(overhead.note.empty());
}

TEST(CalibrateTest, UsesRowsOfTheBudgetOnly) {
  const Llm llm = Model();
  EngineRun run = SweepRun(), spoilt = SweepRun();
  for (RunRow& row : spoilt.rows) {
    if (row.n_kv > 2048) row.tok_per_s /= 7;
  }
  EXPECT_EQ(EngineJson(CalibrateTo(run, &llm)), EngineJson(CalibrateTo(spoilt, &llm)));
  EXPECT_EQ(CalibrateTo(run, &llm).configs[0].tg->rows.size(), 5U);
}

// Four samples that scatter by 8 % leave 4 %; llama-bench's usual five where the run does not say how many.
TEST(CalibrateTest, ARowsErrorIsThatOfItsRepetitions) {
  EngineRun run = SweepRun(2048);
  run.rows[0].stddev_tok_per_s = 0.08 * run.rows[0].tok_per_s;
  const auto error = [&] {
    CalibrateRequest request;
    request.runs = {run};
    return Calibrate(request).configs.at(0).tg->rows.at(0).error;
  };
  EXPECT_DOUBLE_EQ(error(), 0.08 / std::sqrt(5.0));
  run.rows[0].repetitions = 4;
  EXPECT_DOUBLE_EQ(error(), 0.04);
  run.rows[0].stddev_tok_per_s.reset();
  EXPECT_EQ(error(), 0);
}

TEST(CalibrateTest, WholePromptsCountByTheirLength) {
  RunRow row;
  row.phase = RunPhase::kPrefill;
  std::vector<RunRow> rows(3, row);
  rows[0].n_prompt = 512;
  rows[1].n_prompt = 2048;
  rows[2].n_prompt = 8192;
  EXPECT_TRUE(WithinBudget(rows[1], rows, 2048));
  EXPECT_FALSE(WithinBudget(rows[2], rows, 2048));
  // A sweep in prompts of 4096: its first row is as short as there is.
  rows = {row, row};
  rows[0].n_prompt = rows[1].n_prompt = 4096;
  rows[1].n_kv = 4096;
  EXPECT_TRUE(WithinBudget(rows[0], rows, 2048));
  EXPECT_FALSE(WithinBudget(rows[1], rows, 2048));
}

TEST(CalibrateTest, WithoutAModelItKnowsTheCurveAndSaysSo) {
  EngineRun run = SweepRun();
  run.model = "something of my own";
  run.model_params.reset();
  const Engine engine = CalibrateTo(run, nullptr);
  EXPECT_TRUE(Mentions(engine.warnings, "no model was given"));
  for (const EngineRate& rate : engine.configs[0].rates) EXPECT_FALSE(rate.value.has_value()) << rate.name;
  const Validation validation = Validate(engine, {run}, nullptr);
  EXPECT_LT(validation.tg->p90_error, 0.03);
  EXPECT_LT(validation.pp->p90_error, 0.08);
}

TEST(CalibrateTest, TakesThePresetThatTheRunNames) {
  const Engine engine = CalibrateTo(SweepRun(), nullptr);
  EXPECT_EQ(engine.configs[0].geometry, "llama-3.1-8b");
  EXPECT_TRUE(Mentions(engine.warnings, "llama-3.1-8b"));
}

TEST(CalibrateTest, SaysWhereTheModelIsNotTheRuns) {
  const Llm other = Preset("llama-3.2-3b", {"test", ""});
  EXPECT_TRUE(Mentions(CalibrateTo(SweepRun(), &other).warnings, "not the model that ran"));
  const Llm llm = Model();
  EXPECT_FALSE(Mentions(CalibrateTo(SweepRun(), &llm).warnings, "not the model that ran"));
}

TEST(CalibrateTest, NoRateIsAboveTheMachines) {
  const Llm llm = Model();
  const Machine machine = MachineFromFigures(30e9, 1e12);  // below what the run's slope amounts to
  CalibrateRequest request;
  request.runs = {SweepRun(1024)};
  request.llm = &llm;
  request.machine = &machine;
  const Engine engine = Calibrate(request);
  ASSERT_TRUE(RateNamed(engine, kRateKv).limit.has_value());
  EXPECT_LE(RateNamed(engine, kRateKv).value->value, 1.02 * 30);
}

TEST(CalibrateTest, RefusesARunWithoutShallowRows) {
  EngineRun run = EmptyRun();
  RunRow row;
  row.n_kv = 8192;
  row.n_generated = 16;
  row.tok_per_s = 3;
  run.rows = {row};
  EXPECT_THROW(CalibrateTo(run, nullptr), BadInput);
}

TEST(EngineTest, IsReadAsWritten) {
  const Llm llm = Model();
  Engine engine = CalibrateTo(SweepRun(), &llm);
  engine.date = "2026-11-30";
  const std::string text = EngineJson(engine).dump();
  EXPECT_EQ(EngineJson(ParseEngine(text, "engine.json")).dump(), text);
}

TEST(EngineTest, RefusesWhatIsNoProfile) {
  const Llm llm = Model();
  const nlohmann::ordered_json good = EngineJson(CalibrateTo(SweepRun(), &llm));
  const auto refused = [&](const nlohmann::ordered_json& json) {
    try {
      ParseEngine(json.dump(), "e.json");
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(good), "");
  nlohmann::ordered_json bad = good;
  bad["kind"] = "machine";
  EXPECT_NE(refused(bad).find("kind"), std::string::npos);
  bad = good;
  bad["configs"][0]["tg"]["rows"][1]["ms"] = 0;
  EXPECT_NE(refused(bad).find("configs[0].tg.rows[1].ms"), std::string::npos);
  bad = good;
  bad["configs"][0]["tg"]["slope_prior"]["log_sd"] = 0;
  EXPECT_NE(refused(bad).find("log_sd"), std::string::npos);
  bad = good;
  bad["configs"][0]["tg"]["rows"][0]["mean_depth"] = 1e6;
  EXPECT_NE(refused(bad).find("mean_depth"), std::string::npos);
  bad = good;
  bad["configs"] = nlohmann::ordered_json::array();
  EXPECT_NE(refused(bad).find("configs"), std::string::npos);
}

TEST(ValidateTest, ComparesRowByRow) {
  const Llm llm = Model();
  const EngineRun run = SweepRun();
  const Engine engine = CalibrateTo(run, &llm);
  const Validation validation = Validate(engine, {run}, &llm);
  EXPECT_EQ(validation.rows.size(), run.rows.size());
  EXPECT_TRUE(validation.tg->of_unused_rows);
  EXPECT_EQ(validation.tg->rows, 28U);
  EXPECT_LT(validation.tg->p90_error, 0.02);
  EXPECT_LT(validation.pp->p90_error, 0.06);
  EXPECT_GT(validation.tg->inside_range, 0.95);
  EXPECT_TRUE(validation.flags.empty());
  EXPECT_TRUE(validation.warnings.empty());
}

TEST(ValidateTest, FindsTheConfigurationOfARun) {
  const Llm llm = Model();
  CalibrateRequest request;
  request.llm = &llm;
  EngineRun eight = SweepRun(), one = SweepRun();
  one.threads = 1;
  for (RunRow& row : one.rows) row.tok_per_s /= 4;
  request.runs = {eight, one};
  const Engine engine = Calibrate(request);
  ASSERT_EQ(engine.configs.size(), 2U);
  EXPECT_LT(Validate(engine, {one}, &llm).tg->p90_error, 0.02);
  EngineRun two = SweepRun();
  two.threads = 2;
  EXPECT_THROW(Validate(engine, {two}, &llm), BadInput);
}

TEST(EnginePredictTest, FillsLevelEngineWithARange) {
  const Llm llm = Model();
  const Engine engine = CalibrateTo(SweepRun(), &llm);
  const Machine machine = MachineFromFigures(60e9, 1e12);
  PredictRequest request{.llm = llm,
                         .context = 16384,
                         .weights = FindWeightMix("q4_0", {"", ""}),
                         .kv = {},
                         .machine = &machine,
                         .threads = 8,
                         .memory_bytes = {},
                         .engine = &engine};
  const Prediction prediction = Predict(request);
  ASSERT_TRUE(prediction.decode.engine.value.has_value());
  const DecodeLevel& decode = *prediction.decode.engine.value;
  const ModelFacts facts = FactsOf(llm, EmptyRun());
  const double truth = (facts.decode_weight_bytes / kWeightsGbS + facts.kv_bytes / kKvGbS * 16384) / 1e6;
  EXPECT_NEAR(decode.ms_per_token, truth, 0.02 * truth);
  EXPECT_LT(decode.range_ms->low, truth);
  EXPECT_GT(decode.range_ms->high, truth);
  EXPECT_EQ(decode.terms.size(), 2U);
  EXPECT_NEAR(decode.terms[0].ms + decode.terms[1].ms, decode.ms_per_token, 1e-9);
  const double whole =
      16384 * (facts.prefill_linear_flops / kLinear + facts.prefill_attention_flops / kAttention * 8192) /
      1e9;
  EXPECT_NEAR(prediction.prefill.engine.value->seconds, whole, 0.06 * whole);
  EXPECT_NE(EngineVerdict(request, prediction).find("your engine reaches"), std::string::npos);
}

TEST(EnginePredictTest, AnotherModelFollowsFromTheRates) {
  const Llm llm = Model();
  const Engine engine = CalibrateTo(SweepRun(), &llm);
  const Machine machine = MachineFromFigures(60e9, 1e12);
  PredictRequest request{.llm = Preset("llama-3.2-3b", {"", ""}),
                         .context = 8192,
                         .weights = FindWeightMix("q4_0", {"", ""}),
                         .kv = {},
                         .machine = &machine,
                         .threads = 8,
                         .memory_bytes = {},
                         .engine = &engine};
  const Prediction prediction = Predict(request);
  ASSERT_TRUE(prediction.decode.engine.value.has_value());
  const DecodeLevel& decode = *prediction.decode.engine.value;
  EXPECT_GT(decode.range_ms->high / decode.range_ms->low, 1.8) << "another model's rates";
  EXPECT_TRUE(Mentions(prediction.warnings, "roughly"));
  request.engine = nullptr;
  EXPECT_FALSE(Predict(request).decode.engine.value.has_value());
}

}  // namespace
}  // namespace ropeline
