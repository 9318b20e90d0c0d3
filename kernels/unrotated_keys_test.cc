#include "kernels/unrotated_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/attention_reference.h"
#include "kernels/decode_attention.h"
#include "kernels/hash.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Unrotated : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_heads, n_kv_heads, d_head, d_rot;
};

struct Inputs {
  Inputs(KvFormat format, const Case& c, Pairing pairing)
      : shape(c),
        cache(KvShape{format, c.n_kv_heads, c.d_head, 32}, c.n + 64),
        rotation{pairing, DefaultInvFreq(c.d_rot, 10000)},
        angles(rotation, cache.capacity()),
        q(c.n_heads * c.d_head),
        k(c.n * c.n_kv_heads * c.d_head),
        v(c.n * c.n_kv_heads * 32) {
    for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 10);
    for (size_t i = 0; i < v.size(); ++i) v[i] = HashToFloat(i, 20);
    for (size_t i = 0; i < q.size(); ++i) q[i] = 3 * HashToFloat(i, 1);
    cache.Append(k.data(), v.data(), c.n);
  }
  DecodeAttention Call() const {
    return {.cache = &cache,
            .n_heads = shape.n_heads,
            .q = q.data(),
            .scale = 1 / std::sqrt(static_cast<float>(shape.d_head)),
            .position = shape.n - 1,
            .unrotated = &angles};
  }
  // R(token) · the key as the cache decodes it, in double.
  std::vector<double> TurnedKey(size_t head, size_t token) const {
    std::vector<double> key(shape.d_head);
    for (size_t i = 0; i < shape.d_head; ++i) key[i] = static_cast<double>(cache.Key(head, token, i));
    const size_t bands = shape.d_rot / 2;
    for (size_t i = 0; i < bands; ++i) {
      const bool half = rotation.pairing == Pairing::kHalf;
      double& a = key[half ? i : 2 * i];
      double& b = key[half ? i + bands : 2 * i + 1];
      const double angle = static_cast<double>(token) * rotation.inv_freq[i];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
    return key;
  }

  Case shape;
  KvCache cache;
  KeyRotation rotation;
  UnrotatedKeys angles;
  std::vector<float> q, k, v;
};

// Largest |out − reference|; values are within [−1, 1].
double WorstError(const Inputs& in, const DecodeAttention& call, const std::vector<float>& out) {
  const size_t d = in.shape.d_head, n = in.cache.n();
  double worst = 0;
  for (size_t h = 0; h < in.shape.n_heads; ++h) {
    const size_t kv_head = h / call.Group();
    double sum = 0;
    std::vector<double> expected(32), scores(n, -HUGE_VAL);
    double largest = -HUGE_VAL;
    for (size_t t = 0; t < n; ++t) {
      if (!ReferenceSees(call.bias, true, call.position, t)) continue;
      const std::vector<double> key = in.TurnedKey(kv_head, t);
      double dot = 0;
      for (size_t i = 0; i < d; ++i) dot += static_cast<double>(in.q[h * d + i]) * key[i];
      scores[t] = ReferenceScore(call.bias, h, call.position, t, dot * static_cast<double>(call.scale));
      largest = std::max(largest, scores[t]);
    }
    for (size_t t = 0; t < n; ++t) {
      const double weight = std::exp(scores[t] - largest);
      if (weight == 0) continue;
      sum += weight;
      for (size_t i = 0; i < 32; ++i) {
        expected[i] += weight * static_cast<double>(in.cache.Value(kv_head, t, i));
      }
    }
    for (size_t i = 0; i < 32; ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(out[h * 32 + i]) - expected[i] / sum));
    }
  }
  return worst;
}

// Keys are turned in f32 whatever the format; quantised values as in decode attention.
double Allowed(KvFormat format) { return IsQuantised(format) ? 2e-4 : 3e-6; }

TEST_P(Unrotated, MatchesTheReference) {
  for (const KvFormat format : kAllKvFormats) {
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
      for (const Case& c : {Case{1, 1, 1, 8, 8},
                            {32, 3, 1, 40, 40},
                            {33, 8, 2, 80, 32},
                            {257, 6, 2, 128, 128},
                            {300, 12, 1, 64, 2},
                            {70, 13, 1, 256, 256},
                            {600, 4, 2, 96, 46}}) {
        const Inputs in(format, c, pairing);
        std::vector<float> out(c.n_heads * 32, -7);
        Attend(in.Call(), out.data());
        EXPECT_LE(WorstError(in, in.Call(), out), Allowed(format))
            << KvFormatName(format) << " n " << c.n << " heads " << c.n_heads << " d " << c.d_head
            << " d_rot " << c.d_rot << (pairing == Pairing::kHalf ? " half" : " interleaved");
      }
    }
  }
}

TEST_P(Unrotated, WindowsSinksAndBiases) {
  for (const KvFormat format : {KvFormat::kBf16, KvFormat::kQ40}) {
    const Inputs in(format, {500, 4, 2, 64, 64}, Pairing::kHalf);
    for (const size_t window : {1, 31, 100, 333}) {
      DecodeAttention call = in.Call();
      call.bias.window = window;
      call.bias.sinks = 4;
      call.bias.kind = window == 100 ? BiasKind::kSoftCap : BiasKind::kNone;
      call.bias.cap = 0.7f;
      std::vector<float> out(4 * 32, -7);
      Attend(call, out.data());
      EXPECT_LE(WorstError(in, call, out), Allowed(format)) << KvFormatName(format) << " window " << window;
    }
  }
}

// Far positions lose nothing: the angles of a block come from a table of their own.
TEST_P(Unrotated, FarTokens) {
  const Inputs in(KvFormat::kF32, {70000, 2, 1, 16, 16}, Pairing::kHalf);
  DecodeAttention call = in.Call();
  call.bias.window = 100;
  std::vector<float> out(2 * 32, -7);
  Attend(call, out.data());
  EXPECT_LE(WorstError(in, call, out), Allowed(KvFormat::kF32));
}

// A cache that holds rotated keys gives the same, but for the rounding of keys: those differ by the format's
// unit times their magnitude, and scores by as much times |q|.
TEST_P(Unrotated, EqualsARotatedCache) {
  const Case c{400, 6, 2, 64, 64};
  for (const KvFormat format : kAllKvFormats) {
    const Inputs in(format, c, Pairing::kHalf);
    KvCache rotated(in.cache.shape(), c.n);
    std::vector<float> table(c.n * c.d_rot);
    BuildAngleTable(in.rotation.inv_freq, 0, c.n, AngleLayout::kSplit, table.data());
    rotated.AppendRotated(in.k.data(), in.v.data(), table.data(), c.n);
    DecodeAttention call = in.Call();
    std::vector<float> unrotated(6 * 32), turned(6 * 32), neither(6 * 32);
    Attend(call, unrotated.data());
    call.unrotated = nullptr;
    Attend(call, neither.data());
    call.cache = &rotated;
    Attend(call, turned.data());
    double difference = 0, without = 0;
    for (size_t i = 0; i < turned.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(turned[i] - unrotated[i])));
      without = std::max(without, std::abs(static_cast<double>(turned[i] - neither[i])));
    }
    const double unit = format == KvFormat::kF32    ? 0x1p-21
                        : format == KvFormat::kF16  ? 0x1p-11
                        : format == KvFormat::kBf16 ? 0x1p-8
                        : format == KvFormat::kQ80  ? 0x1p-7
                                                    : 0x1p-4;
    EXPECT_LE(difference, unit) << KvFormatName(format);
    // And the rotation is no small thing.
    EXPECT_GE(without, 0.1) << KvFormatName(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Unrotated, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(TurnWhileReadingCost, IsBesideThatOfAttention) {
  const Inputs in(KvFormat::kF16, {64, 4, 2, 64, 32}, Pairing::kHalf);
  DecodeAttention call = in.Call();
  const Cost with = DecodeAttentionCost(call);
  call.unrotated = nullptr;
  const Cost without = DecodeAttentionCost(call);
  EXPECT_EQ(with.flops - without.flops, 3.0 * 32 * (64 * 2 + 2 * 4));
  EXPECT_EQ(with.bytes_read - without.bytes_read, 4.0 * 32 * (2 + 32));
}

TEST(UnrotatedDeathTest, NeedsAnglesForAllTokens) {
  const Inputs in(KvFormat::kF16, {64, 1, 1, 32, 32}, Pairing::kHalf);
  const UnrotatedKeys few(in.rotation, 32);
  DecodeAttention call = in.Call();
  call.unrotated = &few;
  std::vector<float> out(32);
  EXPECT_DEATH(Attend(call, out.data()), "angles for 32 tokens");
}

}  // namespace
}  // namespace ropeline
