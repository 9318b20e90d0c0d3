// Conversions on every target against the plain scalar ones, and those against values by hand.
#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/hash.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Dtype, F16RoundsToNearestEven) {
  EXPECT_EQ(F16FromFloat(0.0f), 0x0000);
  EXPECT_EQ(F16FromFloat(-0.0f), 0x8000);
  EXPECT_EQ(F16FromFloat(1.0f), 0x3c00);
  EXPECT_EQ(F16FromFloat(-2.0f), 0xc000);
  EXPECT_EQ(F16FromFloat(0x1p-14f), 0x0400);           // smallest normal
  EXPECT_EQ(F16FromFloat(0x1p-24f), 0x0001);           // smallest subnormal
  EXPECT_EQ(F16FromFloat(0x1p-25f), 0x0000);           // a tie, to even
  EXPECT_EQ(F16FromFloat(0x1.8p-24f), 0x0002);         // a tie, to even
  EXPECT_EQ(F16FromFloat(0x1.ffcp-15f), 0x0400);       // rounds up into the normal ones
  EXPECT_EQ(F16FromFloat(1.0f + 0x1p-11f), 0x3c00);    // tie
  EXPECT_EQ(F16FromFloat(1.0f + 0x1.8p-10f), 0x3c02);  // tie
  EXPECT_EQ(F16FromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(F16FromFloat(65519.99f), 0x7bff);
  EXPECT_EQ(F16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(F16FromFloat(-kInfinity), 0xfc00);
  EXPECT_TRUE(std::isnan(FloatFromF16(F16FromFloat(NAN))));
}

TEST(Dtype, Bf16RoundsToNearestEven) {
  EXPECT_EQ(Bf16FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(Bf16FromFloat(1.0f + 0x1p-8f), 0x3f80);    // tie
  EXPECT_EQ(Bf16FromFloat(1.0f + 0x1.8p-7f), 0x3f82);  // tie
  EXPECT_EQ(Bf16FromFloat(1.0f + 0x1.02p-8f), 0x3f81);
  EXPECT_EQ(Bf16FromFloat(3.4e38f), 0x7f80);  // above the largest, 3.39e38
  EXPECT_EQ(Bf16FromFloat(-kInfinity), 0xff80);
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(NAN))));
}

TEST(Dtype, EveryF16ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FloatFromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(F16FromFloat(value), bits) << value;
  }
}

TEST(Dtype, NamesAndUnits) {
  for (const Dtype dtype : kAllDtypes) {
    EXPECT_EQ(ParseDtype(DtypeName(dtype)), dtype);
    float above = 0;
    // 1 + 2 units is the next number after 1.
    StoreElement(dtype, &above, 0, static_cast<float>(1 + 2 * RoundingUnit(dtype)));
    EXPECT_EQ(LoadElement(dtype, &above, 0), static_cast<float>(1 + 2 * RoundingUnit(dtype)));
    StoreElement(dtype, &above, 0, static_cast<float>(1 + RoundingUnit(dtype)));
    EXPECT_EQ(LoadElement(dtype, &above, 0), 1.0f);
  }
  EXPECT_FALSE(ParseDtype("fp16"));
}

class Conversions : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

// Floats of every exponent, both signs, with mantissas that make ties and near-ties.
std::vector<float> Floats() {
  std::vector<float> floats = {0.0f,     -0.0f,    kInfinity, -kInfinity, 65504.0f,
                               65519.9f, 65520.0f, 1e30f,     -70000.0f};
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (uint32_t tail : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u,
                          0x18000u, 0x7fffffu, 0x7ff000u, 0x7f8000u}) {
      floats.push_back(std::bit_cast<float>(exponent << 23 | tail));
      floats.push_back(std::bit_cast<float>(0x80000000u | exponent << 23 | tail));
    }
    const auto random = static_cast<uint32_t>(Hash64(exponent));
    floats.push_back(std::bit_cast<float>(exponent << 23 | (random & 0x7fffff)));
  }
  return floats;
}

TEST_P(Conversions, FromFloatAreTheScalarOnes) {
  const std::vector<float> in = Floats();
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    std::vector<uint16_t> out(in.size() + 4, 0xabcd);
    ConvertElements(in.data(), in.size(), dtype, out.data());
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[i], dtype == Dtype::kF16 ? F16FromFloat(in[i]) : Bf16FromFloat(in[i]))
          << DtypeName(dtype) << " of " << in[i];
    }
    for (size_t i = in.size(); i < out.size(); ++i) ASSERT_EQ(out[i], 0xabcd) << "wrote beyond the end";
    const float nan = NAN;
    ConvertElements(&nan, 1, dtype, out.data());
    EXPECT_TRUE(std::isnan(LoadElement(dtype, out.data(), 0)));
  }
}

// f16 to f16 goes through f32: every value comes back, so that both directions are right.
TEST_P(Conversions, EveryF16AndBf16ComesBack) {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    std::vector<uint16_t> in(0x10000), out(0x10000, 0);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
    ConvertHeads({in.data(), dtype, 256, 64}, {out.data(), dtype, 256, 64}, 256, 4, 64);
    for (size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(LoadElement(dtype, in.data(), i))) {
        const bool all_ones = (i & 0x7fff) == 0x7fff && dtype == Dtype::kBf16;
        ASSERT_TRUE(all_ones || std::isnan(LoadElement(dtype, out.data(), i))) << i;
      } else {
        ASSERT_EQ(out[i], in[i]) << DtypeName(dtype);
      }
    }
  }
}

// From [n, n_heads, d] into a cache [n_heads, room, d]: other strides, and nothing between them is touched.
TEST_P(Conversions, HeadsGoWhereTheirStridesSay) {
  constexpr size_t kN = 3, kHeads = 2, kD = 20, kRoom = 5;
  std::vector<float> in(kN * kHeads * kD);
  for (size_t i = 0; i < in.size(); ++i) in[i] = TrainedEntry(i, 4);
  for (const Dtype dtype : kAllDtypes) {
    std::vector<float> cache(kHeads * kRoom * kD, 0);
    for (size_t i = 0; i < kHeads * kRoom * kD; ++i) StoreElement(dtype, cache.data(), i, -5);
    ConvertHeads({in.data(), Dtype::kF32, kHeads * kD, kD}, {cache.data(), dtype, kD, kRoom * kD}, kN, kHeads,
                 kD);
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t t = 0; t < kRoom; ++t) {
        for (size_t i = 0; i < kD; ++i) {
          const float expected = t < kN ? in[(t * kHeads + h) * kD + i] : -5;
          ASSERT_EQ(LoadElement(dtype, cache.data(), (h * kRoom + t) * kD + i), expected)
              << DtypeName(dtype) << " head " << h << " token " << t << " dimension " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Conversions, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace ropeline
