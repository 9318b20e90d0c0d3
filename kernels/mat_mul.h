// Product of a weight matrix with the many vectors of a prefill chunk: y[n, rows] = x[n, cols] · Wᵀ, bound by
// f32 multiply-adds. A slice of the matrix is unpacked to f32 once for all tokens of a block; the tokens lie
// in panels of 16 whose elements stand side by side, so that a weight is broadcast and serves them all.
#ifndef ROPELINE_KERNELS_MAT_MUL_H_
#define ROPELINE_KERNELS_MAT_MUL_H_

#include <cstddef>

#include "kernels/cost.h"
#include "kernels/memory.h"
#include "kernels/weight_dtype.h"

namespace ropeline {

// Tokens x [n, cols] in panels [cols][16]. Packed once, used by all matrices of that width (q, k and v; gate
// and up), by any number of threads.
class TokenPanels {
 public:
  static constexpr size_t kTokens = 16;  // of a panel; the last one's missing tokens are zeros

  // Room for x of that shape, not packed. Keeps its memory for the next call.
  void Resize(size_t n, size_t cols);
  // Packs panels [first, end) of x; each by one thread, different ones by different threads at a time.
  void Pack(const float* x, size_t first, size_t end);
  void Pack(const float* x) { Pack(x, 0, Panels()); }

  size_t n() const { return n_; }
  size_t cols() const { return cols_; }
  size_t Panels() const { return (n_ + kTokens - 1) / kTokens; }
  const float* Panel(size_t i) const { return panels_.get() + i * kTokens * cols_; }

 private:
  TableMemory panels_;
  size_t room_ = 0;  // floats
  size_t n_ = 0, cols_ = 0;
};

// y[t, row] = W[row] · x[t] for first_row <= row < end_row and all tokens; y is [n, w.rows], f32. On the
// calling thread.
void MatMul(const WeightMatrix& w, const TokenPanels& x, size_t first_row, size_t end_row, float* y);

// Reads the matrix and x [n, cols] as f32 once each, writes y [n, rows]; two flops a weight and token.
Cost MatMulCost(WeightDtype dtype, size_t rows, size_t cols, size_t n);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_MAT_MUL_H_
