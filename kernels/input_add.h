// Placement 1, the input: X[n, d_model] += P[position], once before the first layer. X and P are of one
// dtype.
//   learned     P is a trained table; one gather and one add (GPT-2, BERT)
//   sinusoidal  P[m, 2i] = sin(m · 10000^(−2i/d)), P[m, 2i+1] = cos(same); Vaswani et al. 2017, section 3.5
#ifndef ROPELINE_KERNELS_INPUT_ADD_H_
#define ROPELINE_KERNELS_INPUT_ADD_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/placement.h"

namespace ropeline {

// Rows of a table [rows, d_model]: row index[t] for token t.
struct TableRows {
  const void* table;
  const int32_t* index;  // [n]
};

// x[t][·] += position[t][·] for t < n.
void AddTableRows(Dtype dtype, const TableRows& position, size_t n, size_t d_model, void* x);

// x[t][·] = token[t][·]: the embedding of a model without position at its input.
void GatherTableRows(Dtype dtype, const TableRows& token, size_t n, size_t d_model, void* x);

// x[t][·] = token[t][·] + position[t][·]: both in one pass.
void GatherAndAddTableRows(Dtype dtype, const TableRows& token, const TableRows& position, size_t n,
                           size_t d_model, void* x);

// Reads X, the n rows of P and their indices; writes X; one addition per element.
Cost InputAddCost(const Shape& shape);
// Reads n rows and their indices, writes X.
Cost GatherCost(const Shape& shape);
// Reads two times n rows and their indices, writes X; one addition per element.
Cost GatherAndAddCost(const Shape& shape);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_INPUT_ADD_H_
