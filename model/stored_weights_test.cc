#include "model/stored_weights.h"

#include <gtest/gtest.h>

#include "model/fake_gguf.h"
#include "model/open_model.h"
#include "model/presets.h"
#include "model/weight_format.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "x"};

// The tensors of llama-3.2-1b as its repository names them, in bf16: elements by name.
std::vector<std::pair<std::string, uint64_t>> LlamaTensors(uint64_t n_layers) {
  std::vector<std::pair<std::string, uint64_t>> tensors = {{"model.embed_tokens.weight", 128256u * 2048},
                                                           {"model.norm.weight", 2048}};
  for (uint64_t i = 0; i < n_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    tensors.insert(tensors.end(), {{layer + "self_attn.q_proj.weight", 2048u * 2048},
                                   {layer + "self_attn.k_proj.weight", 512u * 2048},
                                   {layer + "self_attn.v_proj.weight", 512u * 2048},
                                   {layer + "self_attn.o_proj.weight", 2048u * 2048},
                                   {layer + "mlp.gate_proj.weight", 8192u * 2048},
                                   {layer + "mlp.up_proj.weight", 8192u * 2048},
                                   {layer + "mlp.down_proj.weight", 8192u * 2048},
                                   {layer + "input_layernorm.weight", 2048},
                                   {layer + "post_attention_layernorm.weight", 2048}});
  }
  return tensors;
}

SafetensorsFolder Folder(const std::vector<std::pair<std::string, uint64_t>>& tensors,
                         const std::string& dtype, uint64_t bytes_each) {
  SafetensorsFolder folder;
  folder.source = "x";
  for (const auto& [name, elements] : tensors) {
    folder.tensors.push_back({name, dtype, elements, elements * bytes_each});
    folder.tensor_bytes += elements * bytes_each;
  }
  folder.file_bytes = folder.tensor_bytes + 1000;
  return folder;
}

TEST(StoredWeightsTest, BytesAreTheFilesAndGoToTheirMatrices) {
  Llm llm = Preset("llama-3.2-1b", kWhere);
  const size_t warnings = llm.warnings.size();
  TakeSafetensors(Folder(LlamaTensors(16), "BF16", 2), &llm);
  ASSERT_TRUE(llm.stored.has_value());
  EXPECT_EQ(llm.stored->tensor_bytes, 2 * llm.ParamsTotal());
  EXPECT_EQ(llm.stored->other_bytes, 0u);
  EXPECT_EQ(llm.stored->bytes_by_format[0].first, "bf16");
  EXPECT_EQ(llm.warnings.size(), warnings);
  const WeightLayout layout = LayOutWeights(llm, ChooseWeightMix(llm, "", kWhere));
  EXPECT_EQ(layout.total_bytes, 2 * llm.ParamsTotal());
  EXPECT_EQ(layout.decode_bytes, layout.total_bytes) << "a tied embedding is read";
  EXPECT_EQ(layout.tensors[0].bytes, 2u * 128256 * 2048);
  EXPECT_EQ(layout.tensors[1].format, &kBlockBf16);
}

// An output matrix stored beside the tied embedding, a tower, and layers that do not run.
TEST(StoredWeightsTest, WhatIsNotReadIsBesideTheModel) {
  Llm llm = Preset("llama-3.2-1b", kWhere);
  auto tensors = LlamaTensors(17);
  tensors.emplace_back("lm_head.weight", 128256u * 2048);
  tensors.emplace_back("vision_tower.layers.0.weight", 1000);
  TakeSafetensors(Folder(tensors, "BF16", 2), &llm);
  const uint64_t layer = 2u * 2048 * 2048 + 2u * 512 * 2048 + 3u * 8192 * 2048 + 2u * 2048;
  EXPECT_EQ(llm.stored->other_bytes, 2 * (layer + 128256u * 2048 + 1000));
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.decode_bytes, 2 * llm.ParamsTotal());
  EXPECT_EQ(layout.total_bytes, llm.stored->tensor_bytes);
}

TEST(StoredWeightsTest, AnIndexWithoutFilesGivesTheTotal) {
  Llm llm = Preset("llama-3.1-8b", kWhere);
  SafetensorsFolder folder;
  folder.tensor_bytes = 16060522496;
  TakeSafetensors(folder, &llm);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.total_bytes, 16060522496u);
  EXPECT_NEAR(static_cast<double>(layout.total_bytes - layout.decode_bytes), 2.0 * 128256 * 4096, 10);
}

TEST(StoredWeightsTest, FilesThatAreNotTheConfigs) {
  Llm llm = Preset("llama-3.2-1b", kWhere);
  TakeSafetensors(Folder(LlamaTensors(8), "BF16", 2), &llm);
  ASSERT_FALSE(llm.warnings.empty());
  EXPECT_EQ(llm.warnings.back().rfind("x holds 749", 0), 0u) << llm.warnings.back();
}

// Experts of 8 bits among the rest of 16: the part that a step reads is exact.
TEST(StoredWeightsTest, ExpertsHaveAFormatOfTheirOwn) {
  Llm llm;
  llm.layers.resize(1);
  llm.layers[0].ffn = {FfnKind::kMoe, 0, 4, 1, 0, 10, 0};
  llm.matrices = {{MatrixRole::kTokenEmbedding, 10, 10},
                  {MatrixRole::kAttnQ, 10, 10, 1, 0},
                  {MatrixRole::kExpertUp, 10, 10, 4, 0, 1},
                  {MatrixRole::kOutput, 10, 10}};
  SafetensorsFolder folder = Folder({{"model.embed_tokens.weight", 100},
                                     {"model.layers.0.self_attn.q_proj.weight", 100},
                                     {"lm_head.weight", 100}},
                                    "BF16", 2);
  folder.tensors.push_back({"model.layers.0.mlp.experts.0.up_proj.weight", "F8_E4M3", 400, 400});
  folder.tensor_bytes += 400;
  TakeSafetensors(folder, &llm);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("stored", kWhere));
  EXPECT_EQ(layout.total_bytes, 1000u);
  EXPECT_EQ(layout.decode_bytes, 200u + 100 + 200);
}

TEST(StoredWeightsTest, AFolderIsOpenedWithItsWeights) {
  const TemporaryFolder folder("open_stored");
  folder.Write("config.json",
               R"({"model_type":"llama","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,
                   "intermediate_size":128,"vocab_size":100,"num_key_value_heads":4,"rope_theta":10000,
                   "max_position_embeddings":2048,"tie_word_embeddings":true})");
  EXPECT_FALSE(OpenModel(folder.Path(""), kWhere).stored.has_value());
  folder.Write("model.safetensors.index.json",
               R"({"metadata":{"total_size":123456},"weight_map":{"a":"model-00001-of-00001.safetensors"}})");
  EXPECT_EQ(OpenModel(folder.Path(""), kWhere).stored->tensor_bytes, 123456u);
}

TEST(StoredWeightsTest, AFolderWithAGgufFile) {
  const TemporaryFolder folder("open_gguf");
  FakeGguf gguf;
  gguf.Text("general.architecture", "llama").U32("llama.block_count", 1).U32("llama.embedding_length", 64);
  gguf.U32("llama.attention.head_count", 4).U32("llama.feed_forward_length", 128);
  folder.Write("m-q4.gguf", gguf.File());
  folder.Write("mmproj-m.gguf", "no model");
  EXPECT_EQ(OpenModel(folder.Path(""), kWhere).model_type, "llama");
  EXPECT_EQ(OpenModel(folder.Path("m-q4.gguf"), kWhere).name, "m-q4");
  folder.Write("m-q8.gguf", gguf.File());
  EXPECT_THROW(OpenModel(folder.Path(""), kWhere), BadInput);
}

}  // namespace
}  // namespace ropeline
