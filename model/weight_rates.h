// What this suite's products of weights take, worked out from the rows that bench_all measured. Rows of
// another format, thread count or Highway target are never used.
//
//   weights/matvec/<format>/<target>/n:N/rows:R/cols:C/cache:cold/threads:T
//       a matrix [R, C] times N vectors: a decode step of N sequences. Cold only: a step of a model reads its
//       weights from memory
//   weights/prepare/<format>/<target>/n:1/cols:C/cache:hot/threads:1
//       one vector made ready, which each thread does for itself
//   linear/matmul/<format>/<target>/n:N/rows:R/cols:C/cache:…/threads:T
//       the same with a chunk of a prompt's tokens
//
// To another shape: the time per weight, linear in the logarithm of the matrix's bytes between the measured
// matrices, the ends kept; of two of the same bytes the one whose width is nearer. To another count of
// vectors: linear between the two measured nearest; beyond, and for a matmul, by the rate of the nearest.
#ifndef ROPELINE_MODEL_WEIGHT_RATES_H_
#define ROPELINE_MODEL_WEIGHT_RATES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/block_format.h"
#include "model/kernel_rates.h"
#include "model/machine.h"
#include "model/weight_sums.h"

namespace ropeline {

class WeightRates {
 public:
  WeightRates(const Machine& machine, int threads);

  // One matrix [rows, cols] times `vectors` of one token each; `vectors` >= 1, and any fraction. Nothing
  // where no row of that format was measured at these threads.
  std::optional<KernelTime> MatVec(const BlockFormat& format, double rows, double cols, double vectors) const;
  std::optional<KernelTime> MatMul(const BlockFormat& format, double rows, double cols, double tokens) const;
  // Nothing where the format needs none, or no row was measured.
  std::optional<KernelTime> Prepare(const BlockFormat& format, double cols, double vectors) const;

  struct Point {
    double rows = 1, cols = 0, n = 1;
    double ns = 0;  // of one call
    std::string row;
    bool tainted = false;
  };

 private:
  // By format, "q4_K".
  std::map<std::string, std::vector<Point>, std::less<>> mat_vec_, mat_mul_, prepare_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WEIGHT_RATES_H_
