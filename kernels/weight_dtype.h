// How a weight matrix is stored. Rows of `cols` weights lie one after another, each a run of blocks:
//
//   f32, f16, bf16   plain numbers
//   q8_0   32 weights, 34 bytes: f16 d, int8 q[32].                          w = d · q
//   q4_0   32 weights, 18 bytes: f16 d, 16 bytes of two nibbles: byte i has weight i low, i + 16 high.
//          w = d · (q − 8)
//   q4_K   256 weights, 144 bytes: f16 d, f16 m, 12 bytes of eight 6-bit scales and minima, 128 bytes of
//          nibbles: byte 32c + i has weight 64c + i low, 64c + 32 + i high.  w = d · scale · q − m · minimum
//   q6_K   256 weights, 210 bytes: 128 bytes of low nibbles, 64 of upper two bits, int8 scale[16], f16 d.
//          w = d · scale · (q − 32)
// The block formats are ggml's, byte for byte (ggml-common.h, structs block_q8_0, block_q4_0, block_q4_K,
// block_q6_K; ggml-quants.c), so that a .gguf file's tensor is such a matrix as it lies.
#ifndef ROPELINE_KERNELS_WEIGHT_DTYPE_H_
#define ROPELINE_KERNELS_WEIGHT_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ropeline {

enum class WeightDtype { kF32, kF16, kBf16, kQ80, kQ40, kQ4K, kQ6K };

inline constexpr std::array kAllWeightDtypes = {WeightDtype::kF32, WeightDtype::kF16, WeightDtype::kBf16,
                                                WeightDtype::kQ80, WeightDtype::kQ40, WeightDtype::kQ4K,
                                                WeightDtype::kQ6K};

const char* WeightDtypeName(WeightDtype dtype);  // "f32", "f16", "bf16", "q8_0", "q4_0", "q4_K", "q6_K"
std::optional<WeightDtype> ParseWeightDtype(std::string_view name);

struct WeightBlock {
  size_t weights, bytes;
};
constexpr WeightBlock WeightBlockOf(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::kF32:
      return {1, 4};
    case WeightDtype::kF16:
    case WeightDtype::kBf16:
      return {1, 2};
    case WeightDtype::kQ80:
      return {32, 34};
    case WeightDtype::kQ40:
      return {32, 18};
    case WeightDtype::kQ4K:
      return {256, 144};
    case WeightDtype::kQ6K:
      return {256, 210};
  }
  return {0, 0};
}
constexpr bool IsBlocked(WeightDtype dtype) { return WeightBlockOf(dtype).weights > 1; }

// cols: a multiple of the block's weights.
constexpr size_t WeightRowBytes(WeightDtype dtype, size_t cols) {
  const WeightBlock block = WeightBlockOf(dtype);
  return cols / block.weights * block.bytes;
}

// A matrix somewhere in memory, [rows, cols]. No alignment is asked for.
struct WeightMatrix {
  WeightDtype dtype = WeightDtype::kF32;
  size_t rows = 0, cols = 0;  // cols: a multiple of the block's weights
  const void* data = nullptr;

  size_t RowBytes() const { return WeightRowBytes(dtype, cols); }
  size_t Bytes() const { return rows * RowBytes(); }
  const uint8_t* Row(size_t row) const { return static_cast<const uint8_t*>(data) + row * RowBytes(); }
};

// Weights [0, cols) of a row as the numbers they stand for, each rounded once to f32. Scalar: what vector
// code is checked against.
void DecodeWeights(WeightDtype dtype, const void* row, size_t cols, float* out);

// Stores cols numbers as a row. f32, f16, bf16: to nearest, ties to even. q8_0 and q4_0 as ggml. q4_K and
// q6_K: plain rounding to nearest, scales from the extremes of each sub-block; ggml's own search for better
// ones is not done, the layout is the same. Scalar.
void EncodeWeights(WeightDtype dtype, const float* x, size_t cols, void* row);

// Makes rows [first, end) of a matrix up: weights that look independent, of mean 0 and standard deviation
// `deviation` (within 2 %), the same for the same seed whatever the split into rows. Fast: gigabytes a
// second for the block formats, whose bits are drawn.
void FillWeights(WeightDtype dtype, size_t cols, size_t first, size_t end, uint64_t seed, float deviation,
                 void* data);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_WEIGHT_DTYPE_H_
