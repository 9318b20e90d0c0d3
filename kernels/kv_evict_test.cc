// Eviction and turning on every target and in every format, against the formulas in double.
#include "kernels/kv_evict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/decode_attention.h"
#include "kernels/dtype.h"
#include "kernels/hash.h"
#include "kernels/kv_reference_test.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class KvEvict : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_kv_heads, d_head_k, d_head_v, d_rot;
};
constexpr Case kCases[] = {
    {200, 2, 64, 64, 64}, {151, 1, 80, 40, 80}, {192, 1, 128, 128, 64}, {203, 2, 80, 64, 20}};

struct Gap {
  size_t begin, s;
};
// Both inside a block and at its ends; blocks that move whole, by one token, by all but one.
constexpr Gap kGaps[] = {{0, 1}, {4, 31}, {0, 32}, {37, 32}, {32, 33}, {4, 64}, {31, 100}, {96, 50}, {64, 7}};

std::vector<KeyRotation> Rotations(size_t d_rot) {
  return {{Pairing::kHalf, DefaultInvFreq(d_rot, 10000)},
          {Pairing::kInterleaved, DefaultInvFreq(d_rot, 10000)},
          {}};
}

KvShape ShapeOf(KvFormat format, const Case& c) { return {format, c.n_kv_heads, c.d_head_k, c.d_head_v}; }

std::string Name(KvFormat format, const Case& c, const KeyRotation& rotation, const Gap& gap) {
  return std::string(KvFormatName(format)) + " n " + std::to_string(c.n) + " d " +
         std::to_string(c.d_head_k) + " d_rot " + std::to_string(rotation.DRot()) +
         (rotation.pairing == Pairing::kHalf ? " half" : " interleaved") + " without " +
         std::to_string(gap.begin) + " … " + std::to_string(gap.begin + gap.s);
}

KvCache Filled(KvFormat format, const Case& c, size_t seed) {
  KvCache cache(ShapeOf(format, c), c.n);
  const std::vector<float> k = RandomTokens(c.n * c.n_kv_heads * c.d_head_k, seed);
  const std::vector<float> v = RandomTokens(c.n * c.n_kv_heads * c.d_head_v, seed + 1);
  cache.Append(k.data(), v.data(), c.n);
  return cache;
}

// What was in the cache, turned in double, is in it now, rounded once; the tokens before the gap are as they
// were; values are the survivors', bit for bit.
TEST_P(KvEvict, SurvivorsTurnBackByTheGap) {
  for (const KvFormat format : kAllKvFormats) {
    for (const Case& c : kCases) {
      for (const KeyRotation& rotation : Rotations(c.d_rot)) {
        for (const Gap& gap : kGaps) {
          KvCache cache = Filled(format, c, 1);
          const Snapshot before(cache);
          EvictTokens(gap.begin, gap.begin + gap.s, rotation, &cache);
          const std::string name = Name(format, c, rotation, gap);
          ASSERT_EQ(cache.n(), c.n - gap.s) << name;
          const auto source = [&](size_t t) { return t < gap.begin ? t : t + gap.s; };
          Keys expected(c.n_kv_heads, cache.n(), c.d_head_k);
          for (size_t h = 0; h < c.n_kv_heads; ++h) {
            for (size_t t = 0; t < cache.n(); ++t) {
              for (size_t i = 0; i < c.d_head_k; ++i) expected.At(h, t, i) = before.Key(h, source(t), i);
              const double positions = t < gap.begin ? 0 : -static_cast<double>(gap.s);
              TurnReference(rotation, positions, 1, expected.Head(h, t));
            }
          }
          for (size_t h = 0; h < c.n_kv_heads; ++h) {
            for (size_t t = 0; t < cache.n(); ++t) {
              // Not turned: not touched. kivi4: where the tokens of a block stay together.
              const bool stays_together =
                  format != KvFormat::kKivi4 || (t / kKvTile < gap.begin / kKvTile) ||
                  (rotation.inv_freq.empty() && gap.s % kKvTile == 0 && gap.begin % kKvTile == 0);
              const bool exact = stays_together && (t < gap.begin || rotation.inv_freq.empty());
              for (size_t i = 0; i < c.d_head_k; ++i) {
                const double margin = exact ? 0 : RoundingBound(cache, expected, h, t, i);
                ASSERT_NEAR(static_cast<double>(cache.Key(h, t, i)), expected.At(h, t, i), margin)
                    << name << ": head " << h << " token " << t << " dimension " << i;
              }
              for (size_t i = 0; i < c.d_head_v; ++i) {
                ASSERT_EQ(cache.Value(h, t, i), before.Value(h, source(t), i))
                    << name << ": head " << h << " token " << t << " dimension " << i;
              }
            }
          }
        }
      }
    }
  }
}

// Dimensions that do not turn, in tiles of which none turns, keep their bits.
TEST_P(KvEvict, UnturnedTilesKeepTheirBits) {
  const Case c{160, 1, 128, 64, 64};
  for (const KvFormat format : kAllKvFormats) {
    for (const KeyRotation& rotation : Rotations(c.d_rot)) {
      KvCache cache = Filled(format, c, 3);
      const Snapshot before(cache);
      EvictTokens(32, 96, rotation, &cache);
      for (size_t t = 32; t < cache.n(); ++t) {
        for (size_t i = c.d_rot; i < c.d_head_k; ++i) {
          ASSERT_EQ(static_cast<double>(cache.Key(0, t, i)), before.Key(0, t + 64, i))
              << KvFormatName(format);
        }
      }
    }
  }
}

// The survivors, rotated at contiguous positions from the start: within the roundings of both ways.
TEST_P(KvEvict, IsTheCacheOfTheSurvivorsAlone) {
  for (const KvFormat format : kAllKvFormats) {
    for (const Case& c : kCases) {
      for (const KeyRotation& rotation : Rotations(c.d_rot)) {
        for (const Gap& gap : {Gap{4, 64}, Gap{32, 64}, Gap{37, 33}}) {
          const std::vector<float> k = RandomTokens(c.n * c.n_kv_heads * c.d_head_k, 5);
          const std::vector<float> v = RandomTokens(c.n * c.n_kv_heads * c.d_head_v, 6);
          const auto append = [&](size_t first, size_t last, size_t position, KvCache* cache) {
            const size_t token = c.n_kv_heads * c.d_head_k;
            std::vector<float> rotated;
            for (size_t t = first; t < last; ++t) {
              for (size_t h = 0; h < c.n_kv_heads; ++h) {
                std::vector<double> key(k.begin() + static_cast<long>(t * token + h * c.d_head_k),
                                        k.begin() + static_cast<long>(t * token + (h + 1) * c.d_head_k));
                TurnReference(rotation, static_cast<double>(position + t - first), 1, key.data());
                for (const double x : key) rotated.push_back(static_cast<float>(x));
              }
            }
            cache->Append(rotated.data(), v.data() + first * c.n_kv_heads * c.d_head_v, last - first);
          };
          // Ten tokens come after the eviction.
          KvCache evicted(ShapeOf(format, c), c.n), fresh(ShapeOf(format, c), c.n);
          append(0, c.n - 10, 0, &evicted);
          EvictTokens(gap.begin, gap.begin + gap.s, rotation, &evicted);
          append(c.n - 10, c.n, c.n - 10 - gap.s, &evicted);
          append(0, gap.begin, 0, &fresh);
          append(gap.begin + gap.s, c.n, gap.begin, &fresh);
          ASSERT_EQ(evicted.n(), fresh.n());
          const Snapshot expected(fresh);
          const bool bit_for_bit =
              rotation.inv_freq.empty() &&
              (format != KvFormat::kKivi4 || (gap.s % kKvTile == 0 && gap.begin % kKvTile == 0));
          for (size_t h = 0; h < c.n_kv_heads; ++h) {
            for (size_t t = 0; t < evicted.n(); ++t) {
              for (size_t i = 0; i < c.d_head_k; ++i) {
                // Magnitudes are below √2. Rounded before the turn, which mixes two elements' errors, and
                // after it; and the other once.
                const double once = format == KvFormat::kF32    ? 4 * 0x1p-24
                                    : format == KvFormat::kF16  ? 0x1p-11
                                    : format == KvFormat::kBf16 ? 0x1p-8
                                    : format == KvFormat::kQ80  ? 1.0 / 254 + 0x1p-11
                                    : format == KvFormat::kQ40  ? 1.0 / 8 + 0x1p-11
                                                                : 2.0 / 30 + 0x1p-9;
                const double margin = bit_for_bit ? 0 : 1.42 * (1.42 + 1 + 1) * once;
                ASSERT_NEAR(static_cast<double>(evicted.Key(h, t, i)), expected.Key(h, t, i), margin)
                    << Name(format, c, rotation, gap) << ": head " << h << " token " << t << " dimension "
                    << i;
              }
              for (size_t i = 0; i < c.d_head_v; ++i) {
                ASSERT_EQ(evicted.Value(h, t, i), expected.Value(h, t, i)) << Name(format, c, rotation, gap);
              }
            }
          }
        }
      }
    }
  }
}

// So far apart that blocks are written past the caches.
TEST_P(KvEvict, AcrossAWideGap) {
  const Case c{70, 1, 256, 256, 256};
  const std::vector<float> k = RandomTokens(c.n * 256, 15), v = RandomTokens(c.n * 256, 16);
  for (const KvFormat format : kAllKvFormats) {
    for (const KeyRotation& rotation : Rotations(256)) {
      KvCache cache(ShapeOf(format, c), 8192 + 3 * c.n);
      cache.Append(k.data(), v.data(), 64);
      cache.RepeatTo(8192 + 64);
      ASSERT_GE(8192 / kKvTile * cache.shape().KeyBlockBytes(), size_t{1} << 20);
      cache.Append(k.data(), v.data(), c.n);
      const size_t n = cache.n();
      KvCache tail(ShapeOf(format, c), 64 + c.n);
      tail.Append(k.data(), v.data(), 64);
      tail.Append(k.data(), v.data(), c.n);
      const Snapshot before(tail);
      EvictTokens(32, 32 + 8192, rotation, &cache);
      ASSERT_EQ(cache.n(), n - 8192);
      Keys expected(1, cache.n(), 256);
      for (size_t t = 0; t < cache.n(); ++t) {
        for (size_t i = 0; i < 256; ++i) expected.At(0, t, i) = before.Key(0, t, i);
        TurnReference(rotation, t < 32 ? 0 : -8192, 1, expected.Head(0, t));
      }
      for (size_t t = 0; t < cache.n(); ++t) {
        for (size_t i = 0; i < 256; ++i) {
          const bool exact = t < 32 || rotation.inv_freq.empty();
          const double margin = exact ? 0 : RoundingBound(cache, expected, 0, t, i);
          ASSERT_EQ(cache.Value(0, t, i), before.Value(0, t, i)) << KvFormatName(format) << " token " << t;
          ASSERT_NEAR(static_cast<double>(cache.Key(0, t, i)), expected.At(0, t, i), margin)
              << KvFormatName(format) << " token " << t << " dimension " << i;
        }
      }
    }
  }
}

// Attention over the survivors is what it is over a cache that never held the others.
TEST_P(KvEvict, AttentionIsThatOfTheSurvivorsAlone) {
  constexpr size_t kN = 300, kBegin = 40, kEnd = 140, kD = 64, kHeads = 3;
  const KeyRotation rotation{Pairing::kHalf, DefaultInvFreq(kD, 10000)};
  std::vector<float> k(kN * kD), v(kN * kD), q(kHeads * kD), angles(kN * kD);
  for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 31), v[i] = HashToFloat(i, 32);
  for (size_t i = 0; i < q.size(); ++i) q[i] = HashToFloat(i, 33);
  BuildAngleTable(rotation.inv_freq, 0, kN, AngleLayout::kSplit, angles.data());
  const auto attend = [&](const KvCache& cache) {
    std::vector<float> out(kHeads * kD);
    Attend({.cache = &cache, .n_heads = kHeads, .q = q.data(), .scale = 0.125f, .position = cache.n() - 1},
           out.data());
    return out;
  };
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBf16, KvFormat::kQ80}) {
    const KvShape shape{format, 1, kD, kD};
    KvCache evicted(shape, kN), alone(shape, kN), full(shape, kN);
    evicted.AppendRotated(k.data(), v.data(), angles.data(), kN);
    full.AppendRotated(k.data(), v.data(), angles.data(), kN);
    EvictTokens(kBegin, kEnd, rotation, &evicted);
    std::vector<float> k_left(k.begin(), k.begin() + kBegin * kD), v_left(v.begin(), v.begin() + kBegin * kD);
    k_left.insert(k_left.end(), k.begin() + kEnd * kD, k.end());
    v_left.insert(v_left.end(), v.begin() + kEnd * kD, v.end());
    alone.AppendRotated(k_left.data(), v_left.data(), angles.data(), kN - (kEnd - kBegin));
    const std::vector<float> actual = attend(evicted), expected = attend(alone), before = attend(full);
    const float allowed = format == KvFormat::kF32 ? 2e-6f : format == KvFormat::kF16 ? 3e-4f : 3e-3f;
    float changed = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], allowed) << KvFormatName(format) << " element " << i;
      changed = std::max(changed, std::abs(before[i] - expected[i]));
    }
    EXPECT_GT(changed, 10 * allowed) << KvFormatName(format) << ": evicting must be seen";
  }
}

TEST_P(KvEvict, NothingAndEverything) {
  const Case c{75, 2, 64, 64, 64};
  const KeyRotation rotation = Rotations(64)[0];
  for (const KvFormat format : kAllKvFormats) {
    KvCache cache = Filled(format, c, 7);
    const Snapshot before(cache);
    for (const size_t at : {0, 10, 75}) EvictTokens(at, at, rotation, &cache);
    EXPECT_EQ(KeepSinksAndWindow(4, 71, rotation, &cache), 0u);
    EXPECT_EQ(KeepSinksAndWindow(4, 1000, rotation, &cache), 0u);
    ASSERT_EQ(cache.n(), c.n);
    for (size_t t = 0; t < c.n; ++t) {
      ASSERT_EQ(static_cast<double>(cache.Key(1, t, 9)), before.Key(1, t, 9));
      ASSERT_EQ(cache.Value(1, t, 9), before.Value(1, t, 9));
    }
    // The end goes: the rest is as it was.
    EvictTokens(70, 75, rotation, &cache);
    ASSERT_EQ(cache.n(), 70u);
    for (size_t t = 0; t < 70; ++t) ASSERT_EQ(static_cast<double>(cache.Key(1, t, 9)), before.Key(1, t, 9));
    EvictTokens(0, 70, rotation, &cache);
    EXPECT_EQ(cache.n(), 0u);
    EvictTokens(0, 0, rotation, &cache);
  }
}

TEST_P(KvEvict, SinksAndWindow) {
  const Case c{300, 1, 64, 64, 64};
  const KeyRotation rotation = Rotations(64)[1];
  for (const KvFormat format : kAllKvFormats) {
    for (const Gap& keep : {Gap{4, 100}, Gap{0, 64}, Gap{4, 0}, Gap{0, 0}, Gap{32, 1}}) {
      KvCache cache = Filled(format, c, 9), evicted = Filled(format, c, 9);
      const size_t window = keep.s;
      EXPECT_EQ(KeepSinksAndWindow(keep.begin, window, rotation, &cache), c.n - keep.begin - window);
      ASSERT_EQ(cache.n(), keep.begin + window);
      EvictTokens(keep.begin, c.n - window, rotation, &evicted);
      const Snapshot expected(evicted);
      for (size_t t = 0; t < cache.n(); ++t) {
        ASSERT_EQ(static_cast<double>(cache.Key(0, t, 3)), expected.Key(0, t, 3));
        ASSERT_EQ(cache.Value(0, t, 3), expected.Value(0, t, 3));
      }
    }
  }
}

// Any stretch of tokens, either way; what stands outside it keeps its bits.
TEST_P(KvEvict, TurnsAStretch) {
  const Case c{150, 2, 80, 8, 48};
  for (const KvFormat format : kAllKvFormats) {
    for (const KeyRotation& rotation : Rotations(c.d_rot)) {
      for (const int64_t positions : {1, -77, 5000}) {
        for (const Gap& stretch :
             {Gap{0, 150}, Gap{32, 64}, Gap{5, 20}, Gap{40, 105}, Gap{140, 10}, Gap{9, 0}}) {
          KvCache cache = Filled(format, c, 11);
          const Snapshot before(cache);
          const size_t last = stretch.begin + stretch.s;
          TurnKeys(stretch.begin, last, positions, rotation, &cache);
          Keys expected(c.n_kv_heads, c.n, c.d_head_k);
          const auto turns = [&](size_t t) { return t >= stretch.begin && t < last; };
          for (size_t h = 0; h < c.n_kv_heads; ++h) {
            for (size_t t = 0; t < c.n; ++t) {
              for (size_t i = 0; i < c.d_head_k; ++i) expected.At(h, t, i) = before.Key(h, t, i);
              TurnReference(rotation, turns(t) ? static_cast<double>(positions) : 0, 1, expected.Head(h, t));
            }
          }
          for (size_t h = 0; h < c.n_kv_heads; ++h) {
            for (size_t t = 0; t < c.n; ++t) {
              const bool block_turns = stretch.s != 0 && t / kKvTile >= stretch.begin / kKvTile &&
                                       t / kKvTile <= (last - 1) / kKvTile;
              const bool exact =
                  rotation.inv_freq.empty() || (format == KvFormat::kKivi4 ? !block_turns : !turns(t));
              for (size_t i = 0; i < c.d_head_k; ++i) {
                const double margin = exact ? 0 : RoundingBound(cache, expected, h, t, i);
                ASSERT_NEAR(static_cast<double>(cache.Key(h, t, i)), expected.At(h, t, i), margin)
                    << Name(format, c, rotation, stretch) << ": token " << t << " dimension " << i;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(KvEvict, NoNumberStaysInItsHead) {
  const Case c{150, 3, 64, 64, 64};
  const std::vector<float> k = RandomTokens(c.n * 3 * 64, 13), v = RandomTokens(c.n * 3 * 64, 14);
  for (const KvFormat format : kAllKvFormats) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const Gap& gap : {Gap{32, 32}, Gap{5, 17}}) {
        std::vector<float> bad_k = k, bad_v = v;
        for (size_t t = 0; t < c.n; ++t) bad_k[(t * 3 + 1) * 64 + t % 64] = bad_v[(t * 3 + 1) * 64 + 7] = bad;
        KvCache good(ShapeOf(format, c), c.n), with_bad(ShapeOf(format, c), c.n);
        good.Append(k.data(), v.data(), c.n);
        with_bad.Append(bad_k.data(), bad_v.data(), c.n);
        for (KvCache* cache : {&good, &with_bad}) {
          EvictTokens(gap.begin, gap.begin + gap.s, Rotations(64)[0], cache);
        }
        for (const size_t h : {0, 2}) {
          for (size_t t = 0; t < good.n(); ++t) {
            for (size_t i = 0; i < 64; ++i) {
              ASSERT_EQ(with_bad.Key(h, t, i), good.Key(h, t, i));
              ASSERT_EQ(with_bad.Value(h, t, i), good.Value(h, t, i));
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KvEvict, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(KvEvictCost, CountsWhatMoves) {
  const KvShape shape{KvFormat::kF16, 8, 128, 64};
  const KeyRotation rotation{Pairing::kHalf, DefaultInvFreq(64, 10000)};
  const Cost cost = EvictCost(shape, 1000, 100, 200, rotation);
  EXPECT_EQ(cost.bytes_read, 800 * 8 * (128 + 64) * 2.0);
  EXPECT_EQ(cost.bytes_written, cost.bytes_read);
  EXPECT_EQ(cost.flops, 3.0 * 800 * 8 * 64);
  EXPECT_EQ(EvictCost(shape, 1000, 100, 200, {}).flops, 0);
  EXPECT_EQ(EvictCost(shape, 1000, 100, 100, rotation).Bytes(), 0);
  EXPECT_EQ(KeepSinksAndWindowCost(shape, 1000, 4, 996, rotation).Bytes(), 0);
  EXPECT_EQ(KeepSinksAndWindowCost(shape, 1000, 4, 500, rotation).flops, 3.0 * 500 * 8 * 64);
  EXPECT_EQ(TurnKeysCost(shape, 10, rotation).Bytes(), 10 * 8 * 64 * 4.0);
}

TEST(KvEvictDeathTest, WrongRangesAbort) {
  KvCache cache({KvFormat::kF32, 1, 64, 64}, 64);
  cache.SetTokens(40);
  EXPECT_DEATH(EvictTokens(10, 41, {}, &cache), "tokens 10 to 41 evicted from a cache of 40");
  EXPECT_DEATH(EvictTokens(10, 9, {}, &cache), "tokens 10 to 9");
  EXPECT_DEATH(TurnKeys(0, 41, 1, {}, &cache), "0 to 41 turned in a cache of 40");
  const KeyRotation wide{Pairing::kHalf, DefaultInvFreq(66, 10000)};
  EXPECT_DEATH(TurnKeys(0, 1, 1, wide, &cache), "66 dimensions to turn of keys of 64");
}

}  // namespace
}  // namespace ropeline
