#include "model/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "request"};
constexpr double kBandwidth = 20e9;
constexpr double kPeak = 50e9;

// The article's machine, 20 GB/s and 50 GFLOP/s, as two figures and as if it had been measured.
const Machine& ArticleMachine() {
  static const Machine machine = MachineFromFigures(kBandwidth, kPeak);
  return machine;
}

Machine MeasuredMachine(double bandwidth, double peak) {
  Machine machine;
  machine.file = "measured.json";
  for (const char* traffic : {"read", "copy", "update", "add"}) {
    machine.roofline.AddRow("stream/" + std::string(traffic) + "/f32/T/ws:1000000000/threads:2", bandwidth,
                            0);
  }
  machine.roofline.AddRow("peak/fma/f32/T/threads:2", 0, peak);
  return machine;
}

PredictRequest Request(const char* model, uint64_t context, const char* weights = "q4_0",
                       const char* kv = "f16") {
  return {.llm = Preset(model, kWhere),
          .context = context,
          .weights = FindWeightMix(weights, kWhere),
          .kv = FindKvFormat(kv, kWhere),
          .machine = &ArticleMachine(),
          .threads = 2,
          .batch = 1,
          .memory_bytes = std::nullopt};
}

const Term& TermNamed(const std::vector<Term>& terms, const std::string& name) {
  for (const Term& term : terms) {
    if (term.name == name) return term;
  }
  throw std::out_of_range("no term " + name);
}

std::set<std::string> Names(const std::vector<Term>& terms) {
  std::set<std::string> names;
  for (const Term& term : terms) names.insert(term.name);
  return names;
}

bool Mentions(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

const DecodeLevel& Decode(const Prediction& p) { return p.decode.limit.value.value(); }
const PrefillLevel& Prefill(const Prediction& p) { return p.prefill.limit.value.value(); }

// DESIGN section 5.
TEST(PredictTest, TheArticlesNumbers) {
  const Prediction p = Predict(Request("article-3b", 32768));
  EXPECT_EQ(p.kv.total.bytes_per_token, 114688u);
  EXPECT_EQ(p.kv.total.bytes_at_context, 3758096384u);  // 3.5 GiB
  EXPECT_NEAR(p.rule_of_thumb.decode_ms_kv_only, 187.9, 0.05);
  EXPECT_NEAR(p.rule_of_thumb.prefill_flops_2np, 1.966e14, 0.0005e14);
  EXPECT_NEAR(p.rule_of_thumb.prefill_seconds, 3932, 1);
  EXPECT_DOUBLE_EQ(Prefill(p).flops_linear, 2.0 * 32768 * 3e9);
  EXPECT_DOUBLE_EQ(Prefill(p).flops_attention, 2.0 * 32768 * 32768 * 128 * 24 * 28);  // 1.847e14
  EXPECT_EQ(Prefill(p).bound, Bound::kCompute);
  EXPECT_NEAR(Prefill(p).seconds, (1.96608e14 + 1.84716e14) / kPeak, 20);
  EXPECT_EQ(Decode(p).bound, Bound::kMemory);
  EXPECT_EQ(Decode(p).binding_term, "attention");
  EXPECT_NEAR(TermNamed(Decode(p).terms, "attention").ms, 187.9, 0.05);
  EXPECT_NEAR(TermNamed(Decode(p).terms, "weights").ms, 84.375, 0.001);  // 3e9 · 4.5 / 8 bytes
  EXPECT_NEAR(Decode(p).tok_per_s, 3.67, 0.01);
}

TEST(PredictTest, Llama3bReadsCacheAndWeights) {
  const Prediction p = Predict(Request("llama-3.2-3b", 32768, "q4_k_m"));
  EXPECT_NEAR(Decode(p).tok_per_s, 3.47, 0.01);
  EXPECT_EQ(Decode(p).bound, Bound::kMemory);
  EXPECT_EQ(p.kv.total.bytes_per_token, 114688u);
  // LM head once, not per token.
  EXPECT_DOUBLE_EQ(Prefill(p).flops_linear, 2.0 * 32768 * (28.0 * 100663296) + 2.0 * 128256 * 3072);
}

TEST(PredictTest, TermsAddUp) {
  for (const char* model : {"article-3b", "llama-3.2-3b", "gpt2", "bloom-7b1", "t5-base", "mistral-7b"}) {
    const Prediction p = Predict(Request(model, 1000));
    double ms = 0;
    for (const Term& term : Decode(p).terms) ms += term.ms;
    EXPECT_NEAR(Decode(p).ms_per_token, ms, 1e-9 * ms) << model;
    EXPECT_NEAR(Decode(p).tok_per_s, 1000 / ms, 1e-9 * Decode(p).tok_per_s) << model;
    ms = 0;
    for (const Term& term : Prefill(p).terms) ms += term.ms;
    EXPECT_NEAR(Prefill(p).seconds, ms / 1000, 1e-9 * Prefill(p).seconds) << model;
    EXPECT_NEAR(Prefill(p).tok_per_s, 1000 / Prefill(p).seconds, 1e-9 * Prefill(p).tok_per_s) << model;
  }
}

TEST(PredictTest, EachTermOnAMeasuredMachineIsAtItsOwnLimit) {
  const Machine machine = MeasuredMachine(kBandwidth, kPeak);
  for (const char* model : {"article-3b", "gpt2", "bloom-7b1", "t5-base", "mistral-7b"}) {
    PredictRequest request = Request(model, 1000);
    request.machine = &machine;
    const Prediction p = Predict(request);
    std::vector<Term> terms = Decode(p).terms;
    terms.insert(terms.end(), Prefill(p).terms.begin(), Prefill(p).terms.end());
    for (const Term& term : terms) {
      const double memory_ms = term.bytes / kBandwidth * 1e3;
      const double compute_ms = term.flops / kPeak * 1e3;
      EXPECT_NEAR(term.ms, std::max(memory_ms, compute_ms), 1e-9 * term.ms) << model << " " << term.name;
      EXPECT_EQ(term.bound, memory_ms >= compute_ms ? Bound::kMemory : Bound::kCompute)
          << model << " " << term.name;
    }
  }
}

// 6e9 flops and 1.7 GB: a measured peak of 50 GFLOP/s binds the weights, a typed one is a prefill rate and
// does not.
TEST(PredictTest, OnlyAMeasuredPeakBindsDecode) {
  PredictRequest request = Request("article-3b", 32768);
  const Prediction typed = Predict(request);
  EXPECT_EQ(TermNamed(Decode(typed).terms, "weights").bound, Bound::kMemory);
  EXPECT_TRUE(Mentions(typed.warnings, "above the 50.0 GFLOP/s given for prefill"))
      << "and says what it assumes";
  const Machine slow = MeasuredMachine(kBandwidth, kPeak);
  request.machine = &slow;
  const Prediction measured = Predict(request);
  EXPECT_EQ(TermNamed(Decode(measured).terms, "weights").bound, Bound::kCompute);
  EXPECT_DOUBLE_EQ(TermNamed(Decode(measured).terms, "weights").ms, 120);
  const Machine fast = MeasuredMachine(kBandwidth, 1e12);
  request.machine = &fast;
  EXPECT_EQ(TermNamed(Decode(Predict(request)).terms, "weights").bound, Bound::kMemory);
  const Machine quick_typed = MachineFromFigures(kBandwidth, 1e12);
  request.machine = &quick_typed;
  EXPECT_FALSE(Mentions(Predict(request).warnings, "given for prefill"));
}

TEST(PredictTest, BatchReadsWeightsOnceAndEveryCache) {
  PredictRequest request = Request("llama-3.2-3b", 4096, "q4_k_m");
  const Prediction one = Predict(request);
  request.batch = 4;
  const Prediction four = Predict(request);
  const auto& a = Decode(one).terms;
  const auto& b = Decode(four).terms;
  EXPECT_EQ(TermNamed(b, "weights").bytes, TermNamed(a, "weights").bytes);
  EXPECT_EQ(TermNamed(b, "weights").flops, 4 * TermNamed(a, "weights").flops);
  EXPECT_EQ(TermNamed(b, "attention").bytes, 4 * TermNamed(a, "attention").bytes);
  EXPECT_EQ(TermNamed(b, "cache_append").bytes, 4 * TermNamed(a, "cache_append").bytes);
  EXPECT_EQ(TermNamed(b, "position_encoding").flops, 4 * TermNamed(a, "position_encoding").flops);
  EXPECT_NEAR(Decode(four).tok_per_s, 4 * Decode(four).tok_per_s_per_sequence, 1e-9);
  EXPECT_GT(Decode(four).tok_per_s, Decode(one).tok_per_s);
  EXPECT_LT(Decode(four).tok_per_s_per_sequence, Decode(one).tok_per_s_per_sequence);
  EXPECT_EQ(four.memory.kv_bytes, 4 * one.memory.kv_bytes);
  EXPECT_EQ(Prefill(four).seconds, Prefill(one).seconds) << "prefill is of one sequence";
}

// Each sequence has its own scores and its own encoder output.
TEST(PredictTest, BatchMultipliesScoreBiasAndCrossAttention) {
  for (const auto& [model, term] :
       {std::pair("bloom-7b1", "position_encoding"), std::pair("t5-base", "cross_attention")}) {
    PredictRequest request = Request(model, 512);
    const Term one = TermNamed(Decode(Predict(request)).terms, term);
    request.batch = 4;
    const Term four = TermNamed(Decode(Predict(request)).terms, term);
    EXPECT_DOUBLE_EQ(four.bytes, 4 * one.bytes) << model;
    EXPECT_DOUBLE_EQ(four.flops, 4 * one.flops) << model;
    EXPECT_NEAR(four.ms, 4 * one.ms, 1e-9 * four.ms) << model;
  }
}

TEST(PredictTest, WindowsBoundReadBytesAndPairs) {
  const Prediction p = Predict(Request("mistral-7b", 32768));
  EXPECT_EQ(p.kv.total.bytes_per_token_beyond_window, 0u);
  EXPECT_EQ(TermNamed(Decode(p).terms, "attention").bytes, 536870912);
  EXPECT_DOUBLE_EQ(TermNamed(Decode(p).terms, "attention").flops, 4.0 * 4096 * 128 * 32 * 32);
  const double pairs = 4096.0 * 32768 - 4096.0 * 4096 / 2;
  EXPECT_DOUBLE_EQ(Prefill(p).flops_attention, 4 * pairs * 128 * 32 * 32);
  // The article's rule knows no windows: 4 GiB.
  EXPECT_NEAR(p.rule_of_thumb.decode_ms_kv_only, 4294967296.0 / kBandwidth * 1e3, 1e-6);
  EXPECT_TRUE(Mentions(p.warnings, "allocates 4.00 GiB"));
}

TEST(PredictTest, PositionTermsFollowThePlacement) {
  // Q/K rotation, one token: 24 + 8 heads of 128 in 28 layers, 3 flops per element; cost function of
  // rope_half.
  const Term rope = TermNamed(Decode(Predict(Request("llama-3.2-3b", 4096))).terms, "position_encoding");
  EXPECT_EQ(rope.flops, 3.0 * 32 * 128 * 28);
  // Score bias, causal: the last token's row of 4096 scores, 32 heads, 30 layers; ALiBi 2 flops, 8 bytes per
  // score.
  const Prediction bloom = Predict(Request("bloom-7b1", 2048));
  EXPECT_EQ(TermNamed(Decode(bloom).terms, "position_encoding").flops, 2.0 * 32 * 2048 * 30);
  EXPECT_NEAR(TermNamed(Prefill(bloom).terms, "position_encoding").bytes, 8.0 * 32 * 2048 * 2049 / 2 * 30, 1);
  EXPECT_TRUE(
      Mentions(bloom.warnings, "alibi is counted on materialised scores, 512.0 MiB in f32 per layer"));
  // Input add: once, not per layer: one row of 768 in decode, 1000 in prefill.
  const Prediction gpt2 = Predict(Request("gpt2", 1000));
  EXPECT_EQ(TermNamed(Decode(gpt2).terms, "position_encoding").flops, 768);
  EXPECT_EQ(TermNamed(Prefill(gpt2).terms, "position_encoding").flops, 768e3);
  // T5: encoder bidirectional in prefill, decoder causal in decode; nothing in cross attention.
  const Prediction t5 = Predict(Request("t5-base", 512));
  EXPECT_EQ(TermNamed(Prefill(t5).terms, "position_encoding").flops, 12.0 * 12 * 512 * 512);
  EXPECT_EQ(TermNamed(Decode(t5).terms, "position_encoding").flops, 12.0 * 12 * 512);
}

TEST(PredictTest, EncoderDecoder) {
  const Prediction p = Predict(Request("t5-base", 512, "f16"));
  EXPECT_EQ(TermNamed(Decode(p).terms, "cross_attention").bytes, 512.0 * 36864);
  EXPECT_EQ(Prefill(p).flops_attention, 12.0 * 4 * 512 * 512 * 768) << "bidirectional: n² pairs";
  EXPECT_EQ(Names(Predict(Request("gpt2", 512)).decode.limit.value->terms).count("cross_attention"), 0u);
  EXPECT_EQ(p.memory.kv_bytes, 2u * 512 * 36864);
  EXPECT_TRUE(Mentions(p.warnings, "encoder-decoder"));
}

TEST(PredictTest, AnOperationWithoutFlopsIsBoundByMemory) {
  const Machine machine = MeasuredMachine(kBandwidth, kPeak);
  PredictRequest request = Request("llama-3.2-1b", 100);
  request.machine = &machine;
  const Prediction p = Predict(request);
  const Term& append = TermNamed(Decode(p).terms, "cache_append");
  EXPECT_EQ(append.flops, 0);
  EXPECT_EQ(append.bytes, 16.0 * 2 * 8 * 64 * (4 + 2));  // read f32, write f16
  EXPECT_EQ(append.bound, Bound::kMemory);
  EXPECT_GT(append.ms, 0);
}

TEST(PredictTest, ATrafficThatWasNotMeasuredIsSaidToBeMissing) {
  Machine machine;
  machine.file = "measured.json";
  machine.roofline.AddRow("stream/read/f32/T/ws:1000000000/threads:2", kBandwidth, 0);
  machine.roofline.AddRow("peak/fma/f32/T/threads:2", 0, kPeak);
  PredictRequest request = Request("llama-3.2-1b", 100);
  request.machine = &machine;
  const Prediction p = Predict(request);
  EXPECT_EQ(TermNamed(Decode(p).terms, "position_encoding").bound, Bound::kUnknown);
  EXPECT_TRUE(Mentions(p.warnings, "position_encoding is left out"));
  EXPECT_TRUE(Mentions(p.warnings, "cache_append is left out"));
  EXPECT_FALSE(Mentions(p.warnings, "weights is left out"));
}

TEST(PredictTest, MemoryFitsOnlyWhereTheMemoryIsKnown) {
  PredictRequest request = Request("article-3b", 32768);
  EXPECT_FALSE(Predict(request).memory.fits.has_value());
  request.prefill_chunk = 512;
  // Two rows of 3072 and Q, K, V and output of 24 + 24 + 8 + 8 heads of 128, for 512 tokens; no vocabulary.
  const uint64_t activations = 4 * 512 * (2 * 3072 + 64 * 128);
  request.memory_bytes = uint64_t{1687500000} + 3758096384 + activations;
  EXPECT_EQ(Predict(request).memory.fits, true);
  --*request.memory_bytes;
  EXPECT_EQ(Predict(request).memory.fits, false);
}

TEST(PredictTest, ContextLimitsAreWarnings) {
  EXPECT_FALSE(Mentions(Predict(Request("gpt2", 1024)).warnings, "cannot run"));
  EXPECT_TRUE(
      Mentions(Predict(Request("gpt2", 1025)).warnings, "table of 1,024 positions and cannot run at 1,025"));
  EXPECT_FALSE(Mentions(Predict(Request("tinyllama-1.1b", 2048)).warnings, "beyond"));
  EXPECT_TRUE(Mentions(Predict(Request("tinyllama-1.1b", 2049)).warnings, "beyond the published context"));
}

TEST(PredictTest, LevelsWithoutInputsNameThem) {
  const Prediction p = Predict(Request("article-3b", 100));
  EXPECT_FALSE(p.decode.kernels.value.has_value());
  EXPECT_EQ(p.decode.kernels.missing, std::vector<std::string>{"measured rows of family attention"});
  EXPECT_FALSE(p.decode.engine.missing.empty());
  EXPECT_FALSE(p.prefill.kernels.value.has_value());
  EXPECT_EQ(p.prefill.kernels.missing, p.decode.kernels.missing);
  const Machine measured = MeasuredMachine(kBandwidth, kPeak);
  PredictRequest request = Request("article-3b", 100);
  request.machine = &measured;
  EXPECT_EQ(Predict(request).decode.kernels.missing,
            std::vector<std::string>{"measured rows attention/decode/f16 at 2 threads"});
}

TEST(PredictTest, TheCurveRunsToTheModelsContextAndAgreesWithThePrediction) {
  PredictRequest request = Request("llama-3.2-3b", 3000, "q4_k_m");
  const std::vector<uint64_t> contexts = CurveContexts(request);
  EXPECT_EQ(contexts.front(), 512u);
  EXPECT_EQ(contexts.back(), 131072u);
  EXPECT_TRUE(std::count(contexts.begin(), contexts.end(), 3000u));
  EXPECT_TRUE(std::is_sorted(contexts.begin(), contexts.end()));
  EXPECT_EQ(CurveContexts(Request("gpt2", 100)), (std::vector<uint64_t>{100, 512, 1024}));
  EXPECT_EQ(CurveContexts(Request("gpt2", 5000)).back(), 5000u);
  const std::vector<CurvePoint> curve = PredictCurve(request, {3000, 65536});
  const Prediction p = Predict(request);
  EXPECT_EQ(curve[0].ms_per_token, Decode(p).ms_per_token);
  EXPECT_EQ(curve[0].prefill_seconds, Prefill(p).seconds);
  EXPECT_EQ(curve[0].kv_bytes, p.kv.total.bytes_at_context);
  EXPECT_GT(curve[1].ms_per_token, curve[0].ms_per_token);
}

// The keys of DESIGN section 3.
TEST(PredictJsonTest, HasEveryKeyOfTheContract) {
  const PredictRequest request = Request("article-3b", 32768);
  const nlohmann::json json = PredictionJson(request, Predict(request), PredictCurve(request, {512}));
  const auto expect_keys = [](const nlohmann::json& object, std::initializer_list<const char*> keys) {
    for (const char* key : keys) EXPECT_TRUE(object.contains(key)) << key;
  };
  expect_keys(json,
              {"model", "kv", "memory", "decode", "prefill", "rule_of_thumb", "inputs", "warnings", "curve"});
  expect_keys(json["model"], {"name", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_model",
                              "params_total", "params_active", "position"});
  expect_keys(json["model"]["position"], {"placement", "encoding"});
  expect_keys(json["kv"], {"bytes_per_token", "bytes_per_token_beyond_window", "bytes_at_context",
                           "constant_bytes", "allocated_bytes", "read_bytes_per_step", "layers"});
  expect_keys(json["memory"], {"weights_bytes", "kv_bytes", "total_bytes", "fits"});
  for (const char* level : {"limit", "kernels", "engine"}) {
    EXPECT_TRUE(json["decode"].contains(level) && json["prefill"].contains(level)) << level;
  }
  expect_keys(json["decode"]["limit"], {"ms_per_token", "tok_per_s", "bound", "terms"});
  expect_keys(json["decode"]["limit"]["terms"][0],
              {"name", "bytes", "flops", "ms", "bound", "source", "row", "note"});
  expect_keys(json["prefill"]["limit"], {"seconds", "tok_per_s", "flops_linear", "flops_attention", "terms"});
  expect_keys(json["rule_of_thumb"], {"decode_ms_kv_only", "prefill_flops_2np", "prefill_seconds"});
  EXPECT_EQ(json["kv"]["bytes_per_token"], 114688);
  EXPECT_EQ(json["kv"]["layers"].size(), 28u);
  EXPECT_EQ(json["decode"]["limit"]["bound"], "memory");
  EXPECT_EQ(json["decode"]["kernels"]["available"], false);
  EXPECT_EQ(json["model"]["position"]["placement"], "qk_rotation");
  EXPECT_TRUE(json["memory"]["fits"].is_null());
  EXPECT_EQ(json["inputs"]["bandwidth_bytes_per_second"], kBandwidth);
  EXPECT_EQ(json["inputs"]["weights_bits_per_weight"], 4.5);
}

}  // namespace
}  // namespace ropeline
