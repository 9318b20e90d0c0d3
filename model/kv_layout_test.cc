#include "model/kv_layout.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "--kv"};

KvLayer Total(const char* model, const char* format, uint64_t context, const KvAllocation& allocation = {}) {
  return LayOutKv(Preset(model, kWhere), FindKvFormat(format, kWhere), context, allocation).total;
}

TEST(KvLayoutTest, TheArticlesFigures) {
  const KvLayer kv = Total("article-3b", "f16", 32768);
  EXPECT_EQ(kv.bytes_per_token, 114688u);  // 2 · 28 · 8 · 128 · 2
  EXPECT_EQ(kv.bytes_per_token_beyond_window, 114688u);
  EXPECT_EQ(kv.bytes_at_context, 7u << 29);  // 3.5 GiB
  EXPECT_EQ(kv.read_bytes_per_step, 7u << 29);
  EXPECT_EQ(kv.constant_bytes, 0u);
}

// GQA and MHA, from published shapes (also in ../shared/configs/truth.tsv).
TEST(KvLayoutTest, BytesPerTokenOfPublishedModels) {
  EXPECT_EQ(Total("llama-3.2-3b", "f16", 1).bytes_per_token, 114688u);
  EXPECT_EQ(Total("llama-3.2-1b", "f16", 1).bytes_per_token, 32768u);
  EXPECT_EQ(Total("llama-3.1-8b", "f16", 1).bytes_per_token, 131072u);
  EXPECT_EQ(Total("qwen2.5-7b", "f16", 1).bytes_per_token, 57344u);
  EXPECT_EQ(Total("tinyllama-1.1b", "f16", 1).bytes_per_token, 22528u);
  EXPECT_EQ(Total("gpt2", "f16", 1).bytes_per_token, 36864u);        // MHA: 2 · 12 · 768 · 2
  EXPECT_EQ(Total("bloom-7b1", "f16", 1).bytes_per_token, 491520u);  // MHA: 2 · 30 · 4096 · 2
}

TEST(KvLayoutTest, BlockFormatsCarryTheirScales) {
  EXPECT_EQ(Total("article-3b", "f32", 1).bytes_per_token, 229376u);
  EXPECT_EQ(Total("article-3b", "bf16", 1).bytes_per_token, 114688u);
  EXPECT_EQ(Total("article-3b", "q8_0", 1).bytes_per_token, 57344u / 32 * 34);
  EXPECT_EQ(Total("article-3b", "q4_0", 1).bytes_per_token, 57344u / 32 * 18);
  EXPECT_EQ(Total("article-3b", "kivi4", 1).bytes_per_token, 57344u / 32 * 20);
}

TEST(KvLayoutTest, AHeadTakesWholeBlocks) {
  Llm llm;
  llm.layers.resize(1);
  llm.layers[0].self = {
      .kind = AttentionKind::kFull, .n_heads = 4, .n_kv_heads = 2, .d_head_k = 80, .d_head_v = 64};
  // 80 → 3 blocks of 32, 64 → 2; two heads.
  EXPECT_EQ(LayOutKv(llm, kBlockQ80, 1).total.bytes_per_token, 2u * (3 * 34 + 2 * 34));
  EXPECT_EQ(LayOutKv(llm, kBlockF16, 1).total.bytes_per_token, 2u * (80 + 64) * 2);
}

TEST(KvLayoutTest, WindowsAreHonoured) {
  const KvLayer below = Total("mistral-7b", "f16", 4096);
  const KvLayer beyond = Total("mistral-7b", "f16", 32768);
  EXPECT_EQ(beyond.bytes_per_token, 131072u);
  EXPECT_EQ(beyond.bytes_per_token_beyond_window, 0u);
  EXPECT_EQ(beyond.bytes_at_context, 536870912u);  // truth.tsv: 4096 tokens of it
  EXPECT_EQ(beyond.bytes_at_context, below.bytes_at_context);
  EXPECT_EQ(beyond.read_bytes_per_step, 536870912u);
  EXPECT_EQ(beyond.allocated_bytes, 4294967296u);  // by an engine that keeps all
  EXPECT_EQ(Total("mistral-7b", "f16", 32768, {.pad_tokens = 1, .windows_kept_full = false}).allocated_bytes,
            536870912u);
  EXPECT_EQ(Total("mistral-7b", "f16", 1000).bytes_at_context, 1000u * 131072);
}

TEST(KvLayoutTest, AllocationIsPadded) {
  EXPECT_EQ(Total("article-3b", "f16", 1000).allocated_bytes, 1024u * 114688);
  EXPECT_EQ(Total("article-3b", "f16", 1024).allocated_bytes, 1024u * 114688);
  EXPECT_EQ(Total("article-3b", "f16", 1000, {.pad_tokens = 1}).allocated_bytes, 1000u * 114688);
}

TEST(KvLayoutTest, CrossAttentionIsConstantAndTheEncoderKeepsNothing) {
  const KvLayout layout = LayOutKv(Preset("t5-base", kWhere), kBlockF16, 512);
  EXPECT_EQ(layout.layers.size(), 12u);
  EXPECT_EQ(layout.total.bytes_per_token, 36864u);  // 2 · 12 · 768 · 2, decoder self attention only
  EXPECT_EQ(layout.total.bytes_at_context, 512u * 36864);
  EXPECT_EQ(layout.total.constant_bytes, 512u * 36864);
  EXPECT_EQ(layout.total.read_bytes_per_step, 2u * 512 * 36864);
}

TEST(KvLayoutTest, TotalsAreSumsOverLayersOfDifferentKinds) {
  Llm llm;
  llm.layers.resize(3);  // full with 2 KV heads, window with 1, none
  llm.layers[0].self = {
      .kind = AttentionKind::kFull, .n_heads = 4, .n_kv_heads = 2, .d_head_k = 64, .d_head_v = 64};
  llm.layers[1].self = {.kind = AttentionKind::kWindow,
                        .n_heads = 4,
                        .n_kv_heads = 1,
                        .d_head_k = 64,
                        .d_head_v = 64,
                        .window = 10};
  const KvLayout layout = LayOutKv(llm, kBlockF16, 100);
  ASSERT_EQ(layout.layers.size(), 2u);
  EXPECT_EQ(layout.layers[1].layer, 1);
  EXPECT_EQ(layout.total.bytes_per_token, 512u + 256);
  EXPECT_EQ(layout.total.bytes_per_token_beyond_window, 512u);
  EXPECT_EQ(layout.total.bytes_at_context, 512u * 100 + 256 * 10);
}

TEST(KvLayoutTest, AnUnknownFormatListsThem) {
  try {
    FindKvFormat("q6_K", kWhere);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(),
                 "test: --kv: \"q6_K\" is not a KV cache format, expected one of f32, f16, bf16, fp8, "
                 "q8_0, q5_1, q5_0, q4_1, q4_0, kivi4, int4_g32, int4_g64, int4_g128");
  }
}

}  // namespace
}  // namespace ropeline
