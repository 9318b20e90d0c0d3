// The KV cache on every target and in every format: what is stored is what the scalar definitions in
// kv_format.cc say, however the tokens come.
#include "kernels/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/dtype.h"
#include "kernels/hash.h"
#include "kernels/qk_rotation.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class KvCacheOnTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_kv_heads, d_head_k, d_head_v;
};

constexpr Case kCases[] = {{1, 1, 8, 8},     {31, 2, 40, 64},  {32, 1, 64, 40},  {33, 3, 128, 128},
                           {70, 2, 80, 256}, {100, 1, 256, 8}, {64, 2, 96, 112}, {130, 2, 24, 80}};

// Keys have a channel that is 12 times larger; some lines are zero, of either sign; magnitudes vary by token.
std::vector<float> Tokens(const Case& c, size_t d_head, size_t seed) {
  std::vector<float> x(c.n * c.n_kv_heads * d_head);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t token = i / (c.n_kv_heads * d_head), dimension = i % d_head;
    x[i] = HashToFloat(i, seed) * (dimension == 5 ? 12.0f : 1.0f) * (1.0f + static_cast<float>(token % 7));
    if (token % 11 == 3) x[i] = HashToFloat(i, seed + 1) < 0 ? 0.0f : -0.0f;
    if (token % 13 == 5) x[i] = std::abs(x[i]) + 1;
    if (token % 13 == 7) x[i] = -std::abs(x[i]) * 0.001f;
  }
  return x;
}

std::string Name(const KvShape& shape, size_t n) {
  return std::string(KvFormatName(shape.format)) + " n " + std::to_string(n) + " d " +
         std::to_string(shape.d_head_k) + " and " + std::to_string(shape.d_head_v);
}

KvShape ShapeOf(KvFormat format, const Case& c) { return {format, c.n_kv_heads, c.d_head_k, c.d_head_v}; }

// Bit for bit, and what an unfinished block holds for its tokens.
void ExpectSameBits(const KvCache& a, const KvCache& b, const std::string& name) {
  const KvShape& shape = a.shape();
  ASSERT_EQ(a.n(), b.n()) << name;
  for (size_t h = 0; h < shape.n_kv_heads; ++h) {
    for (size_t block = 0; block * kKvTile < a.n(); ++block) {
      ASSERT_EQ(a.IsUnfinished(block), b.IsUnfinished(block)) << name;
      ASSERT_EQ(std::memcmp(a.ValueBlock(h, block), b.ValueBlock(h, block), shape.ValueBlockBytes()), 0)
          << name << ": values of head " << h << " block " << block;
      if (!a.IsUnfinished(block)) {
        ASSERT_EQ(std::memcmp(a.KeyBlock(h, block), b.KeyBlock(h, block), shape.KeyBlockBytes()), 0)
            << name << ": keys of head " << h << " block " << block;
        continue;
      }
      for (size_t i = 0; i < shape.d_head_k; ++i) {
        ASSERT_EQ(std::memcmp(a.UnfinishedKeys(h) + i * kKvTile, b.UnfinishedKeys(h) + i * kKvTile,
                              2 * (a.n() % kKvTile)),
                  0)
            << name << ": unfinished keys of head " << h << " dimension " << i;
      }
    }
  }
}

TEST_P(KvCacheOnTarget, InOneGoIsTokenByToken) {
  for (const Case& c : kCases) {
    const std::vector<float> k = Tokens(c, c.d_head_k, 1), v = Tokens(c, c.d_head_v, 2);
    for (const KvFormat format : kAllKvFormats) {
      const KvShape shape = ShapeOf(format, c);
      KvCache at_once(shape, c.n), one_by_one(shape, c.n), in_parts(shape, c.n);
      at_once.Append(k.data(), v.data(), c.n);
      const size_t k_token = c.n_kv_heads * c.d_head_k, v_token = c.n_kv_heads * c.d_head_v;
      for (size_t t = 0; t < c.n; ++t) {
        one_by_one.Append(k.data() + t * k_token, v.data() + t * v_token, 1);
      }
      // Across the ends of blocks.
      for (size_t t = 0, count; t < c.n; t += count) {
        count = std::min<size_t>(c.n - t, t == 0 ? 7 : 58);
        in_parts.Append(k.data() + t * k_token, v.data() + t * v_token, count);
      }
      ExpectSameBits(at_once, one_by_one, Name(shape, c.n));
      ExpectSameBits(at_once, in_parts, Name(shape, c.n) + " in parts");
    }
  }
}

// The numbers of plain formats are the elements, rounded; tiles of the others are what QuantiseKvLine makes.
TEST_P(KvCacheOnTarget, StoresWhatTheScalarDefinitionsSay) {
  for (const Case& c : kCases) {
    const std::vector<float> k = Tokens(c, c.d_head_k, 3), v = Tokens(c, c.d_head_v, 4);
    for (const KvFormat format : kAllKvFormats) {
      const KvShape shape = ShapeOf(format, c);
      KvCache cache(shape, c.n);
      cache.Append(k.data(), v.data(), c.n);
      const size_t whole = c.n / kKvTile;  // the unfinished block of kivi4 is not quantised
      for (size_t h = 0; h < c.n_kv_heads; ++h) {
        const auto key = [&](size_t t, size_t i) {
          return i < c.d_head_k ? k[(t * c.n_kv_heads + h) * c.d_head_k + i] : 0.0f;
        };
        const auto value = [&](size_t t, size_t i) {
          return i < c.d_head_v ? v[(t * c.n_kv_heads + h) * c.d_head_v + i] : 0.0f;
        };
        if (!IsQuantised(format)) {
          const auto rounded = [&](float x) {
            return format == KvFormat::kF32   ? x
                   : format == KvFormat::kF16 ? FloatFromF16(F16FromFloat(x))
                                              : FloatFromBf16(Bf16FromFloat(x));
          };
          for (size_t t = 0; t < c.n; ++t) {
            for (size_t i = 0; i < c.d_head_k; ++i) ASSERT_EQ(cache.Key(h, t, i), rounded(key(t, i)));
            for (size_t i = 0; i < c.d_head_v; ++i) ASSERT_EQ(cache.Value(h, t, i), rounded(value(t, i)));
          }
          continue;
        }
        for (size_t b = 0; b < whole; ++b) {
          const auto check = [&](TileScale scale, size_t tile, const uint8_t* stored, const auto& element,
                                 bool keys) {
            std::vector<uint8_t> expected(KvTileBytes(format, kKvTile));
            for (size_t line = 0; line < kKvTile; ++line) {
              float x[kKvTile];
              for (size_t i = 0; i < kKvTile; ++i) {
                const bool of_channel = keys && scale == TileScale::kOfSummedFrom;
                const float exact = of_channel ? element(b * kKvTile + i, tile * kKvTile + line)
                                               : element(b * kKvTile + line, tile * kKvTile + i);
                x[i] = of_channel ? FloatFromF16(F16FromFloat(exact)) : exact;
              }
              QuantiseKvLine(format, scale, x, line, expected.data());
            }
            ASSERT_EQ(std::memcmp(stored, expected.data(), expected.size()), 0)
                << Name(shape, c.n) << (keys ? ": keys" : ": values") << " of head " << h << " block " << b
                << " tile " << tile;
          };
          const size_t bytes = KvTileBytes(format, kKvTile);
          for (size_t i = 0; i * kKvTile < c.d_head_k; ++i) {
            check(KeyScale(format), i, cache.KeyBlock(h, b) + i * bytes, key, true);
          }
          for (size_t i = 0; i * kKvTile < c.d_head_v; ++i) {
            check(ValueScale(format), i, cache.ValueBlock(h, b) + i * bytes, value, false);
          }
        }
      }
    }
  }
}

TEST_P(KvCacheOnTarget, BlocksAsF32AreTheElements) {
  for (const Case& c : kCases) {
    const std::vector<float> k = Tokens(c, c.d_head_k, 5), v = Tokens(c, c.d_head_v, 6);
    for (const KvFormat format : kAllKvFormats) {
      const KvShape shape = ShapeOf(format, c);
      KvCache cache(shape, c.n);
      cache.Append(k.data(), v.data(), c.n);
      // One more than a call may write.
      std::vector<float> keys(c.d_head_k * kKvTile + 1, 77);
      std::vector<float> values((c.d_head_v + kKvTile - 1) / kKvTile * kKvTile * kKvTile + 1, 77);
      for (size_t h = 0; h < c.n_kv_heads; ++h) {
        for (size_t b = 0; b * kKvTile < c.n; ++b) {
          KeyBlockAsF32(cache, h, b, keys.data());
          ValueBlockAsF32(cache, h, b, values.data());
          ASSERT_EQ(keys.back(), 77) << "wrote beyond";
          ASSERT_EQ(values.back(), 77) << "wrote beyond";
          for (size_t t = 0; t < std::min(kKvTile, c.n - b * kKvTile); ++t) {
            const size_t token = b * kKvTile + t;
            for (size_t i = 0; i < c.d_head_k; ++i) {
              ASSERT_EQ(keys[i * kKvTile + t], cache.Key(h, token, i))
                  << Name(shape, c.n) << " token " << token << " dimension " << i;
            }
            for (size_t i = 0; i < c.d_head_v; ++i) {
              ASSERT_EQ(values[(i / kKvTile * kKvTile + t) * kKvTile + i % kKvTile], cache.Value(h, token, i))
                  << Name(shape, c.n) << " token " << token << " dimension " << i;
            }
          }
        }
      }
    }
  }
}

// A block taken out as f32 and put back is the same block; of kivi4, whose ends are rounded to f16, to half
// a step.
TEST_P(KvCacheOnTarget, BlocksFromF32RoundTrip) {
  for (const Case& c : kCases) {
    if (c.n < kKvTile) continue;
    const std::vector<float> k = Tokens(c, c.d_head_k, 7), v = Tokens(c, c.d_head_v, 8);
    for (const KvFormat format : kAllKvFormats) {
      const KvShape shape = ShapeOf(format, c);
      KvCache cache(shape, c.n), copy(shape, c.n);
      cache.Append(k.data(), v.data(), kKvTile);
      copy.SetTokens(kKvTile);
      std::vector<float> keys(c.d_head_k * kKvTile), rows(kKvTile * c.d_head_v);
      for (size_t h = 0; h < c.n_kv_heads; ++h) {
        KeyBlockAsF32(cache, h, 0, keys.data());
        KeyBlockFromF32(keys.data(), h, 0, &copy);
        for (size_t t = 0; t < kKvTile; ++t) {
          for (size_t i = 0; i < c.d_head_v; ++i) rows[t * c.d_head_v + i] = cache.Value(h, t, i);
        }
        ValueBlockFromF32(rows.data(), h, 0, &copy);
        const auto margin = [&](float magnitude) {
          return format == KvFormat::kKivi4 ? 0.05f * magnitude : 0.0f;
        };
        for (size_t t = 0; t < kKvTile; ++t) {
          for (size_t i = 0; i < c.d_head_k; ++i) {
            ASSERT_NEAR(copy.Key(h, t, i), cache.Key(h, t, i), margin(i == 5 ? 84 : 8)) << Name(shape, c.n);
          }
          for (size_t i = 0; i < c.d_head_v; ++i) {
            ASSERT_NEAR(copy.Value(h, t, i), cache.Value(h, t, i), margin(i / kKvTile == 0 ? 84 : 8))
                << Name(shape, c.n);
          }
        }
      }
    }
  }
}

// q8_0: half a step, largest / 127. q4_0: the step is largest / 8, and the other end has to do with 7 steps.
// kivi4: half of (largest − smallest) / 15. Scales, and kivi4's smallest, are f16: one rounding of what they
// add up to.
TEST_P(KvCacheOnTarget, ErrorsAreWithinTheStep) {
  const Case c{96, 2, 128, 80};
  const std::vector<float> k = Tokens(c, c.d_head_k, 9), v = Tokens(c, c.d_head_v, 10);
  for (const KvFormat format : {KvFormat::kQ80, KvFormat::kQ40, KvFormat::kKivi4}) {
    KvCache cache(ShapeOf(format, c), c.n);
    cache.Append(k.data(), v.data(), c.n);
    const auto bound = [&](const std::vector<float>& line) {
      const auto [least, most] = std::minmax_element(line.begin(), line.end());
      const double largest = std::max(-static_cast<double>(*least), static_cast<double>(*most));
      const double half = largest * 0x1p-11 + 127 * 0x1p-25;
      if (format == KvFormat::kQ80) return largest / 127 / 2 + half;
      if (format == KvFormat::kQ40) return largest / 8 + half;
      const double range = static_cast<double>(*most) - static_cast<double>(*least);
      return range / 15 / 2 + 2 * half + range * 0x1p-11;
    };
    double worst_key = 0, worst_value = 0;  // in units of the bound
    for (size_t h = 0; h < c.n_kv_heads; ++h) {
      for (size_t t = 0; t < c.n; ++t) {
        for (const bool keys : {true, false}) {
          const size_t d_head = keys ? c.d_head_k : c.d_head_v;
          const auto exact = [&](size_t token, size_t i) {
            if (i >= d_head) return 0.0f;
            return (keys ? k : v)[(token * c.n_kv_heads + h) * d_head + i];
          };
          for (size_t i = 0; i < d_head; ++i) {
            std::vector<float> line;
            for (size_t j = 0; j < kKvTile; ++j) {
              const bool of_channel = keys && format == KvFormat::kKivi4;
              line.push_back(of_channel ? exact(t / kKvTile * kKvTile + j, i)
                                        : exact(t, i / kKvTile * kKvTile + j));
            }
            const float stored = keys ? cache.Key(h, t, i) : cache.Value(h, t, i);
            double& worst = keys ? worst_key : worst_value;
            worst = std::max(worst, std::abs(static_cast<double>(stored) - static_cast<double>(exact(t, i))) /
                                        bound(line));
          }
        }
      }
    }
    EXPECT_LE(worst_key, 1) << KvFormatName(format);
    EXPECT_LE(worst_value, 1) << KvFormatName(format);
    EXPECT_GT(worst_key, 0.5) << KvFormatName(format) << ": the bound is loose";
  }
}

TEST_P(KvCacheOnTarget, AppendRotatedIsRotateThenAppend) {
  for (const Case& c : kCases) {
    std::vector<float> k = Tokens(c, c.d_head_k, 11);
    const std::vector<float> v = Tokens(c, c.d_head_v, 12), before = k;
    const std::vector<double> inv_freq = DefaultInvFreq(c.d_head_k, 10000);
    std::vector<float> angles(c.n * c.d_head_k);
    BuildAngleTable(inv_freq, 1000, c.n, AngleLayout::kSplit, angles.data());
    const HeadsView heads{k.data(), Dtype::kF32, c.n_kv_heads * c.d_head_k, c.d_head_k};
    Rotate({Pairing::kHalf, c.n, c.n_kv_heads, c.d_head_k, c.d_head_k, heads, heads, angles.data(), nullptr,
            false});
    for (const KvFormat format : kAllKvFormats) {
      const KvShape shape = ShapeOf(format, c);
      KvCache rotated(shape, c.n), separate(shape, c.n);
      rotated.AppendRotated(before.data(), v.data(), angles.data(), c.n);
      separate.Append(k.data(), v.data(), c.n);
      ExpectSameBits(rotated, separate, Name(shape, c.n));
      if (format != KvFormat::kF32) continue;
      // And against the formula in double.
      const size_t half = c.d_head_k / 2;
      for (size_t t = 0; t < c.n; ++t) {
        for (size_t h = 0; h < c.n_kv_heads; ++h) {
          for (size_t i = 0; i < half; ++i) {
            const float* head = before.data() + (t * c.n_kv_heads + h) * c.d_head_k;
            const double a = static_cast<double>(head[i]), b = static_cast<double>(head[i + half]);
            const double angle = static_cast<double>(1000 + t) * inv_freq[i];
            const double margin = 4 * 0x1p-24 * std::hypot(a, b);
            ASSERT_NEAR(rotated.Key(h, t, i), a * std::cos(angle) - b * std::sin(angle), margin);
            ASSERT_NEAR(rotated.Key(h, t, i + half), b * std::cos(angle) + a * std::sin(angle), margin);
          }
        }
      }
    }
  }
}

// A head full of NaN and infinity, and the others as if it were not there.
TEST_P(KvCacheOnTarget, NoNumberStaysInItsHead) {
  const Case c{75, 3, 80, 40};
  const std::vector<float> k = Tokens(c, c.d_head_k, 13), v = Tokens(c, c.d_head_v, 14);
  for (const KvFormat format : kAllKvFormats) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> bad_k = k, bad_v = v;
      for (size_t t = 0; t < c.n; t += 2) {
        for (size_t i = 0; i < c.d_head_k; i += 3) bad_k[(t * 3 + 1) * c.d_head_k + i] = bad;
        for (size_t i = 0; i < c.d_head_v; i += 3) bad_v[(t * 3 + 1) * c.d_head_v + i] = bad;
      }
      KvCache good(ShapeOf(format, c), c.n), with_bad(ShapeOf(format, c), c.n);
      good.Append(k.data(), v.data(), c.n);
      with_bad.Append(bad_k.data(), bad_v.data(), c.n);
      for (const size_t h : {0, 2}) {
        for (size_t t = 0; t < c.n; ++t) {
          for (size_t i = 0; i < c.d_head_k; ++i) ASSERT_EQ(with_bad.Key(h, t, i), good.Key(h, t, i));
          for (size_t i = 0; i < c.d_head_v; ++i) ASSERT_EQ(with_bad.Value(h, t, i), good.Value(h, t, i));
        }
      }
      // A value's line is its token's: the tokens between are as good as before.
      for (size_t t = 1; t < c.n; t += 2) {
        for (size_t i = 0; i < c.d_head_v; ++i) ASSERT_EQ(with_bad.Value(1, t, i), good.Value(1, t, i));
      }
    }
  }
}

TEST_P(KvCacheOnTarget, TruncatedAndAppendedAgain) {
  const Case c{90, 2, 64, 40};
  const std::vector<float> k = Tokens(c, c.d_head_k, 15), v = Tokens(c, c.d_head_v, 16);
  for (const KvFormat format : kAllKvFormats) {
    for (const size_t n : {89, 70, 64, 40, 32, 5, 0}) {
      KvCache cache(ShapeOf(format, c), c.n), whole(ShapeOf(format, c), c.n);
      whole.Append(k.data(), v.data(), c.n);
      cache.Append(k.data(), v.data(), c.n);
      cache.Truncate(n);
      ASSERT_EQ(cache.n(), n);
      cache.Append(k.data() + n * 2 * c.d_head_k, v.data() + n * 2 * c.d_head_v, c.n - n);
      for (size_t h = 0; h < 2; ++h) {
        for (size_t t = 0; t < c.n; ++t) {
          // kivi4: the channels of a cut block are quantised twice.
          const bool twice =
              format == KvFormat::kKivi4 && n % kKvTile != 0 && n < 64 && t / kKvTile == n / kKvTile;
          for (size_t i = 0; i < c.d_head_k; ++i) {
            ASSERT_NEAR(cache.Key(h, t, i), whole.Key(h, t, i), twice ? (i == 5 ? 12.0 : 1.0) : 0)
                << KvFormatName(format) << " cut to " << n << ", token " << t << " dimension " << i;
          }
          for (size_t i = 0; i < c.d_head_v; ++i) ASSERT_EQ(cache.Value(h, t, i), whole.Value(h, t, i));
        }
      }
    }
  }
}

TEST_P(KvCacheOnTarget, RepeatToRepeats) {
  const Case c{64, 2, 40, 64};
  const std::vector<float> k = Tokens(c, c.d_head_k, 17), v = Tokens(c, c.d_head_v, 18);
  for (const KvFormat format : kAllKvFormats) {
    KvCache cache(ShapeOf(format, c), 200);
    cache.Append(k.data(), v.data(), c.n);
    cache.RepeatTo(170);
    ASSERT_EQ(cache.n(), 192u);
    for (size_t t = 0; t < cache.n(); ++t) {
      ASSERT_EQ(cache.Key(1, t, 7), cache.Key(1, t % 64, 7));
      ASSERT_EQ(cache.Value(1, t, 7), cache.Value(1, t % 64, 7));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KvCacheOnTarget, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(KvFormat, NamesComeBack) {
  for (const KvFormat format : kAllKvFormats) EXPECT_EQ(ParseKvFormat(KvFormatName(format)), format);
  EXPECT_EQ(ParseKvFormat("q5_1"), std::nullopt);
}

TEST(KvFormat, BytesPerToken) {
  const auto bytes = [](KvFormat format, size_t d_k, size_t d_v) {
    return KvShape{format, 8, d_k, d_v}.BytesPerToken();
  };
  EXPECT_EQ(bytes(KvFormat::kF32, 128, 128), 8 * 256 * 4.0);
  EXPECT_EQ(bytes(KvFormat::kF16, 128, 128), 8 * 256 * 2.0);
  EXPECT_EQ(bytes(KvFormat::kBf16, 80, 40), 8 * 120 * 2.0);
  EXPECT_EQ(bytes(KvFormat::kQ80, 128, 128), 8 * 256 * 34.0 / 32);
  EXPECT_EQ(bytes(KvFormat::kQ40, 128, 128), 8 * 256 * 18.0 / 32);
  EXPECT_EQ(bytes(KvFormat::kKivi4, 128, 128), 8 * 256 * 20.0 / 32);
  // Quantised tiles are whole: 80 dimensions take 96.
  EXPECT_EQ(bytes(KvFormat::kQ80, 80, 64), 8 * (96 + 64) * 34.0 / 32);
  // The article's cache: 28 layers of 8 heads of 128, f16.
  EXPECT_EQ(28 * bytes(KvFormat::kF16, 128, 128), 114688.0);
}

// block_q8_0 and block_q4_0 of ggml's quantize_row_*_reference, by hand: the scale as f16, then the numbers.
TEST(KvFormat, ScalesAndNumbersAreGgmls) {
  float x[kKvTile] = {};
  x[0] = 12.7f, x[1] = -6.35f, x[2] = 0.04f, x[3] = 0.06f, x[31] = -12.7f;
  std::vector<uint8_t> tile(KvTileBytes(KvFormat::kQ80, kKvTile));
  ASSERT_EQ(tile.size(), 32u * 34);
  QuantiseKvLine(KvFormat::kQ80, TileScale::kOfOutput, x, 9, tile.data());
  uint16_t scale;
  std::memcpy(&scale, tile.data() + 2 * 9, 2);
  EXPECT_EQ(scale, F16FromFloat(0.1f));
  const auto q8 = [&](size_t c) {
    return static_cast<int>(static_cast<int8_t>(tile[64 + (c / 2 * 32 + 9) * 2 + c % 2]));
  };
  EXPECT_EQ(q8(0), 127);
  EXPECT_NEAR(q8(1), -63.5, 0.5);
  EXPECT_EQ(q8(2), 0);
  EXPECT_EQ(q8(3), 1);
  EXPECT_EQ(q8(31), -127);

  // The largest magnitude is negative: the scale is positive, and that element is 0.
  float y[kKvTile] = {};
  y[4] = -8, y[5] = 7.9f, y[6] = 3.4f, y[7] = 3.6f;
  tile.assign(KvTileBytes(KvFormat::kQ40, kKvTile), 0);
  ASSERT_EQ(tile.size(), 32u * 18);
  QuantiseKvLine(KvFormat::kQ40, TileScale::kOfSummed, y, 13, tile.data());
  std::memcpy(&scale, tile.data() + 2 * 13, 2);
  EXPECT_EQ(scale, F16FromFloat(1.0f));
  // c = 13: group 1, offset 5 = 2·2 + 1.
  const auto q4 = [&](size_t o) {
    uint16_t word;
    std::memcpy(&word, tile.data() + 64 + 2 * ((1 * 32 + o) * 2 + 1), 2);
    return word >> 8 & 0xf;
  };
  EXPECT_EQ(q4(4), 0);
  EXPECT_EQ(q4(5), 15);  // 15.9 + 0.5, at most 15
  EXPECT_EQ(q4(6), 11);
  EXPECT_EQ(q4(7), 12);
  EXPECT_EQ(q4(0), 8);
  // The largest is positive: the scale is negative.
  y[4] = 8;
  QuantiseKvLine(KvFormat::kQ40, TileScale::kOfSummed, y, 13, tile.data());
  std::memcpy(&scale, tile.data() + 2 * 13, 2);
  EXPECT_EQ(scale, F16FromFloat(-1.0f));
  EXPECT_EQ(q4(4), 0);
  EXPECT_EQ(q4(5), 0);
  EXPECT_EQ(q4(6), 5);
}

TEST(KvCacheCost, CountsBytesAsStored) {
  const KvShape shape{KvFormat::kQ80, 8, 128, 64};
  const Cost plain = KvAppendCost(shape, 10, false), rotated = KvAppendCost(shape, 10, true);
  EXPECT_EQ(plain.bytes_read, 10 * 8 * 192 * 4.0);
  EXPECT_EQ(plain.bytes_written, 10 * 8 * 192 * 34.0 / 32);
  EXPECT_EQ(plain.flops, 0);
  EXPECT_EQ(rotated.bytes_read, plain.bytes_read + 10 * 128 * 4.0);
  EXPECT_EQ(rotated.flops, 3.0 * 10 * 8 * 128);
}

TEST(KvCacheDeathTest, TooManyTokensAbort) {
  KvCache cache({KvFormat::kF32, 1, 8, 8}, 32);
  std::vector<float> x(33 * 8);
  EXPECT_DEATH(cache.Append(x.data(), x.data(), 33), "33 tokens appended to 0 of a cache for 32");
  EXPECT_DEATH(cache.SetTokens(33), "33 tokens");
  EXPECT_DEATH(KvCache({KvFormat::kF32, 1, 12, 8}, 32), "multiples of 8");
}

}  // namespace
}  // namespace ropeline
