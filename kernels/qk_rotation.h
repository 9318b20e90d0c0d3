// Placement 3, the vectors: each pair of dimensions of each head of Q and K is turned by position ·
// inv_freq[i], in every layer. Su et al. 2021, "RoFormer", section 3.2.2.
//   rope_half         pairs (i, i + d_rot/2); Llama in Hugging Face, GPT-NeoX
//   rope_interleaved  pairs (2i, 2i + 1); the paper, Llama in GGUF, GPT-J
//   xpos              interleaved, and Q grows as K shrinks with position; Sun et al. 2022, section 3
//   mrope             half; bands belong to time, height or width; Wang et al. 2024, "Qwen2-VL", section 2.1
//   rope_2d           half; bands belong to a patch's row or column; the same paper's vision encoder
//   nope              nothing is done: layers without position; Kazemnejad et al. 2023
#ifndef ROPELINE_KERNELS_QK_ROTATION_H_
#define ROPELINE_KERNELS_QK_ROTATION_H_

#include <cstddef>
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/cost.h"
#include "kernels/placement.h"

namespace ropeline {

enum class Pairing { kHalf, kInterleaved };

// Heads in, turned heads out. The two views may be one (in place) or must not overlap; dtypes are equal, or
// `in` is f32 (what a projection leaves) and `out` is f16 or bf16 (a KV cache).
struct Rotation {
  Pairing pairing;
  size_t n;        // tokens
  size_t n_heads;  // of each token
  size_t d_head;
  size_t d_rot;  // even, ≤ d_head; out of place, dimensions from d_rot on are copied
  HeadsView in;  // not written to, unless it is `out`
  HeadsView out;
  const float* table;   // [rows, d_rot] f32: AngleLayout::kSplit for kHalf, kCosSin for kInterleaved
  const int32_t* rows;  // [n]: the table's row of each token; nullptr: row t
  bool inverse;         // turns back
};

// Dispatches once. Aborts where the dtypes do not go together.
void Rotate(const Rotation& rotation);

// Reads the angles of each token once, and for each rotated element reads it, writes it and does three
// flops (four products and two sums per pair). Without heads nothing at all.
Cost RotationCost(const Rotation& rotation);
Cost QkRotationCost(const Shape& shape);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_QK_ROTATION_H_
