// Products with many vectors on every target, against sums in double of the weights that are stored.
#include "kernels/mat_mul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

// Of Σ |w·x|: sums of numbers of either sign, rounded as they grow.
constexpr double kEpsilons = 8;

struct Case {
  size_t n, rows, cols;
};

class MatMuls : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Inputs {
  Inputs(WeightDtype dtype, const Case& c)
      : stored(c.rows * WeightRowBytes(dtype, c.cols)), weights(c.rows * c.cols), x(c.n * c.cols) {
    std::vector<float> row(c.cols);
    w = {dtype, c.rows, c.cols, stored.data()};
    for (size_t r = 0; r < c.rows; ++r) {
      for (size_t i = 0; i < c.cols; ++i) row[i] = HashToFloat(r, i);
      uint8_t* to = stored.data() + r * w.RowBytes();
      EncodeWeights(dtype, row.data(), c.cols, to);
      DecodeWeights(dtype, to, c.cols, weights.data() + r * c.cols);
    }
    for (size_t i = 0; i < x.size(); ++i) x[i] = 2 * HashToFloat(i, 99);
    panels.Resize(c.n, c.cols);
    panels.Pack(x.data());
  }

  std::vector<uint8_t> stored;
  std::vector<float> weights, x;
  WeightMatrix w;
  TokenPanels panels;
};

std::string Describe(WeightDtype dtype, const Case& c) {
  return std::string(WeightDtypeName(dtype)) + " n " + std::to_string(c.n) + " rows " +
         std::to_string(c.rows) + " cols " + std::to_string(c.cols);
}

// Rows [first, end) are the products, what is beside them is untouched.
void ExpectProducts(const Inputs& in, const Case& c, size_t first, size_t end, const std::vector<float>& y,
                    const std::string& what) {
  for (size_t t = 0; t < c.n; ++t) {
    for (size_t r = 0; r < c.rows; ++r) {
      const float got = y[t * c.rows + r];
      if (r < first || r >= end) {
        ASSERT_EQ(got, -7) << what << ": token " << t << " row " << r << " is not of the range";
        continue;
      }
      double expected = 0, scale = 0;
      for (size_t i = 0; i < c.cols; ++i) {
        const double product =
            static_cast<double>(in.weights[r * c.cols + i]) * static_cast<double>(in.x[t * c.cols + i]);
        expected += product;
        scale += std::abs(product);
      }
      ASSERT_NEAR(got, expected, kEpsilons * 0x1p-24 * scale) << what << ": token " << t << " row " << r;
    }
  }
  for (size_t i = c.n * c.rows; i < y.size(); ++i) ASSERT_EQ(y[i], -7) << what << ": wrote beyond the end";
}

void Check(WeightDtype dtype, const Case& c) {
  const Inputs in(dtype, c);
  std::vector<float> y(c.n * c.rows + 32, -7);
  MatMul(in.w, in.panels, 0, c.rows, y.data());
  ExpectProducts(in, c, 0, c.rows, y, Describe(dtype, c));
}

// Tokens and rows around a vector, a tile, a panel and a block.
TEST_P(MatMuls, EveryDtypeAtOddShapes) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const size_t block = WeightBlockOf(dtype).weights;
    for (const Case& c : {Case{1, 1, 256},
                          {3, 5, 256},
                          {15, 7, 512},
                          {16, 6, 256},
                          {17, 13, 256},
                          {33, 4, 256},
                          {65, 11, 512}}) {
      Check(dtype, c);
    }
    if (block == 32) Check(dtype, {5, 9, 160});
    for (const size_t cols : {1, 3, 15, 17, 127, 129, 131}) {
      if (block == 1) Check(dtype, {7, 8, cols});
    }
  }
}

TEST_P(MatMuls, SeveralBlocksOfRowsAndTokens) {
  Check(WeightDtype::kF16, {5, 200, 64});
  Check(WeightDtype::kQ40, {530, 3, 64});
  Check(WeightDtype::kQ4K, {50, 100, 512});
}

TEST_P(MatMuls, RangesOfRowsLeaveTheOthersAlone) {
  const Case c{19, 120, 256};
  const Inputs in(WeightDtype::kQ6K, c);
  for (const auto& [first, end] : {std::pair<size_t, size_t>{0, 1}, {1, 8}, {5, 115}, {119, 120}, {7, 7}}) {
    std::vector<float> y(c.n * c.rows, -7);
    MatMul(in.w, in.panels, first, end, y.data());
    ExpectProducts(in, c, first, end, y, "rows " + std::to_string(first) + " to " + std::to_string(end));
  }
}

// Each weight by itself: x holds one 1 a token, so that a product is a weight, bit for bit.
TEST_P(MatMuls, UnpackToTheNumbersThatAreStored) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const Case c{512, 3, 512};
    Inputs in(dtype, c);
    for (size_t i = 0; i < in.x.size(); ++i) in.x[i] = i % (c.cols + 1) == 0 ? 1 : 0;
    in.panels.Pack(in.x.data());
    std::vector<float> y(c.n * c.rows, -7);
    MatMul(in.w, in.panels, 0, c.rows, y.data());
    for (size_t t = 0; t < c.n; ++t) {
      for (size_t r = 0; r < c.rows; ++r) {
        ASSERT_EQ(y[t * c.rows + r], in.weights[r * c.cols + t]) << Describe(dtype, c) << " weight " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MatMuls, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

// What an earlier, larger call left in the last panel is gone.
TEST(TokenPanels, HoldTokensSideBySideAndZerosForTheMissing) {
  TokenPanels panels;
  for (const size_t n : {40, 18}) {
    constexpr size_t kCols = 21;
    std::vector<float> x(n * kCols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, n);
    panels.Resize(n, kCols);
    panels.Pack(x.data(), 1, panels.Panels());
    panels.Pack(x.data(), 0, 1);
    ASSERT_EQ(panels.Panels(), (n + 15) / 16);
    for (size_t t = 0; t < panels.Panels() * 16; ++t) {
      for (size_t i = 0; i < kCols; ++i) {
        ASSERT_EQ(panels.Panel(t / 16)[i * 16 + t % 16], t < n ? x[t * kCols + i] : 0) << n << " token " << t;
      }
    }
  }
}

TEST(MatMulCost, CountsWeightsOnceAndTwoFlopsEach) {
  const Cost cost = MatMulCost(WeightDtype::kQ40, 100, 64, 10);
  EXPECT_EQ(cost.bytes_read, 100 * 36 + 4 * 10 * 64);
  EXPECT_EQ(cost.bytes_written, 4 * 10 * 100);
  EXPECT_EQ(cost.flops, 2.0 * 100 * 64 * 10);
}

}  // namespace
}  // namespace ropeline
