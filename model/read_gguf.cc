#include "model/read_gguf.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/gguf_arch.h"
#include "model/gguf_keys.h"
#include "model/gguf_layers.h"
#include "model/gguf_rope.h"
#include "model/gguf_weights.h"
#include "model/hf_family.h"

namespace ropeline {
namespace {

constexpr GgufArch kUnknown{.model_type = "llama"};

// Adapters, vision towers and the like have a header too, and no layers to predict.
void RefuseOtherFiles(const GgufFile& file, const std::string& architecture) {
  const GgufMetadata& keys = file.metadata;
  const auto type = keys.FindText("general.type");
  if (type && *type != "model") {
    throw BadInput(keys.WhereIs("general.type"), "is " + Quoted(*type), "\"model\"");
  }
  if (architecture == "clip" || architecture == "diffusion" || architecture == "whisper") {
    throw BadInput(keys.WhereIs("general.architecture"), "is " + Quoted(architecture), "a language model's");
  }
}

// Keys of layers that are no plain attention: without their architecture they cannot be read safely.
void RefuseUnsafe(const GgufKeys& keys) {
  for (const char* key :
       {"ssm.state_size", "ssm.conv_kernel", "attention.kv_lora_rank", "wkv.head_size", "shortconv.l_cache",
        "full_attention_interval", "kda.head_dim", "decoder_block_count"}) {
    if (!keys.Has(key)) continue;
    throw BadInput(keys.WhereIs(key),
                   "is of an architecture (" + Quoted(keys.architecture()) + ") whose layers are not known",
                   "an architecture of plain attention, or one that this reader knows");
  }
}

const Recipe& RecipeOf(const GgufArch& arch, const std::string& file) {
  const HfFamily* family = FindHfFamily({{"model_type", arch.model_type}}, file);
  static const Recipe kPlain;
  return family == nullptr ? kPlain : family->recipe;
}

// A file from before llama.cpp knew latent attention: it keeps K and V of every head.
void ExpandLatent(const GgufKeys& keys, Llm* llm) {
  if (keys.Has("attention.key_length_mla")) return;
  uint64_t latent = 0, expanded = 0;
  for (Layer& layer : llm->layers) {
    Attention& self = layer.self;
    if (self.kind != AttentionKind::kMla) continue;
    latent += self.KElements() + self.VElements();
    self.kind = AttentionKind::kFull;
    self.latent = {};
    expanded += self.KElements() + self.VElements();
  }
  if (expanded == 0) return;
  llm->warnings.push_back(
      "the file is of the form before multi-head latent attention (no attention.key_length_mla): "
      "its cache holds K and V of every head, " +
      std::to_string(expanded) + " elements per token instead of " + std::to_string(latent));
}

void SayWhatIsMissing(const GgufKeys& keys, Llm* llm) {
  const GgufFile& file = keys.file();
  if (file.tensors.empty()) {
    llm->warnings.push_back(
        "the file has no tensors: parameters are those of the shape, with the norms and biases that " +
        keys.architecture() + " usually has");
  } else if (!file.data_present) {
    llm->warnings.emplace_back(
        "the file ends with its header: bytes of weights are those its table of tensors says");
  }
  if (const auto width = keys.FindCount({"attention.indexer.key_length"})) {
    llm->warnings.push_back("the indexer's keys, " + std::to_string(*width) +
                            " elements per token and layer, are beside the cache and not counted in it");
  }
  const GgufTensor* embedding = keys.FindTensor("token_embd.weight");
  if (embedding != nullptr && embedding->dims[0] != llm->d_model) {
    llm->warnings.push_back("token_embd.weight is " + std::to_string(embedding->dims[0]) +
                            " wide, embedding_length is " + std::to_string(llm->d_model));
  }
}

}  // namespace

Llm GgufToLlm(const GgufFile& file, const std::string& path) {
  const GgufKeys keys(file);
  RefuseOtherFiles(file, keys.architecture());
  const GgufArch* known = FindGgufArch(keys.architecture());
  if (known == nullptr) RefuseUnsafe(keys);
  const GgufArch& arch = known != nullptr ? *known : kUnknown;
  Blueprint model = FillGgufBlueprint(keys, arch, RecipeOf(arch, path));
  if (arch.adjust != nullptr) arch.adjust(keys, &model);
  model.llm.name = OneLine(file.metadata.FindText("general.name").value_or(""), 200);
  if (model.llm.name.empty()) model.llm.name = std::filesystem::path(path).stem().string();
  model.llm.source = path;
  model.llm.model_type = keys.architecture();
  Llm llm = Assemble(model, path);
  if (known == nullptr) {
    llm.warnings.insert(llm.warnings.begin(), "architecture " + Quoted(keys.architecture()) +
                                                  " is not known: read as a llama with halved rotations");
  }
  if (arch.latent) ExpandLatent(keys, &llm);
  if (keys.has_tensors()) TakeTensors(file, &llm);
  TakeFrequencyFactors(keys, &llm);
  SayWhatIsMissing(keys, &llm);
  if (std::string filled = keys.FilledWarning(); !filled.empty()) llm.warnings.push_back(std::move(filled));
  return llm;
}

Llm ReadGguf(const std::string& path) { return GgufToLlm(ReadGgufFile(path), path); }

}  // namespace ropeline
