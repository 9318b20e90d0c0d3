// Terms of models that are no plain llama: experts, latent attention, states, chunks, shared keys and values.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/predict.h"
#include "model/presets.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

constexpr double kBandwidth = 20e9, kPeak = 50e9;
const Where kWhere{"test", "request"};

const Machine& TypedMachine() {
  static const Machine machine = MachineFromFigures(kBandwidth, kPeak);
  return machine;
}

Llm Read(const std::string& more) {
  nlohmann::json config = nlohmann::json::parse(
      R"({"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"num_hidden_layers":4,"vocab_size":100,
          "intermediate_size":128,"max_position_embeddings":4096,"rope_theta":1e4,"tie_word_embeddings":false})");
  config.update(nlohmann::json::parse(more));
  return HfConfigToLlm(config, "small.json", "small");
}

PredictRequest Request(Llm llm, uint64_t context) {
  PredictRequest request;
  request.llm = std::move(llm);
  request.context = context;
  request.weights = FindWeightMix("f16", kWhere);
  request.machine = &TypedMachine();
  return request;
}

Term TermOf(const std::vector<Term>& terms, const std::string& name) {
  for (const Term& term : terms) {
    if (term.name == name) return term;
  }
  return {};
}

Term Decode(const PredictRequest& request, const std::string& name) {
  return TermOf(Predict(request).decode.limit.value->terms, name);
}

Term Prefill(const PredictRequest& request, const std::string& name) {
  return TermOf(Predict(request).prefill.limit.value->terms, name);
}

constexpr const char* kMixture = R"({"model_type":"mixtral","num_local_experts":8,"num_experts_per_tok":2})";
constexpr double kExpertElements = 3 * 64 * 128;

TEST(PredictKindsTest, AStepReadsTheExpertsThatItsTokensTake) {
  PredictRequest request = Request(Read(kMixture), 100);
  const Term one = Decode(request, "experts");
  EXPECT_DOUBLE_EQ(one.bytes, 4 * 2 * kExpertElements * 2);  // layers · experts · f16
  EXPECT_DOUBLE_EQ(one.flops, 2 * 4 * 2 * kExpertElements);
  request.batch = 4;
  const Term four = Decode(request, "experts");
  const double distinct = 8 * (1 - std::pow(0.75, 4));
  EXPECT_NEAR(four.bytes, 4 * distinct * kExpertElements * 2, 1e-6 * four.bytes);
  EXPECT_DOUBLE_EQ(four.flops, 4 * one.flops) << "each sequence computes its own";
  EXPECT_LT(four.bytes, 4 * one.bytes);
  const Term prefill = Prefill(request, "experts");
  EXPECT_NEAR(prefill.bytes, 4 * 8 * kExpertElements * 2, 1) << "100 tokens take all";
  EXPECT_DOUBLE_EQ(prefill.flops, 100 * one.flops);
}

TEST(PredictKindsTest, WeightTermsAddUpToWhatAStepReads) {
  for (const char* more :
       {kMixture, R"({"model_type":"llama"})", R"({"model_type":"llama","tie_word_embeddings":true})"}) {
    const PredictRequest request = Request(Read(more), 100);
    const Prediction p = Predict(request);
    const std::vector<Term>& terms = p.decode.limit.value->terms;
    EXPECT_DOUBLE_EQ(
        TermOf(terms, "weights").bytes + TermOf(terms, "experts").bytes + TermOf(terms, "lm_head").bytes,
        static_cast<double>(p.weights.decode_bytes))
        << more;
    EXPECT_DOUBLE_EQ(TermOf(terms, "lm_head").bytes, 100 * 64 * 2);
    EXPECT_DOUBLE_EQ(TermOf(terms, "embedding").bytes, 64 * 2 + 64 * 4) << "one row, written in f32";
  }
}

constexpr const char* kLatent =
    R"({"model_type":"deepseek_v2","q_lora_rank":null,"kv_lora_rank":24,"qk_nope_head_dim":12,"qk_rope_head_dim":8,
        "v_head_dim":10})";

TEST(PredictKindsTest, LatentAttentionAbsorbedAndExpanded) {
  PredictRequest request = Request(Read(kLatent), 1000);
  const Term absorbed = Decode(request, "attention");
  EXPECT_DOUBLE_EQ(absorbed.bytes, 4.0 * 1000 * (24 + 8) * 2);
  EXPECT_DOUBLE_EQ(absorbed.flops, 4.0 * 1000 * 2 * 4 * (24 + 8 + 24));
  // A rotated part of 8 for each of 4 heads and one of K for all.
  EXPECT_DOUBLE_EQ(Decode(request, "position_encoding").flops, 4.0 * 3 * 5 * 8);
  EXPECT_DOUBLE_EQ(Prefill(request, "attention").flops, 4.0 * 1000 * 1000 / 2 * 2 * 4 * (20 + 10));
  const uint64_t kept = Predict(request).memory.kv_bytes;
  request.llm = WithExpandedLatent(request.llm);
  const Term expanded = Decode(request, "attention");
  EXPECT_DOUBLE_EQ(expanded.bytes, 4.0 * 1000 * 4 * (20 + 10) * 2);
  EXPECT_DOUBLE_EQ(expanded.flops, 4.0 * 1000 * 2 * 4 * (20 + 10));
  EXPECT_EQ(Predict(request).memory.kv_bytes * 32, kept * 120);
}

TEST(PredictKindsTest, ALatentOrAMixedCacheHasNoKernelRows) {
  Machine machine;
  machine.file = "measured.json";
  machine.roofline.AddRow("stream/read/f32/T/ws:1000000000/threads:1", kBandwidth, 0);
  machine.roofline.AddRow("peak/fma/f32/T/threads:1", 0, kPeak);
  PredictRequest request = Request(Read(kLatent), 100);
  request.machine = &machine;
  EXPECT_EQ(Predict(request).decode.kernels.missing,
            std::vector<std::string>{"measured rows attention/decode/f16 of latent attention at 1 thread"});
  request.llm = Read(R"({"model_type":"llama"})");
  request.kv = ParseKvFormats("q8_0/q4_0", kWhere);
  EXPECT_EQ(Predict(request).decode.kernels.missing,
            std::vector<std::string>{"measured rows attention/decode/q8_0/q4_0 at 1 thread"});
}

TEST(PredictKindsTest, StatesCostTheSameAtEveryContext) {
  const Llm llm = Read(R"({"model_type":"jamba","attn_layer_period":4,"attn_layer_offset":1,"mamba_d_state":4,
                           "mamba_d_conv":3,"mamba_expand":2,"mamba_dt_rank":5,"num_experts":1})");
  const Term near = Decode(Request(llm, 10), "states"), far = Decode(Request(llm, 10000), "states");
  EXPECT_DOUBLE_EQ(near.bytes, 2 * 4 * 3.0 * (128 * 4 + 128 * 3)) << "read and written in f32";
  EXPECT_EQ(near.ms, far.ms);
  PredictRequest batched = Request(llm, 10);
  batched.batch = 3;
  EXPECT_DOUBLE_EQ(Decode(batched, "states").bytes, 3 * near.bytes);
}

TEST(PredictKindsTest, PrefillInChunksReadsWeightsAndEarlierKeysAgain) {
  PredictRequest request = Request(Read(R"({"model_type":"llama"})"), 1000);
  const Term linear = Prefill(request, "linear"), attention = Prefill(request, "attention");
  request.prefill_chunk = 300;  // 300, 600, 900, 1000
  EXPECT_DOUBLE_EQ(Prefill(request, "linear").bytes, 4 * linear.bytes);
  EXPECT_DOUBLE_EQ(Prefill(request, "linear").flops, linear.flops);
  EXPECT_DOUBLE_EQ(Prefill(request, "attention").bytes, attention.bytes * (300 + 600 + 900 + 1000) / 1000);
  EXPECT_DOUBLE_EQ(Prefill(request, "attention").flops, attention.flops);
  request.llm = Read(R"({"model_type":"mistral","sliding_window":200})");
  EXPECT_DOUBLE_EQ(Prefill(request, "attention").bytes, attention.bytes * (300 + 500 + 500 + 300) / 1000);
  EXPECT_LT(Predict(request).memory.activation_bytes, 4u * 1000 * (2 * 64 + 256));
}

TEST(PredictKindsTest, ThreadsWaitForEachOtherWhereABarrierWasMeasured) {
  Machine machine;
  machine.file = "measured.json";
  for (const char* traffic : {"read", "copy", "update", "add"}) {
    machine.roofline.AddRow("stream/" + std::string(traffic) + "/f32/T/ws:1000000000/threads:2", kBandwidth,
                            0);
  }
  machine.roofline.AddRow("peak/fma/f32/T/threads:2", 0, kPeak);
  PredictRequest request = Request(Read(R"({"model_type":"llama"})"), 100);
  request.machine = &machine;
  request.threads = 2;
  EXPECT_EQ(Decode(request, "synchronisation").name, "");
  machine.barrier_ns[2] = 1000;
  const Term waits = Decode(request, "synchronisation");
  EXPECT_DOUBLE_EQ(waits.ms, (4 * 5 + 1) * 1e-3);  // five products after another in a layer, and the LM head
  EXPECT_EQ(waits.source, TermSource::kMeasured);
  for (const std::string& warning : Predict(request).warnings) {
    EXPECT_EQ(warning.find("synchronisation"), std::string::npos) << warning;
  }
  EXPECT_EQ(waits.row, "sync/barrier/none/any/threads:2");
}

TEST(PredictKindsTest, SharedKeysAndValuesAreReadWhereTheyAreUsed) {
  const Llm llm =
      Read(R"({"model_type":"gemma4_text","head_dim":16,"global_head_dim":16,"num_kv_shared_layers":2,
      "sliding_window":10,"hidden_size_per_layer_input":0,
      "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]})");
  const PredictRequest request = Request(llm, 100);
  EXPECT_DOUBLE_EQ(Decode(request, "attention").bytes, 2.0 * (10 + 100) * 64 * 2);
  EXPECT_EQ(Predict(request).memory.kv_bytes, 110u * 64 * 2);
  EXPECT_DOUBLE_EQ(Decode(request, "cache_append").bytes, 2 * 64 * (4 + 2));
}

}  // namespace
}  // namespace ropeline
