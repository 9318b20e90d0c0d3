// The residual stream of a layer: acc[i] += x[i], f32.
#ifndef ROPELINE_KERNELS_RESIDUAL_H_
#define ROPELINE_KERNELS_RESIDUAL_H_

#include <cstddef>

#include "kernels/cost.h"

namespace ropeline {

// acc and x [elements], which do not overlap.
void AddResidual(const float* x, size_t elements, float* acc);

// Reads both, writes acc; one flop an element.
Cost ResidualCost(size_t elements);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_RESIDUAL_H_
