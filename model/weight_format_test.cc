#include "model/weight_format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "--weights"};

uint64_t Total(const Llm& llm, const char* mix) {
  return LayOutWeights(llm, FindWeightMix(mix, kWhere)).total_bytes;
}

struct ShapeRow {
  uint64_t n_layers, d_model, n_heads, n_kv_heads, d_head, d_ffn, vocabulary;
};

// A llama-like model with tied embeddings, built apart from the presets.
Llm LlamaLike(const ShapeRow& s) {
  Llm llm;
  llm.name = "shape";
  llm.d_model = s.d_model;
  llm.tied_embeddings = true;
  llm.matrices.push_back({MatrixRole::kTokenEmbedding, s.vocabulary, s.d_model});
  llm.layers.assign(s.n_layers, {});
  for (Layer& layer : llm.layers) layer.self.n_heads = s.n_heads, layer.self.n_kv_heads = s.n_kv_heads;
  for (int i = 0; i < static_cast<int>(s.n_layers); ++i) {
    const uint64_t d_kv = s.n_kv_heads * s.d_head;
    llm.matrices.push_back({MatrixRole::kAttnQ, s.n_heads * s.d_head, s.d_model, 1, i});
    llm.matrices.push_back({MatrixRole::kAttnK, d_kv, s.d_model, 1, i});
    llm.matrices.push_back({MatrixRole::kAttnV, d_kv, s.d_model, 1, i});
    llm.matrices.push_back({MatrixRole::kAttnOutput, s.d_model, s.n_heads * s.d_head, 1, i});
    llm.matrices.push_back({MatrixRole::kFfnGate, s.d_ffn, s.d_model, 1, i});
    llm.matrices.push_back({MatrixRole::kFfnUp, s.d_ffn, s.d_model, 1, i});
    llm.matrices.push_back({MatrixRole::kFfnDown, s.d_model, s.d_ffn, 1, i});
    llm.vectors.push_back({2 * s.d_model, i});
  }
  llm.vectors.push_back({s.d_model});
  return llm;
}

// LlamaLike with its feed-forward made of experts: a router, n of each matrix, of which a token takes 2.
Llm MixtralLike(const ShapeRow& s, uint64_t n_experts) {
  Llm llm = LlamaLike(s);
  for (Layer& layer : llm.layers) layer.ffn = {FfnKind::kMoe, 0, n_experts, 2, 0, s.d_ffn, 0};
  std::vector<Matrix> routers;
  for (Matrix& matrix : llm.matrices) {
    const auto expert = [&](MatrixRole from, MatrixRole to) {
      if (matrix.role != from) return;
      matrix.role = to;
      matrix.count = n_experts;
      matrix.active = 2;
    };
    if (matrix.role == MatrixRole::kFfnUp)
      routers.push_back({MatrixRole::kRouter, n_experts, s.d_model, 1, matrix.layer});
    expert(MatrixRole::kFfnGate, MatrixRole::kExpertGate);
    expert(MatrixRole::kFfnUp, MatrixRole::kExpertUp);
    expert(MatrixRole::kFfnDown, MatrixRole::kExpertDown);
  }
  llm.matrices.insert(llm.matrices.end(), routers.begin(), routers.end());
  return llm;
}

std::map<MatrixRole, std::string> FormatsOfLayer(const Llm& llm, const char* mix, int layer) {
  std::map<MatrixRole, std::string> formats;
  for (const WeightTensor& tensor : LayOutWeights(llm, FindWeightMix(mix, kWhere)).tensors) {
    if (tensor.matrix.layer == layer) formats[tensor.matrix.role] = tensor.format->name;
  }
  return formats;
}

// Eight experts are Mixtral's, for which the quantiser has rules of their own; others have none.
TEST(WeightFormatTest, EightExpertsHaveRulesOfTheirOwn) {
  const Llm eight = MixtralLike({16, 256, 8, 2, 128, 512, 1000}, 8);
  auto formats = FormatsOfLayer(eight, "q4_k_m", 2);  // 16/8 = 2: no more bits here
  EXPECT_EQ(formats[MatrixRole::kAttnQ], "q4_K");
  EXPECT_EQ(formats[MatrixRole::kAttnK], "q8_0");
  EXPECT_EQ(formats[MatrixRole::kAttnV], "q8_0");
  EXPECT_EQ(formats[MatrixRole::kAttnOutput], "q5_K");
  EXPECT_EQ(formats[MatrixRole::kRouter], "f32");
  EXPECT_EQ(formats[MatrixRole::kExpertDown], "q4_K");
  EXPECT_EQ(FormatsOfLayer(eight, "q4_k_m", 1)[MatrixRole::kExpertDown], "q6_K");
  EXPECT_EQ(FormatsOfLayer(eight, "q5_k_m", 2)[MatrixRole::kAttnOutput], "q5_K");
  EXPECT_EQ(FormatsOfLayer(eight, "q6_k", 2)[MatrixRole::kAttnOutput], "q6_K");
  formats = FormatsOfLayer(MixtralLike({16, 256, 8, 2, 128, 512, 1000}, 16), "q4_k_m", 2);
  EXPECT_EQ(formats[MatrixRole::kAttnK], "q4_K");
  EXPECT_EQ(formats[MatrixRole::kAttnOutput], "q4_K");
  EXPECT_EQ(formats[MatrixRole::kAttnV], "q4_K");
}

TEST(WeightFormatTest, AStepReadsTheExpertsThatATokenTakes) {
  const Llm llm = MixtralLike({4, 256, 8, 2, 32, 512, 1000}, 8);
  const WeightLayout layout = LayOutWeights(llm, FindWeightMix("f16", kWhere));
  const uint64_t experts = 4 * 8 * 3 * 512 * 256 * 2;
  EXPECT_EQ(layout.total_bytes - layout.decode_bytes, experts / 8 * 6);
  EXPECT_EQ(layout.prefill_bytes, layout.total_bytes);
}

// Layer by layer for the smaller mixes, 16 layers: n/16 = 1, n/8 = 2.
TEST(WeightFormatTest, LayersThatGetMoreBits) {
  Llm llm = LlamaLike({16, 256, 8, 2, 128, 512, 1000});
  const auto format = [&](const char* mix, int layer, MatrixRole role) {
    return FormatsOfLayer(llm, mix, layer)[role];
  };
  EXPECT_EQ(format("q3_k_m", 0, MatrixRole::kFfnDown), "q5_K");
  EXPECT_EQ(format("q3_k_m", 1, MatrixRole::kFfnDown), "q4_K");
  EXPECT_EQ(format("q3_k_m", 1, MatrixRole::kAttnV), "q5_K");
  EXPECT_EQ(format("q3_k_m", 2, MatrixRole::kAttnV), "q4_K");
  EXPECT_EQ(format("q3_k_m", 2, MatrixRole::kAttnOutput), "q4_K");
  EXPECT_EQ(format("q3_k_l", 9, MatrixRole::kFfnDown), "q5_K");
  EXPECT_EQ(format("q4_k_s", 1, MatrixRole::kFfnDown), "q5_K");
  EXPECT_EQ(format("q4_k_s", 2, MatrixRole::kFfnDown), "q4_K");
  EXPECT_EQ(format("q4_k_s", 3, MatrixRole::kAttnV), "q5_K");
  EXPECT_EQ(format("q4_k_s", 4, MatrixRole::kAttnV), "q4_K");
  EXPECT_EQ(format("q2_k", 9, MatrixRole::kAttnV), "q4_K");  // groups of 4
  EXPECT_EQ(format("q2_k", 9, MatrixRole::kFfnDown), "q3_K");
  EXPECT_EQ(format("iq4_xs", 1, MatrixRole::kFfnDown), "q5_K");
  EXPECT_EQ(format("iq4_xs", 9, MatrixRole::kAttnV), "q5_K");
  for (Layer& layer : llm.layers) layer.self.n_kv_heads = 4;
  EXPECT_EQ(format("q2_k", 9, MatrixRole::kAttnV), "q3_K");
  EXPECT_EQ(format("iq4_xs", 9, MatrixRole::kAttnV), "iq4_xs");
  llm.model_type = "falcon";
  EXPECT_EQ(format("q3_k_m", 3, MatrixRole::kFfnDown), "q3_K");
  EXPECT_EQ(format("q4_k_m", 1, MatrixRole::kFfnDown), "q5_K");
  EXPECT_EQ(format("q4_k_m", -1, MatrixRole::kTokenEmbedding), "q8_0");
}

// Eight layers, d_model 256, 2 heads and 1 KV head of 128, FFN 512, vocabulary 1000, tied.
//   Q 256·256, K and V 128·256, output 256·256, gate, up, down 512·256 each; n/8 = 1, so layers 0, 7 and
//   (i − 1) % 3 = 2, i = 3 and 6, get more bits: 4 of 8.
TEST(WeightFormatTest, HandComputedBytes) {
  const Llm llm = LlamaLike({8, 256, 2, 1, 128, 512, 1000});
  const uint64_t vectors = 8 * 2 * 256 + 256;
  const uint64_t layer_weights = 2 * 65536 + 2 * 32768 + 3 * 131072;
  const uint64_t weights = 8 * layer_weights + 256000;
  EXPECT_EQ(llm.ParamsTotal(), weights + vectors);
  EXPECT_EQ(Total(llm, "f32"), 4 * (weights + vectors));
  EXPECT_EQ(Total(llm, "f16"), 2 * weights + 4 * vectors);
  EXPECT_EQ(Total(llm, "bf16"), Total(llm, "f16"));
  EXPECT_EQ(Total(llm, "q8_0"), weights / 32 * 34 + 4 * vectors);
  EXPECT_EQ(Total(llm, "q4_0"), 8 * layer_weights / 32 * 18 + 256000 / 256 * 210 + 4 * vectors);
  const uint64_t v_and_down = 32768 + 131072;
  EXPECT_EQ(Total(llm, "q4_k_m"), (8 * layer_weights - 4 * v_and_down) / 256 * 144 +
                                      4 * v_and_down / 256 * 210 + 256000 / 256 * 210 + 4 * vectors);
}

// d_model 96: 32 divides it, 256 does not. FFN 40: not even 32 does, so ffn_down (rows of 40) stays f16.
TEST(WeightFormatTest, RowsThatDoNotFitFallBack) {
  const Llm llm = LlamaLike({8, 96, 2, 1, 48, 40, 10});
  std::map<MatrixRole, std::string> first_layer;
  for (const WeightTensor& tensor : LayOutWeights(llm, FindWeightMix("q4_k_m", kWhere)).tensors) {
    if (tensor.matrix.layer <= 0) first_layer[tensor.matrix.role] = tensor.format->name;
  }
  EXPECT_EQ(first_layer[MatrixRole::kTokenEmbedding], "q8_0");  // q6_K
  EXPECT_EQ(first_layer[MatrixRole::kAttnQ], "q5_0");           // q4_K
  EXPECT_EQ(first_layer[MatrixRole::kAttnV], "q8_0");           // q6_K: layer 0 gets more bits
  EXPECT_EQ(first_layer[MatrixRole::kFfnDown], "f16");
}

TEST(WeightFormatTest, RolesThatAreNotQuantisedOrNotRead) {
  const Llm gpt2 = Preset("gpt2", kWhere);
  const WeightLayout layout = LayOutWeights(gpt2, FindWeightMix("q4_k_m", kWhere));
  std::map<MatrixRole, std::string> formats;
  for (const WeightTensor& tensor : layout.tensors) {
    if (tensor.matrix.layer <= 0) formats[tensor.matrix.role] = tensor.format->name;
  }
  EXPECT_EQ(formats[MatrixRole::kPositionTable], "f32");
  EXPECT_EQ(formats[MatrixRole::kAttnQkv], "q5_K");
  EXPECT_EQ(formats[MatrixRole::kTokenEmbedding], "q6_K");
  // A step reads all but the position table, from which it gathers one row.
  EXPECT_EQ(layout.total_bytes - layout.decode_bytes, 1024u * 768 * 4);
  // Untied: the embedding is gathered.
  const Llm llama = Preset("llama-3.1-8b", kWhere);
  const WeightLayout untied = LayOutWeights(llama, FindWeightMix("f16", kWhere));
  EXPECT_EQ(untied.total_bytes - untied.decode_bytes, 128256u * 4096 * 2);
}

TEST(WeightFormatTest, AModelKnownByItsParameterCountTakesThePlainBits) {
  const Llm llm = Preset("article-3b", kWhere);
  EXPECT_EQ(Total(llm, "f16"), 6000000000u);
  EXPECT_EQ(Total(llm, "q8_0"), 3187500000u);
  EXPECT_EQ(Total(llm, "q4_0"), 1687500000u);
  EXPECT_EQ(Total(llm, "q4_k_m"), 1818750000u);
}

// The plain bits stand in where there is no shape: the block's own, or what the rules make of a common 8B.
TEST(WeightFormatTest, PlainBitsAreThoseOfAnEightB) {
  const Llm llm = Preset("llama-3.1-8b", kWhere);
  for (const std::string& name : WeightMixNames()) {
    const WeightMix& mix = FindWeightMix(name, kWhere);
    if (mix.mix == Mix::kStored || mix.plain_bits == mix.base->BitsPerElement()) continue;
    EXPECT_NEAR(LayOutWeights(llm, mix).bits_per_weight / mix.plain_bits, 1, 0.01) << name;
  }
}

TEST(WeightFormatTest, NamesInAnyCaseAndTheDefault) {
  EXPECT_STREQ(FindWeightMix("Q4_K_M", kWhere).name, "q4_k_m");
  Llm llm = Preset("llama-3.2-1b", kWhere);
  EXPECT_STREQ(ChooseWeightMix(llm, "", kWhere).name, "q4_k_m");
  EXPECT_THROW(ChooseWeightMix(llm, "stored", kWhere), BadInput);
  llm.stored.emplace();
  EXPECT_STREQ(ChooseWeightMix(llm, "", kWhere).name, "stored");
  EXPECT_STREQ(ChooseWeightMix(llm, "f16", kWhere).name, "f16");
}

TEST(WeightFormatTest, AnUnknownFormatListsThem) {
  try {
    FindWeightMix("q9", kWhere);
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_STREQ(
        e.what(),
        "test: --weights: \"q9\" is not a weight format, expected one of f32, f16, bf16, q8_0, q6_k, q5_k_m, "
        "q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, iq4_nl, iq4_xs, q4_1, q4_0, q3_k_l, q3_k_m, q3_k_s, q2_k, "
        "stored");
  }
}

// Files that llama.cpp's quantiser wrote; see the head of sizes.tsv. Its tensor_mib has two decimals.
TEST(WeightFormatTest, ReproducesTheSizesOfRealFiles) {
  const char* shared = std::getenv("ROPELINE_SHARED");
  const std::filesystem::path root = shared != nullptr
                                         ? std::filesystem::path(shared)
                                         : std::filesystem::path(ROPELINE_SOURCE_DIR) / "../shared";
  std::ifstream file(root / "weights/sizes.tsv");
  if (!file) GTEST_SKIP() << "no weights/sizes.tsv in " << root << "; set ROPELINE_SHARED to its folder";
  const std::map<std::string, Llm> shapes = {{"s05b", LlamaLike({24, 896, 14, 2, 64, 4864, 151936})},
                                             {"s1b", LlamaLike({16, 2048, 32, 8, 64, 8192, 128256})}};
  int compared = 0;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string shape, mix;
    double file_bytes = 0, tensor_mib = 0;
    if (!(fields >> shape >> mix >> file_bytes >> tensor_mib) || !shapes.count(shape)) continue;
    ++compared;
    const auto bytes = static_cast<double>(Total(shapes.at(shape), mix.c_str()));
    EXPECT_NEAR(bytes / (1 << 20), tensor_mib, 0.0051) << shape << " " << mix;
    EXPECT_LT(bytes, file_bytes) << "the file has a header as well";
    EXPECT_NEAR(bytes / file_bytes, 1, 1e-4) << shape << " " << mix;
  }
  EXPECT_EQ(compared, 30);
  // From the head of the file: F16 of the three shapes, Q4_K_M of the 28-layer one.
  EXPECT_NEAR(static_cast<double>(Total(shapes.at("s05b"), "f16")) / 988111648.0, 1, 1e-3);
  EXPECT_NEAR(static_cast<double>(Total(shapes.at("s1b"), "f16")) / 2471773280.0, 1, 1e-4);
  const Llm llama = Preset("llama-3.2-3b", kWhere);
  EXPECT_NEAR(static_cast<double>(Total(llama, "f16")) / 6425865632.0, 1, 1e-4);
  EXPECT_NEAR(static_cast<double>(Total(llama, "q4_k_m")) / 2011555264.0, 1, 1e-3);
}

}  // namespace
}  // namespace ropeline
