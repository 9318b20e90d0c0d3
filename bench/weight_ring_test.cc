#include "bench/weight_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace ropeline {
namespace {

// Mean square of a matrix's weights, all of which must be finite.
double MeanSquare(const WeightMatrix& w) {
  std::vector<float> row(w.cols);
  double squares = 0;
  for (size_t r = 0; r < w.rows; ++r) {
    DecodeWeights(w.dtype, w.Row(r), w.cols, row.data());
    for (const float weight : row) squares += std::pow(static_cast<double>(weight), 2);
  }
  return squares / static_cast<double>(w.rows * w.cols);
}

// Another shape or number of them, smaller or larger, and another dtype: always weights of the dtype asked
// for.
TEST(WeightRing, HoldsWeightsOfEveryDtypeWhateverWasThere) {
  WeightRing ring;
  for (const WeightDtype dtype : kAllWeightDtypes) {
    for (const auto& [rows, cols, slots] : {std::array<size_t, 3>{3, 256, 1}, {100, 4096, 2}, {7, 512, 3}}) {
      ring.Reset(dtype, rows, cols, slots);
      for (size_t i = 0; i < slots; ++i) {
        const WeightMatrix w = ring.Next();
        ASSERT_EQ(w.dtype, dtype);
        ASSERT_NEAR(std::sqrt(MeanSquare(w)), 0.02, 0.003) << WeightDtypeName(dtype) << " matrix " << i;
      }
    }
  }
}

TEST(WeightRing, GoesRound) {
  WeightRing ring;
  ring.Reset(WeightDtype::kQ40, 2, 64, 3);
  const WeightMatrix first = ring.Next(), second = ring.Next(), third = ring.Next();
  EXPECT_EQ(second.Row(0), first.Row(2));
  EXPECT_EQ(third.Row(0), second.Row(2));
  EXPECT_EQ(ring.Next().data, first.data);
}

}  // namespace
}  // namespace ropeline
