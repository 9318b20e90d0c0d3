#include "kernels/score_tile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/hash.h"
#include "kernels/qk_rotation.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class ScoreTile : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Case {
  size_t n, n_heads, n_kv_heads, d_head;
};

// Everything that a tiles call may need, for one case.
struct Inputs {
  explicit Inputs(const Case& c) : shape{.n = c.n, .n_k = c.n, .n_heads = c.n_heads} {
    q.resize(c.n * c.n_heads * c.d_head);
    k.resize(c.n * c.n_kv_heads * c.d_head);
    for (size_t i = 0; i < q.size(); ++i) q[i] = HashToFloat(i, 1);
    for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 2);
    tiled.resize(TiledKeysElements(c.n, c.n_kv_heads, c.d_head));
    TileKeys(k.data(), c.n, c.n_kv_heads, c.d_head, tiled.data());
    for (const double slope : AlibiSlopes(c.n_heads)) slopes.push_back(static_cast<float>(slope));
    tables = FindEncoding("t5_bias")->setup(shape);
    // Room for the last vector of the last row.
    tensor.resize(c.n_heads * c.n * c.n + 64, 0);
    FindEncoding("t5_bias")->apply(*tables, shape, tensor.data());
  }

  Shape shape;
  std::vector<float> q, k, tiled, slopes, tensor;
  std::unique_ptr<EncodingTables> tables;
};

double BiasIn(TileBias bias, const Inputs& in, size_t h, size_t q, size_t k) {
  if (bias == TileBias::kNone) return 0;
  if (bias == TileBias::kSlope) return -static_cast<double>(in.slopes[h]) * static_cast<double>(q - k);
  return static_cast<double>(in.tensor[(h * in.shape.n + q) * in.shape.n + k]);
}

TEST_P(ScoreTile, LargestScoreOfEachQuery) {
  for (const Case& c : {Case{1, 1, 1, 8},
                        {5, 2, 1, 16},
                        {12, 4, 2, 24},
                        {31, 2, 2, 64},
                        {32, 1, 1, 128},
                        {33, 3, 1, 80},
                        {100, 6, 2, 40},
                        {13, 2, 1, 256}}) {
    const Inputs in(c);
    const T5Gather gather(in.shape);
    for (const TileBias bias :
         {TileBias::kNone, TileBias::kSlope, TileBias::kRow, TileBias::kGather, TileBias::kTensor}) {
      const float scale = 0.25f;
      ScoreTiles tiles{c.n, c.n_heads, c.n_kv_heads, c.d_head, in.q.data(), in.tiled.data(), scale};
      tiles.bias = bias;
      tiles.slopes = in.slopes.data();
      tiles.rows = T5DistanceRows(*in.tables);
      tiles.gather = &gather;
      tiles.tensor = in.tensor.data();
      std::vector<float> largest(c.n_heads * c.n + 4, -7);
      LargestScores(tiles, largest.data());
      for (size_t h = 0; h < c.n_heads; ++h) {
        const size_t kv = h / (c.n_heads / c.n_kv_heads);
        for (size_t q = 0; q < c.n; ++q) {
          double expected = -1e300;
          for (size_t k = 0; k <= q; ++k) {
            double dot = 0;
            for (size_t i = 0; i < c.d_head; ++i) {
              dot += static_cast<double>(in.q[(q * c.n_heads + h) * c.d_head + i]) *
                     static_cast<double>(in.k[(k * c.n_kv_heads + kv) * c.d_head + i]);
            }
            expected = std::max(expected, static_cast<double>(scale) * dot + BiasIn(bias, in, h, q, k));
          }
          ASSERT_NEAR(largest[h * c.n + q], expected, 3e-6 * (1 + std::abs(expected)))
              << TileBiasName(bias) << " n " << c.n << " head " << h << " query " << q;
        }
      }
      for (size_t i = c.n_heads * c.n; i < largest.size(); ++i) ASSERT_EQ(largest[i], -7) << "wrote beyond";
    }
  }
}

TEST_P(ScoreTile, TurningQInsideIsTurningItBefore) {
  const Case c{50, 3, 3, 32};
  Inputs in(c);
  std::vector<float> angles(c.n * c.d_head);
  BuildAngleTable(DefaultInvFreq(c.d_head, 10000), 3, c.n, AngleLayout::kSplit, angles.data());
  std::vector<float> inside(c.n_heads * c.n), before(inside.size()), not_at_all(inside.size());
  ScoreTiles tiles{c.n, c.n_heads, c.n_kv_heads, c.d_head, in.q.data(), in.tiled.data(), 0.5f};
  LargestScores(tiles, not_at_all.data());
  tiles.angles = angles.data();
  LargestScores(tiles, inside.data());
  const HeadsView heads{in.q.data(), Dtype::kF32, c.n_heads * c.d_head, c.d_head};
  Rotate({Pairing::kHalf, c.n, c.n_heads, c.d_head, c.d_head, heads, heads, angles.data(), nullptr, false});
  tiles.angles = nullptr;
  LargestScores(tiles, before.data());
  EXPECT_EQ(inside, before);
  EXPECT_NE(inside, not_at_all);
}

INSTANTIATE_TEST_SUITE_P(Targets, ScoreTile, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(ScoreTilesCost, CountsTheCausalPairs) {
  ScoreTiles tiles{100, 8, 2, 64, nullptr, nullptr, 1};
  EXPECT_EQ(ScoreTilesCost(tiles).flops, 2.0 * 64 * 8 * 5050);
  EXPECT_EQ(ScoreTilesCost(tiles).bytes_read, 4.0 * (100 * 8 * 64 + 100 * 2 * 64));
  tiles.bias = TileBias::kTensor;
  EXPECT_EQ(ScoreTilesCost(tiles).bytes_read, 4.0 * (100 * 8 * 64 + 100 * 2 * 64 + 8 * 5050));
}

}  // namespace
}  // namespace ropeline
