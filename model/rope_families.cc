#include "model/rope_families.h"

namespace ropeline {
namespace {

const std::vector<RopeFamily>& Families() {
  static const auto* const families = new std::vector<RopeFamily>{
      // config.json
      {"llama", 128256, "Llama 3", {500000}, true, 10000, 8192, 1},
      {"llama", 32016, "Code Llama", {1e6}, true, 10000, 0, 1},
      {"llama", 32000, "Llama 1, 2, Code Llama", {10000, 1e6}, true, 10000, 0, 1},
      {"nemotron-nas", 128256, "Llama 3.3 Nemotron", {500000}, true, 10000, 8192, 1},
      {"llama4_text", 0, "Llama 4", {500000}, true, 500000, 0, 1},
      {"mistral", 32000, "Mistral 7B", {10000, 1e6}, true, 10000, 0, 1},
      {"mistral", 32768, "Mistral 7B v0.3", {1e6}, true, 10000, 0, 1},
      {"mistral", 131072, "Mistral Nemo, Small", {1e6, 1e8, 1e9}, false, 10000, 0, 1},
      {"mixtral", 0, "Mixtral", {1e6}, true, 1e6, 0, 1},
      {"qwen", 0, "Qwen", {10000}, true, 10000, 0, 1},
      {"qwen2", 0, "Qwen 1.5, 2, 2.5", {1e6, 1e7}, false, 10000, 0, 1},
      {"qwen2_moe", 0, "Qwen 1.5, 2 MoE", {1e6}, false, 10000, 0, 1},
      {"qwen3", 0, "Qwen 3", {1e6, 5e6, 1e7}, true, 10000, 0, 1},
      {"qwen3_moe", 0, "Qwen 3 MoE", {1e6, 5e6, 1e7}, true, 10000, 0, 1},
      {"qwen3_5_text", 0, "Qwen 3.5", {1e7}, true, 10000, 0, 0.25},
      {"gemma", 0, "Gemma", {10000}, true, 10000, 0, 1},
      {"gemma2", 0, "Gemma 2", {10000}, true, 10000, 0, 1},
      {"gemma3_text", 0, "Gemma 3", {1e6}, true, 1e6, 0, 1},
      {"phi", 0, "Phi 1, 1.5, 2", {10000}, true, 10000, 0, 0.4},
      {"phi3", 32064, "Phi 3", {10000}, true, 10000, 4096, 1},
      {"phi3", 200064, "Phi 4 mini", {10000}, true, 10000, 4096, 0.75},
      {"phimoe", 0, "Phi 3.5 MoE", {10000}, true, 1e6, 4096, 1},
      {"gpt_oss", 0, "gpt-oss", {150000}, true, 150000, 4096, 1},
      {"gpt_neox", 0, "GPT-NeoX, Pythia", {10000}, true, 10000, 0, 0.25},
      {"gptj", 0, "GPT-J", {10000}, true, 10000, 0, 0.25},
      {"falcon", 0, "Falcon", {10000}, true, 10000, 0, 1},
      {"RefinedWebModel", 0, "Falcon", {10000}, true, 10000, 0, 1},
      {"RefinedWeb", 0, "Falcon", {10000}, true, 10000, 0, 1},
      {"baichuan", 0, "Baichuan", {10000}, true, 10000, 0, 1},
      {"stablelm", 0, "StableLM", {10000}, true, 10000, 0, 0.25},
      {"minicpm3", 0, "MiniCPM 3", {10000}, true, 10000, 32768, 0},
      {"deepseek_v2", 0, "DeepSeek V2", {10000}, true, 10000, 4096, 0},
      {"deepseek_v3", 0, "DeepSeek V3, R1", {10000}, true, 10000, 4096, 0},
      {"kimi_k2", 0, "Kimi K2", {50000}, true, 10000, 4096, 0},
      {"internlm2", 0, "InternLM 2, 2.5", {1e6, 5e7}, true, 10000, 0, 1},
      {"chatglm", 0, "ChatGLM, GLM-4", {10000}, true, 10000, 0, 0.5},
      {"cohere", 0, "Command R, Aya", {10000, 8e6, 7.5e7}, true, 10000, 0, 1},
      {"granite", 0, "Granite 3", {10000, 5e6, 1e7}, false, 10000, 0, 1},
      {"exaone4", 0, "EXAONE 4", {1e6}, true, 10000, 0, 1},
      {"olmo2", 0, "OLMo 2", {500000}, true, 10000, 0, 1},
      {"olmo3", 0, "OLMo 3", {500000}, true, 10000, 8192, 1},
      {"smollm3", 0, "SmolLM3", {5e6, 2e6, 1.5e6}, false, 2e6, 0, 1},
      {"mimo_v2_flash", 0, "MiMo V2 Flash", {5e6}, true, 10000, 0, 0.334},
      // GGUF
      {"gptneox", 0, "GPT-NeoX, Pythia", {10000}, true, 10000, 0, 0.25},
      {"phi2", 0, "Phi 2", {10000}, true, 10000, 0, 0.4},
      {"deepseek2", 0, "DeepSeek V2, V3, R1", {10000}, false, 10000, 4096, 0},
      {"gpt-oss", 0, "gpt-oss", {150000}, true, 10000, 4096, 1},
      {"gemma3", 0, "Gemma 3", {1e6}, true, 10000, 0, 1},
      {"llama4", 0, "Llama 4", {500000}, true, 10000, 0, 1},
      {"qwen3moe", 0, "Qwen 3 MoE", {1e6, 5e6, 1e7}, true, 10000, 0, 1},
      {"smollm3", 0, "SmolLM3", {5e6, 2e6, 1.5e6}, false, 10000, 0, 1}};
  return *families;
}

}  // namespace

const RopeFamily* FindRopeFamily(std::string_view model_type, uint64_t vocabulary) {
  const RopeFamily* any = nullptr;
  for (const RopeFamily& family : Families()) {
    if (model_type != family.model_type) continue;
    if (family.vocabulary == vocabulary && vocabulary != 0) return &family;
    if (family.vocabulary == 0 && any == nullptr) any = &family;
  }
  return any;
}

}  // namespace ropeline
