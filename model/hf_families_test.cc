// One line of testdata/families.jsonl per model: shapes as its config gives them, and the number of
// parameters that its publisher or the hub's counter states, or where neither does, as counted by hand from
// the modelling code. A new family adds a line.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model/hf_family.h"
#include "model/kv_layout.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

std::vector<nlohmann::json> Lines() {
  std::ifstream file(std::string(ROPELINE_SOURCE_DIR) + "/model/testdata/families.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// Layers of the decoder by kind, such as {"full": 16, "window": 48}.
nlohmann::json KindsOf(const Llm& llm) {
  nlohmann::json kinds = nlohmann::json::object();
  for (const Layer& layer : llm.layers) {
    const char* kind = layer.Kind();
    if (layer.stack == Stack::kDecoder && std::string(kind) != "none") {
      kinds[kind] = kinds.value(kind, 0) + 1;
    }
  }
  return kinds;
}

void CheckLine(const nlohmann::json& line, const Llm& llm) {
  EXPECT_EQ(llm.ParamsTotal(), line.at("params_total").get<uint64_t>());
  EXPECT_LE(llm.ParamsActive(), llm.ParamsTotal());
  const KvLayer kv = LayOutKv(llm, kBlockF16, 1).total;
  if (line.contains("kv_elements_per_token")) {
    EXPECT_EQ(kv.elements_per_token, line.at("kv_elements_per_token").get<uint64_t>());
  }
  if (line.contains("kv_elements_beyond_window")) {
    EXPECT_EQ(kv.bytes_per_token_beyond_window, 2 * line.at("kv_elements_beyond_window").get<uint64_t>());
  }
  const Position& position = llm.MainPosition();
  if (line.contains("encoding")) {
    EXPECT_EQ(position.encoding, line.at("encoding").get<std::string>());
  }
  if (line.contains("d_rot")) {
    EXPECT_EQ(position.d_rot(), line.at("d_rot").get<uint64_t>());
  }
  if (line.contains("rope_theta")) {
    EXPECT_EQ(position.rope_theta(), line.at("rope_theta").get<double>());
  }
  if (line.contains("layers")) {
    EXPECT_EQ(KindsOf(llm), line.at("layers"));
  }
  for (const std::string& warning : llm.warnings) EXPECT_EQ(warning.find("is not known"), std::string::npos);
}

TEST(HfFamiliesTest, FiguresAreThePublishedOnesToTheUnit) {
  const auto lines = Lines();
  EXPECT_GE(lines.size(), 110u);
  for (const nlohmann::json& line : lines) {
    const auto name = line.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const Llm llm = HfConfigToLlm(line.at("config"), name, name);
    CheckLine(line, llm);
  }
}

TEST(HfFamiliesTest, NoTypeIsInTwoRows) {
  std::set<std::string> seen;
  for (const auto& families : {LlamaFamilies(), WindowFamilies(), GptFamilies(), ExpertFamilies(),
                               LatentFamilies(), HybridFamilies(), EncoderFamilies()}) {
    for (const HfFamily& family : families) {
      EXPECT_TRUE(nlohmann::json::accept(family.defaults)) << family.Name();
      std::istringstream types(family.model_types);
      for (std::string type; types >> type;) EXPECT_TRUE(seen.insert(type).second) << type;
    }
  }
}

TEST(HfFamiliesTest, AModelTypeComesBeforeTheArchitecture) {
  const auto family = [](const char* text) {
    const nlohmann::json root = nlohmann::json::parse(text);
    const HfFamily* found = FindHfFamily(root, "config.json");
    return found != nullptr ? found->Name() : "";
  };
  EXPECT_EQ(family(R"({"model_type":"kimi_k2","architectures":["DeepseekV3ForCausalLM"]})"), "deepseek_v3");
  EXPECT_EQ(family(R"({"architectures":["MiniCPM3ForCausalLM"]})"), "minicpm3");
  EXPECT_EQ(family(R"({"model_type":"other","architectures":["LlamaForCausalLM"]})"), "llama");
  EXPECT_EQ(family(R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text"}})"), "gemma3_text");
  EXPECT_EQ(family(R"({"model_type":"other"})"), "");
}

}  // namespace
}  // namespace ropeline
