#include "bench/step/step_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "bench/step/step_reference.h"
#include "bench/step/tiny_llm.h"

namespace ropeline {
namespace {

constexpr size_t kLength = 80;      // tokens of a sequence, at most
constexpr size_t kMostTokens = 40;  // of a chunk

struct Model {
  explicit Model(const Llm& llm, const char* weights_format = "f32")
      : plan(PlanStep(llm, FindWeightMix(weights_format, {"test", "--weights"}), {"test", "--model"})),
        weights(plan) {
    weights.Fill(0, 3, 7);
    weights.Fill(1, 3, 7);
    weights.Fill(2, 3, 7);
  }
  StepPlan plan;
  StepWeights weights;
};

// Chunks of a text as prefill takes them, those of one token as decode does; logits after each.
using Chunks = std::vector<std::vector<int32_t>>;

// Blocks of 32 tokens finished within a chunk, at its end and by a decode step; a chunk's end within one.
Chunks Text() {
  Chunks chunks;
  int32_t next = 5;
  for (const size_t count : {1, 19, 12, 1, 30, 1, 1}) {
    chunks.emplace_back();
    for (size_t t = 0; t < count; ++t) chunks.back().push_back(next = (31 * next + 17) % 97);
  }
  return chunks;
}

std::vector<std::vector<float>> LogitsOf(const Model& model, KvFormat format, size_t threads,
                                         const Chunks& chunks, std::vector<size_t>* chosen = nullptr) {
  StepCaches caches(model.plan, format, kLength);
  const StepPosition position(model.plan, model.weights, kLength);
  StepRun run(model.plan, model.weights, position, &caches, threads, kMostTokens);
  std::vector<std::vector<float>> logits;
  const auto work = [&](size_t thread) {
    size_t n = 0;
    for (const auto& tokens : chunks) {
      if (tokens.size() == 1) {
        run.Decode(thread, tokens[0], n);
      } else {
        run.Prefill(thread, tokens.data(), tokens.size(), n);
      }
      n += tokens.size();
      if (thread != 0) continue;
      logits.emplace_back(run.Logits(), run.Logits() + model.plan.vocabulary);
      if (chosen != nullptr) chosen->push_back(run.Next());
    }
  };
  std::vector<std::thread> team;
  for (size_t thread = 1; thread < threads; ++thread) team.emplace_back(work, thread);
  work(0);
  for (std::thread& thread : team) thread.join();
  return logits;
}

// Root of the mean square difference, in units of the expected logits' own.
double Error(const std::vector<float>& logits, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(logits[i]) - expected[i];
    difference += d * d;
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}

void ExpectMatches(const Model& model, KvFormat format, std::optional<KvFormat> stored, double allowed,
                   const std::string& what) {
  const Chunks chunks = Text();
  const auto logits = LogitsOf(model, format, 1, chunks);
  StepReference reference(model.plan, model.weights, stored, kLength);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const double error = Error(logits[i], reference.Forward(chunks[i]));
    EXPECT_LE(error, allowed) << what << ", KV " << KvFormatName(format) << ", after chunk " << i;
  }
}

// Of f32 arithmetic, and over the quantised formats of queries and weights of 16 bits (decode_attention.h);
// a number next to the border between two steps of a format may fall on either side.
double ArithmeticError(KvFormat format) {
  if (!IsQuantised(format)) return 1e-3;
  return format == KvFormat::kQ80 ? 5e-3 : 2e-2;
}

const char* const kEncodings[] = {"learned",   "sinusoidal",       "t5_bias", "alibi",
                                  "rope_half", "rope_interleaved", ""};

TEST(StepRun, EqualsTheReferenceWithEveryEncodingInF32) {
  for (const char* encoding : kEncodings) {
    const Model model(TinyLlm{.encoding = encoding}.Make());
    ExpectMatches(model, KvFormat::kF32, std::nullopt, 1e-5, encoding);
  }
}

TEST(StepRun, EqualsTheReferenceWithEveryEncodingAndCache) {
  for (const char* encoding : kEncodings) {
    const Model model(TinyLlm{.encoding = encoding}.Make());
    for (const KvFormat format : kAllKvFormats) {
      ExpectMatches(model, format, format, ArithmeticError(format), std::string(encoding) + " as stored");
    }
  }
}

// What rounding the cache does to the logits: at most a few of the format's own steps.
TEST(StepRun, ACacheFormatCostsItsRounding) {
  const auto allowed = [](KvFormat format) {
    switch (format) {
      case KvFormat::kF32:
        return 1e-5;
      case KvFormat::kF16:
        return 1e-3;
      case KvFormat::kBf16:
        return 8e-3;
      case KvFormat::kQ80:
        return 1e-2;
      default:
        return 0.15;
    }
  };
  for (const char* encoding : kEncodings) {
    const Model model(TinyLlm{.encoding = encoding}.Make());
    for (const KvFormat format : kAllKvFormats) {
      ExpectMatches(model, format, std::nullopt, allowed(format), std::string(encoding) + " exact");
    }
  }
}

TEST(StepRun, EqualsTheReferenceInEveryShape) {
  const struct {
    const char* what;
    TinyLlm llm;
  } cases[] = {
      {"biases of Q, K and V", {.qkv_bias = true}},
      {"biases of all projections", {.qkv_bias = true, .o_bias = true}},
      {"norms of heads", {.qk_norm = true}},
      {"one matrix of Q, K and V", {.qkv_bias = true, .fused_qkv = true}},
      {"tied embeddings", {.tied = true}},
      {"a window", {.window = 9}},
      {"a window and slopes", {.encoding = "alibi", .window = 9}},
      {"one KV head", {.n_kv_heads = 1}},
      {"heads of their own", {.n_kv_heads = 4}},
      {"a part of a head turns", {.d_rot = 8}},
      {"neighbours of a part of a head turn", {.encoding = "rope_interleaved", .d_rot = 8}},
      {"an extension with a factor on the scores", {.schedule = RopeType::kYarn}},
      {"heads wider than the model", {.n_heads = 6, .n_kv_heads = 3, .d_head = 40, .d_ffn = 40}},
  };
  for (const auto& [what, llm] : cases) {
    ExpectMatches(Model(llm.Make()), KvFormat::kF32, std::nullopt, 1e-5, what);
  }
}

// Activations are rounded to eight bits with the block formats; of the plain ones nothing is lost.
TEST(StepRun, EqualsTheReferenceInEveryWeightFormat) {
  const struct {
    const char* weights;
    double allowed;
  } cases[] = {{"f32", 1e-5},  {"f16", 1e-5},    {"bf16", 1e-5}, {"q8_0", 0.03},
               {"q4_0", 0.03}, {"q4_k_m", 0.03}, {"q6_k", 0.03}};
  for (const auto& [weights, allowed] : cases) {
    const TinyLlm llm{.d_model = 256, .n_heads = 4, .n_kv_heads = 2, .d_head = 64, .d_ffn = 512};
    ExpectMatches(Model(llm.Make(), weights), KvFormat::kF32, std::nullopt, allowed, weights);
  }
}

TEST(StepRun, ThreadsChangeNothing) {
  for (const char* encoding : {"learned", "t5_bias", "alibi", "rope_half"}) {
    const Model model(TinyLlm{.encoding = encoding}.Make());
    std::vector<size_t> chosen, chosen_by_two;
    const auto alone = LogitsOf(model, KvFormat::kF16, 1, Text(), &chosen);
    EXPECT_EQ(LogitsOf(model, KvFormat::kF16, 2, Text(), &chosen_by_two), alone) << encoding;
    EXPECT_EQ(chosen_by_two, chosen);
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto largest = std::max_element(alone[i].begin(), alone[i].end()) - alone[i].begin();
      EXPECT_EQ(chosen[i], static_cast<size_t>(largest));
    }
  }
  for (const KvFormat format : kAllKvFormats) {
    const Model model(TinyLlm{.qkv_bias = true, .qk_norm = false}.Make(), "q8_0");
    EXPECT_EQ(LogitsOf(model, format, 2, Text()), LogitsOf(model, format, 1, Text())) << KvFormatName(format);
  }
}

// Threads then share out rows and tokens, and what they found is merged.
TEST(StepRun, ThreadsWithoutEvenHeads) {
  for (const size_t kv_heads : {1, 3}) {
    const Model model(TinyLlm{.n_heads = 6, .n_kv_heads = kv_heads}.Make());
    StepReference reference(model.plan, model.weights, std::nullopt, kLength);
    const auto logits = LogitsOf(model, KvFormat::kF32, 2, Text());
    for (size_t i = 0; i < logits.size(); ++i) {
      EXPECT_LE(Error(logits[i], reference.Forward(Text()[i])), 1e-5) << kv_heads << " KV heads, chunk " << i;
    }
  }
}

TEST(StepRun, ASynthesisedDepthIsSeen) {
  const Model model(TinyLlm{}.Make());
  std::vector<std::vector<float>> logits;
  for (const size_t parts : {1, 3}) {
    for (const size_t depth : {50, 51}) {
      StepCaches caches(model.plan, KvFormat::kKivi4, kLength);
      for (size_t part = 0; part < parts; ++part) caches.Fill(part, parts, depth);
      caches.FilledTo(depth);
      const StepPosition position(model.plan, model.weights, kLength);
      StepRun run(model.plan, model.weights, position, &caches, 1, kMostTokens);
      run.Decode(0, 3, depth);
      logits.emplace_back(run.Logits(), run.Logits() + model.plan.vocabulary);
      EXPECT_EQ(caches.Layer(1).n(), depth + 1);
      run.Decode(0, 3, depth);
      EXPECT_EQ(std::vector<float>(run.Logits(), run.Logits() + model.plan.vocabulary), logits.back())
          << "the same step again";
    }
  }
  EXPECT_NE(logits[0], logits[1]) << "another depth";
  EXPECT_EQ(logits[0], logits[2]) << "filled by others";
}

TEST(StepRun, EveryTermIsMeasured) {
  const Model model(TinyLlm{}.Make());
  StepCaches caches(model.plan, KvFormat::kF32, kLength);
  const StepPosition position(model.plan, model.weights, kLength);
  StepRun run(model.plan, model.weights, position, &caches, 1, kMostTokens);
  const std::vector<int32_t> tokens(20, 3);
  for (const bool prefill : {false, true}) {
    run.ResetTimes();
    EXPECT_EQ(run.Times().TotalSeconds(), 0);
    prefill ? run.Prefill(0, tokens.data(), tokens.size(), 0) : run.Decode(0, 3, 0);
    double sum = 0;
    for (const StepTerm term : kAllStepTerms) {
      EXPECT_GT(run.Times().Seconds(term), 0) << StepTermName(term, prefill);
      sum += run.Times().Seconds(term);
    }
    EXPECT_NEAR(run.Times().TotalSeconds(), sum, 1e-9);
  }
}

}  // namespace
}  // namespace ropeline
