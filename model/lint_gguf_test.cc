// Planted mistakes in GGUF files, alone and beside the config.json of the same model.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "model/fake_gguf.h"
#include "model/lint_change.h"
#include "model/lint_source.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

const Where kWhere{"test", "MODEL"};

// Llama 3.1 in small: heads of 64, so that the converter writes 32 divisors.
struct Shape {
  std::string architecture = "llama";
  uint64_t vocabulary = 128256;
  uint32_t context = 131072;
  bool freq_base = true;
  float base = 500000;
  bool tensors = true;
  std::vector<float> rope_freqs{};
  std::function<void(FakeGguf&)> more = [](FakeGguf&) {};
};

RopeParameters Llama3() {
  RopeParameters rope;
  rope.type = RopeType::kLlama3;
  rope.d_head = rope.d_rot = 64;
  rope.base = 500000;
  rope.factor = 8;
  rope.factor_given = true;
  rope.original_context = 8192;
  return rope;
}

// What the converter writes: the divisors of the unscaled frequencies.
std::vector<float> Divisors() {
  const auto plain = UnscaledInvFreq(Llama3()),
             scaled = FrequenciesOf(Llama3(), {1, 0}, RopeSemantics::kHf).inv_freq;
  std::vector<float> divisors;
  for (size_t i = 0; i < plain.size(); ++i) divisors.push_back(static_cast<float>(plain[i] / scaled[i]));
  return divisors;
}

std::string File(const Shape& shape) {
  FakeGguf gguf;
  const std::string& a = shape.architecture;
  gguf.Text("general.architecture", a).Text("general.name", "small").U32(a + ".block_count", 1);
  gguf.U32(a + ".embedding_length", 256)
      .U32(a + ".attention.head_count", 4)
      .U32(a + ".attention.head_count_kv", 4);
  gguf.U32(a + ".feed_forward_length", 512).U32(a + ".context_length", shape.context);
  gguf.U32(a + ".vocab_size", static_cast<uint32_t>(shape.vocabulary));
  if (shape.freq_base) gguf.F32(a + ".rope.freq_base", shape.base);
  shape.more(gguf);
  if (!shape.rope_freqs.empty()) gguf.F32Tensor("rope_freqs.weight", {shape.rope_freqs.size()});
  if (shape.tensors) gguf.F32Tensor("output_norm.weight", {256});
  std::string file = gguf.File();
  size_t at = file.size() - gguf.data_bytes();
  for (const float divisor : shape.rope_freqs) {
    const auto bits = std::bit_cast<uint32_t>(divisor);
    for (int byte = 0; byte < 4; ++byte) file[at++] = static_cast<char>(bits >> 8 * byte & 0xff);
  }
  return file;
}

Json Config() {
  return {{"model_type", "llama"},
          {"vocab_size", 128256},
          {"hidden_size", 256},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"num_hidden_layers", 1},
          {"intermediate_size", 512},
          {"rope_theta", 500000},
          {"max_position_embeddings", 131072},
          {"rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 8},
            {"low_freq_factor", 1},
            {"high_freq_factor", 4},
            {"original_max_position_embeddings", 8192}}}};
}

class LintGgufTest : public testing::Test {
 protected:
  LintGgufTest()
      : folder_("lint_gguf_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name())) {}

  LintSource Source(const Shape& shape) {
    return OpenLintSource(folder_.Write("model.gguf", File(shape)), kWhere);
  }
  std::vector<Finding> Alone(const Shape& shape) { return LintOne(Source(shape), {}); }
  std::vector<Finding> BesideConfig(const Shape& shape) {
    const LintSource config = LintSourceOf(Config(), "config.json"), gguf = Source(shape);
    return Lint(config, &gguf, {}, 0).findings;
  }

  static void ExpectFinding(const std::vector<Finding>& findings, Severity severity,
                            const std::string& check) {
    std::string all;
    bool found = false;
    for (const Finding& finding : findings) {
      all +=
          std::string(SeverityName(finding.severity)) + " [" + finding.check + "] " + finding.evidence + "\n";
      found = found || (finding.severity == severity && finding.check == check);
    }
    EXPECT_TRUE(found) << SeverityName(severity) << " [" << check << "] in\n" << all;
  }
  static size_t Bad(const std::vector<Finding>& findings) {
    return Count(findings, Severity::kError) + Count(findings, Severity::kWarning);
  }

  TemporaryFolder folder_;
};

TEST_F(LintGgufTest, AGoodConversionTurnsAsItsConfig) {
  const std::vector<Finding> findings = BesideConfig({.rope_freqs = Divisors()});
  EXPECT_EQ(Bad(findings), 0u);
  ExpectFinding(findings, Severity::kNote, "pairing");  // the converter permutes
}

TEST_F(LintGgufTest, ALostBaseIsAnError) {
  ExpectFinding(Alone({.freq_base = false, .rope_freqs = Divisors()}), Severity::kError, "gguf_freq_base");
  ExpectFinding(Alone({.base = 10000, .rope_freqs = Divisors()}), Severity::kError, "gguf_freq_base");
  ExpectFinding(Alone({.base = 8e6, .rope_freqs = Divisors()}), Severity::kWarning, "gguf_freq_base");
  // Llama 2 was trained with what llama.cpp takes.
  ExpectFinding(Alone({.vocabulary = 32000, .context = 4096, .freq_base = false}), Severity::kNote,
                "gguf_freq_base");
  ExpectFinding(Alone({.vocabulary = 777, .context = 4096, .freq_base = false}), Severity::kWarning,
                "gguf_freq_base");
}

TEST_F(LintGgufTest, BandsAreComparedWithTheConfigs) {
  ExpectFinding(BesideConfig({.base = 10000, .rope_freqs = Divisors()}), Severity::kError,
                "gguf_against_config");
  std::vector<float> wrong = Divisors();
  wrong[20] *= 1.5f;
  ExpectFinding(BesideConfig({.rope_freqs = wrong}), Severity::kError, "gguf_against_config");
}

// gpt-oss: truncate is false, which a GGUF has no key for; the files cannot be blamed.
TEST_F(LintGgufTest, WhatTheEnginesReadOtherwiseIsNoMistakeOfAFile) {
  Json config = Config();
  config["model_type"] = "qwen3";
  config["head_dim"] = 64;
  config["vocab_size"] = 777;
  config["rope_theta"] = 150000;
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 32}, {"original_max_position_embeddings", 4096}, {"truncate", false}};
  Shape shape{.architecture = "qwen3", .vocabulary = 777, .base = 150000};
  shape.more = [](FakeGguf& gguf) {
    gguf.Text("qwen3.rope.scaling.type", "yarn").F32("qwen3.rope.scaling.factor", 32);
    gguf.U32("qwen3.rope.scaling.original_context_length", 4096);
  };
  const LintSource hf = LintSourceOf(config, "config.json"), gguf = Source(shape);
  const std::vector<Finding> findings = Lint(hf, &gguf, {}, 0).findings;
  EXPECT_EQ(Count(findings, Severity::kError), 0u);
  ExpectFinding(findings, Severity::kWarning, "engine_semantics");
}

TEST_F(LintGgufTest, LostDivisorsAreAnError) {
  ExpectFinding(BesideConfig({}), Severity::kError, "gguf_against_config");
  ExpectFinding(Alone({}), Severity::kError, "scaling_dropped");
  // A header without tensors proves nothing.
  EXPECT_EQ(Count(Alone({.tensors = false}), Severity::kError), 0u);
}

TEST_F(LintGgufTest, ScalingKeysMustBeWhole) {
  const auto with = [](const char* type, bool factor, bool original) {
    Shape shape{.architecture = "qwen2", .vocabulary = 151936, .base = 1e6};
    shape.more = [=](FakeGguf& gguf) {
      if (*type != 0) gguf.Text("qwen2.rope.scaling.type", type);
      if (factor) gguf.F32("qwen2.rope.scaling.factor", 4);
      if (original) gguf.U32("qwen2.rope.scaling.original_context_length", 32768);
    };
    return shape;
  };
  EXPECT_EQ(Bad(Alone(with("yarn", true, true))), 0u);
  ExpectFinding(Alone(with("yarn", true, false)), Severity::kError, "gguf_original_missing");
  ExpectFinding(Alone(with("yarn", false, true)), Severity::kError, "gguf_factor_missing");
  ExpectFinding(Alone(with("spline", true, true)), Severity::kError, "gguf_scaling_type");
  ExpectFinding(Alone(with("", true, true)), Severity::kWarning, "gguf_scaling_type");
}

TEST_F(LintGgufTest, PartialRotationMayBeLost) {
  const auto neox = [](uint32_t dims) {
    Shape shape{.architecture = "gptneox", .vocabulary = 50432, .context = 2048, .base = 10000};
    shape.more = [=](FakeGguf& gguf) { gguf.U32("gptneox.rope.dimension_count", dims); };
    return shape;
  };
  EXPECT_EQ(Count(Alone(neox(16)), Severity::kError), 0u);
  ExpectFinding(Alone(neox(64)), Severity::kError, "partial_lost");
}

TEST_F(LintGgufTest, AnAttentionFactorIsMultipliedByGgml) {
  Shape shape{.architecture = "qwen2", .vocabulary = 151936, .base = 1e6};
  shape.more = [](FakeGguf& gguf) {
    gguf.Text("qwen2.rope.scaling.type", "yarn").F32("qwen2.rope.scaling.factor", 4);
    gguf.U32("qwen2.rope.scaling.original_context_length", 32768).F32("qwen2.rope.scaling.attn_factor", 1.5);
  };
  const LintSource source = Source(shape);
  ASSERT_EQ(source.layers.size(), 1u);
  const double factor = FrequenciesOf(source.layers[0].rope, {1, 0}, RopeSemantics::kGgml).attention_factor;
  EXPECT_NEAR(factor, 1.5 * (0.1 * std::log(4.0) + 1), 1e-12);
}

TEST_F(LintGgufTest, PublishedHeadersHaveNoErrors) {
  const char* shared = std::getenv("ROPELINE_SHARED");
  const std::filesystem::path root =
      std::filesystem::path(shared != nullptr ? shared : ROPELINE_SOURCE_DIR "/../shared") / "gguf";
  if (!std::filesystem::is_directory(root))
    GTEST_SKIP() << "no " << root << "; set ROPELINE_SHARED to its folder";
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (entry.path().extension() != ".gguf") continue;
    for (const Finding& finding : LintOne(OpenLintSource(entry.path().string(), kWhere), {})) {
      EXPECT_NE(finding.severity, Severity::kError)
          << entry.path() << " [" << finding.check << "] " << finding.evidence;
    }
  }
}

}  // namespace
}  // namespace ropeline
