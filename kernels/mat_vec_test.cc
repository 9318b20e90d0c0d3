// Products with vectors on every target, against sums in double of the numbers that the rounded operands
// stand for, and against the unrounded ones.
#include "kernels/mat_vec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

struct Case {
  WeightDtype dtype;
  size_t rows, cols, n;
};

// x as the header says it is rounded: int8 and one scale for so many, ties to even.
std::vector<double> Rounded(WeightDtype dtype, const float* x, size_t cols) {
  std::vector<double> out(x, x + cols);
  if (!IsBlocked(dtype)) return out;
  const size_t block = WeightBlockOf(dtype).weights;
  for (size_t b = 0; b < cols; b += block) {
    float largest = 0;
    for (size_t i = b; i < b + block; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (size_t i = b; i < b + block; ++i) {
      out[i] = static_cast<double>(std::nearbyint(x[i] * inverse)) * static_cast<double>(largest / 127);
    }
  }
  return out;
}

std::vector<uint8_t> RandomMatrix(const Case& c) {
  std::vector<uint8_t> data(c.rows * WeightRowBytes(c.dtype, c.cols));
  std::vector<float> row(c.cols);
  for (size_t r = 0; r < c.rows; ++r) {
    for (size_t i = 0; i < c.cols; ++i) row[i] = HashToFloat(r * c.cols + i, 5);
    EncodeWeights(c.dtype, row.data(), c.cols, data.data() + r * WeightRowBytes(c.dtype, c.cols));
  }
  return data;
}

std::vector<float> RandomVectors(size_t elements) {
  std::vector<float> x(elements);
  for (size_t i = 0; i < elements; ++i) x[i] = 3 * HashToFloat(i, 6);
  return x;
}

// Rounding of the sums: each product's share of Σ |w·x|, and what a block's two scales lose.
constexpr double kTolerance = 16 * 0x1p-24;

void Check(const Case& c, const std::vector<uint8_t>& data, const std::vector<float>& x) {
  const WeightMatrix w{c.dtype, c.rows, c.cols, data.data()};
  Activations ready;
  ready.Prepare(c.dtype, x.data(), c.n, c.cols);
  constexpr float kUntouched = 12345;
  std::vector<float> y(c.n * c.rows, kUntouched);
  const size_t split = c.rows / 2;
  MatVec(w, ready, split, c.rows, y.data());
  for (size_t i = 0; i < c.n; ++i) {
    for (size_t r = 0; r < split; ++r) ASSERT_EQ(y[i * c.rows + r], kUntouched);
  }
  MatVec(w, ready, 0, split, y.data());
  std::vector<float> weights(c.cols);
  for (size_t r = 0; r < c.rows; ++r) {
    DecodeWeights(c.dtype, w.Row(r), c.cols, weights.data());
    for (size_t i = 0; i < c.n; ++i) {
      const std::vector<double> rounded = Rounded(c.dtype, x.data() + i * c.cols, c.cols);
      double sum = 0, size = 0;
      for (size_t k = 0; k < c.cols; ++k) {
        sum += static_cast<double>(weights[k]) * rounded[k];
        size += std::fabs(static_cast<double>(weights[k]) * rounded[k]);
      }
      // q4_K's minima, q6_K's and q4_0's offsets cancel larger numbers than the weights themselves.
      if (IsBlocked(c.dtype)) {
        for (size_t k = 0; k < c.cols; ++k) size += std::fabs(rounded[k]);
      }
      ASSERT_NEAR(y[i * c.rows + r], sum, kTolerance * size + 1e-30)
          << WeightDtypeName(c.dtype) << " row " << r << " of " << c.rows << " × " << c.cols << " vector "
          << i;
    }
  }
}

TEST(MatVec, EveryTargetAndDtypeAgainstDouble) {
  for (const std::string& target : SupportedTargetNames()) {
    ASSERT_TRUE(UseTarget(target));
    SCOPED_TRACE(target);
    for (const WeightDtype dtype : kAllWeightDtypes) {
      const size_t block = WeightBlockOf(dtype).weights;
      std::vector<size_t> widths;
      if (block == 1) widths = {1, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 127, 129, 333};
      if (block == 32) widths = {32, 64, 96, 128, 160, 192, 224, 256, 288, 576, 896};
      if (block == 256) widths = {256, 512, 768, 2048};
      for (const size_t cols : widths) {
        const Case most{dtype, 5, cols, kMostVectors};
        const std::vector<uint8_t> data = RandomMatrix(most);
        const std::vector<float> x = RandomVectors(kMostVectors * cols);
        for (size_t n = 1; n <= kMostVectors; ++n) {
          if (cols > 300 && n > 3) continue;
          Check({dtype, 5, cols, n}, data, x);
        }
      }
    }
  }
  UseBestTarget();
}

// Extremes of every field: the largest sums that whole numbers must hold.
TEST(MatVec, LargestSumsDoNotOverflow) {
  for (const std::string& target : SupportedTargetNames()) {
    ASSERT_TRUE(UseTarget(target));
    for (const WeightDtype dtype : kAllWeightDtypes) {
      if (!IsBlocked(dtype)) continue;
      for (const auto fill : {uint8_t{0x00}, uint8_t{0x7f}, uint8_t{0x80}, uint8_t{0xff}}) {
        for (const float sign : {1.0f, -1.0f}) {
          const Case c{dtype, 2, 512, 2};
          std::vector<uint8_t> data(c.rows * WeightRowBytes(dtype, c.cols), fill);
          const WeightBlock block = WeightBlockOf(dtype);
          const uint16_t one = 0x3c00;
          for (size_t at = 0; at < data.size(); at += block.bytes) {
            uint8_t* d = data.data() + at + (dtype == WeightDtype::kQ6K ? 208 : 0);
            std::copy_n(reinterpret_cast<const uint8_t*>(&one), 2, d);
            if (dtype == WeightDtype::kQ4K) std::copy_n(reinterpret_cast<const uint8_t*>(&one), 2, d + 2);
          }
          std::vector<float> x(c.n * c.cols, sign);
          for (size_t i = c.cols; i < x.size(); i += 2) x[i] = -sign;
          const WeightMatrix w{dtype, c.rows, c.cols, data.data()};
          Activations ready;
          ready.Prepare(dtype, x.data(), c.n, c.cols);
          std::vector<float> y(c.n * c.rows), weights(c.cols);
          MatVec(w, ready, 0, c.rows, y.data());
          DecodeWeights(dtype, data.data(), c.cols, weights.data());
          for (size_t i = 0; i < c.n; ++i) {
            double sum = 0, size = 0;
            for (size_t k = 0; k < c.cols; ++k) {
              sum += static_cast<double>(weights[k]) * static_cast<double>(x[i * c.cols + k]);
              size += std::fabs(static_cast<double>(weights[k])) + 128 * 32;
            }
            EXPECT_NEAR(y[i * c.rows], sum, 1e-6 * size)
                << target << " " << WeightDtypeName(dtype) << " bytes " << static_cast<int>(fill);
          }
        }
      }
    }
  }
  UseBestTarget();
}

// A product's error from rounding the activations: about 1/127/√12 of the largest of each, at random signs.
TEST(MatVec, RoundedActivationsAreCloseToTheUnrounded) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const Case c{dtype, 64, 2048, 1};
    const std::vector<uint8_t> data = RandomMatrix(c);
    const std::vector<float> x = RandomVectors(c.cols);
    const WeightMatrix w{c.dtype, c.rows, c.cols, data.data()};
    Activations ready;
    ready.Prepare(dtype, x.data(), 1, c.cols);
    std::vector<float> y(c.rows), weights(c.cols);
    MatVec(w, ready, 0, c.rows, y.data());
    double error = 0, size = 0;
    for (size_t r = 0; r < c.rows; ++r) {
      DecodeWeights(dtype, w.Row(r), c.cols, weights.data());
      double sum = 0;
      for (size_t k = 0; k < c.cols; ++k) sum += static_cast<double>(weights[k]) * static_cast<double>(x[k]);
      error += std::pow(static_cast<double>(y[r]) - sum, 2);
      size += sum * sum;
    }
    EXPECT_LT(std::sqrt(error / size), IsBlocked(dtype) ? 0.01 : 1e-5) << WeightDtypeName(dtype);
    EXPECT_GT(size, 0);
  }
}

TEST(MatVec, ZeroVectorsGiveZero) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const Case c{dtype, 3, 256, 2};
    const std::vector<uint8_t> data = RandomMatrix(c);
    std::vector<float> x(c.n * c.cols), y(c.n * c.rows, 1);
    Activations ready;
    ready.Prepare(dtype, x.data(), c.n, c.cols);
    MatVec({dtype, c.rows, c.cols, data.data()}, ready, 0, c.rows, y.data());
    for (const float value : y) EXPECT_EQ(value, 0) << WeightDtypeName(dtype);
  }
}

TEST(MatVec, NothingBeyondTheMatrixIsRead) {
  // The matrix ends where the memory does: a sanitizer sees a read past it. Values: what follows is NaN.
  for (const std::string& target : SupportedTargetNames()) {
    ASSERT_TRUE(UseTarget(target));
    for (const WeightDtype dtype : kAllWeightDtypes) {
      const Case c{dtype, 1, WeightBlockOf(dtype).weights == 1 ? size_t{37} : size_t{256}, 1};
      const std::vector<uint8_t> exact = RandomMatrix(c);
      std::vector<uint8_t> longer = exact;
      longer.resize(exact.size() + 256, 0xff);
      const std::vector<float> x = RandomVectors(c.cols);
      Activations ready;
      ready.Prepare(dtype, x.data(), 1, c.cols);
      float a = std::numeric_limits<float>::quiet_NaN(), b = a;
      MatVec({dtype, 1, c.cols, exact.data()}, ready, 0, 1, &a);
      MatVec({dtype, 1, c.cols, longer.data()}, ready, 0, 1, &b);
      EXPECT_EQ(a, b) << target << " " << WeightDtypeName(dtype);
    }
  }
  UseBestTarget();
}

TEST(MatVec, CostCountsTheStoredBytesOnce) {
  const Cost cost = MatVecCost(WeightDtype::kQ4K, 8192, 3072, 2);
  EXPECT_EQ(cost.bytes_read, 8192.0 * 3072 / 256 * 144 + 2 * 4 * 3072);
  EXPECT_EQ(cost.bytes_written, 2 * 4 * 8192);
  EXPECT_EQ(cost.flops, 2.0 * 2 * 8192 * 3072);
}

TEST(MatVecDeathTest, VectorsOfAnotherMatrixAreRefused) {
  std::vector<float> x(64), y(1);
  Activations ready;
  ready.Prepare(WeightDtype::kQ80, x.data(), 1, 64);
  const std::vector<uint8_t> data(1000);
  EXPECT_DEATH(MatVec({WeightDtype::kQ40, 1, 64, data.data()}, ready, 0, 1, y.data()), "another matrix");
  EXPECT_DEATH(MatVec({WeightDtype::kQ80, 1, 64, data.data()}, ready, 0, 2, y.data()), "beyond");
  EXPECT_DEATH(ready.Prepare(WeightDtype::kQ80, x.data(), 1, 48), "multiple");
}

}  // namespace
}  // namespace ropeline
