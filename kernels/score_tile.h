// The first half of fused attention: scores q·k + bias of a causal prefill, made tile by tile in registers
// and reduced to each query's largest score, so that no score is ever stored. What a bias costs where the
// scores are in registers, and what rotating Q inside the call costs; f32.
#ifndef ROPELINE_KERNELS_SCORE_TILE_H_
#define ROPELINE_KERNELS_SCORE_TILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"
#include "kernels/placement.h"
#include "kernels/score_bias.h"

namespace ropeline {

// Where a tile's bias comes from.
enum class TileBias {
  kNone,
  kSlope,   // computed: −slope_h · (q − k)
  kRow,     // read from one row of biases by distance
  kGather,  // a bucket and its value, looked up for each score
  kTensor,  // read from a tensor [n_heads, n, n]
};
const char* TileBiasName(TileBias bias);  // the row's argument "bias": "none", "slope", "row", …

inline constexpr size_t kTileKeys = 32;  // tokens of one block of keys

// Keys [n, n_kv_heads, d_head] as blocks [n_kv_heads][blocks][d_head][32 tokens], so that one element of q
// serves 32 tokens and no sum runs across lanes. The last block is filled up with zeros.
size_t TiledKeysElements(size_t n, size_t n_kv_heads, size_t d_head);
void TileKeys(const float* keys, size_t n, size_t n_kv_heads, size_t d_head, float* tiled);

struct ScoreTiles {
  size_t n;        // tokens, all of them queries too
  size_t n_heads;  // a multiple of n_kv_heads
  size_t n_kv_heads;
  size_t d_head;   // ≤ 512
  const float* q;  // [n, n_heads, d_head]
  const float* tiled_keys;
  float scale;  // on q·k, not on the bias
  // Not nullptr: q is turned by these angles [n, d_head] (AngleLayout::kSplit) on its way into the tile.
  const float* angles = nullptr;
  TileBias bias = TileBias::kNone;
  const float* slopes = nullptr;     // kSlope [n_heads]
  DistanceRows rows{};               // kRow, f32
  const T5Gather* gather = nullptr;  // kGather
  const float* tensor = nullptr;     // kTensor; 64 floats beyond its end may be read
};

// largest[n_heads, n]: over the keys k <= q of scale · q·k + bias.
void LargestScores(const ScoreTiles& tiles, float* largest);

// Two flops for each multiplication of q·k, over the n(n+1)/2 pairs of each head (tiles on the diagonal do
// some more); reads Q, K and a bias tensor once, writes the maxima.
Cost ScoreTilesCost(const ScoreTiles& tiles);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SCORE_TILE_H_
