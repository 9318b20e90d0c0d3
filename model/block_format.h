// How numbers are stored: so many elements in a block of so many bytes, scales included. Weights and KV
// caches use the same formats; the block formats are ggml's (ggml-common.h, structs block_q8_0 … block_q6_K),
// but for kivi4, which is a cache's only (Z. Liu et al., "KIVI", ICML 2024).
#ifndef ROPELINE_MODEL_BLOCK_FORMAT_H_
#define ROPELINE_MODEL_BLOCK_FORMAT_H_

#include <cstdint>

namespace ropeline {

struct BlockFormat {
  const char* name;
  uint64_t block_elements;
  uint64_t block_bytes;

  double BitsPerElement() const {
    return 8 * static_cast<double>(block_bytes) / static_cast<double>(block_elements);
  }
  // Bytes of a row of contiguous elements; a partial block takes a whole one.
  uint64_t RowBytes(uint64_t elements) const {
    return (elements + block_elements - 1) / block_elements * block_bytes;
  }
  bool Fits(uint64_t elements) const { return elements % block_elements == 0; }
};

inline constexpr BlockFormat kBlockF32{"f32", 1, 4};
inline constexpr BlockFormat kBlockF16{"f16", 1, 2};
inline constexpr BlockFormat kBlockBf16{"bf16", 1, 2};
inline constexpr BlockFormat kBlockFp8{"fp8", 1, 1};     // e4m3 or e5m2, one scale per tensor
inline constexpr BlockFormat kBlockQ80{"q8_0", 32, 34};  // 32 int8 and an f16 scale
inline constexpr BlockFormat kBlockQ51{"q5_1", 32, 24};  // 32 × 5 bits, f16 scale and minimum
inline constexpr BlockFormat kBlockQ50{"q5_0", 32, 22};  // 32 × 5 bits and an f16 scale
inline constexpr BlockFormat kBlockQ41{"q4_1", 32, 20};  // 32 × 4 bits, f16 scale and minimum
inline constexpr BlockFormat kBlockQ40{"q4_0", 32, 18};  // 32 × 4 bits and an f16 scale
// 32 × 4 bits, f16 scale and minimum. Keys: 32 tokens of one channel; values: 32 channels of one token.
inline constexpr BlockFormat kBlockKivi4{"kivi4", 32, 20};
// 4 bits in groups along a head's width, each with an f16 scale and an f16 zero point (HQQ, quanto, KIVI's
// values).
inline constexpr BlockFormat kBlockInt4G32{"int4_g32", 32, 20};
inline constexpr BlockFormat kBlockInt4G64{"int4_g64", 64, 36};
inline constexpr BlockFormat kBlockInt4G128{"int4_g128", 128, 68};
inline constexpr BlockFormat kBlockQ6K{"q6_K", 256, 210};    // 256 × 6 bits, 16 int8 scales, one f16
inline constexpr BlockFormat kBlockQ5K{"q5_K", 256, 176};    // 256 × 5 bits, 12 bytes of scales, two f16
inline constexpr BlockFormat kBlockQ4K{"q4_K", 256, 144};    // 256 × 4 bits, 12 bytes of scales, two f16
inline constexpr BlockFormat kBlockQ3K{"q3_K", 256, 110};    // 256 × 3 bits, 12 bytes of scales, one f16
inline constexpr BlockFormat kBlockQ2K{"q2_K", 256, 84};     // 256 × 2 bits, 16 bytes of scales, two f16
inline constexpr BlockFormat kBlockIq4Nl{"iq4_nl", 32, 18};  // 32 × 4-bit codes and an f16 scale
inline constexpr BlockFormat kBlockIq4Xs{"iq4_xs", 256,
                                         136};  // 256 × 4-bit codes, 6 bytes of scales, one f16

}  // namespace ropeline

#endif  // ROPELINE_MODEL_BLOCK_FORMAT_H_
