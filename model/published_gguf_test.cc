// Headers that exist: real ones and listings of keys in ../shared, files that another program wrote in
// testdata/, and every config in ../shared/configs written as the GGUF file that llama.cpp's converter makes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/fake_gguf.h"
#include "model/read_gguf.h"
#include "model/read_hf_config.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

fs::path Shared() {
  const char* shared = std::getenv("ROPELINE_SHARED");
  return shared != nullptr ? fs::path(shared) : fs::path(ROPELINE_SOURCE_DIR) / "../shared";
}

struct Listed {
  std::string key, type, value;
};

std::vector<Listed> Listing(const std::string& name) {
  std::ifstream file(Shared() / "configs/gguf_headers" / ("ggml-vocab-" + name + ".tsv"));
  std::vector<Listed> keys;
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (line.empty() || line[0] == '#' || second == std::string::npos) continue;
    keys.push_back(
        {line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return keys;
}

// Elements of "str[32000]".
uint64_t Length(const std::string& value) { return std::stoull(value.substr(value.find('[') + 1)); }

Llm FromListing(const std::string& name) {
  FakeGguf gguf;
  for (const Listed& key : Listing(name)) {
    if (key.type == "u32") gguf.U32(key.key, static_cast<uint32_t>(std::stoul(key.value)));
    if (key.type == "f32") gguf.F32(key.key, std::stof(key.value));
    if (key.type == "bool") gguf.Bool(key.key, key.value == "True");
    if (key.type == "str") gguf.Text(key.key, key.value);
    if (key.type == "arr" && key.value.starts_with("str")) gguf.Texts(key.key, Length(key.value));
    if (key.type == "arr" && key.value.starts_with("i32")) {
      gguf.U32s(key.key, std::vector<uint32_t>(Length(key.value)));
    }
  }
  const std::string bytes = gguf.File();
  std::istringstream in(bytes);
  return GgufToLlm(ParseGguf(in, bytes.size(), name), name);
}

uint64_t KvElements(const Llm& llm) {
  uint64_t elements = 0;
  for (const Layer& layer : llm.layers) {
    if (layer.self.caches()) elements += layer.self.KElements() + layer.self.VElements();
  }
  return elements;
}

struct HeaderRow {
  const char* name;
  bool real;  // the file itself is in ../shared/gguf
  size_t n_layers;
  uint64_t vocabulary, kv_elements;  // per token
  const char* encoding;
  double theta;
  uint64_t d_rot, window, max_context;
};

constexpr HeaderRow kHeaders[] = {
    {"baichuan", false, 32, 64000, 262144, "rope_interleaved", 10000, 128, 0, 4096},
    {"bert-bge", true, 12, 30522, 0, "", 0, 0, 0, 512},
    {"deepseek-coder", true, 32, 32256, 262144, "rope_interleaved", 100000, 128, 0, 16384},
    {"deepseek-llm", false, 30, 102400, 245760, "rope_interleaved", 10000, 128, 0, 4096},
    {"falcon", false, 32, 65024, 4096, "rope_half", 10000, 64, 0, 2048},
    {"gpt-2", true, 12, 50257, 18432, "learned", 0, 0, 0, 1024},
    {"gpt-neox", false, 44, 50432, 540672, "rope_half", 10000, 24, 0, 2048},
    {"llama-spm", true, 32, 32000, 262144, "rope_interleaved", 10000, 128, 0, 4096},
    {"mpt", false, 32, 50432, 262144, "alibi", 0, 0, 0, 2048},
    {"phi-3", true, 32, 32064, 196608, "rope_half", 10000, 96, 2047, 4096},
    {"refact", false, 32, 49216, 4096, "alibi", 0, 0, 0, 4096},
    {"starcoder", false, 30, 49152, 15360, "rope_half", 999999.4375, 128, 0, 16384},
};

void ExpectHeader(const Llm& llm, const HeaderRow& row) {
  EXPECT_EQ(llm.layers.size(), row.n_layers) << row.name;
  EXPECT_EQ(llm.vocabulary, row.vocabulary) << row.name;
  EXPECT_EQ(KvElements(llm), row.kv_elements) << row.name;
  EXPECT_EQ(llm.max_context, row.max_context) << row.name;
  const Layer& first = llm.layers.front();
  const Position& position = llm.input_position.empty() ? first.self.position : llm.input_position;
  if (first.stack == Stack::kDecoder) {
    EXPECT_EQ(position.encoding, row.encoding) << row.name;
  }
  EXPECT_EQ(position.rope_theta(), row.theta) << row.name;
  EXPECT_EQ(position.d_rot(), row.d_rot) << row.name;
  EXPECT_EQ(first.self.window, row.window) << row.name;
}

TEST(PublishedGgufTest, KeyListings) {
  if (!fs::exists(Shared() / "configs/gguf_headers"))
    GTEST_SKIP() << "no configs/gguf_headers in " << Shared();
  for (const HeaderRow& row : kHeaders) {
    SCOPED_TRACE(row.name);
    ExpectHeader(FromListing(row.name), row);
  }
}

TEST(PublishedGgufTest, RealHeaders) {
  if (!fs::exists(Shared() / "gguf")) GTEST_SKIP() << "no gguf in " << Shared();
  int read = 0;
  for (const HeaderRow& row : kHeaders) {
    if (!row.real) continue;
    SCOPED_TRACE(row.name);
    ++read;
    const std::string path = (Shared() / "gguf" / (std::string(row.name) + ".gguf")).string();
    const Llm llm = ReadGguf(path);
    ExpectHeader(llm, row);
    EXPECT_EQ(llm.ParamsTotal(), FromListing(row.name).ParamsTotal());
    // Every key of the listing, as its type and value say.
    const GgufMetadata keys = ReadGgufFile(path).metadata;
    const std::vector<Listed> listing = Listing(row.name);
    EXPECT_EQ(keys.size(), listing.size());
    for (const Listed& listed : listing) {
      SCOPED_TRACE(listed.key);
      if (listed.type == "u32") {
        EXPECT_EQ(keys.Count(listed.key), std::stoull(listed.value));
      }
      if (listed.type == "f32") {
        EXPECT_EQ(keys.FindNumber(listed.key), std::stod(listed.value));
      }
      if (listed.type == "bool") {
        EXPECT_EQ(keys.FindBool(listed.key), listed.value == "True");
      }
      if (listed.type == "arr") {
        EXPECT_EQ(keys.FindLength(listed.key), Length(listed.value));
      }
      if (listed.type == "str") {
        EXPECT_TRUE(keys.Text(listed.key).starts_with(listed.value));
      }
    }
  }
  EXPECT_EQ(read, 5);
}

// Parameters of the published models, which a header without tensors has by its shape.
TEST(PublishedGgufTest, ParametersByShape) {
  if (!fs::exists(Shared() / "configs/gguf_headers"))
    GTEST_SKIP() << "no configs/gguf_headers in " << Shared();
  EXPECT_EQ(FromListing("llama-spm").ParamsTotal(), 6738415616u);
  EXPECT_EQ(FromListing("gpt-2").ParamsTotal(), 124439808u);
  EXPECT_EQ(FromListing("phi-3").ParamsTotal(), 3821079552u);
  EXPECT_EQ(FromListing("falcon").ParamsTotal(), 6921720704u);
  EXPECT_EQ(FromListing("starcoder").ParamsTotal(), 3030371328u);
}

// testdata/*.gguf are by @huggingface/gguf 0.4.6; see write_gguf.mjs there.
TEST(PublishedGgufTest, FilesOfAnotherWriter) {
  const fs::path folder = fs::path(ROPELINE_SOURCE_DIR) / "model/testdata";
  const Llm llama = ReadGguf((folder / "llama_v3_little_endian.gguf").string());
  EXPECT_EQ(llama.ParamsTotal(), 8030261248u);
  EXPECT_EQ(KvElements(llama), 65536u);
  EXPECT_EQ(llama.MainPosition().rope_theta(), 500000);
  const GgufFile big = ReadGgufFile((folder / "gemma3_v3_big_endian.gguf").string());
  EXPECT_TRUE(big.big_endian);
  EXPECT_EQ(big.metadata.FindLength("tokenizer.ggml.tokens"), 4u);
  const Llm gemma = GgufToLlm(big, "gemma");
  EXPECT_EQ(gemma.layers.size(), 26u);
  EXPECT_EQ(gemma.layers[5].self.position.rope_theta(), 1e6);
  EXPECT_EQ(gemma.layers[4].self.window, 512u);
  EXPECT_EQ(KvElements(gemma), 26u * 2 * 256);
  const GgufFile old = ReadGgufFile((folder / "nemotron_h_v2_little_endian.gguf").string());
  EXPECT_EQ(old.version, 2u);
  const Llm nemotron = GgufToLlm(old, "nemotron");
  EXPECT_EQ(nemotron.layers.size(), 52u);
  EXPECT_EQ(KvElements(nemotron), 4u * 2 * 8 * 128);
  EXPECT_EQ(nemotron.layers[0].recurrent.state_elements, 8192u * 128);
  EXPECT_EQ(nemotron.layers[1].ffn.width, 21504u);
}

struct SameRow {
  const char* config;  // folder in ../shared/configs
  const char* arch;
};

// convert_hf_to_gguf.py writes what the config says, under other names; the encoding's pairs may be permuted.
constexpr SameRow kSame[] = {{"aya-23-8b", "command-r"},
                             {"baichuan2-7b", "baichuan"},
                             {"bloom-560m", "bloom"},
                             {"chatglm3-6b", "chatglm"},
                             {"chinese-alpaca-2-13b-16k", "llama"},
                             {"exaone-4.0-32b", "exaone4"},
                             {"falcon-7b", "falcon"},
                             {"gemma-2-9b", "gemma2"},
                             {"gemma-3-4b-it", "gemma3"},
                             {"gpt-j-6b", "gptj"},
                             {"gpt-oss-20b", "gpt-oss"},
                             {"gpt2", "gpt2"},
                             {"granite-3.3-8b-instruct", "granite"},
                             {"internlm2_5-7b-chat", "internlm2"},
                             {"llama-2-7b-hf", "llama"},
                             {"llama-3.1-8b", "llama"},
                             {"llama-3.2-3b-instruct", "llama"},
                             {"llama-4-scout-17b-16e-instruct", "llama4"},
                             {"mixtral-8x7b-v0.1", "llama"},
                             {"mpt-7b", "mpt"},
                             {"olmo-3.1-32b-instruct", "olmo2"},
                             {"phi-2", "phi2"},
                             {"phi-4-mini-instruct", "phi3"},
                             {"pythia-6.9b-deduped", "gptneox"},
                             {"qwen2.5-7b", "qwen2"},
                             {"qwen3-30b-a3b", "qwen3moe"},
                             {"smollm3-3b", "smollm3"},
                             {"wizardcoder-15b-v1.0", "starcoder"}};

FakeGguf AsConverted(const Llm& llm, const std::string& arch) {
  FakeGguf gguf;
  const auto count = [&](const char* key, uint64_t value) {
    gguf.U32(arch + "." + key, static_cast<uint32_t>(value));
  };
  const Layer& last = llm.layers.back();
  gguf.Text("general.architecture", arch);
  count("block_count", llm.layers.size());
  count("embedding_length", llm.d_model);
  count("vocab_size", llm.vocabulary);
  if (llm.max_context) count("context_length", *llm.max_context);
  count("attention.head_count", last.self.n_heads);
  count("attention.head_count_kv", last.self.n_kv_heads);
  count("attention.key_length", last.self.d_head_k);
  count("attention.value_length", last.self.d_head_v);
  count("feed_forward_length", last.ffn.kind == FfnKind::kMoe ? last.ffn.expert_width : last.ffn.width);
  if (last.ffn.kind == FfnKind::kMoe) {
    count("expert_count", last.ffn.n_experts);
    count("expert_used_count", last.ffn.n_active);
    count("expert_feed_forward_length", last.ffn.expert_width);
  }
  for (const Layer& layer : llm.layers) {
    if (layer.self.kind != AttentionKind::kWindow) continue;
    count("attention.sliding_window", layer.self.window);
    break;
  }
  for (auto layer = llm.layers.rbegin(); layer != llm.layers.rend(); ++layer) {
    const RopeParameters& rope = layer->self.position.rope;
    if (rope.d_rot == 0 || (layer->self.limited() && arch == "gemma3")) continue;
    count("rope.dimension_count", rope.d_rot);
    gguf.F32(arch + ".rope.freq_base", static_cast<float>(rope.base));
    break;
  }
  return gguf;
}

TEST(PublishedGgufTest, AConfigAndItsGgufAreOneModel) {
  const fs::path configs = Shared() / "configs";
  if (!fs::exists(configs / "truth.tsv")) GTEST_SKIP() << "no configs in " << Shared();
  for (const SameRow& row : kSame) {
    SCOPED_TRACE(row.config);
    const Llm config = ReadHfConfig((configs / row.config / "config.json").string());
    const std::string bytes = AsConverted(config, row.arch).File();
    std::istringstream in(bytes);
    const Llm gguf = GgufToLlm(ParseGguf(in, bytes.size(), row.config), row.config);
    // Without tensors nothing says whether embeddings are tied or linears biased: the family's habit is
    // taken.
    const auto params = [](const Llm& llm) {
      return static_cast<double>(llm.ParamsTotal() +
                                 (llm.tied_embeddings ? llm.vocabulary * llm.d_model : 0));
    };
    EXPECT_NEAR(params(gguf) / params(config), 1, 1e-3);
    EXPECT_EQ(gguf.hard_context_limit, config.hard_context_limit);
    EXPECT_EQ(gguf.input_position.encoding, config.input_position.encoding);
    ASSERT_EQ(gguf.layers.size(), config.layers.size());
    for (size_t i = 0; i < gguf.layers.size(); ++i) {
      SCOPED_TRACE(i);
      const Attention& a = gguf.layers[i].self;
      const Attention& b = config.layers[i].self;
      EXPECT_EQ(gguf.layers[i].Kind(), config.layers[i].Kind());
      EXPECT_EQ(a.window, b.window);
      EXPECT_EQ(a.KElements(), b.KElements());
      EXPECT_EQ(a.VElements(), b.VElements());
      EXPECT_EQ(a.position.empty(), b.position.empty());
      EXPECT_FLOAT_EQ(static_cast<float>(a.position.rope_theta()),
                      static_cast<float>(b.position.rope_theta()));
      EXPECT_EQ(a.position.d_rot(), b.position.d_rot());
      EXPECT_EQ(gguf.layers[i].ffn.kind, config.layers[i].ffn.kind);
      EXPECT_EQ(gguf.layers[i].ffn.shared_width, config.layers[i].ffn.shared_width);
      if (HasFailure()) break;
    }
  }
}

}  // namespace
}  // namespace ropeline
