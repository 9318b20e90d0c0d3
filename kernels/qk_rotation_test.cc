#include "kernels/qk_rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/hash.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Rotations : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

// One token whose Q or K head is (1, 0) in each pair: what comes out are the cosines and sines.
std::vector<float> UnitPairs(const char* name, Shape shape, bool key) {
  const Encoding& encoding = *FindEncoding(name);
  const bool half = std::string(name) != "xpos";
  shape.n = 1;
  shape.n_heads = key ? 0 : 1;
  shape.n_kv_heads = key ? 1 : 0;
  std::vector<float> x(shape.d_head, 0);
  for (size_t i = 0; i < shape.d_head / 2; ++i) x[half ? i : 2 * i] = 1;
  encoding.apply(*encoding.setup(shape), shape, x.data());
  return x;
}

// Values worked out apart from this code. d 16 has eight bands: two of time, three of height, three of width.
TEST_P(Rotations, MropeTakesEachBandsAxis) {
  const int32_t positions[] = {5, 7, 11};
  Shape shape;
  shape.d_head = 16;
  shape.positions = positions;
  const auto x = UnitPairs("mrope", shape, false);
  EXPECT_NEAR(x[1], -0.01034232, 1e-6);     // cos(5 · 10000^(−2/16)), time
  EXPECT_NEAR(x[3], 0.97559988, 1e-6);      // cos(7 · 10000^(−6/16)), height
  EXPECT_NEAR(x[8 + 7], 0.00347850, 1e-6);  // sin(11 · 10000^(−14/16)), width
}

// Position 70 of a picture with 32 patches to a row: row 2, column 6.
TEST_P(Rotations, GridTurnsByRowAndColumn) {
  Shape shape;
  shape.d_head = 16;
  shape.first_position = 70;
  const auto x = UnitPairs("rope_2d", shape, false);
  EXPECT_NEAR(x[1], 0.98006658, 1e-6);      // cos(2 · 10000^(−2/8)), row
  EXPECT_NEAR(x[8 + 7], 0.00599996, 1e-6);  // sin(6 · 10000^(−6/8)), column
}

// ζ_0 = 0.4 / 1.4; at position 512 Q is multiplied by it and K divided.
TEST_P(Rotations, XposShrinksQueriesAndGrowsKeys) {
  Shape shape;
  shape.d_head = 16;
  shape.first_position = 512;
  EXPECT_NEAR(UnitPairs("xpos", shape, false)[0], -0.28480954, 1e-6);
  EXPECT_NEAR(UnitPairs("xpos", shape, true)[1], 0.27831473, 1e-6);
}

struct Buffers {
  std::vector<float> in, table;
  std::vector<int32_t> rows;
};

constexpr size_t kN = 5, kHeads = 3;

Buffers Make(size_t d_head, size_t d_rot, Pairing pairing) {
  Buffers buffers;
  buffers.in.resize(kN * kHeads * d_head);
  for (size_t i = 0; i < buffers.in.size(); ++i) buffers.in[i] = HashToFloat(i, 11);
  buffers.table.resize(9 * d_rot);
  BuildAngleTable(DefaultInvFreq(d_rot, 10000), 40, 9,
                  pairing == Pairing::kHalf ? AngleLayout::kSplit : AngleLayout::kCosSin,
                  buffers.table.data());
  buffers.rows = {8, 0, 3, 3, 5};
  return buffers;
}

Rotation Call(Pairing pairing, size_t d_head, size_t d_rot, const Buffers& buffers, HeadsView in,
              HeadsView out) {
  return {pairing, kN, kHeads, d_head, d_rot, in, out, buffers.table.data(), buffers.rows.data(), false};
}

// Out of place gives what in place does, dimensions that do not turn included, leaves its input alone, and
// into a cache of another layout and dtype gives the same, rounded.
TEST_P(Rotations, OutOfPlaceAndIntoACache) {
  constexpr size_t kRoom = 7;
  for (const Pairing pairing : {Pairing::kHalf, Pairing::kInterleaved}) {
    for (const size_t d : {8, 34, 80, 128}) {
      for (const size_t d_rot : {d, d / 4 * 2}) {
        const Buffers buffers = Make(d, d_rot, pairing);
        std::vector<float> in = buffers.in, in_place = in, out(in.size(), -9);
        const HeadsView from{in.data(), Dtype::kF32, kHeads * d, d};
        const HeadsView same{in_place.data(), Dtype::kF32, kHeads * d, d};
        Rotate(Call(pairing, d, d_rot, buffers, same, same));
        Rotate(Call(pairing, d, d_rot, buffers, from, {out.data(), Dtype::kF32, kHeads * d, d}));
        EXPECT_EQ(out, in_place) << d << " " << d_rot;
        EXPECT_EQ(in, buffers.in);
        EXPECT_NE(out, in);
        for (const Dtype dtype : kAllDtypes) {
          std::vector<float> cache(kHeads * kRoom * d);
          for (size_t i = 0; i < cache.size(); ++i) StoreElement(dtype, cache.data(), i, -5);
          Rotate(Call(pairing, d, d_rot, buffers, from, {cache.data(), dtype, d, kRoom * d}));
          for (size_t h = 0; h < kHeads; ++h) {
            for (size_t t = 0; t < kRoom; ++t) {
              for (size_t i = 0; i < d; ++i) {
                const float actual = LoadElement(dtype, cache.data(), (h * kRoom + t) * d + i);
                if (t >= kN) {
                  ASSERT_EQ(actual, -5) << "wrote beyond the tokens";
                  continue;
                }
                const float expected = out[(t * kHeads + h) * d + i];
                ASSERT_NEAR(actual, expected, 1.01 * RoundingUnit(dtype) * std::abs(expected) + 1e-7)
                    << DtypeName(dtype) << " head " << h << " token " << t << " dimension " << i;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(Rotations, RowsPickTheTokensAngles) {
  const Buffers buffers = Make(32, 32, Pairing::kHalf);
  std::vector<float> x = buffers.in;
  const HeadsView heads{x.data(), Dtype::kF32, kHeads * 32, 32};
  Rotate(Call(Pairing::kHalf, 32, 32, buffers, heads, heads));
  for (size_t t = 0; t < kN; ++t) {
    const double angle = 40 + buffers.rows[t];  // band 0
    const size_t at = t * kHeads * 32;
    const double a = buffers.in[at], b = buffers.in[at + 16];
    EXPECT_NEAR(x[at], a * std::cos(angle) - b * std::sin(angle), 1e-6) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Rotations, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(RotationCost, CountsWhatIsMoved) {
  Shape shape;
  shape.n = 10;
  shape.n_heads = 24;
  shape.n_kv_heads = 8;
  shape.d_head = 128;
  shape.d_rot = 32;
  shape.dtype = Dtype::kF16;
  const Cost partial = FindEncoding("rope_half")->cost(shape);
  EXPECT_EQ(partial.bytes_written, 2.0 * 10 * 32 * 32);
  EXPECT_EQ(partial.bytes_read, 2.0 * 10 * 32 * 32 + 4 * 10 * 32);
  EXPECT_EQ(FindEncoding("xpos")->cost(shape).bytes_read, partial.bytes_read + 4 * 10 * 32);
  const int32_t positions[10] = {};
  shape.positions = positions;
  EXPECT_EQ(FindEncoding("rope_half")->cost(shape).bytes_read, partial.bytes_read + 40);
  EXPECT_EQ(FindEncoding("nope")->cost(shape).Bytes(), 0);

  float x[1];
  uint16_t cache[1];
  // K of 8 heads into a cache: read in f32, written in f16, every dimension; a quarter of them turn.
  const Rotation write{
      Pairing::kHalf, 10,      8,    128, 32, {x, Dtype::kF32, 1024, 128}, {cache, Dtype::kF16, 1024, 128},
      nullptr,        nullptr, false};
  EXPECT_EQ(RotationCost(write).bytes_written, 2.0 * 10 * 8 * 128);
  EXPECT_EQ(RotationCost(write).bytes_read, 4.0 * 10 * 8 * 128 + 4 * 10 * 32);
  EXPECT_EQ(RotationCost(write).flops, 3.0 * 10 * 8 * 32);
}

TEST(Rejects, WhatCannotBeDone) {
  Shape shape;
  shape.d_head = 128;
  shape.d_rot = 130;
  EXPECT_NE(FindEncoding("rope_half")->reject(shape), nullptr);
  shape.d_rot = 50;
  EXPECT_EQ(FindEncoding("rope_half")->reject(shape), nullptr);
  EXPECT_NE(FindEncoding("rope_2d")->reject(shape), nullptr);
  shape.first_position = 30000;
  EXPECT_NE(FindEncoding("xpos")->reject(shape), nullptr);
  shape.first_position = 4000;
  EXPECT_EQ(FindEncoding("xpos")->reject(shape), nullptr);
  shape.dtype = Dtype::kF16;
  EXPECT_NE(FindEncoding("xpos")->reject(shape), nullptr);
}

}  // namespace
}  // namespace ropeline
