#include "model/kernel_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/fake_machine.h"
#include "model/kernel_rates.h"
#include "model/predict.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "request"};

PredictRequest Request(const char* model, const Machine& machine, uint64_t context, const char* kv = "f16") {
  return {.llm = Preset(model, kWhere),
          .context = context,
          .weights = FindWeightMix("q4_k_m", kWhere),
          .kv = FindKvFormat(kv, kWhere),
          .machine = &machine,
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

TEST(KernelTermsTest, MeasuredTermsAreSumsOverTheLayersAndOthersStandAtTheirLimit) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Prediction p = Predict(Request("llama-3.2-3b", machine, 32768));
  const DecodeLevel& limit = p.decode.limit.value.value();
  const DecodeLevel& kernels = p.decode.kernels.value.value();
  const Term attention = TermNamed(kernels.terms, "attention");
  EXPECT_NEAR(attention.ms, 28 * 8.0, 1e-9);
  EXPECT_EQ(attention.source, TermSource::kMeasured);
  EXPECT_EQ(attention.row, "attention/decode/f16/BEST/n:32768/h:24/hkv:8/d:128/cache:cold/threads:2");
  EXPECT_EQ(attention.bytes, TermNamed(limit.terms, "attention").bytes);
  EXPECT_NEAR(TermNamed(kernels.terms, "cache_append").ms, 28 * 600e-6, 1e-12);
  const Term weights = TermNamed(kernels.terms, "weights");
  EXPECT_EQ(weights.ms, TermNamed(limit.terms, "weights").ms);
  EXPECT_EQ(weights.source, TermSource::kLimit);
  EXPECT_EQ(weights.row, "");
  EXPECT_EQ(weights.note, "at its limit: no rows weights/matvec/q4_K");
  double ms = 0;
  for (const Term& term : kernels.terms) ms += term.ms;
  EXPECT_DOUBLE_EQ(kernels.ms_per_token, ms);
  EXPECT_DOUBLE_EQ(kernels.tok_per_s, 1e3 / ms);
  EXPECT_EQ(kernels.binding_term, "attention");
  for (const Term& term : limit.terms) EXPECT_EQ(term.source, TermSource::kLimit) << term.name;

  const PrefillLevel& prefill = p.prefill.kernels.value.value();
  EXPECT_NEAR(TermNamed(prefill.terms, "attention").ms, 28 * 8 * 280.0 * 64, 1e-6) << "8² of 4096's pairs";
  EXPECT_NEAR(TermNamed(prefill.terms, "cache_append").ms, 28 * 0.3 * 64, 1e-9);
  EXPECT_EQ(TermNamed(prefill.terms, "linear").note, "at its limit: no rows linear/matmul/q4_K");
  EXPECT_EQ(prefill.flops_attention, p.prefill.limit.value->flops_attention);
  EXPECT_DOUBLE_EQ(prefill.tok_per_s, 32768 / prefill.seconds);
}

// 24 + 8 heads of 128 at 4096 tokens is the very shape of the fake row.
TEST(KernelTermsTest, PositionComesFromItsOwnRows) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Prediction p = Predict(Request("llama-3.2-3b", machine, 4096));
  const Term prefill = TermNamed(p.prefill.kernels.value->terms, "position_encoding");
  EXPECT_NEAR(prefill.ms, 28 * 14.0, 1e-9);
  EXPECT_EQ(prefill.row, "qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/cache:cold/threads:2");
  EXPECT_EQ(prefill.note, "");
  const Term decode = TermNamed(p.decode.kernels.value->terms, "position_encoding");
  EXPECT_EQ(decode.row, "qk_rotation/rope_half/f32/BEST/n:4/h:32/d:128/cache:hot/threads:2");
  EXPECT_EQ(decode.note, "scaled by its limit from n 4, beyond the sizes measured");
  // GPT-2's learned positions, once and not per layer: 1024 rows of 768 from a row of 512 of 4096.
  const Prediction gpt2 = Predict(Request("gpt2", machine, 1024));
  const Term learned = TermNamed(gpt2.prefill.kernels.value->terms, "position_encoding");
  EXPECT_EQ(learned.source, TermSource::kMeasured);
  EXPECT_NEAR(learned.ms, 2.0 * 1024 * 768 / (512 * 4096), 0.01) << "at the measured ratio of 2 ms";
}

TEST(KernelTermsTest, AScoreBiasIsWhatItAddsInsideAttentionWhereThatWasMeasured) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Prediction p = Predict(Request("bloom-7b1", machine, 2048));
  for (const auto* terms : {&p.decode.kernels.value->terms, &p.prefill.kernels.value->terms}) {
    const Term bias = TermNamed(*terms, "position_encoding");
    EXPECT_NEAR(bias.ms, 0.05 * TermNamed(*terms, "attention").ms, 1e-9);
    EXPECT_NE(bias.row.find("bias:alibi"), std::string::npos);
    EXPECT_EQ(bias.bytes, 0) << "no scores in memory";
    EXPECT_GT(bias.flops, 0);
  }
  nlohmann::json results = FakeKernelResults();
  std::erase_if(results["benchmarks"].get_ref<nlohmann::json::array_t&>(), [](const nlohmann::json& row) {
    return row["name"].get<std::string>().find("bias:alibi") != std::string::npos;
  });
  const Machine without = FakeMachine(results);
  const Prediction q = Predict(Request("bloom-7b1", without, 512));
  const Term bias = TermNamed(q.prefill.kernels.value->terms, "position_encoding");
  EXPECT_EQ(bias.row, "score_bias/alibi/f32/BEST/n:512/h:32/causal:1/cache:cold/threads:2");
  EXPECT_NEAR(bias.ms, 30 * 4.0, 1e-9);
  EXPECT_GT(bias.bytes, 0);
}

TEST(KernelTermsTest, BatchMultipliesAttentionAndAppend) {
  const Machine machine = FakeMachine(FakeKernelResults());
  PredictRequest request = Request("llama-3.2-3b", machine, 4096);
  request.batch = 4;
  const Prediction p = Predict(request);
  const DecodeLevel& kernels = p.decode.kernels.value.value();
  EXPECT_NEAR(TermNamed(kernels.terms, "attention").ms, 4 * 28 * 1.0, 1e-9);
  EXPECT_NEAR(TermNamed(kernels.terms, "cache_append").ms, 4 * 28 * 600e-6, 1e-12);
  EXPECT_DOUBLE_EQ(kernels.tok_per_s, 4 * kernels.tok_per_s_per_sequence);
  EXPECT_NEAR(TermNamed(p.prefill.kernels.value->terms, "attention").ms, 28 * 8 * 280.0, 1e-6)
      << "prefill is of one sequence";
  request = Request("bloom-7b1", machine, 2048);
  const double one = TermNamed(Predict(request).decode.kernels.value->terms, "position_encoding").ms;
  request.batch = 4;
  EXPECT_NEAR(TermNamed(Predict(request).decode.kernels.value->terms, "position_encoding").ms, 4 * one, 1e-9);
}

TEST(KernelTermsTest, WindowLayersReadTheirWindow) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Term windows =
      TermNamed(Predict(Request("mistral-7b", machine, 32768)).decode.kernels.value->terms, "attention");
  EXPECT_NEAR(windows.ms, 32 * 0.6 * 2, 1e-9) << "4096 keys, 8 KV heads of 128 from a row of 64";
  PredictRequest mixed = Request("mistral-7b", machine, 32768);
  for (size_t i = 0; i < 16; ++i) mixed.llm.layers[i].self.kind = AttentionKind::kFull;
  const Term both = TermNamed(Predict(mixed).decode.kernels.value->terms, "attention");
  EXPECT_NEAR(both.ms, 16 * 0.6 * 2 + 16 * 0.6 * 2 * 8, 1e-9);
  EXPECT_NE(both.note.find("beyond all measured"), std::string::npos) << "that of the largest first";
  EXPECT_NE(both.note.find("also attention/decode/"), std::string::npos) << both.note;
}

// Encoder: bidirectional, f32 activations. Decoder: 12 heads of 64, self and cross over 4096 keys each.
TEST(KernelTermsTest, EncoderDecoder) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Prediction p = Predict(Request("t5-base", machine, 1024));
  const Term encoder = TermNamed(p.prefill.kernels.value->terms, "attention");
  EXPECT_NEAR(encoder.ms, 12 * 20.0 * 4, 1e-9) << "12 heads from a row of 3";
  EXPECT_NE(encoder.row.find("/f32/"), std::string::npos);
  const auto& decode = p.decode.kernels.value->terms;
  EXPECT_EQ(TermNamed(decode, "cross_attention").source, TermSource::kMeasured);
  EXPECT_DOUBLE_EQ(TermNamed(decode, "cross_attention").ms, TermNamed(decode, "attention").ms);
}

TEST(KernelTermsTest, WithoutAttentionRowsTheLevelSaysWhichAreMissing) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const Prediction q4 = Predict(Request("llama-3.2-3b", machine, 4096, "q4_0"));
  EXPECT_FALSE(q4.decode.kernels.value);
  EXPECT_EQ(q4.decode.kernels.missing,
            std::vector<std::string>{"measured rows attention/decode/q4_0 at 2 threads"});
  EXPECT_EQ(q4.prefill.kernels.missing,
            std::vector<std::string>{"measured rows attention/prefill/q4_0 at 2 threads"});
  EXPECT_FALSE(PredictCurve(Request("llama-3.2-3b", machine, 4096, "q4_0"), {512})[0].kernels_tok_per_s);
  const Prediction q8 = Predict(Request("llama-3.2-3b", machine, 4096, "q8_0"));
  EXPECT_EQ(TermNamed(q8.decode.kernels.value.value().terms, "cache_append").note,
            "at its limit: no rows kv_cache/append/q8_0");
  EXPECT_FALSE(q8.prefill.kernels.value);
}

TEST(KernelTermsTest, TheCurveAndTheJsonAgreeWithThePrediction) {
  const Machine machine = FakeMachine(FakeKernelResults());
  const PredictRequest request = Request("llama-3.2-3b", machine, 4096);
  const Prediction p = Predict(request);
  const std::vector<CurvePoint> curve = PredictCurve(request, {4096});
  EXPECT_EQ(curve[0].kernels_tok_per_s, p.decode.kernels.value->tok_per_s);
  EXPECT_EQ(curve[0].kernels_ms_per_token, p.decode.kernels.value->ms_per_token);
  EXPECT_EQ(curve[0].kernels_prefill_seconds, p.prefill.kernels.value->seconds);
  const nlohmann::json json = PredictionJson(request, p, curve);
  for (const char* phase : {"decode", "prefill"}) {
    for (const auto& [key, value] : json[phase]["limit"].items()) {
      EXPECT_TRUE(json[phase]["kernels"].contains(key)) << phase << " " << key;
    }
    EXPECT_EQ(json[phase]["kernels"]["terms"][0]["source"], "limit");
    EXPECT_TRUE(json[phase]["kernels"]["terms"][0]["row"].is_null());
    EXPECT_EQ(json[phase]["kernels"]["terms"][2]["source"], "measured");
    EXPECT_TRUE(json[phase]["limit"]["terms"][2]["row"].is_null());
  }
  EXPECT_EQ(json["decode"]["kernels"]["terms"][2]["row"],
            "attention/decode/f16/BEST/n:4096/h:24/hkv:8/d:128/causal:1/bias:none/cache:cold/threads:2");
  EXPECT_EQ(json["curve"][0]["kernels_tok_per_s"], p.decode.kernels.value->tok_per_s);
}

TEST(KernelTermsTest, FasterThanTheLimitIsAWarning) {
  const auto warned = [](double call_ns) {
    nlohmann::json results = FakeResultsWith(
        {{"attention/decode/f16/BEST/n:4096/h:24/hkv:8/d:128/cache:cold/threads:2", call_ns}});
    const Machine machine = FakeMachine(results);
    const std::vector<std::string> warnings = Predict(Request("llama-3.2-3b", machine, 4096)).warnings;
    return std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
      return text.starts_with("decode's attention was measured at");
    });
  };
  // 4096 keys · 24 heads · 512 flops at 50 GFLOP/s.
  const double limit_ns = 4096 * 24 * 512 / 50.0;
  EXPECT_TRUE(warned(limit_ns / 1.06));
  EXPECT_FALSE(warned(limit_ns / 1.04));
}

// A later run may have rows that this version knows no use for.
TEST(KernelTermsTest, ATermWithoutKernelSaysSo) {
  nlohmann::json results = FakeKernelResults();
  results["benchmarks"].push_back(FakeRow("weights/matvec/q4_K/BEST/rows:1/threads:2", {{"call_ns", 1.0}}));
  const Machine machine = FakeMachine(results);
  const Prediction p = Predict(Request("llama-3.2-3b", machine, 4096));
  const std::vector<Term>& terms = p.decode.kernels.value->terms;
  EXPECT_EQ(TermNamed(terms, "embedding").note, "at its limit: this suite has no kernel of its kind");
  EXPECT_EQ(TermNamed(terms, "weights").note, "at its limit: no rows weights/matvec/q4_K")
      << "a row without width is none";
}

}  // namespace
}  // namespace ropeline
