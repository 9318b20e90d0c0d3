// How the KV cache stores keys and values: formats and the order of elements in memory.
//
// Tokens stand in blocks of 32, dimensions in tiles of 32, so that one tile holds 32 × 32 elements. A tile
// is made for a product that sums over one index (`c`) and keeps the other (`o`) in the lanes of a vector:
//   keys     c = dimension, o = token:     score[o] = Σ_c q[c] · tile[c][o]
//   values   c = token,     o = dimension: out[o]   = Σ_c p[c] · tile[c][o]
// One broadcast element of q or p serves 32 outputs, and no sum runs across lanes.
//
//   f32, f16, bf16   [c][o]; a last tile of fewer dimensions holds just those
//   q8_0             f16 scale[32], int8 [c/2][o][2]: two neighbours of c side by side, as a 16-bit dot
//                    product takes them. 34 bytes for 32 elements, ggml's block_q8_0: value = scale · q
//   q4_0             f16 scale[32], then 16-bit words [c/8][o][2] of four nibbles: nibble j of word e is
//                    c = 8·(c/8) + 2j + e, so that a shift and a mask give what q8_0 unpacks to. 18 bytes for
//                    32, ggml's block_q4_0: value = scale · (q − 8)
//   kivi4            f16 scale[32], f16 minimum[32], nibbles as q4_0. 20 bytes for 32: value = scale · q +
//                    minimum. Liu et al. 2024, "KIVI", section 3.2
// A scale belongs to 32 elements:
//   q8_0, q4_0   one token's 32 dimensions of a tile, for keys and values (keys: scale[o], values: scale[c])
//   kivi4        keys: one channel of 32 tokens (scale[c]); values: one token's 32 dimensions (scale[c])
// Tiles of the last three are always whole: dimensions are filled up to a multiple of 32 with zeros.
#ifndef ROPELINE_KERNELS_KV_FORMAT_H_
#define ROPELINE_KERNELS_KV_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ropeline {

enum class KvFormat { kF32, kF16, kBf16, kQ80, kQ40, kKivi4 };

inline constexpr std::array kAllKvFormats = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBf16,
                                             KvFormat::kQ80, KvFormat::kQ40, KvFormat::kKivi4};
inline constexpr size_t kKvTile = 32;  // tokens of a block, dimensions of a tile

const char* KvFormatName(KvFormat format);  // "f32", "f16", "bf16", "q8_0", "q4_0", "kivi4"
std::optional<KvFormat> ParseKvFormat(std::string_view name);

constexpr bool IsQuantised(KvFormat format) { return format >= KvFormat::kQ80; }

// Bytes of a tile of `dimensions` (<= 32) dimensions of 32 tokens.
constexpr size_t KvTileBytes(KvFormat format, size_t dimensions) {
  switch (format) {
    case KvFormat::kF32:
      return 4 * kKvTile * dimensions;
    case KvFormat::kF16:
    case KvFormat::kBf16:
      return 2 * kKvTile * dimensions;
    case KvFormat::kQ80:
      return 34 * kKvTile;
    case KvFormat::kQ40:
      return 18 * kKvTile;
    case KvFormat::kKivi4:
      return 20 * kKvTile;
  }
  return 0;
}

// Bytes of 32 tokens of one head.
constexpr size_t KvBlockBytes(KvFormat format, size_t d_head) {
  const size_t whole = d_head / kKvTile, rest = d_head % kKvTile;
  return whole * KvTileBytes(format, kKvTile) + (rest != 0 ? KvTileBytes(format, rest) : 0);
}

// Where the scale of element (c, o) stands.
enum class TileScale {
  kNone,
  kOfOutput,      // scale[o]
  kOfSummed,      // scale[c]
  kOfSummedFrom,  // scale[c] and minimum[c]
};
constexpr TileScale KeyScale(KvFormat format) {
  if (!IsQuantised(format)) return TileScale::kNone;
  return format == KvFormat::kKivi4 ? TileScale::kOfSummedFrom : TileScale::kOfOutput;
}
constexpr TileScale ValueScale(KvFormat format) {
  if (!IsQuantised(format)) return TileScale::kNone;
  return format == KvFormat::kKivi4 ? TileScale::kOfSummedFrom : TileScale::kOfSummed;
}

// One element (c, o) of a whole tile, as the number it stands for. `width` is the outputs of a row (32, or
// what is left of the dimensions for a value tile of f32, f16 or bf16). Slow: for tests and odd elements.
float KvTileElement(KvFormat format, TileScale scale, size_t width, const void* tile, size_t c, size_t o);

// Writes 32 elements that share a scale: element i is (c, o) = (i, line) where the scale is the output's,
// (line, i) where it is the summed index's. As ggml (q8_0: largest magnitude / 127, to nearest; q4_0: element
// of largest magnitude / −8; kivi4: to nearest from smallest to largest), but q8_0's halves go to even (so
// does ggml's SIMD code, not its scalar code), a scale of 0 is +0, and of two elements of the same magnitude
// the positive one sets q4_0's sign. Scalar, the same on every target: what vector code is checked against.
void QuantiseKvLine(KvFormat format, TileScale scale, const float* x, size_t line, void* tile);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_FORMAT_H_
