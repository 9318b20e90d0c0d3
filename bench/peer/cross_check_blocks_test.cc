// q8_0 and q4_0: 32 numbers by ggml_quantize_chunk and by our quantisers, byte for byte.
//
// ggml has two quantisers of q8_0. ggml_quantize_chunk (quantize_row_q8_0_ref in ggml-quants.c) rounds a
// number half way between two away from zero; its x86 code, which writes a KV cache, to the even one, as ours
// does. Other lines where we differ on purpose (kernels/kv_format.h): the scale of zeros is +0, not −0, and
// of two numbers of largest magnitude the positive one sets q4_0's sign, not the first.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_fill.h"
#include "kernels/dtype.h"
#include "kernels/kv_cache.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

using ggml::Type;
using Line = std::array<float, kKvTile>;
// block_q8_0 {f16 d, int8 q[32]} or block_q4_0 {f16 d, uint8 q[16]}.
using Block = std::vector<uint8_t>;

Type TypeOf(KvFormat format) { return format == KvFormat::kQ80 ? Type::kQ8_0 : Type::kQ4_0; }

Block ByGgml(const GgmlLibrary& library, KvFormat format, const Line& line) {
  Block block(format == KvFormat::kQ80 ? 34 : 18);
  EncodeRows(library, TypeOf(format), line.data(), line.size(), 1, block.data());
  return block;
}

// Line `line` of a tile of ours, put in ggml's order: the f16 scale and codes at the places that kv_format.h
// gives.
Block FromTile(KvFormat format, TileScale scale, const uint8_t* tile, size_t line) {
  Block block(tile + 2 * line, tile + 2 * line + 2);
  const uint8_t* const data = tile + 2 * kKvTile;
  std::array<uint8_t, kKvTile> codes{};
  for (size_t i = 0; i < kKvTile; ++i) {
    const size_t c = scale == TileScale::kOfOutput ? i : line, o = scale == TileScale::kOfOutput ? line : i;
    if (format == KvFormat::kQ80) {
      codes[i] = data[(c / 2 * kKvTile + o) * 2 + c % 2];
      continue;
    }
    uint16_t word;
    std::memcpy(&word, data + 2 * ((c / 8 * kKvTile + o) * 2 + c % 2), 2);
    codes[i] = word >> (c % 8 / 2 * 4) & 15;
  }
  if (format == KvFormat::kQ80) {
    block.insert(block.end(), codes.begin(), codes.end());
  } else {
    for (size_t i = 0; i < 16; ++i) block.push_back(static_cast<uint8_t>(codes[i] | codes[i + 16] << 4));
  }
  return block;
}

// By the scalar rule, as a key's or a value's line.
Block ByUs(KvFormat format, TileScale scale, const Line& line) {
  std::vector<uint8_t> tile(KvTileBytes(format, kKvTile));
  QuantiseKvLine(format, scale, line.data(), 5, tile.data());
  return FromTile(format, scale, tile.data(), 5);
}

std::string Hex(const Block& block) {
  std::string text;
  for (const uint8_t byte : block) text += fmt::format("{:02x} ", byte);
  return text;
}

class BlockCrossCheck : public CrossCheck {
 protected:
  void TearDown() override { UseBestTarget(); }

  void ExpectEqual(KvFormat format, const Line& line, const std::string& what) {
    const Block theirs = ByGgml(*library_, format, line);
    for (const TileScale scale : {TileScale::kOfOutput, TileScale::kOfSummed}) {
      const Block ours = ByUs(format, scale, line);
      ++compared_;
      EXPECT_EQ(Hex(ours), Hex(theirs)) << KvFormatName(format) << " " << what;
    }
  }
  void Report(const char* what) const {
    std::printf("  %s: %zu blocks equal in every byte\n", what, compared_);
  }

  size_t compared_ = 0;
};

// Sizes that a cache holds, that f16 scales round to subnormal numbers or to 0, and that they overflow at.
constexpr float kSizes[] = {1e-20f, 1e-8f, 1e-6f, 1e-4f, 0.1f, 1, 100, 6e4f, 1e7f, 1e30f};

TEST_F(BlockCrossCheck, AnyNumbers) {
  for (const KvFormat format : {KvFormat::kQ80, KvFormat::kQ40}) {
    for (const float size : kSizes) {
      for (size_t seed = 0; seed < 500; ++seed) {
        Line line;
        const auto numbers = Numbers(kKvTile, seed, size);
        std::copy(numbers.begin(), numbers.end(), line.begin());
        ExpectEqual(format, line, fmt::format("size {:g}, seed {}", size, seed));
        for (float& x : line) x = -std::abs(x);
        ExpectEqual(format, line, fmt::format("size {:g}, seed {}, negative", size, seed));
      }
    }
  }
  Report("q8_0 and q4_0 of numbers between 1e-20 and 1e30");
}

// One number beside zeros, at both ends of the line; every number the same.
TEST_F(BlockCrossCheck, FewNumbers) {
  for (const KvFormat format : {KvFormat::kQ80, KvFormat::kQ40}) {
    for (const float x : {1.0f, -1.0f, 0.3f, -7e-5f, 65504.0f, -8.3e6f, 2.5e38f, -2.5e38f, 1.5e-35f}) {
      for (const size_t at : {0, 15, 16, 31}) {
        Line line{};
        line[at] = x;
        ExpectEqual(format, line, fmt::format("{:g} at {}", x, at));
      }
      Line line;
      line.fill(x);
      ExpectEqual(format, line, fmt::format("{:g} everywhere", x));
    }
  }
  Report("q8_0 and q4_0 of lone and of equal numbers");
}

// A largest magnitude of 127 makes the step 1: k + ½ is half way between two codes.
TEST_F(BlockCrossCheck, HalfWayBetweenCodes) {
  Line line;
  for (size_t i = 0; i < kKvTile; ++i) line[i] = static_cast<float>(i) - 15.5f;
  line[0] = 127;
  const Block theirs = ByGgml(*library_, KvFormat::kQ80, line);
  const Block ours = ByUs(KvFormat::kQ80, TileScale::kOfOutput, line);
  EXPECT_TRUE(std::equal(ours.begin(), ours.begin() + 3, theirs.begin())) << "scale and the largest";
  for (size_t i = 1; i < kKvTile; ++i) {
    const float x = line[i];
    EXPECT_EQ(static_cast<int8_t>(theirs[2 + i]), static_cast<int>(std::round(x))) << x;
    EXPECT_EQ(static_cast<int8_t>(ours[2 + i]), static_cast<int>(std::nearbyint(x))) << x;
  }
  // q4_0 goes up in both: −8 makes the step 1.
  for (size_t i = 0; i < kKvTile; ++i) line[i] = static_cast<float>(i % 15) - 7.5f;
  line[3] = -8;
  ExpectEqual(KvFormat::kQ40, line, "halves");
  Report("q4_0 of halves; q8_0's halves go away from zero in ggml, to even in ours");
}

TEST_F(BlockCrossCheck, WhatIsZero) {
  for (const KvFormat format : {KvFormat::kQ80, KvFormat::kQ40}) {
    for (const float zero : {0.0f, -0.0f}) {
      Line line;
      line.fill(zero);
      Block theirs = ByGgml(*library_, format, line);
      const Block ours = ByUs(format, TileScale::kOfOutput, line);
      EXPECT_EQ(theirs[1] & 0x7f, 0) << "a scale of zero";
      theirs[1] &= 0x7f;  // its sign
      EXPECT_EQ(Hex(ours), Hex(theirs)) << KvFormatName(format) << " of " << zero;
    }
    // Below 2^-126 a step has no inverse in f32: codes are anything, times a scale of zero.
    Line line;
    for (size_t i = 0; i < kKvTile; ++i)
      line[i] = static_cast<float>(i + 1) * std::numeric_limits<float>::denorm_min();
    const Block theirs = ByGgml(*library_, format, line);
    const Block ours = ByUs(format, TileScale::kOfOutput, line);
    EXPECT_EQ(theirs[0] | (theirs[1] & 0x7f), 0);
    EXPECT_EQ(ours[0] | (ours[1] & 0x7f), 0);
  }
}

// Both ends of the range are equally far from zero.
TEST_F(BlockCrossCheck, TwoOfTheLargestMagnitude) {
  for (const bool positive_first : {true, false}) {
    Line line;
    for (size_t i = 0; i < kKvTile; ++i) line[i] = static_cast<float>(i) / 64;
    line[4] = positive_first ? 1 : -1;
    line[20] = -line[4];
    ExpectEqual(KvFormat::kQ80, line, "1 and −1");
    if (positive_first) {
      ExpectEqual(KvFormat::kQ40, line, "1, then −1");
      continue;
    }
    const Block theirs = ByGgml(*library_, KvFormat::kQ40, line);
    const Block ours = ByUs(KvFormat::kQ40, TileScale::kOfOutput, line);
    EXPECT_EQ(LoadElement(Dtype::kF16, theirs.data(), 0), 0.125f) << "−1 is −8 steps";
    EXPECT_EQ(LoadElement(Dtype::kF16, ours.data(), 0), -0.125f) << "1 is −8 steps";
  }
  Report("two of the largest magnitude; q4_0 with the negative one first differs in sign");
}

// What Append writes with each target's vectors, keys and values.
TEST_F(BlockCrossCheck, TheCacheAsVectorsWriteIt) {
  constexpr size_t kN = 64, kHeads = 2, kD = 96;
  const auto k = Numbers(kN * kHeads * kD, 7, 3), v = Numbers(kN * kHeads * kD, 8, 1e-3f);
  for (const KvFormat format : {KvFormat::kQ80, KvFormat::kQ40}) {
    for (const std::string& target : SupportedTargetNames()) {
      ASSERT_TRUE(UseTarget(target));
      KvCache cache(KvShape{format, kHeads, kD, kD}, kN);
      cache.Append(k.data(), v.data(), kN);
      for (size_t row = 0; row < kN * kHeads; ++row) {
        const size_t t = row / kHeads, h = row % kHeads, block = t / kKvTile;
        for (size_t tile = 0; tile < kD / kKvTile; ++tile) {
          const size_t at = tile * KvTileBytes(format, kKvTile);
          for (const bool key : {true, false}) {
            Line line;
            const auto from = (key ? k : v).begin() + static_cast<ptrdiff_t>(row * kD + tile * kKvTile);
            std::copy(from, from + kKvTile, line.begin());
            const uint8_t* const bytes = (key ? cache.KeyBlock(h, block) : cache.ValueBlock(h, block)) + at;
            const Block ours =
                FromTile(format, key ? KeyScale(format) : ValueScale(format), bytes, t % kKvTile);
            ++compared_;
            ASSERT_EQ(Hex(ours), Hex(ByGgml(*library_, format, line))) << target << " token " << t;
          }
        }
      }
    }
  }
  Report("a cache by every target");
}

}  // namespace
}  // namespace ropeline
