#include "model/kernel_rates.h"

#include <gtest/gtest.h>

#include "model/fake_machine.h"

namespace ropeline {
namespace {

KernelRates Rates(const nlohmann::json& results = FakeKernelResults(), int threads = 2) {
  return KernelRates(FakeMachine(results), threads);
}

Attention Heads(uint64_t n_heads, uint64_t n_kv_heads, uint64_t d_head) {
  Attention attention;
  attention.kind = AttentionKind::kFull;
  attention.n_heads = n_heads;
  attention.n_kv_heads = n_kv_heads;
  attention.d_head_k = attention.d_head_v = d_head;
  return attention;
}

constexpr const char* kDecode = "attention/decode/f16/BEST/";

TEST(KernelRatesTest, AtARowsOwnShapeItsOwnTimeComesBack) {
  const KernelTime decode = Rates().DecodeAttention(kBlockF16, Heads(24, 8, 128), 32768).value();
  EXPECT_DOUBLE_EQ(decode.ns, 8e6);
  EXPECT_EQ(decode.row, kDecode + std::string("n:32768/h:24/hkv:8/d:128/cache:cold/threads:2"));
  EXPECT_EQ(decode.note, "");
  const KernelTime prefill = Rates().PrefillAttention(kBlockF16, Heads(3, 1, 128), 4096).value();
  EXPECT_DOUBLE_EQ(prefill.ns, 280e6);
  EXPECT_EQ(prefill.note, "");
  const KernelTime append = Rates().Append(kBlockF16, Heads(24, 8, 128), 512).value();
  EXPECT_DOUBLE_EQ(append.ns, 300e3) << "of the query heads it knows nothing";
  EXPECT_EQ(append.note, "");
}

TEST(KernelRatesTest, DecodeIsLinearBetweenRowsAndKeepsTheLastRateBeyond) {
  const KernelRates rates = Rates();
  const auto at = [&](double n) { return rates.DecodeAttention(kBlockF16, Heads(24, 8, 128), n).value(); };
  EXPECT_DOUBLE_EQ(at(2560).ns, 0.65e6) << "halfway from 1024 to 4096";
  EXPECT_DOUBLE_EQ(at(11264).ns, 2.75e6) << "a quarter of the way from 4096 to 32768";
  EXPECT_NE(at(11264).row.find("/n:4096/"), std::string::npos) << at(11264).row;
  EXPECT_EQ(at(11264).note, "n 11264, between 4096 and 32768");
  EXPECT_DOUBLE_EQ(at(131072).ns, 32e6);
  EXPECT_EQ(at(131072).note, "n 131072, beyond all measured, at its rate");
  // The line of the first two rows, 0.3 ms less 512 · 0.7 ms ÷ 3072.
  EXPECT_NEAR(at(512).ns, 0.3e6 - 0.7e6 / 6, 1e-3);
  EXPECT_EQ(at(512).note, "n 512, below all measured");
  for (const double n : {1023.0, 1024.0, 1025.0, 4096.0, 32767.0, 32769.0}) {
    EXPECT_NEAR(at(n).ns, at(n + 1e-6).ns, 1) << "no step at " << n;
    EXPECT_LE(at(n).ns, at(n + 1).ns);
  }
}

TEST(KernelRatesTest, BelowTheFirstRowNeitherABetterRateNorALongerTime) {
  for (const double second_ns : {1e6, 9e6}) {  // a falling line, and one through less than nothing
    const KernelRates rates = Rates(FakeResultsWith(
        {{"attention/decode/f16/BEST/n:1000/h:8/hkv:8/d:128/cache:cold/threads:2", 3e6},
         {"attention/decode/f16/BEST/n:2000/h:8/hkv:8/d:128/cache:cold/threads:2", second_ns}}));
    const double ns = rates.DecodeAttention(kBlockF16, Heads(8, 8, 128), 100).value().ns;
    EXPECT_DOUBLE_EQ(ns, second_ns < 3e6 ? 3e6 : 0.3e6);
  }
  const KernelRates one = Rates(
      FakeResultsWith({{"attention/decode/f16/BEST/n:1000/h:8/hkv:8/d:128/cache:cold/threads:2", 3e6}}));
  EXPECT_DOUBLE_EQ(one.DecodeAttention(kBlockF16, Heads(8, 8, 128), 100).value().ns, 0.3e6);
  EXPECT_DOUBLE_EQ(one.DecodeAttention(kBlockF16, Heads(8, 8, 128), 2000).value().ns, 6e6);
}

TEST(KernelRatesTest, TheNearestGroupThenTheNearestWidthScaledByBytes) {
  const KernelRates rates = Rates();
  // Group 3 was measured with 8 KV heads of 128: a quarter of the bytes.
  const KernelTime small = rates.DecodeAttention(kBlockF16, Heads(12, 4, 64), 4096).value();
  EXPECT_DOUBLE_EQ(small.ns, 1e6 / 4);
  EXPECT_EQ(small.note, "scaled by bytes: d_head 128 → 64, KV heads 8 → 4");
  // Group 7: 4 is nearer than 3, though it was measured at another width.
  const KernelTime qwen = rates.DecodeAttention(kBlockF16, Heads(28, 4, 128), 4096).value();
  EXPECT_DOUBLE_EQ(qwen.ns, 0.6e6);
  EXPECT_NE(qwen.row.find("/h:32/hkv:8/d:64/"), std::string::npos);
  EXPECT_EQ(qwen.note, "scaled by bytes: group 4 → 7, d_head 64 → 128, KV heads 8 → 4");
  // Keys and values of different widths: 192 + 128 of 256 elements.
  Attention uneven = Heads(24, 8, 192);
  uneven.d_head_v = 128;
  EXPECT_DOUBLE_EQ(rates.DecodeAttention(kBlockF16, uneven, 4096).value().ns, 1e6 * 320 / 256);
}

TEST(KernelRatesTest, BlocksThatAreNotFullCountWhole) {
  const double row = Rates().DecodeAttention(kBlockQ80, Heads(24, 8, 128), 32768).value().ns;
  // 80 elements take three blocks of 32, 128 take four.
  EXPECT_DOUBLE_EQ(Rates().DecodeAttention(kBlockQ80, Heads(24, 8, 80), 32768).value().ns, row * 3 / 4);
}

TEST(KernelRatesTest, NeverAcrossFormatsOrThreads) {
  EXPECT_FALSE(Rates().DecodeAttention(kBlockQ40, Heads(24, 8, 128), 4096));
  EXPECT_FALSE(Rates().DecodeAttention(kBlockBf16, Heads(24, 8, 128), 4096));
  EXPECT_FALSE(Rates().PrefillAttention(kBlockQ80, Heads(24, 8, 128), 4096));
  EXPECT_FALSE(Rates().Append(kBlockQ80, Heads(24, 8, 128), 1));
  EXPECT_FALSE(Rates(FakeKernelResults(), 4).DecodeAttention(kBlockF16, Heads(24, 8, 128), 4096));
  // One thread: the only row is the one at 65536.
  EXPECT_DOUBLE_EQ(
      Rates(FakeKernelResults(), 1).DecodeAttention(kBlockF16, Heads(24, 8, 128), 65536).value().ns, 1e13);
}

TEST(KernelRatesTest, PrefillsRateIsLinearInTheLogarithmOfN) {
  const KernelRates rates = Rates();
  const Attention layer = Heads(3, 1, 128);
  const auto rate = [&](double n) {
    return layer.Pairs(n) * layer.FlopsPerPair() / rates.PrefillAttention(kBlockF16, layer, n).value().ns;
  };
  const double low = 4.0 * 512 * 512 / 2 * 3 * 128 / 5e6, high = 4.0 * 4096 * 4096 / 2 * 3 * 128 / 280e6;
  EXPECT_NEAR(rate(512), low, 1e-9);
  EXPECT_NEAR(rate(1024), low + (high - low) / 3, 1e-9);
  EXPECT_NEAR(rate(4096), high, 1e-9);
  EXPECT_NEAR(rate(32768), high, 1e-9);
  EXPECT_NEAR(rate(7), low, 1e-9);
}

TEST(KernelRatesTest, PrefillIsScaledByFlopsAsTheLayerIs) {
  const KernelRates rates = Rates();
  const KernelTime llama = rates.PrefillAttention(kBlockF16, Heads(24, 8, 128), 4096).value();
  EXPECT_DOUBLE_EQ(llama.ns, 8 * 280e6);
  EXPECT_EQ(llama.note, "scaled by flops: KV heads 1 → 8");
  Attention encoder = Heads(3, 1, 128);
  encoder.causal = false;
  EXPECT_DOUBLE_EQ(rates.PrefillAttention(kBlockF16, encoder, 4096).value().ns, 600e6);
  // A window of 512 in 4096 tokens: its own pairs, at the rate of 512.
  Attention window = Heads(3, 1, 128);
  window.kind = AttentionKind::kWindow;
  window.window = 512;
  EXPECT_NEAR(rates.PrefillAttention(kBlockF16, window, 4096).value().ns,
              5e6 * (512.0 * 4096 - 512 * 512 / 2) / (512 * 512 / 2), 1);
  Attention causal = Heads(3, 3, 64);
  const KernelTime other = rates.PrefillAttention(kBlockF32, causal, 1024).value();
  EXPECT_DOUBLE_EQ(other.ns, 10e6) << "half of the pairs";
  EXPECT_EQ(other.note, "scaled by flops: causal 0 → 1");
}

TEST(KernelRatesTest, AppendScalesByBytesReadAndWritten) {
  EXPECT_DOUBLE_EQ(Rates().Append(kBlockF16, Heads(32, 4, 64), 1).value().ns, 150);
  EXPECT_DOUBLE_EQ(Rates().Append(kBlockF16, Heads(24, 8, 128), 51200).value().ns, 30e6);
  const KernelRates q8 =
      Rates(FakeResultsWith({{"kv_cache/append/q8_0/BEST/n:1/hkv:1/d:32/cache:hot/threads:2", 100}}));
  EXPECT_DOUBLE_EQ(q8.Append(kBlockQ80, Heads(1, 1, 16), 1).value().ns, 100.0 * (64 + 34) / (128 + 34));
}

TEST(KernelRatesTest, ABiasIsTheExcessOverTheSameRowWithout) {
  const KernelRates rates = Rates();
  const Attention bloom = Heads(32, 32, 128);
  const auto bias = [&](Phase phase, const char* encoding) {
    return rates.BiasOnAttention(phase, kBlockF16, bloom, 2048, encoding, 1000);
  };
  EXPECT_NEAR(bias(Phase::kDecode, "alibi").value().ns, 50, 1e-9);
  EXPECT_NE(bias(Phase::kDecode, "alibi").value().row.find("bias:alibi"), std::string::npos);
  EXPECT_NEAR(bias(Phase::kPrefill, "alibi").value().ns, 50, 1e-9);
  EXPECT_FALSE(bias(Phase::kDecode, "t5_bias"));
  const std::string row = "attention/decode/f16/BEST/n:64/h:8/hkv:8/d:128/";
  const KernelRates more = Rates(FakeResultsWith(
      {{row + "cache:cold/threads:2", 100},
       {row + "bias:t5/cache:cold/threads:2", 90},
       {"attention/decode/f16/BEST/n:99/h:8/hkv:8/d:128/bias:alibi/cache:cold/threads:2", 100}}));
  const auto t5 = more.BiasOnAttention(Phase::kDecode, kBlockF16, bloom, 64, "t5_bias", 1000);
  EXPECT_EQ(t5.value().ns, 0) << "faster than without";
  EXPECT_FALSE(more.BiasOnAttention(Phase::kDecode, kBlockF16, bloom, 99, "alibi", 1000)) << "no twin";
}

TEST(KernelRatesTest, ABiasedRowOrAHotDecodeRowIsNoPlainOneHoweverNear) {
  const std::string decode = "attention/decode/f16/BEST/n:64/h:8/hkv:8/d:128/";
  EXPECT_FALSE(Rates(FakeResultsWith({{decode + "bias:alibi/cache:cold/threads:2", 1},
                                      {decode + "cache:hot/threads:2", 1}}))
                   .DecodeAttention(kBlockF16, Heads(8, 8, 128), 64));
}

TEST(KernelRatesTest, OfEqualsTheColdRow) {
  const std::string append = "kv_cache/append/f16/BEST/n:1/hkv:8/d:128/cache:";
  for (const auto& [one, other] : {std::pair("hot", "cold"), std::pair("cold", "hot")}) {
    const auto ns = [](const std::string& cache) { return cache == "cold" ? 600.0 : 200.0; };
    const KernelRates rates = Rates(FakeResultsWith(
        {{append + one + "/threads:2", ns(one)}, {append + other + "/threads:2", ns(other)}}));
    EXPECT_EQ(rates.Append(kBlockF16, Heads(8, 8, 128), 1).value().ns, 600);
  }
}

TEST(KernelRatesTest, ADisturbedRowIsSaidToBe) {
  nlohmann::json results = FakeResults();
  results["benchmarks"].push_back(
      FakeRow("attention/decode/f16/BEST/n:64/h:8/hkv:8/d:128/cache:cold/threads:2",
              {{"call_ns", 10}, {"tainted", 1}}));
  EXPECT_EQ(Rates(results).DecodeAttention(kBlockF16, Heads(8, 8, 128), 64).value().note,
            "disturbed in every repetition");
}

}  // namespace
}  // namespace ropeline
