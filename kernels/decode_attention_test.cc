#include "kernels/decode_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention_reference.h"
#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Decode : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_heads, n_kv_heads, d_k, d_v;
};

struct Inputs {
  Inputs(KvFormat format, const Case& c, uint64_t seed = 1)
      : cache(KvShape{format, c.n_kv_heads, c.d_k, c.d_v}, c.n + 64), q(c.n_heads * c.d_k), call{} {
    std::vector<float> k(c.n * c.n_kv_heads * c.d_k), v(c.n * c.n_kv_heads * c.d_v);
    for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, seed + 10);
    for (size_t i = 0; i < v.size(); ++i) v[i] = HashToFloat(i, seed + 20);
    for (size_t i = 0; i < q.size(); ++i) q[i] = 3 * HashToFloat(i, seed);
    cache.Append(k.data(), v.data(), c.n);
    call.cache = &cache;
    call.n_heads = c.n_heads;
    call.q = q.data();
    call.scale = 1 / std::sqrt(static_cast<float>(c.d_k));
    call.position = c.n == 0 ? 0 : c.n - 1;
  }

  KvCache cache;
  std::vector<float> q;
  DecodeAttention call;
};

// Largest |out − reference|; values are within [−1, 1].
double WorstError(const Inputs& in, const std::vector<float>& out, std::string* where) {
  const KvShape& shape = in.cache.shape();
  double worst = 0;
  const ReferenceCache cache(in.cache);
  for (size_t h = 0; h < in.call.n_heads; ++h) {
    const auto row = ReferenceAttention(cache, in.call.bias, true, h, h / in.call.Group(), in.call.position,
                                        in.q.data() + h * shape.d_head_k, static_cast<double>(in.call.scale));
    for (size_t i = 0; i < shape.d_head_v; ++i) {
      const double error = std::abs(static_cast<double>(out[h * shape.d_head_v + i]) - row.out[i]);
      if (error <= worst) continue;
      worst = error;
      *where = "head " + std::to_string(h) + " element " + std::to_string(i) + ": " +
               std::to_string(out[h * shape.d_head_v + i]) + ", expected " + std::to_string(row.out[i]);
    }
  }
  return worst;
}

// Numbers: rounding of f32 sums. Whole numbers: q and the weights are 16-bit ones; q is of bytes on q4_0
// keys.
double Allowed(KvFormat format) {
  if (format == KvFormat::kQ40) return 4e-3;
  return IsQuantised(format) ? 2e-4 : 3e-6;
}

void ExpectMatches(const Inputs& in, const std::string& what) {
  std::vector<float> out(in.call.n_heads * in.cache.shape().d_head_v, -7);
  Attend(in.call, out.data());
  std::string where;
  const double error = WorstError(in, out, &where);
  EXPECT_LE(error, Allowed(in.cache.shape().format)) << what << " " << where;
}

std::string Describe(KvFormat format, const Case& c) {
  return std::string(KvFormatName(format)) + " n " + std::to_string(c.n) + " heads " +
         std::to_string(c.n_heads) + "/" + std::to_string(c.n_kv_heads) + " d " + std::to_string(c.d_k) +
         "/" + std::to_string(c.d_v);
}

TEST_P(Decode, MatchesTheReference) {
  for (const KvFormat format : kAllKvFormats) {
    for (const Case& c : {Case{1, 1, 1, 8, 8},
                          {31, 2, 1, 64, 64},
                          {32, 3, 1, 40, 40},
                          {33, 8, 2, 80, 80},
                          {255, 6, 2, 96, 96},
                          {256, 7, 1, 112, 112},
                          {257, 24, 8, 128, 128},
                          {300, 12, 1, 128, 64},
                          {520, 16, 1, 192, 128},
                          {70, 13, 1, 256, 256},
                          {90, 71, 1, 64, 64},
                          {600, 5, 5, 64, 64}}) {
      ExpectMatches(Inputs(format, c), Describe(format, c));
    }
  }
}

TEST_P(Decode, EveryGroup) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ80, KvFormat::kKivi4}) {
    for (size_t group = 1; group <= 17; ++group) {
      const Case c{45, 2 * group, 2, 32, 32};
      ExpectMatches(Inputs(format, c), Describe(format, c));
    }
  }
}

TEST_P(Decode, BiasesWindowsAndSinks) {
  const Case c{700, 6, 2, 64, 64};
  std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f};
  std::vector<float> by_distance(6 * 800);
  for (size_t i = 0; i < by_distance.size(); ++i) by_distance[i] = 4 * HashToFloat(i, 77);
  const std::vector<float> logits = {3, -2, 0, 8, 1, -20};
  for (const KvFormat format : kAllKvFormats) {
    for (const BiasKind kind :
         {BiasKind::kNone, BiasKind::kSlope, BiasKind::kByDistance, BiasKind::kSoftCap}) {
      for (const size_t window : {0, 1, 31, 100, 333, 699, 700, 5000}) {
        Inputs in(format, c);
        in.call.bias.kind = kind;
        in.call.bias.slopes = slopes.data();
        in.call.bias.by_distance = by_distance.data() + 20;
        in.call.bias.stride = 790;
        in.call.bias.origin = 720;
        in.call.bias.cap = 0.7f;
        in.call.bias.window = window;
        in.call.bias.sinks = window % 2 == 0 ? 0 : 4;
        in.call.bias.sink_logits = window == 100 ? logits.data() : nullptr;
        ExpectMatches(in, std::string(BiasKindName(kind)) + " window " + std::to_string(window) + " " +
                              KvFormatName(format));
      }
    }
  }
}

TEST_P(Decode, AnEarlierQuerySeesNothingLater) {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kQ40}) {
    Inputs in(format, {200, 2, 1, 64, 64});
    for (const size_t position : {0, 1, 63, 64, 198}) {
      in.call.position = position;
      ExpectMatches(in, "position " + std::to_string(position));
    }
  }
}

TEST_P(Decode, SlicesMergeToTheWhole) {
  for (const KvFormat format : kAllKvFormats) {
    for (const size_t n : {1, 33, 400}) {
      Inputs in(format, {n, 4, 2, 64, 64});
      in.call.bias.window = n == 400 ? 300 : 0;
      in.call.bias.sinks = 4;
      for (const size_t slices : {1, 2, 3, 7, 40}) {
        std::vector<float> partials(2 * slices * PartialFloats(in.call)), out(4 * 64);
        for (size_t unit = 0; unit < 2 * slices; ++unit) {
          AttendUnit(in.call, unit, slices, partials.data() + unit * PartialFloats(in.call));
        }
        MergeUnits(in.call, 0, 2, slices, partials.data(), out.data());
        std::string where;
        EXPECT_LE(WorstError(in, out, &where), Allowed(format))
            << KvFormatName(format) << " n " << n << " slices " << slices << " " << where;
      }
    }
  }
}

TEST_P(Decode, NothingVisibleIsZero) {
  for (const KvFormat format : kAllKvFormats) {
    Inputs in(format, {0, 2, 1, 64, 64});
    std::vector<float> out(2 * 64, -7);
    Attend(in.call, out.data());
    for (const float x : out) EXPECT_EQ(x, 0) << KvFormatName(format);
  }
}

// A head's NaN or infinity is its own affair.
TEST_P(Decode, OddNumbersStayInTheirHead) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const KvFormat format : kAllKvFormats) {
      Inputs in(format, {100, 6, 2, 64, 64});
      std::vector<float> clean(6 * 64), out(6 * 64);
      Attend(in.call, clean.data());
      in.q[1 * 64 + 5] = odd;
      Attend(in.call, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        if (i / 64 == 1) {
          EXPECT_TRUE(std::isnan(out[i])) << KvFormatName(format) << " element " << i << " of a spoilt query";
        } else {
          EXPECT_EQ(out[i], clean[i]) << KvFormatName(format) << " head " << i / 64;
        }
      }
    }
  }
}

// What was cut off may have been anything.
TEST_P(Decode, ForgottenTokensHaveNoSay) {
  for (const KvFormat format : kAllKvFormats) {
    for (const float odd :
         {1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Inputs in(format, {37, 2, 1, 64, 64});
      std::vector<float> clean(2 * 64), out(2 * 64);
      Attend(in.call, clean.data());
      const std::vector<float> junk(40 * 64, odd);
      if (format == KvFormat::kKivi4) {
        in.cache.Append(junk.data(), junk.data(), 3);  // within the unfinished block
      } else {
        in.cache.Append(junk.data(), junk.data(), 40);
      }
      in.cache.Truncate(37);
      Attend(in.call, out.data());
      EXPECT_EQ(out, clean) << KvFormatName(format) << " after " << odd;
    }
  }
}

TEST_P(Decode, AnyScoreCountsHoweverLow) {
  KvCache cache(KvShape{KvFormat::kF32, 1, 8, 8}, 32);
  std::vector<float> k(16), v(16, 5), q(8), out(8);
  k[0] = -1e20f, k[8] = -2e20f, q[0] = 1e11f;
  cache.Append(k.data(), v.data(), 2);
  Attend({.cache = &cache, .n_heads = 1, .q = q.data(), .scale = 1, .position = 1}, out.data());
  EXPECT_EQ(out, std::vector<float>(8, 5));
}

// A window beyond every token, a position beyond every token, values wider than keys in a large group.
TEST_P(Decode, ExtremeArguments) {
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kKivi4}) {
    Inputs in(format, {40, 70, 1, 8, 1024});
    ExpectMatches(in, "wide values");
    std::vector<float> all(70 * 1024), out(all.size());
    Attend(in.call, all.data());
    in.call.bias.window = std::numeric_limits<size_t>::max();
    Attend(in.call, out.data());
    EXPECT_EQ(out, all);
    in.call.bias.window = 0;
    in.call.position = std::numeric_limits<size_t>::max();
    Attend(in.call, out.data());
    EXPECT_EQ(out, all);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Decode, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(DecodeSlices, ShareOutEvenly) {
  const Case c{64, 8, 8, 32, 32};
  const Inputs in(KvFormat::kF32, c);
  EXPECT_EQ(DecodeSlices(in.call, 1), 1u);
  EXPECT_EQ(DecodeSlices(in.call, 2), 1u);
  EXPECT_EQ(DecodeSlices(in.call, 3), 3u);
  EXPECT_EQ(DecodeSlices(in.call, 12), 3u);
  EXPECT_EQ(DecodeSlices(in.call, 16), 2u);
}

// 3.5 GiB / 28 layers at 32,768 tokens: DESIGN.md, section 5.
TEST(DecodeAttentionCost, CountsTheCacheOnce) {
  KvCache cache(KvShape{KvFormat::kF16, 8, 128, 128}, 64);
  std::vector<float> k(64 * 8 * 128), q(24 * 128);
  cache.Append(k.data(), k.data(), 64);
  DecodeAttention call{.cache = &cache, .n_heads = 24, .q = q.data(), .position = 63};
  EXPECT_EQ(DecodeAttentionCost(call).bytes_read, 64 * 4096 + 4 * 24 * 128);
  EXPECT_EQ(DecodeAttentionCost(call).flops, 2.0 * 24 * 64 * 256);
  call.bias.window = 10;
  call.bias.sinks = 4;
  EXPECT_EQ(VisibleTokens(call), 14u);
  EXPECT_EQ(DecodeAttentionCost(call).flops, 2.0 * 24 * 14 * 256);
}

}  // namespace
}  // namespace ropeline
