#include "model/read_params_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/kv_layout.h"

namespace ropeline {
namespace {

Llm Read(const char* text) { return ParamsJsonToLlm(nlohmann::json::parse(text), "params.json", "model"); }

// Parameter counts as published.
TEST(ReadParamsJsonTest, MetasFiles) {
  const Llm llama =
      Read(R"({"dim":4096,"ffn_dim_multiplier":1.3,"multiple_of":1024,"n_heads":32,"n_kv_heads":8,
                             "n_layers":32,"norm_eps":1e-05,"rope_theta":500000.0,"use_scaled_rope":true,
                             "vocab_size":128256})");
  EXPECT_EQ(llama.ParamsTotal(), 8030261248u);
  EXPECT_EQ(LayOutKv(llama, kBlockF16, 1).total.bytes_per_token, 131072u);
  EXPECT_EQ(llama.MainPosition().encoding, "rope_interleaved");
  EXPECT_EQ(llama.MainPosition().rope.type, RopeType::kLlama3);
  EXPECT_EQ(llama.MainPosition().rope.factor, 8);
  const Llm first =
      Read(R"({"dim":4096,"multiple_of":256,"n_heads":32,"n_layers":32,"norm_eps":1e-06,"vocab_size":-1})");
  EXPECT_EQ(first.ParamsTotal(), 6738415616u);
  EXPECT_EQ(first.MainAttention()->n_kv_heads, 32u);
  EXPECT_EQ(first.MainPosition().rope.type, RopeType::kDefault);
}

TEST(ReadParamsJsonTest, MistralsFiles) {
  const Llm mistral =
      Read(R"({"dim":4096,"n_layers":32,"head_dim":128,"hidden_dim":14336,"n_heads":32,"n_kv_heads":8,
                               "norm_eps":1e-05,"sliding_window":4096,"vocab_size":32000})");
  EXPECT_EQ(mistral.ParamsTotal(), 7241732096u);
  EXPECT_EQ(LayOutKv(mistral, kBlockF16, 32768).total.bytes_at_context, 536870912u);
  const Llm mixtral =
      Read(R"({"dim":4096,"n_layers":32,"head_dim":128,"hidden_dim":14336,"n_heads":32,"n_kv_heads":8,
                               "norm_eps":1e-05,"vocab_size":32000,"rope_theta":1e6,
                               "moe":{"num_experts_per_tok":2,"num_experts":8}})");
  EXPECT_EQ(mixtral.ParamsTotal(), 46702792704u);
  EXPECT_EQ(mixtral.ParamsActive(), 12879925248u);
  EXPECT_EQ(mixtral.MainAttention()->kind, AttentionKind::kFull);
}

TEST(ReadParamsJsonTest, AListOfWindowsRepeats) {
  const Llm llm = Read(R"({"dim":64,"n_layers":4,"head_dim":16,"hidden_dim":128,"n_heads":4,"n_kv_heads":2,
                           "vocab_size":100,"max_seq_len":128,"_sliding_window":[128,32,32,32]})");
  EXPECT_EQ(llm.layers[0].self.kind, AttentionKind::kFull);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(llm.layers[i].self.window, 32u);
}

}  // namespace
}  // namespace ropeline
