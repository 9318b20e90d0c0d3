// Product of a weight matrix with a few vectors, as a decode step needs it: y = W x for 1 to 8 sequences.
// Bound by reading W once from memory, if unpacking keeps up.
//
// Over q8_0, q4_0, q4_K and q6_K the activations are rounded to int8 as engines do (ggml: block_q8_0 and
// block_q8_K), one scale per 32 (q8_0, q4_0) or per 256 (q4_K, q6_K), here in f32; sums of products of
// a block are exact whole numbers. Over f32, f16 and bf16 the activations stay f32.
#ifndef ROPELINE_KERNELS_MAT_VEC_H_
#define ROPELINE_KERNELS_MAT_VEC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"
#include "kernels/weight_dtype.h"

namespace ropeline {

inline constexpr size_t kMostVectors = 8;

// Vectors x [n, cols], made ready for products with matrices of one dtype and width. Ready once, used by
// all matrices of that width (q, k and v; gate and up), by any number of threads.
class Activations {
 public:
  Activations() = default;

  // n <= kMostVectors; cols a multiple of the dtype's block. Keeps its memory for the next call.
  void Prepare(WeightDtype dtype, const float* x, size_t n, size_t cols);

  WeightDtype dtype() const { return dtype_; }
  size_t n() const { return n_; }
  size_t cols() const { return cols_; }

  // What the kernels read of vector i; the layouts are theirs (mat_vec_layout.h).
  const float* Values(size_t i) const { return values_.data() + i * cols_; }
  const uint8_t* Blocks(size_t i) const;  // starts at a cache line

 private:
  WeightDtype dtype_ = WeightDtype::kF32;
  size_t n_ = 0, cols_ = 0, block_stride_ = 0;
  std::vector<float> values_;
  std::vector<uint8_t> blocks_;
};

// y[i, row] = W[row] · x[i] for first_row <= row < end_row; y is [n, w.rows], f32. On the calling thread.
void MatVec(const WeightMatrix& w, const Activations& x, size_t first_row, size_t end_row, float* y);

// Reads the matrix once and x [n, cols] as f32 once, writes y [n, rows]; two flops a weight and vector.
Cost MatVecCost(WeightDtype dtype, size_t rows, size_t cols, size_t n);

// Reads n vectors of cols, writes them as one byte a number for the formats in blocks, as they are for
// others.
Cost PrepareCost(WeightDtype dtype, size_t cols, size_t n);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_MAT_VEC_H_
