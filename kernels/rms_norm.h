// Root mean square normalisation: y[t][i] = x[t][i] / sqrt(mean over i of x[t][i]² + epsilon) · weight[i];
// Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4. f32.
#ifndef ROPELINE_KERNELS_RMS_NORM_H_
#define ROPELINE_KERNELS_RMS_NORM_H_

#include <cstddef>

#include "kernels/cost.h"

namespace ropeline {

// x and y [n, d], weight [d]. y may be x itself. d > 0.
void RmsNorm(const float* x, const float* weight, float epsilon, size_t n, size_t d, float* y);

// Reads x and the weights, writes y; four flops an element (square, sum, two products).
Cost RmsNormCost(size_t n, size_t d);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_RMS_NORM_H_
