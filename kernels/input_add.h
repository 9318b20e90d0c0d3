// Placement 1, the input: X[n, d_model] += P[position], f32, once before the first layer.
//   learned     P is a trained table; one gather and one add (GPT-2, BERT)
//   sinusoidal  P[m, 2i] = sin(m · 10000^(−2i/d)), P[m, 2i+1] = cos(same); Vaswani et al. 2017, section 3.5
#ifndef ROPELINE_KERNELS_INPUT_ADD_H_
#define ROPELINE_KERNELS_INPUT_ADD_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cost.h"
#include "kernels/placement.h"

namespace ropeline {

// x[t][d_model] += table[rows[t]][d_model] for t < n. Rows are contiguous in both.
void AddTableRows(const float* table, const int32_t* rows, size_t n, size_t d_model, float* x);

// Reads X, the n rows of P and their indices; writes X; one addition per element.
Cost InputAddCost(const Shape& shape);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_INPUT_ADD_H_
