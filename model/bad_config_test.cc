// What cannot be read: one line that names the file and the key.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/blueprint.h"
#include "model/config_json.h"
#include "model/read_hf_config.h"
#include "model/read_params_json.h"

namespace ropeline {
namespace {

// The message of the refusal; "" where there is none.
std::string Refusal(const std::string& text) {
  try {
    HfConfigToLlm(ParseConfigJson(text, "c.json", "a config"), "c.json", "c");
  } catch (const BadInput& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    EXPECT_LT(std::string(e.what()).size(), 2100u);
    return e.what();
  }
  return "";
}

// A small llama with one key set.
std::string With(const std::string& key, const std::string& value) {
  nlohmann::ordered_json config = {{"model_type", "llama"},    {"hidden_size", 64},
                                   {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                                   {"num_hidden_layers", 2},   {"intermediate_size", 128},
                                   {"vocab_size", 100},        {"rope_theta", 1e4}};
  config[key] = "@";
  std::string text = config.dump();
  return text.replace(text.find("\"@\""), 3, value);
}

struct BadValue {
  const char *key, *value, *wrong;
};

TEST(BadConfigTest, AValueOutOfPlaceIsNamedByItsKey) {
  const BadValue kValues[] = {
      {"num_hidden_layers", "0", "is 0"},
      {"num_hidden_layers", "9223372036854775808", "is number 9223372036854775808"},
      {"num_attention_heads", "9007199254740992", "from 1 to 65536"},
      {"num_attention_heads", "3", "do not divide hidden_size 64"},
      {"num_attention_heads", "\"four\"", "is string"},
      {"num_attention_heads", "4.5", "a whole number"},
      {"num_attention_heads", "NaN", "is string \"NaN\""},
      {"num_key_value_heads", "3", "4 heads do not divide by 3"},
      {"head_dim", "-16", "a whole number of at least 0"},
      {"hidden_size", "[64]", "is array"},
      {"vocab_size", "{}", "is object"},
      {"rope_theta", "Infinity", "is string \"Infinity\""},
      {"rope_theta", "0", "is no base"},
      {"rope_theta", "1e400", "out of range"},
      {"partial_rotary_factor", "1.5", "above 1"},
      {"rope_scaling", R"({"type":"linear","factor":0})", "is 0"},
      {"rope_scaling", R"({"type":"linear","factor":-2})", "at least 0"},
      {"rope_scaling", R"({"type":"longrope","short_factor":[1],"long_factor":[1]})",
       "one for each of 8 rotated pairs"},
      {"rope_scaling", R"({"type":"longrope"})", "is missing"},
      {"layer_types", R"(["full_attention"])", "one for each of 2 layers"},
      {"layer_types", R"(["full_attention","sliding_attention"])", "is missing"},
      {"layer_types", R"(["full_attention","wavelet"])", "no kind of layer"},
      {"layer_types", "[1,2]", "a string"},
  };
  for (const BadValue& bad : kValues) {
    const std::string line = Refusal(With(bad.key, bad.value));
    EXPECT_NE(line.find("c.json: "), std::string::npos) << bad.key << " " << bad.value << ": " << line;
    EXPECT_NE(line.find(bad.wrong), std::string::npos) << bad.key << " " << bad.value << ": " << line;
    EXPECT_NE(line.find(", expected "), std::string::npos) << line;
  }
}

TEST(BadConfigTest, AWindowBelowOneIsRefused) {
  const std::string base =
      R"({"model_type":"mistral","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"sliding_window":)";
  EXPECT_EQ(Refusal(base + "-1}"),
            "c.json: sliding_window: is number -1, expected a whole number of at least 0");
  EXPECT_NE(Refusal(base + "0}").find("sliding_window: is 0"), std::string::npos);
}

TEST(BadConfigTest, AnUnknownTypeThatCannotBeReadSafely) {
  EXPECT_EQ(Refusal(R"({"model_type":"novel","hidden_size":64})"),
            "c.json: vocab_size: is missing, expected a whole number");
  EXPECT_NE(Refusal(R"({"hidden_size":64,"vocab_size":9,"num_attention_heads":4,"num_hidden_layers":1})")
                .find("intermediate_size: is missing"),
            std::string::npos);
  EXPECT_NE(Refusal(R"({"model_type":"novel","hidden_size":64,"ssm_state_size":16})").find("ssm_state_size"),
            std::string::npos);
  EXPECT_NE(Refusal("{}").find("hidden_size: is missing"), std::string::npos);
}

// Keys that models with other layers publish, none of which a llama's rules would read rightly.
TEST(BadConfigTest, AnUnknownTypeWithKeysOfOtherLayers) {
  const std::string shape =
      R"("hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"intermediate_size":128,"vocab_size":9)";
  EXPECT_EQ(Refusal("{" + shape + "}"), "");
  struct Foreign {
    const char* keys;
    const char* named;
  };
  constexpr Foreign kKeys[] = {
      {R"("model_type":"retnet")", "model_type"},
      {R"("model_type":"rwkv7")", "model_type"},
      {R"("model_type":"recurrent_gemma")", "model_type"},
      {R"("model_type":"longcat_flash","kv_lora_rank":8)", "model_type"},
      {R"("model_type":"novel","attn_mode":"chunk")", "attn_mode"},
      {R"("model_type":"novel","expand_v":2)", "expand_v"},
      {R"("model_type":"novel","lru_width":64)", "lru_width"},
      {R"("model_type":"novel","linear_attn_config":{"num_heads":4})", "linear_attn_config"},
      {R"("model_type":"novel","mamba_d_state":16)", "mamba_d_state"},
      {R"("model_type":"novel","layer_group_size":5)", "layer_group_size"},
      {R"("model_type":"novel","num_kv_shared_layers":1)", "num_kv_shared_layers"},
      {R"("model_type":"novel","type_vocab_size":2)", "type_vocab_size"},
      {R"("model_type":"novel","architectures":["NovelForMaskedLM"])", "architectures[0]"},
      {R"("model_type":"novel","position_embedding_type":"alibi")", "position_embedding_type"},
      {R"("model_type":"novel","alibi":true)", "alibi"},
      {R"("model_type":"novel","sliding_window":8,"sliding_window_pattern":4)", "sliding_window_pattern"},
      {R"("model_type":"bailing_moe","layer_group_size":5)", "layer_group_size"},
  };
  for (const Foreign& foreign : kKeys) {
    const std::string line = Refusal("{" + shape + "," + foreign.keys + "}");
    EXPECT_TRUE(line.starts_with("c.json: " + std::string(foreign.named) + ": "))
        << foreign.keys << ": " << line;
  }
  for (const char* harmless :
       {R"("alibi":false)", R"("type_vocab_size":0)", R"("mamba_d_state":null)", R"("block_types":[])",
        R"("sliding_window":null,"sliding_window_pattern":4)", R"("position_embedding_type":"rope")",
        R"("use_sliding_window":false,"sliding_window":8,"max_window_layers":1)"}) {
    EXPECT_EQ(Refusal(R"({"model_type":"novel",)" + shape + "," + harmless + "}"), "") << harmless;
  }
}

// Found by fuzzing: an encoder's layers have no place in the decoder's list.
TEST(BadConfigTest, AnUnknownLayerOfAnEncoder) {
  const auto with = [](const char* decoder) {
    const std::string stack =
        R"({"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"num_hidden_layers":2,
            "intermediate_size":128,"vocab_size":9,"layer_types":)";
    return Refusal(R"({"model_type":"t5gemma","encoder":)" + stack +
                   R"(["full_attention","wavelet"]},"decoder":)" + stack + decoder + "}}");
  };
  EXPECT_NE(with(R"(["full_attention","sliding_attention"])").find("no kind of layer"), std::string::npos);
  EXPECT_NE(with("null").find("no kind of layer"), std::string::npos);
}

TEST(BadConfigTest, Json) {
  EXPECT_NE(Refusal("").find("is empty"), std::string::npos);
  EXPECT_NE(Refusal("[]").find("is JSON, but array"), std::string::npos);
  EXPECT_NE(Refusal("{\"hidden_size\": 6").find("truncated"), std::string::npos);
  EXPECT_NE(Refusal("{hidden_size: 6}").find("syntax error"), std::string::npos);
  EXPECT_EQ(Refusal(R"({"a":{"hidden_size":1,"hidden_size":2}})"),
            "c.json: hidden_size: is there twice in one object, expected each key once");
  EXPECT_NE(Refusal("{\"a\":" + std::string(100 << 20, '[')).find("nested deeper than 64"),
            std::string::npos);
  EXPECT_NE(Refusal(std::string("{\"a\0\":1}", 8) + "\xff").find("c.json: "), std::string::npos);
}

TEST(BadConfigTest, BareTokensOutsideStringsOnly) {
  const nlohmann::json json = ParseConfigJson(
      R"({"a":[0.0,Infinity,-Infinity,NaN],"b":"Infinity \" NaN","c":-1})", "c.json", "a config");
  EXPECT_EQ(json["a"][1], "Infinity");
  EXPECT_EQ(json["a"][2], "-Infinity");
  EXPECT_EQ(json["b"], "Infinity \" NaN");
  EXPECT_EQ(json["c"], -1);
  EXPECT_THROW(ParseConfigJson(R"({"a":Infinityx})", "c.json", "a config"), BadInput);
}

TEST(BadConfigTest, ExpertsThatDoNotFit) {
  const std::string base =
      R"({"model_type":"mixtral","hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,)";
  EXPECT_NE(Refusal(base + R"("num_local_experts":4,"num_experts_per_tok":5})").find("is 5 of 4 experts"),
            std::string::npos);
  EXPECT_NE(Refusal(base + R"("num_local_experts":100000})").find("num_local_experts"), std::string::npos);
}

Blueprint Small(size_t n_layers) {
  Blueprint model;
  model.llm.d_model = 8;
  model.llm.vocabulary = 10;
  LayerPlan layer;
  layer.layer.self = {
      .kind = AttentionKind::kFull, .n_heads = 2, .n_kv_heads = 1, .d_head_k = 4, .d_head_v = 4};
  model.layers.assign(n_layers, layer);
  return model;
}

std::string AssembleRefusal(const Blueprint& model) {
  try {
    Assemble(model, "c.json");
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(BadConfigTest, SharedKeysAndValues) {
  Blueprint circle = Small(3);
  circle.layers[1].layer.self.shares_kv_with = 2;
  circle.layers[2].layer.self.shares_kv_with = 1;
  EXPECT_NE(AssembleRefusal(circle).find("layer 2 shares another's K and V itself"), std::string::npos);
  Blueprint self = Small(2);
  self.layers[1].layer.self.shares_kv_with = 1;
  EXPECT_NE(AssembleRefusal(self), "");
  Blueprint outside = Small(2);
  outside.layers[1].layer.self.shares_kv_with = 7;
  EXPECT_NE(AssembleRefusal(outside).find("layer 7 has no K and V"), std::string::npos);
  EXPECT_EQ(AssembleRefusal(Small(0)), "c.json: num_hidden_layers: is 0, expected at least one layer");
  EXPECT_EQ(AssembleRefusal(Small(1)), "");
}

TEST(BadConfigTest, SizesThatNoModelHas) {
  EXPECT_NE(
      Refusal(R"({"model_type":"llama","hidden_size":16777216,"num_attention_heads":65536,"head_dim":16777216,
                        "vocab_size":1000,"intermediate_size":1000,"num_hidden_layers":4096})"),
      "");
}

TEST(BadConfigTest, ParamsJson) {
  const auto refusal = [](const char* text) -> std::string {
    try {
      ParamsJsonToLlm(nlohmann::json::parse(text), "params.json", "p");
    } catch (const BadInput& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(R"({"dim":64,"n_layers":2})"), "params.json: n_heads: is missing, expected a value");
  EXPECT_EQ(refusal(R"({"dim":64,"n_layers":2,"n_heads":4})"),
            "params.json: multiple_of: is missing, expected a value");
  EXPECT_NE(refusal(R"({"dim":0,"n_layers":2})").find("params.json: dim: is 0"), std::string::npos);
}

}  // namespace
}  // namespace ropeline
