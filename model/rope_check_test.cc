#include "model/rope_check.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", ""};

Layer RotaryLayer(AttentionKind kind, double base) {
  Layer layer;
  layer.self.kind = kind;
  layer.self.n_heads = layer.self.n_kv_heads = 1;
  layer.self.d_head_k = layer.self.d_head_v = 128;
  if (base > 0) layer.self.position = RotaryPosition("rope_half", base, 128, 128);
  return layer;
}

std::vector<std::string> Types(const std::vector<Layer>& layers) {
  Llm llm;
  llm.layers = layers;
  std::vector<std::string> types;
  for (const RopeLayers& group : RopeLayersOf(llm)) types.push_back(group.layer_type);
  return types;
}

TEST(RopeCheckTest, GroupsLayersThatTurnAlike) {
  using Names = std::vector<std::string>;
  const Layer full = RotaryLayer(AttentionKind::kFull, 1e6),
              window = RotaryLayer(AttentionKind::kWindow, 1e6),
              local = RotaryLayer(AttentionKind::kWindow, 1e4), none = RotaryLayer(AttentionKind::kFull, 0),
              chunked = RotaryLayer(AttentionKind::kChunked, 1e6);
  EXPECT_EQ(Types({full, full}), (Names{"all"}));
  EXPECT_EQ(Types({window, full}), (Names{"all"}));
  EXPECT_EQ(Types({local, full, local}), (Names{"sliding_attention", "full_attention"}));
  EXPECT_EQ(Types({window, none}), (Names{"sliding_attention"}));      // Exaone 4: full layers do not turn
  EXPECT_EQ(Types({full, full, full, none}), (Names{"rope_layers"}));  // SmolLM3
  EXPECT_EQ(Types({chunked, chunked, chunked, none}), (Names{"rope_layers"}));  // Llama 4
  Layer recurrent;
  recurrent.recurrent.form = "gated_delta_net";
  EXPECT_EQ(Types({full, Layer()}), (Names{"all"}));               // Nemotron Super: layers without attention
  EXPECT_EQ(Types({full, recurrent}), (Names{"full_attention"}));  // Qwen 3.5
  EXPECT_EQ(Types({none}), Names{});
}

TEST(RopeCheckTest, TheLayersThatSeeEverythingAreFarReaching) {
  Llm llm;
  llm.layers = {RotaryLayer(AttentionKind::kWindow, 1e4), RotaryLayer(AttentionKind::kFull, 1e6)};
  std::vector<RopeReport> reports;
  for (const RopeLayers& group : RopeLayersOf(llm)) {
    reports.push_back(CheckRope(group, {4096, 0}, RopeSemantics::kHf, kWhere));
  }
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(FarReaching(reports)->layers.rope.base, 1e6);
  EXPECT_EQ(FarReaching({}), nullptr);
}

TEST(RopeCheckTest, ReportsAPreset) {
  const auto groups = RopeLayersOf(Preset("llama-3.1-8b", kWhere));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].layer_type, "all");
  EXPECT_EQ(groups[0].layers.size(), 32u);
  EXPECT_EQ(groups[0].pairing, "half");
  const RopeReport report = CheckRope(groups[0], {131072, 0}, RopeSemantics::kHf, kWhere);
  EXPECT_EQ(report.trained_tokens, 8192);
  EXPECT_EQ(report.bands[63].squeeze, 8);
  EXPECT_NEAR(report.bands[63].unseen, 0.5, 1e-3);  // 8 · 8192 is half of 131,072
}

TEST(RopeCheckTest, ALayerWithoutASchedulesParametersIsBadInput) {
  RopeLayers layers;
  layers.rope.type = RopeType::kYarn;
  layers.rope.d_head = layers.rope.d_rot = 64;
  layers.rope.base = 10000;
  layers.rope.factor_given = true;
  try {
    CheckRope(layers, {4096, 0}, RopeSemantics::kHf, {"config.json", ""});
    FAIL();
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(),
                 "config.json: original_context: is missing, expected tokens that the model was trained on");
  }
}

TEST(RopeCheckTest, WithoutATrainedContextNothingIsUnseen) {
  RopeLayers layers;
  layers.rope.d_head = layers.rope.d_rot = 64;
  layers.rope.base = 10000;
  const RopeReport report = CheckRope(layers, {32768, 0}, RopeSemantics::kHf, kWhere);
  EXPECT_EQ(report.trained_tokens, 0);
  EXPECT_EQ(report.coverage.out_of_distribution, 0u);
}

TEST(RopeCheckTest, JsonHasTheDesignsKeys) {
  RopeAnswer answer;
  answer.length.tokens = 32768;
  RopeLayers layers;
  layers.pairing = "half";
  layers.rope.d_head = layers.rope.d_rot = 128;
  layers.rope.base = 10000;
  layers.rope.original_context = 4096;
  answer.reports = {CheckRope(layers, answer.length, answer.semantics, kWhere)};
  answer.extended_context = 32768;
  for (const ExtensionMethod* method : ParseExtensionMethods("all", kWhere)) {
    answer.extensions.push_back(Extend(*method, layers.rope, 32768, {}, answer.semantics));
  }
  const nlohmann::json json = nlohmann::json::parse(RopeJson(answer).dump());
  EXPECT_EQ(json["context"], 32768);
  EXPECT_EQ(json["semantics"], "hf");
  const auto& layer = json["layers"][0];
  for (const char* key :
       {"layer_type", "rope_type", "base", "d_head", "d_rot", "attention_factor", "pairing"}) {
    EXPECT_TRUE(layer.contains(key)) << key;
  }
  EXPECT_EQ(layer["inv_freq"].get<std::vector<double>>(), answer.reports[0].frequencies.inv_freq);
  const auto& band = layer["bands"][63];
  EXPECT_EQ(band["i"], 63);
  for (const char* key : {"wavelength", "turns_train", "arc_train", "arc_context", "unseen"}) {
    EXPECT_TRUE(band.contains(key)) << key;
  }
  ASSERT_EQ(json["extend"]["methods"].size(), 7u);
  EXPECT_TRUE(json["extend"]["methods"][6].contains("missing"));  // longrope
  EXPECT_NEAR(json["extend"]["methods"][2]["effective_base"].get<double>(), 82684.6, 0.05);
}

}  // namespace
}  // namespace ropeline
