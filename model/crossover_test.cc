#include "model/crossover.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace ropeline {
namespace {

const Where kWhere{"test", "MODEL"};

TEST(CrossoverTest, TheArticlesModelByHand) {
  const Crossovers found = FindCrossovers(Preset("article-3b", kWhere), kBlockF16, 1687500000, 1);
  // 1.6875e9 bytes of q4_0 weights over 114,688 bytes per token.
  EXPECT_NEAR(found.kv_equals_weights.value(), 1687500000.0 / 114688, 1e-6);
  // 2·3e9 = 28 · 4·24·128 · n
  EXPECT_NEAR(found.decode_attention_equals_linear.value(), 6e9 / (28.0 * 4 * 24 * 128), 1e-6);
  // 2·n·3e9 = 28 · 2·24·128 · n²
  EXPECT_NEAR(found.prefill_attention_equals_linear.value(), 6e9 / (28.0 * 2 * 24 * 128), 1e-6);
}

TEST(CrossoverTest, FourCachesMeetTheWeightsAtAQuarterOfTheContext) {
  const Llm llm = Preset("article-3b", kWhere);
  EXPECT_NEAR(FindCrossovers(llm, kBlockF16, 1687500000, 4).kv_equals_weights.value() * 4,
              FindCrossovers(llm, kBlockF16, 1687500000, 1).kv_equals_weights.value(), 1e-6);
}

// At the crossover the sums themselves are equal, windows and LM head included.
TEST(CrossoverTest, BothSidesAreEqualThere) {
  Llm llm = Preset("llama-3.2-1b", kWhere);
  for (size_t i = 0; i < 12; ++i) {  // 12 of 16 layers with a window
    llm.layers[i].self.kind = AttentionKind::kWindow;
    llm.layers[i].self.window = i < 6 ? 1024 : 20000;
  }
  const Crossovers found = FindCrossovers(llm, kBlockF16, 1000000000, 1);
  const double n = found.prefill_attention_equals_linear.value();
  double attention = 0;
  for (const Layer& layer : llm.layers) attention += layer.self.Pairs(n) * layer.self.FlopsPerPair();
  const double linear = 2 * n * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_each)) +
                        2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_last));
  EXPECT_NEAR(attention / linear, 1, 1e-9);
  EXPECT_GT(n, 20000) << "in the last interval, beyond both windows";
  const double decode_n = found.decode_attention_equals_linear.value();
  double keys = 0;
  for (const Layer& layer : llm.layers) keys += layer.self.Keys(decode_n) * layer.self.FlopsPerPair();
  EXPECT_NEAR(keys / (2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::decode))), 1, 1e-9);
  const double kv_n = found.kv_equals_weights.value();
  double bytes = 0;
  for (const Layer& layer : llm.layers) bytes += layer.self.Keys(kv_n) * 2048;  // 2 · 8 · 64 · 2
  EXPECT_NEAR(bytes, 1e9, 1);
}

TEST(CrossoverTest, WindowsOnEveryLayerMayNeverMeet) {
  const Llm mistral = Preset("mistral-7b", kWhere);
  const Crossovers found = FindCrossovers(mistral, kBlockF16, 4000000000, 1);
  EXPECT_FALSE(found.kv_equals_weights.has_value());  // never above 4096 tokens' bytes
  EXPECT_FALSE(found.decode_attention_equals_linear.has_value());
  EXPECT_FALSE(found.prefill_attention_equals_linear.has_value());
  // 100 MB of weights are met within the window.
  EXPECT_NEAR(FindCrossovers(mistral, kBlockF16, 100000000, 1).kv_equals_weights.value(), 1e8 / 131072, 1e-6);
}

TEST(CrossoverTest, NoAttentionNoCrossover) {
  Llm llm = Preset("article-3b", kWhere);
  for (Layer& layer : llm.layers) layer.self = {};
  const Crossovers found = FindCrossovers(llm, kBlockF16, 1, 1);
  EXPECT_FALSE(found.kv_equals_weights || found.decode_attention_equals_linear ||
               found.prefill_attention_equals_linear);
}

}  // namespace
}  // namespace ropeline
