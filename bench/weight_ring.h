// Weight matrices for rows that read them cold: one after another in a thread's own memory.
#ifndef ROPELINE_BENCH_WEIGHT_RING_H_
#define ROPELINE_BENCH_WEIGHT_RING_H_

#include <cstddef>

#include "kernels/memory.h"
#include "kernels/weight_dtype.h"

namespace ropeline {

// Keeps its memory, and what is in it while rows are of one dtype: weights that are made up serve matrices of
// any shape.
class WeightRing {
 public:
  // `slots` matrices [rows, cols]; made up, and so touched first, on the calling thread.
  void Reset(WeightDtype dtype, size_t rows, size_t cols, size_t slots);
  WeightMatrix Next();

 private:
  Mapping mapping_;
  WeightDtype dtype_ = WeightDtype::kF32;
  size_t filled_rows_ = 0;  // of the width that weights are made up in, not that of a matrix
  WeightMatrix matrix_;
  size_t slots_ = 0, next_ = 0;
};

// The ring of benchmark thread `thread`.
WeightRing& ThreadWeights(int thread);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_WEIGHT_RING_H_
