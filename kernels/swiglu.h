// The gated activation of a feed-forward layer: out[i] = silu(gate[i]) · up[i], silu(g) = g / (1 + exp(−g));
// Shazeer 2020, "GLU Variants Improve Transformer", equation 6. f32.
#ifndef ROPELINE_KERNELS_SWIGLU_H_
#define ROPELINE_KERNELS_SWIGLU_H_

#include <cstddef>

#include "kernels/cost.h"

namespace ropeline {

// gate, up and out [elements]. out may be gate or up.
void SwiGlu(const float* gate, const float* up, size_t elements, float* out);

// Reads gate and up, writes out; three flops an element (the sum, two products). An exp or a division is
// none here, as a softmax's are none of attention's: how many it takes is a kernel's own choice.
Cost SwiGluCost(size_t elements);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SWIGLU_H_
