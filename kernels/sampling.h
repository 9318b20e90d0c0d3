// The choice of a token from the logits of a vocabulary, f32: greedy, or drawn from
//   p[i] = exp((logits[i] − largest) / temperature) / Σ exp((logits[j] − largest) / temperature)
#ifndef ROPELINE_KERNELS_SAMPLING_H_
#define ROPELINE_KERNELS_SAMPLING_H_

#include <cstddef>

#include "kernels/cost.h"

namespace ropeline {

// Index of the largest of n >= 1 logits, the first of several; a NaN is passed over (0 where all are).
size_t ArgMax(const float* logits, size_t n);

// The token that u, uniform in [0, 1), falls on: the first i with p[0] + … + p[i] > u. n >= 1, temperature
// above 0; logits are finite or −∞ (a token ruled out), one of them finite. Never a token whose probability
// is 0 in f32.
size_t SampleToken(const float* logits, size_t n, float temperature, float u);

// Reads the logits; comparisons are no flops.
Cost ArgMaxCost(size_t n);
// Reads the logits (twice, but they stay in a cache); three flops a logit (difference, product, sum), an exp
// is none (swiglu.h).
Cost SampleTokenCost(size_t n);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SAMPLING_H_
