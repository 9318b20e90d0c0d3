// Placement 3, the vectors: each pair of dimensions of each head of Q and K is turned by position ·
// inv_freq[i], f32, in place, in every layer. Su et al., "RoFormer", section 3.2.2.
//   rope_half         pairs (i, i + d_head/2); Llama in Hugging Face, GPT-NeoX
//   rope_interleaved  pairs (2i, 2i + 1); the paper, Llama in GGUF, GPT-J
#ifndef ROPELINE_KERNELS_QK_ROTATION_H_
#define ROPELINE_KERNELS_QK_ROTATION_H_

#include <cstddef>

#include "kernels/cost.h"
#include "kernels/placement.h"

namespace ropeline {

// x[n, n_heads, d_head], rows contiguous. table[n, d_head]: row t holds the cos and sin of token t in
// AngleLayout::kSplit (half) or kCosSin (interleaved).
void RotateHalf(const float* table, size_t n, size_t n_heads, size_t d_head, float* x);
void RotateInterleaved(const float* table, size_t n, size_t n_heads, size_t d_head, float* x);

// Reads Q, K and the angle table, writes Q and K; four products and two sums per pair.
Cost QkRotationCost(const Shape& shape);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_QK_ROTATION_H_
