// Small models of our own, one per kind of attention and shape of file; figures are counted by hand.
#include "model/read_hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config_json.h"
#include "model/kv_layout.h"

namespace ropeline {
namespace {

// d_model 64, 4 heads of 16, 2 KV heads, 4 layers, 100 tokens.
constexpr const char* kBase =
    R"({"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"num_hidden_layers":4,
        "intermediate_size":128,"vocab_size":100,"max_position_embeddings":1024,"tie_word_embeddings":false})";

Llm Read(const std::string& more, const char* base = kBase) {
  nlohmann::json config = nlohmann::json::parse(base);
  config.update(ParseConfigJson(more, "small.json", "a config"));
  return HfConfigToLlm(config, "small.json", "small");
}

KvLayer Kv(const Llm& llm, uint64_t context) { return LayOutKv(llm, kBlockF16, context).total; }

std::string Kinds(const Llm& llm) {
  std::string kinds;
  for (const Layer& layer : llm.layers) kinds += (kinds.empty() ? "" : " ") + std::string(layer.Kind());
  return kinds;
}

bool Warns(const Llm& llm, const std::string& part) {
  for (const std::string& warning : llm.warnings) {
    if (warning.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(ReadHfConfigTest, FullAttention) {
  const Llm llm = Read(R"({"model_type":"llama","rope_theta":5e5})");
  EXPECT_EQ(Kinds(llm), "full full full full");
  // Layer: Q and O 64², K and V 64·32, three of 64·128, two norms.
  const uint64_t layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64;
  EXPECT_EQ(llm.ParamsTotal(), 4 * layer + 2 * 100 * 64 + 64);
  EXPECT_EQ(Kv(llm, 10).bytes_per_token, 4u * 2 * 2 * 16 * 2);
  EXPECT_EQ(llm.MainPosition().rope_theta(), 5e5);
  EXPECT_EQ(llm.MainPosition().encoding, "rope_half");
  EXPECT_TRUE(llm.warnings.empty()) << llm.warnings.front();
}

TEST(ReadHfConfigTest, AWindowInEveryLayer) {
  const Llm llm = Read(R"({"model_type":"mistral","rope_theta":1e4,"sliding_window":100})");
  EXPECT_EQ(Kinds(llm), "window window window window");
  EXPECT_EQ(Kv(llm, 1000).bytes_at_context, 100u * 512);
  EXPECT_EQ(Kv(llm, 1000).intercept_bytes, 100u * 512);
  EXPECT_EQ(Kv(llm, 1000).bytes_per_token_beyond_window, 0u);
  EXPECT_EQ(Kinds(Read(R"({"model_type":"mistral","sliding_window":null})")), "full full full full");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"mistral","sliding_window":1024})")), "full full full full")
      << "a window of the whole length is none";
}

TEST(ReadHfConfigTest, WindowsByPattern) {
  EXPECT_EQ(Kinds(Read(R"({"model_type":"gemma2","sliding_window":8})")), "window full window full");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"gemma3_text","sliding_window":8,"sliding_window_pattern":2})")),
            "window full window full");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"exaone4","sliding_window":8,"sliding_window_pattern":"LLG"})")),
            "window window full window");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"exaone4","sliding_window":null})")), "full full full full");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"qwen2","sliding_window":8,"use_sliding_window":false})")),
            "full full full full");
  EXPECT_EQ(
      Kinds(Read(
          R"({"model_type":"qwen2","sliding_window":8,"use_sliding_window":true,"max_window_layers":3})")),
      "full full full window");
  EXPECT_EQ(Kinds(Read(R"({"model_type":"gpt_neo","intermediate_size":null,"window_size":8,
                           "attention_types":[[["global","local"],2]]})")),
            "full window full window");
}

TEST(ReadHfConfigTest, LayersWithoutPosition) {
  const auto without = [](const Llm& llm) {
    std::string layers;
    for (size_t i = 0; i < llm.layers.size(); ++i) {
      if (llm.layers[i].self.position.empty()) layers += std::to_string(i);
    }
    return layers;
  };
  EXPECT_EQ(without(Read(R"({"model_type":"smollm3"})")), "3");
  EXPECT_EQ(without(Read(R"({"model_type":"smollm3","no_rope_layers":[]})")), "3")
      << "empty is the default, not none";
  EXPECT_EQ(without(Read(R"({"model_type":"smollm3","no_rope_layers":[1,0,1,0]})")), "13");
  EXPECT_EQ(without(Read(R"({"model_type":"exaone4","sliding_window":8})")), "3");
  EXPECT_EQ(without(Read(R"({"model_type":"cohere2","sliding_window":8})")), "3");
}

TEST(ReadHfConfigTest, ChunkedAttentionWithExperts) {
  const Llm llm = Read(R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","hidden_size":64,
      "num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"num_hidden_layers":4,"intermediate_size":32,
      "intermediate_size_mlp":128,"interleave_moe_layer_step":2,"num_local_experts":4,"num_experts_per_tok":1,
      "vocab_size":100,"max_position_embeddings":1000000,"attention_chunk_size":50,"no_rope_layers":[]}})");
  EXPECT_EQ(Kinds(llm), "chunked chunked chunked full");
  EXPECT_EQ(Kv(llm, 200).bytes_at_context, 128u * (3 * 50 + 200));
  EXPECT_EQ(llm.layers[0].ffn.width, 128u);
  EXPECT_EQ(llm.layers[1].ffn.kind, FfnKind::kMoe);
  EXPECT_EQ(llm.layers[1].ffn.shared_width, 32u);
  EXPECT_EQ(llm.ParamsTotal() - llm.ParamsActive(),
            2u * 3 * 3 * 64 * 32);  // three of four experts, two layers
  EXPECT_EQ(llm.layers[0].self.Pairs(120), 2 * 50 * 50 / 2 + 20 * 20 / 2);
}

TEST(ReadHfConfigTest, LatentAttention) {
  const std::string keys =
      R"("kv_lora_rank":24,"qk_nope_head_dim":12,"qk_rope_head_dim":8,"v_head_dim":10,"num_key_value_heads":4)";
  const Llm llm = Read(R"({"model_type":"deepseek_v2","q_lora_rank":null,)" + keys + R"(,
      "rope_scaling":{"type":"yarn","factor":4,"mscale":0.7,"mscale_all_dim":0.7,
                      "original_max_position_embeddings":256}})");
  EXPECT_EQ(Kinds(llm), "mla mla mla mla");
  const KvLayer kv = Kv(llm, 100);
  EXPECT_EQ(kv.elements_per_token, 4u * (24 + 8));
  EXPECT_EQ(kv.expanded_elements_per_token, 4u * 4 * (20 + 10));
  EXPECT_EQ(LayOutKv(llm, kBlockF16, 100, {.pad_tokens = 1, .latent_expanded = true}).total.allocated_bytes,
            100u * 480 * 2);
  // Q 80·64, latent 32·64, its norm, up 4·22·24, output 64·40.
  const uint64_t attention = 80 * 64 + 32 * 64 + 24 + 88 * 24 + 64 * 40;
  EXPECT_EQ(llm.ParamsTotal(), 4 * (attention + 3 * 64 * 128 + 128) + 2 * 6400 + 64);
  const Position& position = llm.MainPosition();
  EXPECT_EQ(position.d_rot(), 8u);
  EXPECT_EQ(position.encoding, "rope_interleaved");
  EXPECT_NEAR(position.score_factor, 1.2034, 1e-4);  // (0.07·ln 4 + 1)²
  const Llm low_rank = Read(R"({"model_type":"deepseek_v2","q_lora_rank":20,)" + keys + "}");
  const int64_t more = 80 * 20 + 20 * 64 + 20 - 80 * 64;
  EXPECT_EQ(static_cast<int64_t>(low_rank.ParamsTotal() - llm.ParamsTotal()), 4 * more);
}

TEST(ReadHfConfigTest, ExpertsAfterDenseLayers) {
  const Llm llm =
      Read(R"({"model_type":"deepseek","n_routed_experts":8,"num_experts_per_tok":2,"n_shared_experts":1,
                           "moe_intermediate_size":32,"first_k_dense_replace":1,"moe_layer_freq":1})");
  EXPECT_EQ(llm.layers[0].ffn.kind, FfnKind::kGated);
  EXPECT_EQ(llm.layers[1].ffn.kind, FfnKind::kMoe);
  EXPECT_EQ(llm.ParamsTotal() - llm.ParamsActive(), 3u * 6 * 3 * 64 * 32);
}

TEST(ReadHfConfigTest, StatesBesideAttention) {
  const Llm llm = Read(R"({"model_type":"jamba","attn_layer_period":4,"attn_layer_offset":1,"mamba_d_state":4,
                           "mamba_d_conv":3,"mamba_expand":2,"mamba_dt_rank":5,"num_experts":1})");
  EXPECT_EQ(Kinds(llm), "recurrent full recurrent recurrent");
  const KvLayer kv = Kv(llm, 100);
  EXPECT_EQ(kv.elements_per_token, 64u);
  EXPECT_EQ(kv.state_elements, 3u * (128 * 4 + 128 * 3));
  EXPECT_EQ(kv.constant_bytes, 4 * kv.state_elements);
  EXPECT_EQ(kv.read_bytes_per_step, 100u * 128 + kv.constant_bytes);
  EXPECT_TRUE(llm.MainPosition().empty());
}

TEST(ReadHfConfigTest, LinearAttentionByLayerTypes) {
  const Llm llm = Read(R"({"model_type":"qwen3_5_text","head_dim":16,"linear_conv_kernel_dim":4,
      "linear_key_head_dim":8,"linear_value_head_dim":8,"linear_num_key_heads":2,"linear_num_value_heads":4,
      "layer_types":["linear_attention","full_attention","linear_attention","full_attention"],
      "rope_parameters":{"rope_type":"default","rope_theta":1e7,"partial_rotary_factor":0.25}})");
  EXPECT_EQ(Kinds(llm), "recurrent full recurrent full");
  EXPECT_EQ(Kv(llm, 1).state_elements, 2u * (4 * 8 * 8 + (2 * 16 + 32) * 4));
  EXPECT_EQ(llm.MainPosition().d_rot(), 4u);
  EXPECT_EQ(llm.MainPosition().rope_theta(), 1e7);
}

TEST(ReadHfConfigTest, LightningAttentionByEitherList) {
  const std::string keys = R"({"model_type":"minimax","num_local_experts":2,"num_experts_per_tok":1,)";
  const Llm typed = Read(keys + R"("attn_type_list":[0,0,0,1]})");
  EXPECT_EQ(Kinds(typed), "recurrent recurrent recurrent full");
  EXPECT_EQ(Kv(typed, 1).state_elements, 3u * 4 * 16 * 16);
  EXPECT_EQ(Kv(typed, 1).elements_per_token, 64u);
  EXPECT_EQ(Kinds(Read(keys + R"("layer_types":["linear_attention","full_attention","linear_attention",
                                                "full_attention"]})")),
            "recurrent full recurrent full");
  EXPECT_EQ(Kinds(Read(keys + R"("rope_theta":1e6})")), "full recurrent full recurrent");
}

TEST(ReadHfConfigTest, TwoGemmasAsEncoderAndDecoder) {
  const auto with = [](const char* width) {
    const std::string stack = R"({"hidden_size":)" + std::string(width) +
                              R"(,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
        "num_hidden_layers":2,"intermediate_size":128,"vocab_size":100,"sliding_window":8})";
    return nlohmann::json::parse(
        R"({"model_type":"t5gemma","is_encoder_decoder":true,"encoder":)" + stack +
        R"(,"decoder":{"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,
        "head_dim":16,"num_hidden_layers":3,"intermediate_size":128,"vocab_size":100,"sliding_window":8}})");
  };
  const Llm llm = HfConfigToLlm(with("64"), "small.json", "small");
  EXPECT_EQ(llm.NumLayers(Stack::kEncoder), 2u);
  EXPECT_EQ(Kinds(llm), "window full window full window");
  EXPECT_EQ(Kv(llm, 100).bytes_at_context, 128u * (8 + 100 + 8));
  EXPECT_EQ(Kv(llm, 100).cross_elements, 3u * 64 * 100) << "a window layer's too";
  EXPECT_EQ(llm.layers[0].self.Pairs(100), 100 * 100 - 92 * 92) << "tokens on both sides";
  EXPECT_EQ(llm.layers[2].self.Pairs(100), 8 * 100 - 8 * 8 / 2);
  EXPECT_THROW(HfConfigToLlm(with("32"), "small.json", "small"), BadInput);
}

TEST(ReadHfConfigTest, AnEncoderOfWindowsWithTwoBases) {
  const Llm llm = Read(R"({"model_type":"modernbert","architectures":["ModernBertModel"],"local_attention":20,
      "global_attn_every_n_layers":3,"global_rope_theta":160000,"local_rope_theta":10000})");
  EXPECT_EQ(Kinds(llm), "full window window full");
  EXPECT_EQ(Kv(llm, 100).bytes_at_context, 0u);
  EXPECT_EQ(llm.layers[1].self.window, 10u);
  EXPECT_EQ(llm.layers[1].self.position.rope_theta(), 1e4);
  EXPECT_EQ(llm.layers[3].self.position.rope_theta(), 16e4);
}

TEST(ReadHfConfigTest, LayersThatShareKeysAndValues) {
  const Llm llm =
      Read(R"({"model_type":"gemma4_text","head_dim":16,"global_head_dim":32,"num_kv_shared_layers":2,
      "sliding_window":10,"hidden_size_per_layer_input":0,"use_double_wide_mlp":true,
      "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
      "rope_parameters":{"full_attention":{"rope_type":"proportional","rope_theta":1e6,"partial_rotary_factor":0.25},
                         "sliding_attention":{"rope_type":"default","rope_theta":1e4}}})");
  EXPECT_EQ(llm.layers[2].self.shares_kv_with, 0);
  EXPECT_EQ(llm.layers[3].self.shares_kv_with, 1);
  const KvLayer kv = Kv(llm, 100);
  EXPECT_EQ(kv.bytes_at_context, 2u * 2 * 2 * (10 * 16 + 100 * 32));
  EXPECT_EQ(kv.read_bytes_per_step, 2 * kv.bytes_at_context) << "read again by the layers that keep none";
  EXPECT_EQ(llm.layers[2].ffn.width, 256u);
  EXPECT_EQ(llm.layers[1].self.position.d_rot(), 8u);
  EXPECT_EQ(llm.layers[1].self.position.rope.d_head, 32u);
  EXPECT_EQ(llm.layers[0].self.position.rope_theta(), 1e4);
}

TEST(ReadHfConfigTest, EncoderAndDecoder) {
  const Llm llm = HfConfigToLlm(nlohmann::json::parse(R"({"model_type":"t5","d_model":64,"d_ff":128,"d_kv":8,
      "num_heads":4,"num_layers":2,"num_decoder_layers":3,"vocab_size":100,"feed_forward_proj":"gated-gelu"})"),
                                "small.json", "small");
  EXPECT_EQ(llm.NumLayers(Stack::kEncoder), 2u);
  EXPECT_EQ(llm.NumLayers(Stack::kDecoder), 3u);
  EXPECT_EQ(Kv(llm, 10).elements_per_token, 3u * 64);
  EXPECT_EQ(Kv(llm, 10).cross_elements, 3u * 64 * 10);
  EXPECT_FALSE(llm.max_context.has_value());
}

TEST(ReadHfConfigTest, AnEncoderKeepsNothing) {
  const Llm llm = Read(R"({"model_type":"bert","architectures":["BertModel"],"use_cache":true})");
  EXPECT_EQ(Kv(llm, 100).bytes_at_context, 0u);
  EXPECT_TRUE(llm.hard_context_limit);
}

TEST(ReadHfConfigTest, OneKvHeadWithMultiQuery) {
  EXPECT_EQ(Read(R"({"model_type":"gpt_bigcode","multi_query":true})").MainAttention()->n_kv_heads, 1u);
  EXPECT_EQ(Read(R"({"model_type":"falcon","multi_query":true})").MainAttention()->n_kv_heads, 1u);
  EXPECT_EQ(Read(R"({"model_type":"falcon","multi_query":true,"new_decoder_architecture":true})")
                .MainAttention()
                ->n_kv_heads,
            2u);
}

TEST(ReadHfConfigTest, RotaryParametersOfBothTransformers) {
  const auto rope = [](const std::string& more) {
    return Read(R"({"model_type":"llama",)" + more + "}").MainPosition().rope;
  };
  const RopeParameters old = rope(R"("rope_theta":5e5,"rope_scaling":{"type":"linear","factor":4})");
  EXPECT_EQ(old.type, RopeType::kLinear);
  EXPECT_EQ(old.factor, 4);
  EXPECT_EQ(old.original_context, 256) << "the length is the extended one";
  const RopeParameters flat = rope(R"("rope_parameters":{"rope_type":"llama3","rope_theta":5e5,"factor":8,
      "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":128})");
  EXPECT_EQ(flat.type, RopeType::kLlama3);
  EXPECT_EQ(flat.base, 5e5);
  EXPECT_EQ(flat.high_freq_factor, 4);
  const RopeParameters su = rope(R"("rope_scaling":{"type":"su","short_factor":[1,1,1,1,1,1,1,1],
      "long_factor":[1,1,1,1,1,1,1,2]},"original_max_position_embeddings":256)");
  EXPECT_EQ(su.type, RopeType::kLongrope);
  EXPECT_EQ(su.factor, 4);
  EXPECT_EQ(su.long_factor.back(), 2);
  EXPECT_EQ(rope(R"("rope_scaling":null)").type, RopeType::kDefault);
  EXPECT_TRUE(Warns(Read(R"({"model_type":"llama","rope_scaling":{"type":"odd","factor":2}})"),
                    "\"odd\" is not known"));
}

TEST(ReadHfConfigTest, WhatIsFilledInIsSaid) {
  const Llm gemma = HfConfigToLlm(nlohmann::json::parse(R"({"model_type":"gemma3","text_config":
      {"model_type":"gemma3_text","hidden_size":64,"intermediate_size":128,"num_hidden_layers":6}})"),
                                  "small.json", "small");
  EXPECT_EQ(gemma.MainAttention()->n_heads, 8u);
  EXPECT_TRUE(Warns(gemma, "num_attention_heads 8")) << gemma.warnings.front();
  EXPECT_TRUE(Warns(gemma, "gemma3_text"));
  EXPECT_TRUE(Warns(Read(R"({"model_type":"llama"})"), "rope_theta 10,000"));
}

TEST(ReadHfConfigTest, AnUnknownTypeIsReadAsALlamaWithAWarning) {
  const Llm llm = Read(R"({"model_type":"novel","rope_theta":1e4})");
  EXPECT_EQ(Kinds(llm), "full full full full");
  EXPECT_TRUE(Warns(llm, "\"novel\" is not known"));
}

}  // namespace
}  // namespace ropeline
