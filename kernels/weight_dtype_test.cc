#include "kernels/weight_dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/hash.h"

namespace ropeline {
namespace {

TEST(WeightDtype, NamesAreReadBack) {
  for (const WeightDtype dtype : kAllWeightDtypes) EXPECT_EQ(ParseWeightDtype(WeightDtypeName(dtype)), dtype);
  EXPECT_FALSE(ParseWeightDtype("q4_k_m"));
}

// Blocks written by hand from ggml's definition of their fields.
TEST(WeightDtype, BlocksByHand) {
  std::vector<uint8_t> q8(34);
  q8[0] = 0x00, q8[1] = 0x38;  // 0.5
  q8[2] = 0x80, q8[33] = 3;
  std::vector<float> out(256);
  DecodeWeights(WeightDtype::kQ80, q8.data(), 32, out.data());
  EXPECT_EQ(out[0], -64);
  EXPECT_EQ(out[31], 1.5f);

  std::vector<uint8_t> q4(18);
  q4[0] = 0x00, q4[1] = 0x3c;  // 1
  q4[2] = 0xf1;                // weight 0 low, weight 16 high
  DecodeWeights(WeightDtype::kQ40, q4.data(), 32, out.data());
  EXPECT_EQ(out[0], -7);
  EXPECT_EQ(out[16], 7);
  EXPECT_EQ(out[1], -8);

  // Sub-block 0: scale 63, minimum 1; sub-block 5: scale 0b110010, minimum 0b011001.
  std::vector<uint8_t> k4(144);
  k4[0] = 0x00, k4[1] = 0x3c;        // d = 1
  k4[2] = 0x00, k4[3] = 0x40;        // m = 2
  k4[4 + 0] = 63;                    // scale 0; upper bits of scale 4: 0
  k4[4 + 4] = 1;                     // minimum 0
  k4[4 + 1] = 0b11 << 6;             // scale 5, upper two
  k4[4 + 5] = 0b01 << 6;             // minimum 5, upper two
  k4[4 + 9] = 0b0010 | 0b1001 << 4;  // scale 5 and minimum 5, lower four
  k4[16 + 0] = 0x0a;                 // weight 0
  k4[16 + 64 + 3] = 0x70;            // weight 128 + 32 + 3: sub-block 5
  DecodeWeights(WeightDtype::kQ4K, k4.data(), 256, out.data());
  EXPECT_EQ(out[0], 63 * 10 - 2);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[163], 50 * 7 - 2 * 25);

  std::vector<uint8_t> k6(210);
  k6[209] = 0x3c;                                     // d = 1
  k6[192 + 0] = 2, k6[192 + 15] = 0xff;               // scales 2 and −1
  k6[0] = 0x05, k6[128] = 0b10;                       // weight 0: 5 + 2·16
  k6[64 + 32 + 31] = 0xc0, k6[128 + 63] = 0b01 << 6;  // weight 255: 12 + 16
  DecodeWeights(WeightDtype::kQ6K, k6.data(), 256, out.data());
  EXPECT_EQ(out[0], 2 * (37 - 32));
  EXPECT_EQ(out[255], -(28 - 32));
  EXPECT_EQ(out[1], 2 * -32);
}

TEST(WeightDtype, EncodedNumbersComeBackWithinAStep) {
  std::vector<float> x(512), back(512);
  for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 9) * (i < 256 ? 1.0f : 0.01f);
  for (const WeightDtype dtype : kAllWeightDtypes) {
    std::vector<uint8_t> row(WeightRowBytes(dtype, x.size()));
    EncodeWeights(dtype, x.data(), x.size(), row.data());
    DecodeWeights(dtype, row.data(), x.size(), back.data());
    double error = 0, size = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += std::pow(static_cast<double>(back[i] - x[i]), 2);
      size += std::pow(static_cast<double>(x[i]), 2);
    }
    double most = 0;
    switch (dtype) {
      case WeightDtype::kF32:
        most = 0;
        break;
      case WeightDtype::kF16:
        most = 0x1p-11;
        break;
      case WeightDtype::kBf16:
      case WeightDtype::kQ80:
        most = 0x1p-7;
        break;
      case WeightDtype::kQ40:
      case WeightDtype::kQ4K:
        most = 0.08;
        break;
      case WeightDtype::kQ6K:
        most = 0.02;
        break;
    }
    EXPECT_LE(std::sqrt(error / size), most) << WeightDtypeName(dtype);
  }
}

TEST(WeightDtype, ZerosStayZeros) {
  const std::vector<float> x(256);
  std::vector<float> back(256, 1);
  for (const WeightDtype dtype : kAllWeightDtypes) {
    std::vector<uint8_t> row(WeightRowBytes(dtype, x.size()), 0xff);
    EncodeWeights(dtype, x.data(), x.size(), row.data());
    DecodeWeights(dtype, row.data(), x.size(), back.data());
    for (const float value : back) EXPECT_EQ(value, 0) << WeightDtypeName(dtype);
  }
}

TEST(WeightDtype, FilledMatricesHaveTheDeviationAskedFor) {
  constexpr size_t kRows = 64, kCols = 1024;
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const size_t row_bytes = WeightRowBytes(dtype, kCols);
    std::vector<uint8_t> data(kRows * row_bytes), parts(data.size());
    FillWeights(dtype, kCols, 0, kRows, 7, 0.02f, data.data());
    FillWeights(dtype, kCols, 10, kRows, 7, 0.02f, parts.data());
    FillWeights(dtype, kCols, 0, 10, 7, 0.02f, parts.data());
    EXPECT_EQ(data, parts) << WeightDtypeName(dtype);
    EXPECT_NE(std::memcmp(data.data(), data.data() + row_bytes, row_bytes), 0);
    double sum = 0, squares = 0;
    std::vector<float> row(kCols);
    for (size_t r = 0; r < kRows; ++r) {
      DecodeWeights(dtype, data.data() + r * row_bytes, kCols, row.data());
      for (const float w : row) sum += static_cast<double>(w), squares += std::pow(static_cast<double>(w), 2);
    }
    constexpr double kCount = kRows * kCols;
    EXPECT_NEAR(sum / kCount, 0, 0.02 * 0.05) << WeightDtypeName(dtype);
    EXPECT_NEAR(std::sqrt(squares / kCount), 0.02, 0.02 * 0.02) << WeightDtypeName(dtype);
  }
}

}  // namespace
}  // namespace ropeline
