#include "model/law.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/registry.h"

namespace ropeline {
namespace {

TEST(LawTest, AnExactLineIsRecovered) {
  std::vector<LawPoint> points;
  for (const double size : {1e3, 4e3, 1e6, 3e8}) points.push_back({size, 250 + 0.125 * size});
  const Law law = FitLine(points).value();
  EXPECT_NEAR(law.a_ns, 250, 1e-6);
  EXPECT_NEAR(law.per_size_ns, 0.125, 1e-12);
  EXPECT_NEAR(law.residual_rms, 0, 1e-9);
}

TEST(LawTest, AnExactProportionIsRecovered) {
  const std::vector<LawPoint> points = {{64, 16}, {1e4, 2500}, {1e9, 2.5e8}};
  const Law law = FitProportion(points).value();
  EXPECT_EQ(law.a_ns, 0);
  EXPECT_NEAR(law.per_size_ns, 0.25, 1e-15);
  EXPECT_NEAR(law.residual_rms, 0, 1e-12);
}

// c·1 ≈ 1 and c·1 ≈ 2 with two sizes: v = 1 and 1/2 → c = 1.5 ÷ 1.25 = 1.2; errors 0.2 and −0.4.
TEST(LawTest, TheResidualOfAProportionByHand) {
  const std::vector<LawPoint> points = {{1, 1}, {2, 4}};
  const Law law = FitProportion(points).value();
  EXPECT_NEAR(law.per_size_ns, 1.2, 1e-12);
  EXPECT_NEAR(law.residual_rms, std::sqrt((0.04 + 0.16) / 2), 1e-12);
  EXPECT_EQ(law.worst, 1u);
  EXPECT_NEAR(law.worst_error, -0.4, 1e-12);
}

// Through (1, 1), (2, 2), (3, 6) with weights 1, 1/4, 1/36.
TEST(LawTest, TheResidualOfALineByHand) {
  const std::vector<LawPoint> points = {{1, 1}, {2, 2}, {3, 6}};
  // In 36ths: Σw = 36 + 9 + 1 = 46, Σwx = 36 + 18 + 3 = 57, Σwt = 36 + 18 + 6 = 60,
  // Σwxx = 36 + 36 + 9 = 81, Σwxt = 36 + 36 + 18 = 90.
  const double slope = (46.0 * 90 - 57.0 * 60) / (46.0 * 81 - 57.0 * 57);  // 720 ÷ 477
  const double start = (60 - slope * 57) / 46;
  const Law law = FitLine(points).value();
  EXPECT_NEAR(law.per_size_ns, slope, 1e-12);
  EXPECT_NEAR(law.a_ns, start, 1e-12);
  const double errors[] = {start + slope - 1, (start + 2 * slope) / 2 - 1, (start + 3 * slope) / 6 - 1};
  EXPECT_NEAR(law.residual_rms,
              std::sqrt((errors[0] * errors[0] + errors[1] * errors[1] + errors[2] * errors[2]) / 3), 1e-12);
  EXPECT_EQ(law.worst, 2u);
  EXPECT_NEAR(law.worst_error, errors[2], 1e-12);
  EXPECT_LT(law.worst_error, 0);
}

// Doubling a time must move the law no more at a large size than at a small one: it is the relative errors
// that count.
TEST(LawTest, ErrorsAreRelative) {
  const auto worst_of = [](size_t doubled) {
    std::vector<LawPoint> points = {{1e2, 1e2}, {1e4, 1e4}, {1e6, 1e6}, {1e8, 1e8}};
    points[doubled].ns *= 2;
    return FitProportion(points)->per_size_ns;
  };
  EXPECT_NEAR(worst_of(0), worst_of(3), 1e-12);
  EXPECT_NEAR(worst_of(0), 3.5 / 3.25, 1e-12);
}

TEST(LawTest, TooFewDistinctSizesAreNoLaw) {
  const std::vector<LawPoint> two = {{1, 5}, {2, 6}, {2, 7}};
  EXPECT_FALSE(FitLine(two).has_value());
  EXPECT_TRUE(FitProportion(two).has_value());
  const std::vector<LawPoint> one = {{2, 6}, {2, 7}};
  EXPECT_FALSE(FitProportion(one).has_value());
  EXPECT_FALSE(FitProportion({}).has_value());
  EXPECT_FALSE(FitLine({}).has_value());
}

MeasuredEncoding Row(const char* name, const Shape& shape, double ns, bool cold) {
  MeasuredEncoding row;
  row.encoding = FindEncoding(name);
  row.shape = shape;
  row.cold = cold;
  row.cost = row.encoding->cost(shape);
  row.measured_ns = ns;
  row.row = std::string(name) + " " + std::to_string(shape.n);
  return row;
}

TEST(LawTest, SizesCountWhatThePlacementTouches) {
  EXPECT_EQ(LawSize(Row("learned", {.n = 3, .d_model = 5}, 1, false)), 15);
  EXPECT_EQ(LawSize(Row("alibi", {.n = 3, .n_k = 3, .n_heads = 2}, 1, false)), 18);
  EXPECT_EQ(LawSize(Row("rope_half", {.n = 3, .n_heads = 2, .n_kv_heads = 1, .d_head = 8}, 1, false)), 72);
  EXPECT_EQ(LawSize(Row("rope_half", {.n = 3, .n_heads = 2, .d_head = 8, .d_rot = 4}, 1, false)), 24);
}

TEST(LawTest, HotAndColdRowsAreFittedApartAndOddOnesLeftOut) {
  std::vector<MeasuredEncoding> rows;
  for (const size_t n : {4, 16, 64, 256}) {
    const Shape shape{.n = n, .n_heads = 2, .d_head = 8};
    const double size = static_cast<double>(n) * 16;
    rows.push_back(Row("rope_half", shape, 10 + size, false));
    rows.push_back(Row("rope_half", shape, 100 + 3 * size, true));
    rows.push_back(Row("rope_half", shape, 1e6, true));
    rows.back().tainted = true;
    rows.push_back(Row("rope_half", shape, 1e6, true));
    rows.back().variant = "inverse:1";
  }
  const std::vector<EncodingLaw> laws = FitLaws(rows, true);
  ASSERT_EQ(laws.size(), 2u);
  for (const EncodingLaw& law : laws) {
    EXPECT_EQ(law.rows, 4u);
    EXPECT_EQ(law.n_min, 4u);
    EXPECT_EQ(law.n_max, 256u);
    EXPECT_NEAR(law.law->a_ns, law.cold ? 100 : 10, 1e-9);
    EXPECT_NEAR(law.law->per_size_ns, law.cold ? 3 : 1, 1e-9);
  }
}

TEST(LawTest, AScoreBiasIsFittedForOneCausalityAndPerWholeMatrix) {
  std::vector<MeasuredEncoding> rows;
  for (const size_t n : {4, 8}) {
    const auto scores = static_cast<double>(n * n) * 2;
    rows.push_back(Row("alibi", {.n = n, .n_k = n, .n_heads = 2}, scores / 2, true));
    rows.push_back(Row("alibi", {.n = n, .n_k = n, .n_heads = 2, .causal = false}, scores, true));
  }
  EXPECT_NEAR(FitLaws(rows, true).at(0).law->per_size_ns, 0.5, 1e-12);
  EXPECT_NEAR(FitLaws(rows, false).at(0).law->per_size_ns, 1, 1e-12);
  rows.resize(1);
  const std::vector<EncodingLaw> single = FitLaws(rows, true);
  ASSERT_EQ(single.size(), 1u);
  EXPECT_FALSE(single[0].law.has_value()) << "one row is no law";
  EXPECT_EQ(single[0].worst_row, "");
}

}  // namespace
}  // namespace ropeline
