#include "model/read_gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "model/fake_gguf.h"

namespace ropeline {
namespace {

Llm Read(const FakeGguf& gguf) {
  const std::string bytes = gguf.File();
  std::istringstream in(bytes);
  return GgufToLlm(ParseGguf(in, bytes.size(), "x.gguf"), "x.gguf");
}

std::string Error(const FakeGguf& gguf) {
  try {
    Read(gguf);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no BadInput";
}

// The keys that every model with attention has, and a vocabulary of 1000 words.
FakeGguf Shape(const std::string& arch, uint32_t n_layers, uint32_t d_model, uint32_t n_heads,
               uint32_t n_kv_heads, uint32_t d_ffn, uint32_t context = 131072) {
  FakeGguf gguf;
  gguf.Text("general.architecture", arch).U32(arch + ".block_count", n_layers);
  gguf.U32(arch + ".embedding_length", d_model).U32(arch + ".attention.head_count", n_heads);
  gguf.U32(arch + ".attention.head_count_kv", n_kv_heads).U32(arch + ".feed_forward_length", d_ffn);
  gguf.U32(arch + ".context_length", context).U32(arch + ".vocab_size", 1000);
  return gguf;
}

// One letter per layer: F full, W window, C chunked, L latent, S state, B state beside attention, E encoder,
// - neither; lower case where the layer has no position.
std::string Kinds(const Llm& llm) {
  std::string kinds;
  for (const Layer& layer : llm.layers) {
    const Attention& self = layer.self;
    char kind = '-';
    if (self.kind == AttentionKind::kFull) kind = 'F';
    if (self.kind == AttentionKind::kWindow) kind = 'W';
    if (self.kind == AttentionKind::kChunked) kind = 'C';
    if (self.kind == AttentionKind::kMla) kind = 'L';
    if (kind != '-' && self.position.empty()) kind = static_cast<char>(std::tolower(kind));
    if (!layer.recurrent.empty()) kind = kind == '-' ? 'S' : 'B';
    if (layer.stack == Stack::kEncoder) kind = 'E';
    kinds += kind;
  }
  return kinds;
}

uint64_t KvElements(const Llm& llm) {
  uint64_t elements = 0;
  for (const Layer& layer : llm.layers) {
    if (layer.self.caches()) elements += layer.self.KElements() + layer.self.VElements();
  }
  return elements;
}

bool Warns(const Llm& llm, const std::string& text) {
  for (const std::string& warning : llm.warnings) {
    if (warning.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(ReadGgufTest, ALlamaWithoutTensors) {
  FakeGguf gguf = Shape("llama", 2, 256, 8, 2, 512);
  gguf.Text("general.name", "tiny").F32("llama.rope.freq_base", 500000);
  const Llm llm = Read(gguf);
  EXPECT_EQ(llm.name, "tiny");
  EXPECT_EQ(llm.model_type, "llama");
  EXPECT_EQ(llm.max_context, 131072u);
  EXPECT_EQ(Kinds(llm), "FF");
  EXPECT_EQ(KvElements(llm), 2u * 2 * 2 * 32);
  // Q and output 256², K and V 64·256, three FFN of 512·256, two norms; two embeddings and a norm.
  EXPECT_EQ(llm.ParamsTotal(), 2u * (2 * 65536 + 2 * 16384 + 3 * 131072 + 512) + 2 * 256000 + 256);
  const Position& position = llm.MainPosition();
  EXPECT_EQ(position.encoding, "rope_interleaved") << "the converter permutes a llama's Q and K";
  EXPECT_EQ(position.rope_theta(), 500000);
  EXPECT_EQ(position.d_rot(), 32u);
  EXPECT_TRUE(Warns(llm, "the file has no tensors"));
  EXPECT_FALSE(llm.stored.has_value());
}

TEST(ReadGgufTest, VocabularyIsCountedWhereNoKeySaysIt) {
  FakeGguf gguf;
  gguf.Text("general.architecture", "baichuan").U32("baichuan.block_count", 40);
  gguf.U32("baichuan.embedding_length", 64).U32("baichuan.attention.head_count", 4);
  gguf.U32("baichuan.feed_forward_length", 128).Texts("tokenizer.ggml.tokens", 777);
  const Llm llm = Read(gguf);
  EXPECT_EQ(llm.vocabulary, 777u);
  EXPECT_EQ(llm.MainPosition().encoding, "alibi") << "40 layers are the 13B";
  EXPECT_EQ(llm.MainAttention()->n_kv_heads, 4u);
  EXPECT_FALSE(llm.max_context.has_value());
  EXPECT_TRUE(Warns(llm, "attention.head_count_kv as many as heads"));
}

struct PatternRow {
  const char* arch;
  uint32_t n_layers;
  uint32_t window;  // 0: no key
  const char* kinds;
};

// Windows and positions that an architecture implies.
TEST(ReadGgufTest, LayerPatterns) {
  const PatternRow rows[] = {
      {"llama", 3, 0, "FFF"},
      {"gemma2", 4, 0, "WFWF"},
      {"gemma3", 7, 512, "WWWWWFW"},
      {"gemma3", 7, 0, "FFFFFFF"},
      {"gpt-oss", 4, 128, "WFWF"},
      {"cohere2", 5, 4096, "WWWfW"},
      {"olmo2", 5, 4096, "WWWFW"},
      {"olmo2", 5, 0, "FFFFF"},
      {"exaone4", 5, 4096, "WWWfW"},
      {"exaone4", 5, 0, "FFFFF"},
      {"llama4", 5, 0, "CCCfC"},
      {"smollm3", 5, 0, "FFFfF"},
      {"smallthinker", 5, 4096, "fWWWf"},
      {"phi3", 3, 2047, "WWW"},
      {"phi3", 3, 262144, "FFF"},
      {"mistral3", 2, 1024, "WW"},
      {"qwen3", 2, 0, "FF"},
      {"jamba", 2, 0, "ff"},
      {"mpt", 2, 0, "FF"},
      {"gpt2", 2, 0, "ff"},
      {"modern-bert", 4, 128, "EEEE"},
  };
  for (const PatternRow& row : rows) {
    FakeGguf gguf = Shape(row.arch, row.n_layers, 64, 4, 2, 128);
    const std::string key = std::string(row.arch) + ".attention.sliding_window";
    if (row.window > 0) gguf.U32(key, row.window);
    const Llm llm = Read(gguf);
    EXPECT_EQ(Kinds(llm), row.kinds) << row.arch;
    for (const Layer& layer : llm.layers) {
      if (row.window > 0 && layer.self.limited()) {
        EXPECT_EQ(layer.self.window, row.window) << row.arch;
      }
    }
  }
  EXPECT_EQ(Read(Shape("gemma2", 2, 64, 4, 2, 128)).layers[0].self.window, 4096u);
  EXPECT_EQ(Read(Shape("exaone4", 64, 64, 4, 2, 128)).layers[0].self.window, 4096u);
  EXPECT_EQ(Read(Shape("llama4", 4, 64, 4, 2, 128)).layers[0].self.window, 8192u);
}

TEST(ReadGgufTest, AFilesOwnPatternWins) {
  FakeGguf list = Shape("mimo2", 4, 64, 4, 2, 128);
  list.U32("mimo2.attention.sliding_window", 128)
      .Bools("mimo2.attention.sliding_window_pattern", {false, true, true, false});
  list.F32("mimo2.rope.freq_base", 5e6f).F32("mimo2.rope.freq_base_swa", 1e4f);
  const Llm mimo = Read(list);
  EXPECT_EQ(Kinds(mimo), "FWWF");
  EXPECT_EQ(mimo.layers[0].self.position.rope_theta(), 5e6);
  EXPECT_EQ(mimo.layers[1].self.position.rope_theta(), 1e4);
  FakeGguf period = Shape("gemma3", 4, 64, 4, 2, 128);
  period.U32("gemma3.attention.sliding_window", 128).U32("gemma3.attention.sliding_window_pattern", 2);
  EXPECT_EQ(Kinds(Read(period)), "WFWF");
}

// Gemma 3's extension is for full layers; window layers turn from a base of their own, which no key holds.
TEST(ReadGgufTest, Gemma3HasTwoRotations) {
  FakeGguf gguf = Shape("gemma3", 6, 64, 4, 2, 128);
  gguf.U32("gemma3.attention.sliding_window", 1024).F32("gemma3.rope.freq_base", 1e6f);
  gguf.Text("gemma3.rope.scaling.type", "linear").F32("gemma3.rope.scaling.factor", 8);
  gguf.U32("gemma3.attention.key_length", 256).U32("gemma3.attention.value_length", 256);
  const Llm llm = Read(gguf);
  const Position& window = llm.layers[0].self.position;
  const Position& full = llm.layers[5].self.position;
  EXPECT_EQ(window.rope_theta(), 1e4);
  EXPECT_STREQ(window.rope_scaling(), "");
  EXPECT_EQ(full.rope_theta(), 1e6);
  EXPECT_STREQ(full.rope_scaling(), "linear");
  EXPECT_EQ(full.rope.factor, 8);
  EXPECT_EQ(full.d_rot(), 256u);
}

TEST(ReadGgufTest, LinearScalingWithoutAnOriginalLength) {
  FakeGguf gguf = Shape("llama", 1, 256, 8, 2, 512, 16384);
  gguf.Text("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4);
  const Llm llm = Read(gguf);
  EXPECT_EQ(llm.MainPosition().rope.original_context, 4096);
  FakeGguf old = Shape("llama", 1, 256, 8, 2, 512, 16384);
  old.F32("llama.rope.scale_linear", 2);
  EXPECT_EQ(Read(old).MainPosition().rope.factor, 2);
}

TEST(ReadGgufTest, Yarn) {
  FakeGguf gguf = Shape("qwen2", 1, 256, 8, 2, 512);
  gguf.Text("qwen2.rope.scaling.type", "yarn").F32("qwen2.rope.scaling.factor", 4);
  gguf.U32("qwen2.rope.scaling.original_context_length", 32768);
  const RopeParameters rope = Read(gguf).MainPosition().rope;
  EXPECT_EQ(rope.type, RopeType::kYarn);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_context, 32768);
  EXPECT_FALSE(rope.attention_factor.has_value());
}

FakeGguf DeepSeek(bool latent_form) {
  FakeGguf gguf;
  const std::string a = "deepseek2";
  gguf.Text("general.architecture", a).U32(a + ".block_count", 3).U32(a + ".embedding_length", 256);
  gguf.U32(a + ".attention.head_count", 8).U32(a + ".attention.head_count_kv", latent_form ? 1 : 8);
  gguf.U32(a + ".attention.kv_lora_rank", 512).U32(a + ".attention.q_lora_rank", 96);
  gguf.U32(a + ".rope.dimension_count", 64).U32(a + ".feed_forward_length", 512).U32(a + ".vocab_size", 1000);
  gguf.U32(a + ".attention.key_length", latent_form ? 576 : 192);
  gguf.U32(a + ".attention.value_length", latent_form ? 512 : 128).U32(a + ".context_length", 163840);
  if (latent_form) gguf.U32(a + ".attention.key_length_mla", 192).U32(a + ".attention.value_length_mla", 128);
  gguf.Text(a + ".rope.scaling.type", "yarn").F32(a + ".rope.scaling.factor", 40);
  gguf.U32(a + ".rope.scaling.original_context_length", 4096);
  gguf.F32(a + ".rope.scaling.yarn_log_multiplier", 0.1f);
  gguf.U32(a + ".expert_count", 16).U32(a + ".expert_used_count", 4).U32(a + ".expert_shared_count", 1);
  gguf.U32(a + ".expert_feed_forward_length", 64).U32(a + ".leading_dense_block_count", 1);
  return gguf;
}

TEST(ReadGgufTest, LatentAttentionInBothForms) {
  const Llm latent = Read(DeepSeek(true));
  EXPECT_EQ(Kinds(latent), "LLL");
  EXPECT_EQ(KvElements(latent), 3u * 576);
  EXPECT_EQ(latent.layers[0].self.latent.d_nope, 128u);
  EXPECT_EQ(latent.layers[0].self.position.d_rot(), 64u);
  const double mscale = 0.1f * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(latent.layers[0].self.position.score_factor, mscale * mscale);
  EXPECT_EQ(latent.layers[0].ffn.width, 512u);
  EXPECT_EQ(latent.layers[1].ffn.kind, FfnKind::kMoe);
  EXPECT_EQ(latent.layers[1].ffn.n_active, 4u);
  EXPECT_EQ(latent.layers[1].ffn.shared_width, 64u);
  EXPECT_FALSE(Warns(latent, "before multi-head latent attention"));
  const Llm expanded = Read(DeepSeek(false));
  EXPECT_EQ(Kinds(expanded), "FFF");
  EXPECT_EQ(KvElements(expanded), 3u * 8 * (192 + 128));
  EXPECT_EQ(expanded.ParamsTotal(), latent.ParamsTotal());
  EXPECT_TRUE(Warns(expanded, "before multi-head latent attention"));
}

TEST(ReadGgufTest, KeysWithAValueForEachLayer) {
  FakeGguf gguf;
  gguf.Text("general.architecture", "deci").U32("deci.block_count", 4).U32("deci.embedding_length", 64);
  gguf.U32s("deci.attention.head_count", {8, 0, 8, 8}).U32s("deci.attention.head_count_kv", {2, 0, 0, 4});
  gguf.U32s("deci.feed_forward_length", {128, 256, 0, 64}).U32("deci.context_length", 4096);
  const Llm llm = Read(gguf);
  EXPECT_EQ(Kinds(llm), "F--F");
  EXPECT_EQ(KvElements(llm), 2u * 8 * (2 + 4));
  EXPECT_EQ(llm.layers[1].ffn.width, 256u);
  EXPECT_EQ(llm.layers[2].ffn.kind, FfnKind::kNone);
  FakeGguf few = Shape("qwen3", 4, 64, 8, 2, 128);
  FakeGguf list;
  list.Text("general.architecture", "deci").U32("deci.block_count", 4).U32("deci.embedding_length", 64);
  list.U32s("deci.attention.head_count", {8, 8, 8});
  EXPECT_EQ(Error(list),
            "x.gguf: deci.attention.head_count: is u32[3], expected a number for each of the 4 layers");
}

FakeGguf Hybrid(const std::string& arch, const std::vector<uint32_t>& kv_heads) {
  FakeGguf gguf;
  gguf.Text("general.architecture", arch).U32(arch + ".block_count", static_cast<uint32_t>(kv_heads.size()));
  gguf.U32(arch + ".embedding_length", 64).U32(arch + ".attention.head_count", 4);
  gguf.U32s(arch + ".attention.head_count_kv", kv_heads).U32(arch + ".context_length", 4096);
  gguf.U32(arch + ".ssm.conv_kernel", 4).U32(arch + ".ssm.state_size", 16).U32(arch + ".ssm.inner_size", 128);
  gguf.U32(arch + ".ssm.time_step_rank", 8).U32(arch + ".ssm.group_count", 2);
  return gguf;
}

TEST(ReadGgufTest, LayersThatKeepAState) {
  const Llm jamba = Read(Hybrid("jamba", {0, 2, 0, 0}).U32("jamba.feed_forward_length", 128));
  EXPECT_EQ(Kinds(jamba), "SfSS");
  EXPECT_EQ(jamba.layers[0].recurrent.state_elements, 128u * 16);
  EXPECT_EQ(KvElements(jamba), 2u * 2 * 16);
  const Llm granite = Read(Hybrid("granitehybrid", {0, 0, 2})
                               .U32("granitehybrid.feed_forward_length", 128)
                               .Bool("granitehybrid.rope.scaling.finetuned", false));
  EXPECT_EQ(Kinds(granite), "SSf");
  EXPECT_EQ(granite.layers[0].recurrent.form, "mamba2");
  EXPECT_EQ(granite.layers[0].recurrent.state_elements, 128u * 16);
  // M, -, *: a feed-forward has neither.
  const Llm nemotron =
      Read(Hybrid("nemotron_h", {0, 0, 2}).U32s("nemotron_h.feed_forward_length", {0, 256, 0}));
  EXPECT_EQ(Kinds(nemotron), "S-f");
  EXPECT_EQ(nemotron.layers[1].ffn.width, 256u);
  EXPECT_EQ(nemotron.layers[0].ffn.kind, FfnKind::kNone);
  const Llm falcon = Read(Hybrid("falcon-h1", {2, 2}).U32("falcon-h1.feed_forward_length", 128));
  EXPECT_EQ(Kinds(falcon), "BB");
  for (const char* arch : {"qwen3next", "qwen35", "qwen35moe"}) {
    EXPECT_EQ(Kinds(Read(Hybrid(arch, {2, 2, 2, 2, 2}).U32(std::string(arch) + ".feed_forward_length", 128))),
              "SSSFS");
  }
  const Llm interval = Read(Hybrid("qwen35", {2, 2, 2, 2})
                                .U32("qwen35.feed_forward_length", 128)
                                .U32("qwen35.full_attention_interval", 2));
  EXPECT_EQ(Kinds(interval), "SFSF");
  EXPECT_EQ(interval.layers[0].recurrent.state_elements, 8u * 16 * 16);
  const Llm lfm =
      Read(Hybrid("lfm2", {0, 2, 0}).U32("lfm2.feed_forward_length", 128).U32("lfm2.shortconv.l_cache", 3));
  EXPECT_EQ(Kinds(lfm), "SFS");
  EXPECT_EQ(lfm.layers[0].recurrent.form, "short_conv");
  EXPECT_EQ(Kinds(Read(Hybrid("mamba", {0, 0}))), "SS");
  EXPECT_EQ(Kinds(Read(Hybrid("mamba2", {0, 0}))), "SS");
  EXPECT_EQ(Kinds(Read(Hybrid("rwkv7", {0, 0}).U32("rwkv7.wkv.head_size", 16))), "SS");
  const Llm kimi = Read(Hybrid("kimi-linear", {0, 4})
                            .U32("kimi-linear.feed_forward_length", 128)
                            .U32("kimi-linear.kda.head_dim", 16)
                            .U32("kimi-linear.attention.kv_lora_rank", 32)
                            .U32("kimi-linear.attention.key_length_mla", 24)
                            .U32("kimi-linear.attention.value_length_mla", 16)
                            .U32("kimi-linear.rope.dimension_count", 8));
  EXPECT_EQ(Kinds(kimi), "Sl");
  EXPECT_EQ(KvElements(kimi), 40u);
  EXPECT_EQ(kimi.layers[0].recurrent.state_elements, 4u * 16 * 16);
}

TEST(ReadGgufTest, LayersThatShareKeysAndValues) {
  FakeGguf gemma4 = Shape("gemma4", 6, 64, 4, 2, 128);
  gemma4.U32("gemma4.attention.sliding_window", 512).U32("gemma4.attention.shared_kv_layers", 3);
  gemma4.Bools("gemma4.attention.sliding_window_pattern", {true, true, false, true, true, false});
  gemma4.U32("gemma4.attention.key_length", 512).U32("gemma4.attention.value_length", 512);
  gemma4.U32("gemma4.attention.key_length_swa", 256).U32("gemma4.attention.value_length_swa", 256);
  gemma4.U32("gemma4.rope.dimension_count", 512).U32("gemma4.rope.dimension_count_swa", 256);
  const Llm llm = Read(gemma4);
  EXPECT_EQ(Kinds(llm), "WWFWWF");
  EXPECT_EQ(llm.layers[3].self.shares_kv_with, 1);
  EXPECT_EQ(llm.layers[5].self.shares_kv_with, 2);
  EXPECT_EQ(KvElements(llm), 2u * 2 * (256 + 256 + 512));
  EXPECT_EQ(llm.layers[0].self.position.d_rot(), 256u);
  FakeGguf gemma3n = Shape("gemma3n", 30, 64, 4, 2, 128);
  gemma3n.U32("gemma3n.attention.sliding_window", 512);
  const Llm shared = Read(gemma3n);
  EXPECT_EQ(shared.layers[19].self.shares_kv_with, -1);
  EXPECT_EQ(shared.layers[20].self.shares_kv_with, 18);
  EXPECT_EQ(shared.layers[24].self.shares_kv_with, 19);
  FakeGguf all = Shape("gemma4", 2, 64, 4, 2, 128);
  all.U32("gemma4.attention.shared_kv_layers", 2);
  EXPECT_EQ(Error(all), "x.gguf: gemma4.attention.shared_kv_layers: is 2, expected fewer than the 2 layers");
}

TEST(ReadGgufTest, AnEncoderAndADecoder) {
  FakeGguf gguf = Shape("t5", 2, 64, 4, 4, 128, 512);
  gguf.U32("t5.decoder_block_count", 3).U32("t5.attention.relative_buckets_count", 32);
  gguf.U32("t5.attention.key_length", 24).U32("t5.attention.value_length", 24);
  const Llm llm = Read(gguf);
  EXPECT_EQ(Kinds(llm), "EEFFF");
  EXPECT_TRUE(llm.EncoderDecoder());
  EXPECT_EQ(llm.layers[2].cross.kind, AttentionKind::kCross);
  EXPECT_EQ(llm.MainPosition().encoding, "t5_bias");
  EXPECT_EQ(KvElements(llm), 3u * 2 * 4 * 24);
  EXPECT_FALSE(llm.max_context.has_value());
  FakeGguf bert = Shape("nomic-bert", 2, 64, 4, 4, 128, 2048);
  bert.Bool("nomic-bert.attention.causal", false);
  const Llm nomic = Read(bert);
  EXPECT_EQ(KvElements(nomic), 0u);
  EXPECT_EQ(nomic.layers[0].self.position.encoding, "rope_half");
}

TEST(ReadGgufTest, PairsByArchitecture) {
  for (const char* arch :
       {"llama", "granite", "minicpm", "internlm2", "command-r", "chatglm", "glm4", "deepseek"}) {
    EXPECT_EQ(Read(Shape(arch, 1, 64, 4, 2, 128)).MainPosition().encoding, "rope_interleaved") << arch;
  }
  for (const char* arch :
       {"qwen2", "qwen3", "gemma", "phi2", "falcon", "gptneox", "stablelm", "nemotron", "gpt-oss",
        "starcoder2", "exaone", "dbrx", "olmoe", "glm4moe", "hunyuan-moe", "seed_oss"}) {
    EXPECT_EQ(Read(Shape(arch, 1, 64, 4, 2, 128)).MainPosition().encoding, "rope_half") << arch;
  }
  for (const char* arch : {"bloom", "refact", "mpt", "jais"}) {
    EXPECT_EQ(Read(Shape(arch, 1, 64, 4, 2, 128)).MainPosition().encoding, "alibi") << arch;
  }
  for (const char* arch : {"gpt2", "starcoder"}) {
    const Llm llm = Read(Shape(arch, 1, 64, 4, 2, 128, 1024));
    EXPECT_EQ(llm.MainPosition().encoding, "learned") << arch;
    EXPECT_TRUE(llm.hard_context_limit) << arch;
  }
  EXPECT_EQ(
      Read(Shape("mpt", 1, 64, 4, 2, 128).F32("mpt.attention.max_alibi_bias", 0)).MainPosition().encoding,
      "learned");
}

TEST(ReadGgufTest, WhatCannotBeRead) {
  EXPECT_EQ(Error(FakeGguf()), "x.gguf: general.architecture: is missing, expected a string");
  EXPECT_EQ(Error(FakeGguf().Text("general.architecture", "clip")),
            "x.gguf: general.architecture: is \"clip\", expected a language model's");
  EXPECT_EQ(Error(FakeGguf().Text("general.architecture", "llama").Text("general.type", "adapter")),
            "x.gguf: general.type: is \"adapter\", expected \"model\"");
  EXPECT_EQ(Error(FakeGguf().Text("general.architecture", "llama")),
            "x.gguf: llama.block_count: is missing, expected a whole number");
  EXPECT_EQ(Error(FakeGguf().Text("general.architecture", "llama").U32("llama.block_count", 0)),
            "x.gguf: llama.block_count: is 0, expected from 1 to 4096");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 5, 2, 128)),
            "x.gguf: llama.attention.head_count_kv: 5 heads of layer 0 do "
            "not divide by 2, expected heads that are a multiple of the "
            "KV heads");
  EXPECT_EQ(
      Error(Shape("llama", 1, 100, 8, 2, 128)),
      "x.gguf: llama.attention.head_count: 8 heads do not divide embedding_length 100, expected heads that "
      "do, or attention.key_length and value_length");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 4, 2, 128)
                      .F32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN())),
            "x.gguf: llama.rope.freq_base: is f32 nan, expected a finite number");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 4, 2, 128).F32("llama.rope.freq_base", 0)),
            "x.gguf: llama.rope.freq_base: is no base, expected a number from 1 to 1e15");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 4, 2, 128).U32("llama.rope.dimension_count", 17)),
            "x.gguf: llama.rope.dimension_count: is 17, expected an even number, at most the head's 16");
  EXPECT_EQ(Error(Shape("gemma3", 1, 64, 4, 2, 128).I32("gemma3.attention.sliding_window", -1)),
            "x.gguf: gemma3.attention.sliding_window: is -1, expected a whole number of at least 0");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 4, 2, 128).Text("llama.rope.scaling.type", "spline")),
            "x.gguf: llama.rope.scaling.type: is \"spline\", expected none, linear, yarn or longrope");
  EXPECT_EQ(Error(Shape("llama", 1, 64, 4, 2, 128).U32("llama.expert_count", 8)),
            "x.gguf: llama.expert_used_count: is missing, expected a whole number");
  EXPECT_EQ(Error(Shape("glm4moe", 2, 64, 4, 2, 128).U32("glm4moe.nextn_predict_layers", 2)),
            "x.gguf: glm4moe.nextn_predict_layers: is 2, expected fewer than block_count");
}

TEST(ReadGgufTest, AnUnknownArchitecture) {
  const Llm llm = Read(Shape("newmodel", 2, 64, 4, 2, 128));
  EXPECT_EQ(Kinds(llm), "FF");
  EXPECT_TRUE(Warns(llm, "architecture \"newmodel\" is not known"));
  EXPECT_EQ(
      Error(Shape("newmamba", 2, 64, 4, 2, 128).U32("newmamba.ssm.state_size", 16)),
      "x.gguf: newmamba.ssm.state_size: is of an architecture (\"newmamba\") whose layers are not known, "
      "expected an architecture of plain attention, or one that this reader knows");
}

}  // namespace
}  // namespace ropeline
