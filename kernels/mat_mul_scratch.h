// Sizes that mat_mul.cc's targets share, and a thread's memory for one block of its product.
#ifndef ROPELINE_KERNELS_MAT_MUL_SCRATCH_H_
#define ROPELINE_KERNELS_MAT_MUL_SCRATCH_H_

#include <cstddef>

namespace ropeline {

inline constexpr size_t kTileRows = 6;
inline constexpr size_t kSlice = 128;                     // weights of a row: 64 tokens of them are 32 KiB
inline constexpr size_t kBlockRows = 96;                  // a multiple of a tile's
inline constexpr size_t kBlockTokens = 512;               // of panels
inline constexpr size_t kSumsStride = kBlockTokens + 16;  // a line more than a power of two

struct MatMulScratch {
  float* weights;  // [kBlockRows][kSlice]
  float* sums;     // [kBlockRows][kSumsStride]
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_MAT_MUL_SCRATCH_H_
