// Weight matrices: the numbers that stored bytes stand for, and their products with vectors, by ggml and by
// our kernels on the same bytes. ggml rounds activations as ours are (kernels/mat_vec.h), but keeps the scale
// of q8_0 and q4_0 in f16; so products differ by that, and sums by their order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_fill.h"
#include "bench/peer/ggml_session.h"
#include "bench/peer/peer_row.h"
#include "kernels/mat_vec.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

using ggml::Tensor;
using ggml::Type;

constexpr size_t kRows = 48, kCols = 2048;

// Half of the rows as ggml quantises numbers, half of bits drawn.
std::vector<uint8_t> Stored(const GgmlLibrary& library, WeightDtype dtype) {
  std::vector<uint8_t> bytes(kRows * WeightRowBytes(dtype, kCols));
  FillWeights(dtype, kCols, 0, kRows, 3, 0.5f, bytes.data());
  const std::vector<float> numbers = Numbers(kRows / 2 * kCols, 1);
  EncodeRows(library, *GgmlType(WeightDtypeName(dtype)), numbers.data(), kCols, kRows / 2, bytes.data());
  return bytes;
}

class WeightsCrossCheck : public CrossCheck {};

TEST_F(WeightsCrossCheck, StoredBytesAreTheSameNumbers) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const std::vector<uint8_t> bytes = Stored(*library_, dtype);
    GgmlSession session(library_, {0});
    Tensor* table = session.New(*GgmlType(WeightDtypeName(dtype)), kCols, kRows);
    ASSERT_EQ(session.Bytes(table), bytes.size());
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(session.Data(table)));
    Tensor* rows = session.New(Type::kI32, kRows);
    for (size_t r = 0; r < kRows; ++r) static_cast<int32_t*>(session.Data(rows))[r] = static_cast<int32_t>(r);
    Tensor* result = session.GetRows(table, rows);
    session.Compute();
    Worst worst(std::string("numbers of ") + WeightDtypeName(dtype));
    std::vector<float> ours(kCols);
    for (size_t r = 0; r < kRows; ++r) {
      DecodeWeights(dtype, bytes.data() + r * WeightRowBytes(dtype, kCols), kCols, ours.data());
      const float* theirs = session.Floats(result) + r * kCols;
      const double largest = static_cast<double>(*std::max_element(
          ours.begin(), ours.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
      for (size_t c = 0; c < kCols; ++c) {
        // q4_K is a difference of two products, which ggml rounds each.
        worst.Note(std::fabs(static_cast<double>(ours[c]) - static_cast<double>(theirs[c])),
                   IsBlocked(dtype) ? 4 * 0x1p-24 * std::fabs(largest) : 0x1p-149,
                   [&] { return fmt::format("row {}, column {}", r, c); });
      }
    }
    worst.Report();
  }
}

TEST_F(WeightsCrossCheck, ProductsAgreeAndAreAsCloseToTheUnrounded) {
  UseBestTarget();
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const std::vector<uint8_t> bytes = Stored(*library_, dtype);
    const std::vector<float> x = Numbers(kCols, 2, 3);
    GgmlSession session(library_, {0});
    Tensor* matrix = session.New(*GgmlType(WeightDtypeName(dtype)), kCols, kRows);
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(session.Data(matrix)));
    Tensor* vector = session.New(Type::kF32, kCols);
    std::copy(x.begin(), x.end(), session.Floats(vector));
    Tensor* result = session.MulMat(matrix, vector);
    session.Compute();
    Activations ready;
    ready.Prepare(dtype, x.data(), 1, kCols);
    std::vector<float> y(kRows), row(kCols);
    MatVec({dtype, kRows, kCols, bytes.data()}, ready, 0, kRows, y.data());
    Worst worst(std::string("products of ") + WeightDtypeName(dtype));
    double ours = 0, theirs = 0;
    for (size_t r = 0; r < kRows; ++r) {
      DecodeWeights(dtype, bytes.data() + r * WeightRowBytes(dtype, kCols), kCols, row.data());
      double exact = 0, squares = 0;
      for (size_t c = 0; c < kCols; ++c) {
        const double product = static_cast<double>(row[c]) * static_cast<double>(x[c]);
        exact += product;
        squares += product * product;
      }
      // Rounding to int8 moves each of kCols factors by about 1/250 of the largest, at random signs. f16
      // weights meet activations in f16 there.
      const double size = std::sqrt(squares);
      const double a = static_cast<double>(y[r]), b = static_cast<double>(session.Floats(result)[r]);
      const double allowed = size * (IsBlocked(dtype) ? 0.01 : dtype == WeightDtype::kF32 ? 1e-5 : 0.02);
      worst.Note(std::fabs(a - b), allowed, [&] { return fmt::format("row {}", r); });
      ours += (a - exact) * (a - exact);
      theirs += (b - exact) * (b - exact);
    }
    worst.Report();
    std::printf("  %s: from the product with unrounded activations, ours %.3g, ggml's %.3g\n",
                WeightDtypeName(dtype), std::sqrt(ours / kRows), std::sqrt(theirs / kRows));
    EXPECT_LE(std::sqrt(ours), 1.1 * std::sqrt(theirs) + 1e-3) << WeightDtypeName(dtype);
  }
}

}  // namespace
}  // namespace ropeline
