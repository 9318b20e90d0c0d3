#include "model/presets.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/registry.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "MODEL"};

// Parameter counts as published on the hub (safetensors totals), tied embeddings once; article-3b by
// definition. gemma-3: less the vision tower (416,866,032) and its projector; glm-4.5-air: less the module
// that predicts a second token (3,616,573,568).
TEST(PresetsTest, ParameterCountsAreThePublishedOnesToTheUnit) {
  const std::map<std::string, uint64_t> published = {{"article-3b", 3000000000},
                                                     {"llama-3.2-1b", 1235814400},
                                                     {"llama-3.2-3b", 3212749824},
                                                     {"llama-3.1-8b", 8030261248},
                                                     {"qwen2.5-7b", 7615616512},
                                                     {"mistral-7b", 7241732096},
                                                     {"gpt2", 124439808},
                                                     {"bloom-7b1", 7069016064},
                                                     {"t5-base", 222903552},
                                                     {"tinyllama-1.1b", 1100048384},
                                                     {"qwen2.5-0.5b", 494032768},
                                                     {"qwen2.5-1.5b", 1543714304},
                                                     {"qwen2.5-72b", 72706203648},
                                                     {"qwen3-8b", 8190735360},
                                                     {"qwen3-14b", 14768307200},
                                                     {"qwen3-30b-a3b", 30532122624},
                                                     {"qwen3-235b-a22b", 235093634560},
                                                     {"smollm2-1.7b", 1711376384},
                                                     {"gemma-3-12b", 11766034176},
                                                     {"gemma-3-27b", 27009346304},
                                                     {"gpt-oss-20b", 20914757184},
                                                     {"glm-4.5-air", 110468824832 - 3616573568},
                                                     {"deepseek-v2-lite", 15706484224},
                                                     {"deepseek-v3", 671026419200},
                                                     {"ling-mini-2.0", 16255643392},
                                                     {"bitnet-2b", 2412820480}};
  // As llama.cpp prints it; and the hub's figure, which counts the scales of its 8-bit blocks too.
  const std::map<std::string, double> rounded = {{"qwen3.6-35b-a3b", 34.66e9}, {"kimi-k2", 1.0265e12}};
  EXPECT_EQ(PresetNames().size(), published.size() + rounded.size());
  for (const std::string& name : PresetNames()) {
    const uint64_t params = Preset(name, kWhere).ParamsTotal();
    if (rounded.count(name)) {
      EXPECT_NEAR(static_cast<double>(params) / rounded.at(name), 1, 2e-4) << name;
      continue;
    }
    ASSERT_TRUE(published.count(name)) << name;
    EXPECT_EQ(params, published.at(name)) << name;
  }
}

TEST(PresetsTest, EveryPositionEncodingIsInTheRegistryAtItsPlacement) {
  for (const std::string& name : PresetNames()) {
    const Llm llm = Preset(name, kWhere);
    EXPECT_FALSE(llm.MainPosition().empty()) << name;
    if (!llm.input_position.empty()) {
      const Encoding* encoding = FindEncoding(llm.input_position.encoding);
      ASSERT_NE(encoding, nullptr) << name;
      EXPECT_EQ(encoding->placement, Placement::kInputAdd) << name;
    }
    for (const Layer& layer : llm.layers) {
      if (layer.self.position.empty()) continue;
      const Encoding* encoding = FindEncoding(layer.self.position.encoding);
      ASSERT_NE(encoding, nullptr) << name;
      EXPECT_NE(encoding->placement, Placement::kInputAdd) << name;
      const bool rotary = encoding->placement == Placement::kQkRotation;
      EXPECT_EQ(rotary, layer.self.position.rope_theta() > 0) << name;
      EXPECT_EQ(rotary, layer.self.position.d_rot() > 0) << name;
    }
  }
}

TEST(PresetsTest, PositionsAndLimits) {
  const Llm gpt2 = Preset("gpt2", kWhere);
  EXPECT_EQ(gpt2.MainPosition().encoding, "learned");
  EXPECT_EQ(gpt2.max_context, 1024u);
  EXPECT_TRUE(gpt2.hard_context_limit);
  EXPECT_EQ(Preset("bloom-7b1", kWhere).MainPosition().encoding, "alibi");
  const Llm llama = Preset("llama-3.2-3b", kWhere);
  EXPECT_EQ(llama.MainPosition().rope_theta(), 500000);
  EXPECT_EQ(llama.max_context, 131072u);
  EXPECT_FALSE(llama.hard_context_limit);
  const Llm mistral = Preset("mistral-7b", kWhere);
  EXPECT_EQ(mistral.MainAttention()->kind, AttentionKind::kWindow);
  EXPECT_EQ(mistral.MainAttention()->window, 4096u);
  EXPECT_FALSE(Preset("t5-base", kWhere).max_context.has_value());
}

TEST(PresetsTest, T5HasAnEncoderThatCachesNothingAndADecoderThatCrosses) {
  const Llm t5 = Preset("t5-base", kWhere);
  EXPECT_TRUE(t5.EncoderDecoder());
  EXPECT_EQ(t5.NumLayers(Stack::kEncoder), 12u);
  EXPECT_EQ(t5.NumLayers(Stack::kDecoder), 12u);
  for (const Layer& layer : t5.layers) {
    const bool decoder = layer.stack == Stack::kDecoder;
    EXPECT_EQ(layer.self.causal, decoder);
    EXPECT_EQ(layer.cross.kind, decoder ? AttentionKind::kCross : AttentionKind::kNone);
  }
  // Hand-counted. Decoder layer: 6 attention matrices of 768² in a step (cross K and V are not), 2·768·3072;
  // tied head.
  EXPECT_EQ(t5.ElementsUsed(&MatrixUse::decode), 12u * (6 * 768 * 768 + 2 * 768 * 3072) + 32128u * 768);
  // Prefill: encoder layer 4·768² + 2·768·3072, and the decoder's cross K and V.
  EXPECT_EQ(t5.ElementsUsed(&MatrixUse::prefill_each),
            12u * (4 * 768 * 768 + 2 * 768 * 3072) + 12u * 2 * 768 * 768);
  EXPECT_EQ(t5.ElementsUsed(&MatrixUse::prefill_last), 0u);
}

TEST(PresetsTest, TablesAreGatheredAndTheHeadIsAppliedOnce) {
  const Llm gpt2 = Preset("gpt2", kWhere);
  EXPECT_EQ(gpt2.ElementsUsed(&MatrixUse::decode), 12u * 12 * 768 * 768 + 50257u * 768);
  EXPECT_EQ(gpt2.ElementsUsed(&MatrixUse::prefill_each), 12u * 12 * 768 * 768);
  EXPECT_EQ(gpt2.ElementsUsed(&MatrixUse::prefill_last), 50257u * 768);
  const Llm llama = Preset("llama-3.1-8b", kWhere);  // untied: the embedding is gathered, the head is not
  EXPECT_EQ(llama.ParamsTotal() - llama.ElementsUsed(&MatrixUse::decode), 128256u * 4096 + 65u * 4096);
}

TEST(PresetsTest, AnUnknownNameListsThePresets) {
  try {
    Preset("llama-99b", kWhere);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find("test: MODEL: \"llama-99b\" is not a known model, expected one of article-3b, "),
              0u)
        << message;
    for (const std::string& name : PresetNames()) EXPECT_NE(message.find(name), std::string::npos) << name;
  }
}

TEST(LlmTest, PairsAndKeys) {
  Attention full{
      .kind = AttentionKind::kFull, .n_heads = 24, .n_kv_heads = 8, .d_head_k = 128, .d_head_v = 128};
  EXPECT_EQ(full.Pairs(1000), 500000);
  EXPECT_EQ(full.Keys(1000), 1000);
  EXPECT_EQ(full.FlopsPerPair(), 4 * 24 * 128);
  Attention window = full;
  window.kind = AttentionKind::kWindow;
  window.window = 100;
  EXPECT_EQ(window.Pairs(100), full.Pairs(100));
  EXPECT_EQ(window.Pairs(50), full.Pairs(50));
  EXPECT_EQ(window.Pairs(1000), 100 * 1000 - 100 * 100 / 2);
  EXPECT_EQ(window.Keys(1000), 100);
  EXPECT_EQ(window.Keys(7), 7);
  Attention encoder = full;
  encoder.causal = false;
  EXPECT_EQ(encoder.Pairs(1000), 1e6);
  EXPECT_EQ(Attention{}.Pairs(1000), 0);
  Attention uneven = full;  // K and V of different width
  uneven.d_head_k = 192;
  EXPECT_EQ(uneven.FlopsPerPair(), 2 * 24 * (192 + 128));
}

}  // namespace
}  // namespace ropeline
