// From one RoPE schedule to another, in place, against a cache that was made under the new one.
#include "kernels/kv_reschedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/kv_reference_test.h"
#include "kernels/memory.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class KvReschedule : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

// Base 10000 to what NTK makes of it for 8 times the context, and YaRN's factor for it.
KeySchedule Old(size_t d_rot) { return {DefaultInvFreq(d_rot, 10000), 1}; }
KeySchedule New(size_t d_rot) { return {DefaultInvFreq(d_rot, 82684), 0.1 * std::log(8.0) + 1}; }

TEST_P(KvReschedule, AnglesStayExact) {
  const std::vector<double> old = Old(128).inv_freq, now = New(128).inv_freq;
  std::vector<double> turn(old.size());
  for (size_t i = 0; i < turn.size(); ++i) turn[i] = now[i] - old[i];
  turn[7] = 0.99999;  // fast, and no fraction of a turn
  SteppedAngles angles(turn, 1.25);
  TableMemory cosines(turn.size() * kKvTile), sines(turn.size() * kKvTile);
  double worst = 0;
  constexpr size_t kBlocks = 131072 / kKvTile + 4;
  for (size_t b = 0; b < kBlocks; ++b) {
    angles.Next(cosines.get(), sines.get());
    if (b > 2 && b % 97 != 0 && b + 4 < kBlocks && (b + 1) % 256 != 0) continue;
    for (size_t i = 0; i < turn.size(); ++i) {
      for (size_t t = 0; t < kKvTile; ++t) {
        const long double angle =
            static_cast<long double>(b * kKvTile + t) * static_cast<long double>(turn[i]);
        const double c = static_cast<double>(1.25L * std::cos(angle));
        const double s = static_cast<double>(1.25L * std::sin(angle));
        worst = std::max({worst, std::abs(static_cast<double>(cosines[i * kKvTile + t]) - c),
                          std::abs(static_cast<double>(sines[i * kKvTile + t]) - s)});
      }
    }
  }
  // A turn by an angle that is wrong by e moves cos and sin by up to 1.25 e.
  EXPECT_LT(worst, 1.25 * 3e-7);
  EXPECT_GT(worst, 1e-9);
}

TEST_P(KvReschedule, IsTheCacheUnderTheNewSchedule) {
  struct Case {
    size_t n, n_kv_heads, d_head, d_rot;
  };
  for (const Case& c :
       {Case{150, 2, 64, 64}, Case{64, 1, 80, 80}, Case{331, 1, 128, 32}, Case{1, 3, 64, 64}}) {
    for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
      const KeySchedule from = Old(c.d_rot), to = New(c.d_rot);
      const std::vector<float> k = RandomTokens(c.n * c.n_kv_heads * c.d_head, 1), v = k;
      std::vector<float> old_keys(k.size());
      Keys exact(c.n_kv_heads, c.n, c.d_head);
      for (size_t t = 0; t < c.n; ++t) {
        for (size_t h = 0; h < c.n_kv_heads; ++h) {
          std::vector<double> key(c.d_head);
          const size_t at = (t * c.n_kv_heads + h) * c.d_head;
          for (size_t i = 0; i < c.d_head; ++i) key[i] = exact.At(h, t, i) = static_cast<double>(k[at + i]);
          const auto position = static_cast<double>(t);
          TurnReference({pairing, from.inv_freq}, position, from.factor, key.data());
          for (size_t i = 0; i < c.d_head; ++i) old_keys[at + i] = static_cast<float>(key[i]);
          TurnReference({pairing, to.inv_freq}, position, to.factor, exact.Head(h, t));
        }
      }
      for (const KvFormat format : kAllKvFormats) {
        KvCache cache({format, c.n_kv_heads, c.d_head, c.d_head}, c.n);
        cache.Append(old_keys.data(), v.data(), c.n);
        const Snapshot before(cache);
        RescheduleKeys(pairing, from, to, &cache);
        ASSERT_EQ(cache.n(), c.n);
        // One rounding of the format, from what the cache held before, turned in double.
        Keys expected(c.n_kv_heads, c.n, c.d_head);
        std::vector<double> turn(c.d_rot / 2);
        for (size_t i = 0; i < turn.size(); ++i) turn[i] = to.inv_freq[i] - from.inv_freq[i];
        for (size_t h = 0; h < c.n_kv_heads; ++h) {
          for (size_t t = 0; t < c.n; ++t) {
            for (size_t i = 0; i < c.d_head; ++i) expected.At(h, t, i) = before.Key(h, t, i);
            TurnReference({pairing, turn}, static_cast<double>(t), to.factor / from.factor,
                          expected.Head(h, t));
          }
        }
        double error = 0, size = 0;
        for (size_t h = 0; h < c.n_kv_heads; ++h) {
          for (size_t t = 0; t < c.n; ++t) {
            for (size_t i = 0; i < c.d_head; ++i) {
              const auto key = static_cast<double>(cache.Key(h, t, i));
              ASSERT_NEAR(key, expected.At(h, t, i), RoundingBound(cache, expected, h, t, i))
                  << KvFormatName(format) << " n " << c.n << " token " << t << " dimension " << i;
              ASSERT_EQ(cache.Value(h, t, i), before.Value(h, t, i));
              error += (key - exact.At(h, t, i)) * (key - exact.At(h, t, i));
              size += exact.At(h, t, i) * exact.At(h, t, i);
            }
          }
        }
        // And all in all what a fresh cache would hold.
        const double relative = std::sqrt(error / size);
        EXPECT_LT(relative, format == KvFormat::kF32    ? 3e-7
                            : format == KvFormat::kF16  ? 5e-4
                            : format == KvFormat::kBf16 ? 4e-3
                            : format == KvFormat::kQ80  ? 0.01
                                                        : 0.13)
            << KvFormatName(format) << " n " << c.n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KvReschedule, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(KvRescheduleCost, CountsKeysOnly) {
  const KvShape shape{KvFormat::kF16, 8, 128, 128};
  const Cost cost = RescheduleKeysCost(shape, 1, 128);
  // The header's example, of 28 layers.
  EXPECT_EQ(28 * cost.Bytes(), 114688);
  EXPECT_EQ(28 * cost.flops, 96768);
}

TEST(KvRescheduleDeathTest, SchedulesOfOneWidth) {
  KvCache cache({KvFormat::kF32, 1, 64, 64}, 64);
  EXPECT_DEATH(RescheduleKeys(Pairing::kHalf, Old(64), New(32), &cache),
               "a schedule of 32 bands to one of 16");
}

}  // namespace
}  // namespace ropeline
