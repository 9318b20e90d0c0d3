#include "kernels/prefill_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/attention_reference.h"
#include "kernels/decode_attention.h"
#include "kernels/hash.h"
#include "kernels/qk_rotation.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"
#include "kernels/score_bias.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Prefill : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_q, n_heads, n_kv_heads, d_k, d_v;
};

struct Inputs {
  Inputs(KvFormat format, const Case& c, size_t latent = 0)
      : cache(KvShape{format, c.n_kv_heads, c.d_k, c.d_v}, c.n + 64), q(c.n_q * c.n_heads * c.d_k), call{} {
    std::vector<float> k(c.n * c.n_kv_heads * c.d_k), v(c.n * c.n_kv_heads * c.d_v);
    for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 11);
    for (size_t i = 0; i < v.size(); ++i) v[i] = HashToFloat(i, 12);
    for (size_t i = 0; i < q.size(); ++i) q[i] = 3 * HashToFloat(i, 13);
    cache.Append(k.data(), v.data(), c.n);
    call.cache = &cache;
    call.n_heads = c.n_heads;
    call.n_q = c.n_q;
    call.q = q.data();
    call.first_position = c.n - c.n_q;
    call.scale = 1 / std::sqrt(static_cast<float>(c.d_k));
    call.latent = latent;
  }

  std::vector<float> Run() const {
    std::vector<float> out(call.n_q * call.n_heads * call.ValueDimensions(), -7);
    AttendPrefill(call, out.data());
    return out;
  }

  KvCache cache;
  std::vector<float> q;
  PrefillAttention call;
};

// The first queries, the last ones and some between; every head.
void ExpectMatches(const Inputs& in, const std::string& what) {
  const std::vector<float> out = in.Run();
  const PrefillAttention& call = in.call;
  const ReferenceCache cache(in.cache, call.latent);
  double worst = 0;
  std::string where;
  for (size_t t = 0; t < call.n_q; ++t) {
    if (t > 4 && t + 4 < call.n_q && t % 13 != 0) continue;
    for (size_t h = 0; h < call.n_heads; ++h) {
      const auto row = ReferenceAttention(
          cache, call.bias, call.causal, h, h / call.Group(), call.first_position + t,
          in.q.data() + (t * call.n_heads + h) * cache.d_k, static_cast<double>(call.scale));
      for (size_t i = 0; i < cache.d_v; ++i) {
        const float actual = out[(t * call.n_heads + h) * cache.d_v + i];
        const double error = std::abs(static_cast<double>(actual) - row.out[i]);
        if (error <= worst) continue;
        worst = error;
        where = "query " + std::to_string(t) + " head " + std::to_string(h) + " element " +
                std::to_string(i) + ": " + std::to_string(actual) + ", expected " +
                std::to_string(row.out[i]);
      }
    }
  }
  EXPECT_LE(worst, 4e-6) << what << " " << where;
}

std::string Describe(KvFormat format, const Case& c) {
  return std::string(KvFormatName(format)) + " n " + std::to_string(c.n) + " queries " +
         std::to_string(c.n_q) + " heads " + std::to_string(c.n_heads) + "/" + std::to_string(c.n_kv_heads) +
         " d " + std::to_string(c.d_k) + "/" + std::to_string(c.d_v);
}

TEST_P(Prefill, MatchesTheReference) {
  for (const KvFormat format : kAllKvFormats) {
    for (const Case& c : {Case{1, 1, 1, 1, 8, 8},
                          {31, 31, 2, 1, 64, 64},
                          {100, 100, 3, 1, 40, 40},
                          {130, 20, 4, 2, 80, 80},
                          {257, 257, 3, 1, 32, 64},
                          {300, 7, 8, 1, 96, 112},
                          {260, 1, 16, 1, 128, 128}}) {
      for (const bool causal : {true, false}) {
        Inputs in(format, c);
        in.call.causal = causal;
        ExpectMatches(in, Describe(format, c) + (causal ? " causal" : " full"));
      }
    }
  }
}

TEST_P(Prefill, BiasesWindowsAndSinks) {
  const Case c{400, 150, 3, 1, 32, 32};
  const std::vector<float> slopes = {0.5f, 0.125f, 0.03125f};
  std::vector<float> by_distance(3 * 1000);
  for (size_t i = 0; i < by_distance.size(); ++i) by_distance[i] = 4 * HashToFloat(i, 77);
  const std::vector<float> logits = {3, -2, 8};
  for (const BiasKind kind : {BiasKind::kNone, BiasKind::kSlope, BiasKind::kByDistance, BiasKind::kSoftCap}) {
    for (const size_t window : {0, 1, 33, 128, 350, 1000}) {
      for (const bool causal : {true, false}) {
        Inputs in(KvFormat::kF32, c);
        in.call.causal = causal;
        in.call.bias.kind = kind;
        in.call.bias.slopes = slopes.data();
        in.call.bias.by_distance = by_distance.data() + 40;
        in.call.bias.stride = 900;
        in.call.bias.origin = 430;
        in.call.bias.cap = 0.7f;
        in.call.bias.window = window;
        in.call.bias.sinks = window % 2 == 0 ? 0 : 4;
        in.call.bias.sink_logits = window == 128 ? logits.data() : nullptr;
        ExpectMatches(in, std::string(BiasKindName(kind)) + " window " + std::to_string(window) +
                              (causal ? " causal" : " full"));
      }
    }
  }
}

// MLA: 576 = 512 of the latent and 64 of the rotation; here smaller.
TEST_P(Prefill, ALatentIsKeyAndValue) {
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBf16, KvFormat::kQ80}) {
    ExpectMatches(Inputs(format, {150, 1, 20, 1, 144, 0}, 128), "latent of 128");
    ExpectMatches(Inputs(format, {70, 2, 5, 1, 72, 0}, 40), "latent of 40");
  }
}

// A decode step is a prefill of one query.
TEST_P(Prefill, OneQueryIsADecodeStep) {
  const Inputs in(KvFormat::kF16, {333, 1, 6, 2, 64, 64});
  const std::vector<float> out = in.Run();
  std::vector<float> decoded(out.size());
  Attend({.cache = &in.cache, .n_heads = 6, .q = in.q.data(), .scale = in.call.scale, .position = 332},
         decoded.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], decoded[i], 3e-6) << "element " << i;
}

// Chunk by chunk against a growing cache is the same as all at once.
TEST_P(Prefill, ChunksEqualTheWhole) {
  const Inputs whole(KvFormat::kF32, {200, 200, 2, 1, 32, 32});
  const std::vector<float> expected = whole.Run();
  KvCache cache(whole.cache.shape(), 256);
  std::vector<float> row(32), values(32);
  size_t done = 0;
  for (const size_t chunk : {1, 63, 64, 72}) {
    for (size_t t = done; t < done + chunk; ++t) {
      for (size_t i = 0; i < 32; ++i)
        row[i] = whole.cache.Key(0, t, i), values[i] = whole.cache.Value(0, t, i);
      cache.Append(row.data(), values.data(), 1);
    }
    PrefillAttention call = whole.call;
    call.cache = &cache;
    call.n_q = chunk;
    call.q = whole.q.data() + done * 2 * 32;
    call.first_position = done;
    std::vector<float> out(chunk * 2 * 32);
    AttendPrefill(call, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[done * 2 * 32 + i], 2e-6) << "chunk from " << done << " element " << i;
    }
    done += chunk;
  }
}

// Attn(PX) = P·Attn(X) without a mask and without positions.
TEST_P(Prefill, APermutationOfTokensPermutesTheResult) {
  constexpr size_t kN = 70, kD = 32;
  std::vector<float> x(kN * kD), shuffled(kN * kD);
  std::vector<size_t> from(kN);
  for (size_t t = 0; t < kN; ++t) from[t] = (t * 29 + 5) % kN;
  for (size_t i = 0; i < x.size(); ++i) x[i] = 2 * HashToFloat(i, 5);
  for (size_t t = 0; t < kN; ++t) std::copy_n(x.begin() + from[t] * kD, kD, shuffled.begin() + t * kD);
  const auto run = [&](const std::vector<float>& tokens) {
    KvCache cache(KvShape{KvFormat::kF32, 1, kD, kD}, kN);
    cache.Append(tokens.data(), tokens.data(), kN);
    std::vector<float> out(kN * kD);
    AttendPrefill(
        {.cache = &cache, .n_heads = 1, .n_q = kN, .q = tokens.data(), .causal = false, .scale = 0.2f},
        out.data());
    return out;
  };
  const std::vector<float> out = run(x), permuted = run(shuffled);
  for (size_t t = 0; t < kN; ++t) {
    for (size_t i = 0; i < kD; ++i) ASSERT_NEAR(permuted[t * kD + i], out[from[t] * kD + i], 3e-6);
  }
}

// Positions 5000 further on give the same result: turned Q and K, causal.
TEST_P(Prefill, AShiftOfPositionsChangesNothing) {
  constexpr size_t kN = 90, kHeads = 2, kD = 64;
  std::vector<float> q(kN * kHeads * kD), k(kN * kD), v(kN * kD);
  for (size_t i = 0; i < q.size(); ++i) q[i] = HashToFloat(i, 1);
  for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 2), v[i] = HashToFloat(i, 3);
  const auto run = [&](size_t first) {
    std::vector<float> table(kN * kD), turned_q = q, turned_k = k;
    BuildAngleTable(DefaultInvFreq(kD, 10000), first, kN, AngleLayout::kSplit, table.data());
    const auto turn = [&](std::vector<float>& x, size_t heads) {
      const HeadsView view{x.data(), Dtype::kF32, heads * kD, kD};
      Rotate({.pairing = Pairing::kHalf,
              .n = kN,
              .n_heads = heads,
              .d_head = kD,
              .d_rot = kD,
              .in = view,
              .out = view,
              .table = table.data(),
              .rows = nullptr,
              .inverse = false});
    };
    turn(turned_q, kHeads);
    turn(turned_k, 1);
    KvCache cache(KvShape{KvFormat::kF32, 1, kD, kD}, kN);
    cache.Append(turned_k.data(), v.data(), kN);
    std::vector<float> out(q.size());
    AttendPrefill({.cache = &cache, .n_heads = kHeads, .n_q = kN, .q = turned_q.data(), .scale = 0.3f},
                  out.data());
    return out;
  };
  const std::vector<float> here = run(0), there = run(5000);
  for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(here[i], there[i], 5e-6) << "element " << i;
}

TEST_P(Prefill, OddNumbersStayInTheirHead) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Inputs in(KvFormat::kF32, {80, 80, 4, 2, 32, 32});
    const std::vector<float> clean = in.Run();
    in.q[(7 * 4 + 1) * 32 + 5] = odd;  // query 7, head 1
    const std::vector<float> out = in.Run();
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / 32 == 7 * 4 + 1) {
        EXPECT_TRUE(std::isnan(out[i])) << "element " << i;
      } else {
        EXPECT_EQ(out[i], clean[i]) << "element " << i;
      }
    }
  }
}

TEST_P(Prefill, AWindowBeyondEverything) {
  Inputs in(KvFormat::kF32, {50, 50, 2, 1, 32, 32});
  const std::vector<float> all = in.Run();
  in.call.bias.window = std::numeric_limits<size_t>::max();
  EXPECT_EQ(in.Run(), all);
}

// A bias added inside attention is the same bias in a tensor of scores: the encodings' own kernels make that
// one.
TEST_P(Prefill, FusedEqualsMaterialised) {
  constexpr size_t kN = 100, kHeads = 4, kD = 32;
  const Shape shape{.n = kN, .n_k = kN, .n_heads = kHeads};
  for (const char* name : {"alibi", "t5_bias"}) {
    const Encoding& encoding = *FindEncoding(name);
    std::vector<float> scores(kHeads * kN * kN);
    encoding.apply(*encoding.setup(shape), shape, scores.data());
    const std::vector<float> bias = scores;  // causal half
    Inputs in(KvFormat::kF32, {kN, kN, kHeads, 1, kD, kD});
    std::vector<float> slopes, by_distance(kHeads * 2 * kN);
    for (const double slope : AlibiSlopes(kHeads)) slopes.push_back(static_cast<float>(slope));
    // The last query's row holds every distance.
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t k = 0; k < kN; ++k) by_distance[h * 2 * kN + k] = bias[(h * kN + kN - 1) * kN + k];
    }
    by_distance.resize(by_distance.size() + 32);
    in.call.bias.kind = encoding.name == std::string("alibi") ? BiasKind::kSlope : BiasKind::kByDistance;
    in.call.bias.slopes = slopes.data();
    in.call.bias.by_distance = by_distance.data();
    in.call.bias.stride = 2 * kN;
    in.call.bias.origin = kN - 1;
    const std::vector<float> out = in.Run();
    for (size_t q = 0; q < kN; ++q) {
      for (size_t h = 0; h < kHeads; ++h) {
        std::vector<double> weights(q + 1);
        double sum = 0;
        for (size_t k = 0; k <= q; ++k) {
          double dot = 0;
          for (size_t i = 0; i < kD; ++i) {
            dot += static_cast<double>(in.q[(q * kHeads + h) * kD + i]) *
                   static_cast<double>(in.cache.Key(0, k, i));
          }
          const double score =
              static_cast<double>(in.call.scale) * dot + static_cast<double>(bias[(h * kN + q) * kN + k]);
          sum += weights[k] = std::exp(score);
        }
        for (size_t i = 0; i < kD; ++i) {
          double expected = 0;
          for (size_t k = 0; k <= q; ++k) {
            expected += weights[k] / sum * static_cast<double>(in.cache.Value(0, k, i));
          }
          ASSERT_NEAR(out[(q * kHeads + h) * kD + i], expected, 4e-6)
              << name << " query " << q << " head " << h << " element " << i;
        }
      }
    }
  }
}

TEST_P(Prefill, NothingVisibleIsZero) {
  for (const KvFormat format : kAllKvFormats) {
    Inputs in(format, {40, 20, 2, 1, 32, 32});
    in.cache.Truncate(0);
    for (const float x : in.Run()) EXPECT_EQ(x, 0) << KvFormatName(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Prefill, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(PrefillAttentionCost, CountsSeenPairs) {
  Inputs in(KvFormat::kF32, {100, 100, 2, 1, 32, 32});
  EXPECT_EQ(SeenPairs(in.call, 100), 100 * 101 / 2);
  EXPECT_EQ(PrefillAttentionCost(in.call).flops, 2.0 * 2 * 5050 * 64);
  in.call.causal = false;
  EXPECT_EQ(SeenPairs(in.call, 100), 100 * 100);
  in.call.causal = true;
  in.call.bias.window = 10;
  EXPECT_EQ(SeenPairs(in.call, 100), 55 + 90 * 10);
  in.call.bias.sinks = 2;
  // Query 10 has one sink before its window, the 89 after it two.
  EXPECT_EQ(SeenPairs(in.call, 100), 55 + 90 * 10 + 1 + 89 * 2);
}

}  // namespace
}  // namespace ropeline
