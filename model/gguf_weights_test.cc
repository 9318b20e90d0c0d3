#include "model/gguf_weights.h"

#include <gtest/gtest.h>

#include "model/fake_gguf.h"
#include "model/read_gguf.h"
#include "model/weight_format.h"

namespace ropeline {
namespace {

constexpr uint32_t kF32 = 0, kF16 = 1, kQ4K = 12, kQ6K = 14;
const Where kWhere{"test", "--weights"};

// One layer of 256 wide, 4 heads and 2 KV heads of 64, a vocabulary of 512 in q6_K, the rest in q4_K.
FakeGguf Keys(uint32_t n_layers = 1) {
  FakeGguf gguf;
  gguf.Text("general.architecture", "llama").U32("llama.block_count", n_layers);
  gguf.U32("llama.embedding_length", 256).U32("llama.context_length", 4096);
  gguf.U32("llama.attention.head_count", 4).U32("llama.attention.head_count_kv", 2);
  gguf.U32("llama.feed_forward_length", 512).F32("llama.rope.freq_base", 10000);
  return gguf;
}

void AddMatrix(FakeGguf* gguf, const std::string& name, uint64_t cols, uint64_t rows, uint32_t type,
               uint64_t count = 1) {
  const uint64_t elements = cols * rows * count;
  const uint64_t bytes = type == kF32   ? 4 * elements
                         : type == kF16 ? 2 * elements
                         : type == kQ4K ? elements / 256 * 144
                                        : elements / 256 * 210;
  gguf->Tensor(name,
               count == 1 ? std::vector<uint64_t>{cols, rows} : std::vector<uint64_t>{cols, rows, count},
               type, bytes);
}

void AddAttention(FakeGguf* gguf, const std::string& layer) {
  AddMatrix(gguf, layer + "attn_q.weight", 256, 256, kQ4K);
  AddMatrix(gguf, layer + "attn_k.weight", 256, 128, kQ4K);
  AddMatrix(gguf, layer + "attn_v.weight", 256, 128, kQ6K);
  AddMatrix(gguf, layer + "attn_output.weight", 256, 256, kQ4K);
  gguf->F32Tensor(layer + "attn_norm.weight", {256}).F32Tensor(layer + "ffn_norm.weight", {256});
}

void AddFfn(FakeGguf* gguf, const std::string& layer) {
  AddMatrix(gguf, layer + "ffn_gate.weight", 256, 512, kQ4K);
  AddMatrix(gguf, layer + "ffn_up.weight", 256, 512, kQ4K);
  AddMatrix(gguf, layer + "ffn_down.weight", 512, 256, kQ6K);
}

constexpr uint64_t kEmbedding = 256 * 512, kAttention = 2 * 65536 + 2 * 32768, kFfnElements = 3 * 131072;
constexpr uint64_t kAttentionBytes = (2 * 65536 + 32768) / 256 * 144 + 32768 / 256 * 210;
constexpr uint64_t kFfnBytes = 2 * 131072 / 256 * 144 + 131072 / 256 * 210;

Llm Write(const FakeGguf& gguf) {
  const TemporaryFolder folder(std::string("gguf_weights_") +
                               testing::UnitTest::GetInstance()->current_test_info()->name());
  return ReadGguf(folder.Write("m.gguf", gguf.File()));
}

TEST(GgufWeightsTest, ParametersAndBytesAreTheFiles) {
  FakeGguf gguf = Keys();
  AddMatrix(&gguf, "token_embd.weight", 256, 512, kQ6K);
  gguf.F32Tensor("output_norm.weight", {256});
  AddAttention(&gguf, "blk.0.");
  AddFfn(&gguf, "blk.0.");
  gguf.F32Tensor("blk.0.attn_q.bias", {256});
  const Llm llm = Write(gguf);
  EXPECT_TRUE(llm.tied_embeddings) << "there is no output matrix";
  EXPECT_EQ(llm.vocabulary, 512u);
  EXPECT_EQ(llm.ParamsTotal(), kEmbedding + kAttention + kFfnElements + 4 * 256);
  const uint64_t bytes = kEmbedding / 256 * 210 + kAttentionBytes + kFfnBytes + 4 * 1024;
  ASSERT_TRUE(llm.stored.has_value());
  EXPECT_EQ(llm.stored->tensor_bytes, bytes);
  EXPECT_EQ(llm.stored->other_bytes, 0u);
  EXPECT_GT(llm.stored->file_bytes, bytes);
  ASSERT_EQ(llm.stored->bytes_by_format.size(), 3u);
  EXPECT_EQ(llm.stored->bytes_by_format[0].first, "q6_K") << "the largest share first";
  const WeightLayout layout = LayOutWeights(llm, ChooseWeightMix(llm, "", kWhere));
  EXPECT_EQ(layout.total_bytes, bytes);
  EXPECT_EQ(layout.decode_bytes, bytes) << "a tied embedding is the output matrix";
  EXPECT_EQ(layout.vector_bytes, 4096u);
  // Another format is made from the shapes.
  EXPECT_EQ(LayOutWeights(llm, FindWeightMix("f16", kWhere)).total_bytes,
            2 * (kEmbedding + kAttention + kFfnElements) + 4096);
  for (const std::string& warning : llm.warnings) EXPECT_EQ(warning, "") << "nothing to say";
}

TEST(GgufWeightsTest, AnUntiedEmbeddingIsGathered) {
  FakeGguf gguf = Keys();
  AddMatrix(&gguf, "token_embd.weight", 256, 512, kQ4K);
  AddMatrix(&gguf, "output.weight", 256, 512, kQ6K);
  AddAttention(&gguf, "blk.0.");
  AddFfn(&gguf, "blk.0.");
  const Llm llm = Write(gguf);
  EXPECT_FALSE(llm.tied_embeddings);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.total_bytes - layout.decode_bytes, kEmbedding / 256 * 144);
}

// Merged experts, a shared one, and a bias per expert; then a tensor for each expert, as first files had.
TEST(GgufWeightsTest, ATokenTakesSomeExperts) {
  FakeGguf merged = Keys(2);
  merged.U32("llama.expert_count", 4).U32("llama.expert_used_count", 2);
  FakeGguf apart = merged;
  for (FakeGguf* gguf : {&merged, &apart}) {
    AddMatrix(gguf, "token_embd.weight", 256, 512, kQ6K);
    AddAttention(gguf, "blk.0.");
    AddFfn(gguf, "blk.0.");  // a dense layer
    AddAttention(gguf, "blk.1.");
    AddMatrix(gguf, "blk.1.ffn_gate_inp.weight", 256, 4, kF32);
  }
  AddMatrix(&merged, "blk.1.ffn_gate_exps.weight", 256, 64, kQ4K, 4);
  AddMatrix(&merged, "blk.1.ffn_up_exps.weight", 256, 64, kQ4K, 4);
  AddMatrix(&merged, "blk.1.ffn_down_exps.weight", 256, 256, kQ6K, 4);
  merged.F32Tensor("blk.1.ffn_up_exps.bias", {64, 4});
  AddMatrix(&merged, "blk.1.ffn_down_shexp.weight", 256, 256, kQ6K);
  for (int i = 0; i < 4; ++i) {
    const std::string end = "." + std::to_string(i) + ".weight";
    AddMatrix(&apart, "blk.1.ffn_gate" + end, 256, 64, kQ4K);
    AddMatrix(&apart, "blk.1.ffn_up" + end, 256, 64, kQ4K);
    AddMatrix(&apart, "blk.1.ffn_down" + end, 256, 256, i == 0 ? kQ4K : kQ6K);
  }
  const uint64_t expert = 2 * 64 * 256 + 256 * 256;
  const Llm llm = Write(merged);
  EXPECT_EQ(llm.layers[0].ffn.kind, FfnKind::kGated);
  EXPECT_EQ(llm.layers[1].ffn.kind, FfnKind::kMoe);
  EXPECT_EQ(llm.layers[1].ffn.n_active, 2u);
  EXPECT_EQ(llm.layers[1].ffn.shared_width, 256u);
  EXPECT_EQ(llm.ParamsTotal() - llm.ParamsActive(), 2 * expert + 2 * 64);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.total_bytes, llm.stored->tensor_bytes);
  EXPECT_EQ(layout.total_bytes - layout.decode_bytes,
            2 * (2 * 64 * 256 / 256 * 144 + 256 * 256 / 256 * 210) + 2 * 64 * 4);
  const Llm first = Write(apart);
  EXPECT_EQ(first.layers[1].ffn.kind, FfnKind::kMoe);
  EXPECT_EQ(first.ParamsTotal() - first.ParamsActive(), 2 * expert);
  EXPECT_EQ(first.stored->tensor_bytes, LayOutWeights(first, FindWeightMix("stored", kWhere)).total_bytes);
}

TEST(GgufWeightsTest, ExpertsThatAreNotAsManyAsTheKeySays) {
  FakeGguf gguf = Keys();
  gguf.U32("llama.expert_count", 8).U32("llama.expert_used_count", 2);
  AddAttention(&gguf, "blk.0.");
  AddMatrix(&gguf, "blk.0.ffn_down_exps.weight", 256, 256, kQ6K, 4);
  try {
    Write(gguf);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find(
                  "m.gguf: blk.0: has tensors of 4 experts, expected 8, as expert_count says"),
              std::string::npos)
        << e.what();
  }
}

// A tower for images, a block of multi-token prediction and a table of frequencies are bytes, not parameters.
TEST(GgufWeightsTest, WhatIsNotTheTextModel) {
  FakeGguf gguf = Keys(2);
  gguf.U32("llama.nextn_predict_layers", 1);
  AddMatrix(&gguf, "token_embd.weight", 256, 512, kQ6K);
  AddAttention(&gguf, "blk.0.");
  AddFfn(&gguf, "blk.0.");
  const uint64_t own = LayOutWeights(Write(gguf), FindWeightMix("stored", kWhere)).decode_bytes;
  AddAttention(&gguf, "blk.1.");
  AddMatrix(&gguf, "blk.1.nextn.eh_proj.weight", 512, 256, kQ4K);
  AddMatrix(&gguf, "v.patch_embd.weight", 256, 256, kF16);
  AddMatrix(&gguf, "mm.0.weight", 256, 256, kF16);
  gguf.F32Tensor("rope_freqs.weight", {32});
  const Llm llm = Write(gguf);
  EXPECT_EQ(llm.layers.size(), 1u);
  EXPECT_EQ(llm.ParamsTotal(), kEmbedding + kAttention + kFfnElements + 2 * 256);
  EXPECT_EQ(llm.stored->other_bytes, kAttentionBytes + 2048 + 131072 / 256 * 144 + 2 * 131072 + 128);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.decode_bytes, own);
  EXPECT_EQ(layout.total_bytes, own + llm.stored->other_bytes);
}

TEST(GgufWeightsTest, TensorsOfTwoStacks) {
  FakeGguf gguf;
  gguf.Text("general.architecture", "t5").U32("t5.block_count", 1).U32("t5.embedding_length", 256);
  gguf.U32("t5.attention.head_count", 4).U32("t5.feed_forward_length", 512).U32("t5.decoder_block_count", 1);
  AddMatrix(&gguf, "token_embd.weight", 256, 512, kF16);
  for (const char* stack : {"enc.blk.0.", "dec.blk.0."}) {
    const std::string layer = stack;
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_o"}) {
      AddMatrix(&gguf, layer + name + ".weight", 256, 256, kF16);
    }
    AddMatrix(&gguf, layer + "attn_rel_b.weight", 4, 32, kF16);
    AddMatrix(&gguf, layer + "ffn_up.weight", 256, 512, kF16);
    AddMatrix(&gguf, layer + "ffn_down.weight", 512, 256, kF16);
  }
  for (const char* name : {"q", "k", "v", "o"}) {
    AddMatrix(&gguf, std::string("dec.blk.0.cross_attn_") + name + ".weight", 256, 256, kF16);
  }
  const Llm llm = Write(gguf);
  EXPECT_EQ(llm.ParamsTotal(), kEmbedding + 12 * 65536 + 4 * 131072 + 2 * 128);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  // A step reads neither the encoder (its four and two), nor cross K and V, nor the tables.
  EXPECT_EQ(layout.total_bytes - layout.decode_bytes, 2 * (4 * 65536 + 2 * 131072 + 2 * 65536 + 2 * 128));
}

std::string FloatBytes(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> 8 * i & 0xff);
  }
  return bytes;
}

// Llama 3.1's schedule is a tensor of divisors; so are LongRoPE's two lists.
TEST(GgufWeightsTest, DivisorsOfFrequenciesAreRead) {
  const TemporaryFolder folder("gguf_factors");
  FakeGguf gguf = Keys();
  gguf.U32("llama.rope.dimension_count", 8)
      .U32("llama.attention.key_length", 8)
      .U32("llama.attention.value_length", 8);
  gguf.F32Tensor("rope_freqs.weight", {4});
  std::string bytes = gguf.File();
  bytes.replace(bytes.size() - 32, 16, FloatBytes({1, 1, 2.5f, 8}));
  const Llm llm = ReadGguf(folder.Write("llama3.gguf", bytes));
  EXPECT_EQ(llm.layers[0].self.position.rope.freq_factors, (std::vector<double>{1, 1, 2.5, 8}));
  const Llm header = ReadGguf(folder.Write("header.gguf", gguf.Header()));
  EXPECT_TRUE(header.layers[0].self.position.rope.freq_factors.empty());
  EXPECT_EQ(header.warnings.size(), 2u) << "no values, and the file ends with its header";

  FakeGguf phi;
  phi.Text("general.architecture", "phi3").U32("phi3.block_count", 1).U32("phi3.embedding_length", 32);
  phi.U32("phi3.attention.head_count", 4)
      .U32("phi3.feed_forward_length", 64)
      .U32("phi3.context_length", 131072);
  phi.U32("phi3.rope.scaling.original_context_length", 4096).F32("phi3.rope.scaling.attn_factor", 1.190238f);
  phi.F32Tensor("rope_factors_long.weight", {4}).F32Tensor("rope_factors_short.weight", {4});
  bytes = phi.File();
  bytes.replace(bytes.size() - 64, 16, FloatBytes({1, 2, 3, 4}));
  bytes.replace(bytes.size() - 32, 16, FloatBytes({1, 1, 1, 1.5f}));
  const Llm longrope = ReadGguf(folder.Write("phi3.gguf", bytes));
  const RopeParameters& rope = longrope.layers[0].self.position.rope;
  EXPECT_EQ(rope.type, RopeType::kLongrope);
  EXPECT_EQ(rope.long_factor, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(rope.short_factor, (std::vector<double>{1, 1, 1, 1.5}));
  EXPECT_EQ(rope.factor, 32);
  EXPECT_EQ(rope.attention_factor, static_cast<double>(1.190238f));
}

}  // namespace
}  // namespace ropeline
