// Models from files: what inspect and predict say of them, and which they refuse.
#include <gtest/gtest.h>

#include <filesystem>

#include "model/cli/cli_fixture.h"
#include "model/fake_gguf.h"

namespace ropeline {
namespace {

// The weights of a GGUF file are those it stores, whatever the usual format is.
TEST_F(CliTest, AGgufFileHasWeightsOfItsOwn) {
  FakeGguf gguf;
  gguf.Text("general.architecture", "llama").U32("llama.block_count", 1).U32("llama.embedding_length", 64);
  gguf.U32("llama.attention.head_count", 4)
      .U32("llama.feed_forward_length", 128)
      .F32("llama.rope.freq_base", 1e4f);
  gguf.F32Tensor("token_embd.weight", {64, 100}).F32Tensor("blk.0.attn_q.weight", {64, 64});
  const std::string path = File("m.gguf", gguf.File());
  const std::string machine = " --context 1k --bandwidth 20GB/s --flops 50GFLOP/s --json";
  const auto json = nlohmann::json::parse(Run("predict '" + path + "'" + machine).out);
  EXPECT_EQ(json["memory"]["weights_bytes"], 4 * (6400 + 4096));
  EXPECT_EQ(json["inputs"]["weights_format"], "stored");
  const auto halved = nlohmann::json::parse(Run("predict '" + path + "' --weights f16" + machine).out);
  EXPECT_EQ(halved["memory"]["weights_bytes"], 2 * (6400 + 4096));
  EXPECT_NE(Run("inspect '" + path + "'").out.find("weights in the files"), std::string::npos);
  const auto inspected = nlohmann::json::parse(Run("inspect '" + path + "' --json").out);
  EXPECT_EQ(inspected["model"]["stored_weights"]["bytes_by_format"]["f32"], 4 * (6400 + 4096));
  const auto tensors = nlohmann::json::parse(Run("inspect '" + path + "' --tensors --json").out)["tensors"];
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[1], nlohmann::json::parse(R"({"name":"blk.0.attn_q.weight","shape":[64,64],"format":"f32",
                                                  "bytes":16384})"));
  EXPECT_NE(Run("inspect '" + path + "' --tensors")
                .out.find("| token_embd.weight   | 64 × 100 | f32    | 25,600 |"),
            std::string::npos);
  ExpectRefused("inspect '" + File("cut.gguf", gguf.File().substr(0, 100)) + "'", "cut.gguf: ");
  ExpectRefused("predict llama-3.2-1b --weights stored --context 1k --bandwidth 20GB/s --flops 50GFLOP/s",
                "\"stored\" needs a model file with weights");
}

// A model of our own, from a file, a folder and a preset.
TEST_F(CliTest, InspectShowsLayersThatAreAlikeInOneRow) {
  const std::string config =
      File("config.json", R"({"model_type":"gemma2","hidden_size":64,"num_attention_heads":4,
      "num_key_value_heads":2,"head_dim":16,"num_hidden_layers":4,"intermediate_size":128,"vocab_size":100,
      "max_position_embeddings":1024,"sliding_window":10,"rope_theta":10000,"tie_word_embeddings":true})");
  for (const std::string& model : {config, folder_.string()}) {
    const Outcome outcome = Run("inspect " + model);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("|      2 | 0, 2  | window 10 |"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("|      2 | 1, 3  | full      |"), std::string::npos) << outcome.out;
  }
  const nlohmann::json json =
      nlohmann::json::parse(Run("inspect --json --context 100 --kv q8_0/f16 " + config).out);
  EXPECT_EQ(json["layers"].size(), 4u);
  EXPECT_EQ(json["layers"][0]["window"], 10);
  EXPECT_EQ(json["kv"]["format"], "q8_0/f16");
  EXPECT_EQ(json["kv"]["bytes_per_token"], 4 * 2 * (34 + 32));  // 16 take a whole block of 32
  EXPECT_EQ(json["kv"]["bytes_at_context"], 2 * 2 * (34 + 32) * (10 + 100));
  EXPECT_EQ(json["model"]["params_total"], json["model"]["params_active"]);
  EXPECT_EQ(Run("inspect llama-3.2-3b").exit_code, 0);
  const nlohmann::json prediction = nlohmann::json::parse(
      Run("predict " + config + " --context 100 --bandwidth 20GB/s --flops 50GFLOP/s --json").out);
  EXPECT_EQ(prediction["kv"]["bytes_at_context"], 2 * 2 * 64 * (10 + 100));
}

TEST_F(CliTest, ModelsThatAreRefused) {
  const std::string figures = " --context 1k --bandwidth 20GB/s --flops 50GFLOP/s";
  ExpectRefused("inspect " + File("config.json", "{\"hidden_size\":64"), "truncated");
  ExpectRefused("inspect " + File("model.json", R"({"model_type":"novel","hidden_size":64})"),
                "model.json: vocab_size: is missing, expected");
  ExpectRefused("inspect nowhere", "MODEL: \"nowhere\" is not a known model");
  fs::create_directories(folder_ / "empty");
  ExpectRefused("inspect " + (folder_ / "empty").string(), "is a folder without a model");
  ExpectRefused("inspect /dev/zero", "is not a regular file");
  const std::string encoder = File("bert.json", R"({"model_type":"bert","architectures":["BertModel"]})");
  EXPECT_EQ(Run("inspect " + encoder).exit_code, 0);
  ExpectRefused("predict " + encoder + figures, "is an encoder");
  ExpectRefused("predict llama-3.2-3b --kv q8_0/what" + figures, "\"what\" is not a KV cache format");
  ExpectRefused("predict llama-3.2-3b --windows some" + figures, "--windows: \"some\" is no choice");
  ExpectRefused("predict llama-3.2-3b --latent 3" + figures, "--latent");
  ExpectRefused("predict llama-3.2-3b --pad 0" + figures, "--pad");
  ExpectRefused("predict llama-3.2-3b --chunk x" + figures, "--chunk");
}

}  // namespace
}  // namespace ropeline
