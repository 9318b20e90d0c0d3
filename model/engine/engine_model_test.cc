#include "model/engine/engine_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "model/engine/read_engine_run.h"
#include "model/presets.h"

namespace ropeline {
namespace {

std::string PresetOf(const std::string& model, std::optional<uint64_t> params = std::nullopt) {
  EngineRun run;
  run.model = model;
  run.model_params = params;
  return PresetForEngineModel(run).value_or("");
}

TEST(EngineModelTest, LlamaCppsDescriptionNeedsTheParameters) {
  EXPECT_EQ(PresetOf("llama 1B Q4_0", 1240000000), "llama-3.2-1b");
  EXPECT_EQ(PresetOf("llama 1B Q4_K - Medium", 1100000000), "tinyllama-1.1b");
  EXPECT_EQ(PresetOf("llama 1B Q4_0"), "");
  EXPECT_EQ(PresetOf("llama 8B Q8_0", 8030000000), "llama-3.1-8b");
  EXPECT_EQ(PresetOf("llama 7B Q4_0", 6740000000), "");  // Llama 2
  EXPECT_EQ(PresetOf("llama 7B Q4_0", 7240000000), "");  // Mistral v0.1, or v0.2, which has no window
  EXPECT_EQ(PresetOf("qwen2 7B Q4_K - Medium", 7620000000), "qwen2.5-7b");
  EXPECT_EQ(PresetOf("qwen2 70B Q4_0", 72710000000), "qwen2.5-72b");
  EXPECT_EQ(PresetOf("qwen3moe 30B.A3B Q5_K - Medium", 30530000000), "qwen3-30b-a3b");
  EXPECT_EQ(PresetOf("qwen35moe 35B.A3B Q4_K - Medium", 35510000000), "qwen3.6-35b-a3b");
  EXPECT_EQ(PresetOf("gemma3 12B Q4_0", 11770000000), "gemma-3-12b");
  EXPECT_EQ(PresetOf("deepseek2 16B Q4_0", 15710000000), "deepseek-v2-lite");
  EXPECT_EQ(PresetOf("deepseek2 671B Q2_K - Medium", 671030000000), "deepseek-v3");
  EXPECT_EQ(PresetOf("deepseek2 671B IQ2_KL", 1027000000000), "kimi-k2");
  EXPECT_EQ(PresetOf("gpt-oss 20B MXFP4 MoE", 20910000000), "gpt-oss-20b");
  EXPECT_EQ(PresetOf("glm4moe 106B.A12B IQ2_KL", 110470000000), "glm-4.5-air");  // with the MTP layer
}

TEST(EngineModelTest, NamesAsPeopleWriteThem) {
  EXPECT_EQ(PresetOf("Meta-Llama-3.1-8B-Instruct-Q4_K_M"), "llama-3.1-8b");
  EXPECT_EQ(PresetOf("gemma3 27B"), "gemma-3-27b");
  EXPECT_EQ(PresetOf("DeepSeek-R1-0528"), "deepseek-v3");
  EXPECT_EQ(PresetOf("DeepSeek-R1-0528-Qwen3-8B"), "");  // two
  EXPECT_EQ(PresetOf("DeepSeek-R1-Distill-Qwen-7B"), "");
  EXPECT_EQ(PresetOf("Qwen3-8B", 4020000000), "");  // the parameters are another model's
  EXPECT_EQ(PresetOf("some model"), "");
  EngineRun titled;
  titled.title = "ik_llama.cpp main ubergarm/GLM-4.5-Air-Q4_0";
  EXPECT_EQ(PresetForEngineModel(titled), "glm-4.5-air");
}

std::filesystem::path SweepsFolder() {
  const char* shared = std::getenv("ROPELINE_SHARED");
  const std::string root = shared != nullptr ? shared : std::string(ROPELINE_SOURCE_DIR) + "/../shared";
  return std::filesystem::path(root) / "sweeps";
}

TEST(EngineModelTest, EveryPublishedRunIsReadAndItsModelHasAPreset) {
  const std::filesystem::path folder = SweepsFolder();
  if (!std::filesystem::exists(folder / "INDEX.md")) {
    GTEST_SKIP() << "no INDEX.md in " << folder << "; set ROPELINE_SHARED to the folder above it";
  }
  // The post names no model, only sizes: 0.34 to 0.53 GB.
  const std::set<std::string> nameless = {"lcpp26484-pi5-quant-sweep.json"};
  std::map<std::string, size_t> files;
  size_t n_files = 0, n_rows = 0;
  const std::vector<std::string> presets = PresetNames();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    ++n_files;
    const bool named = nameless.count(entry.path().filename().string()) == 0;
    for (const EngineRun& run : ReadEngineRuns(entry.path().string())) {
      EXPECT_EQ(run.tool, "sweep");
      EXPECT_FALSE(run.engine.empty());
      n_rows += run.rows.size();
      const auto preset = PresetForEngineModel(run);
      EXPECT_EQ(preset.has_value(), named) << run.model;
      if (!preset) continue;
      EXPECT_NE(std::find(presets.begin(), presets.end(), *preset), presets.end()) << *preset;
      ++files[*preset];
    }
  }
  EXPECT_GE(n_files, 113u);
  EXPECT_GE(n_rows, 3000u);
  const std::map<std::string, size_t> expected = {
      {"bitnet-2b", 1},     {"deepseek-v2-lite", 28}, {"deepseek-v3", 14},    {"gemma-3-12b", 3},
      {"gemma-3-27b", 1},   {"glm-4.5-air", 2},       {"gpt-oss-20b", 5},     {"kimi-k2", 1},
      {"ling-mini-2.0", 2}, {"llama-3.1-8b", 13},     {"llama-3.2-3b", 1},    {"qwen2.5-1.5b", 1},
      {"qwen2.5-72b", 6},   {"qwen3-14b", 13},        {"qwen3-235b-a22b", 7}, {"qwen3-30b-a3b", 10},
      {"qwen3-8b", 1},      {"qwen3.6-35b-a3b", 1},   {"smollm2-1.7b", 1},    {"tinyllama-1.1b", 1}};
  for (const auto& [preset, count] : expected) EXPECT_GE(files[preset], count) << preset;
}

}  // namespace
}  // namespace ropeline
