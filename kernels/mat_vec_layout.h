// Activations as the products of mat_vec.cc read them, for weight formats in blocks. The order of their
// numbers is the one that a block's weights unpack to with a mask and a shift, so that weights are never
// moved between lanes. It does not depend on the length of a vector.
#ifndef ROPELINE_KERNELS_MAT_VEC_LAYOUT_H_
#define ROPELINE_KERNELS_MAT_VEC_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/weight_dtype.h"

namespace ropeline {

// A 32-bit sum is over four (q8_0) or eight (q4_0) products and starts from an offset, which takes weights
// back to whole numbers with a sign: q4_0 −8 · Σ x; q8_0 −128 · Σ x where weights are read as q + 128.
struct ActivationsQ80 {  // two blocks
  static constexpr size_t kBlocks = 2;
  int8_t q[64];
  int32_t offset[16];  // of q[4i] … q[4i + 3]
  float scale[16];     // of the same four
};

struct ActivationsQ40 {  // four blocks: low[16b + i] is weight i of block b, high[16b + i] weight i + 16
  static constexpr size_t kBlocks = 4;
  int8_t low[64], high[64];
  int32_t offset[16];
  float scale[16];
};

// sums: of the numbers that share a minimum (q4_K, 32) or a scale (q6_K, 16), in the order of the weights.
struct ActivationsQ4K {
  static constexpr size_t kBlocks = 1;
  int8_t low[128], high[128];  // low[32c + i] is weight 64c + i, high[32c + i] weight 64c + 32 + i
  int16_t sums[8];
  float scale;
  uint8_t unused[44];
};

struct ActivationsQ6K {
  static constexpr size_t kBlocks = 1;
  int8_t q[4][64];  // q[r][32h + i] is weight 128h + 32r + i
  int16_t sums[16];
  float scale;
  uint8_t unused[28];
};

static_assert(sizeof(ActivationsQ80) == 192 && sizeof(ActivationsQ40) == 256);
static_assert(sizeof(ActivationsQ4K) == 320 && sizeof(ActivationsQ6K) == 320);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_MAT_VEC_LAYOUT_H_
