// Keys that stand in the cache without their rotation and get it while attention reads them. Tokens may then
// be evicted, and the survivors moved, without a key being touched; quantised, the channels keep their own
// statistics (Hooper et al. 2024, "KVQuant", section on pre-RoPE key quantisation). The price is paid in
// every step.
//
// Token 32·b + j: R(32·b + j)·k = R(32·b)·R(j)·k, and q·R(32·b)·x = (R(−32·b)·q)·x. So for each block the
// queries are turned back once, and the keys by j = 0 … 31, by cosines and sines that are the same for every
// block and stay in the first-level cache (16 KiB each for 128 dimensions):
//   score[j] = Σ_i q'_i·(k_i·cos_ij − k_i'·sin_ij) + q'_i'·(k_i'·cos_ij + k_i·sin_ij)    pairs (i, i')
// Two multiplications more for an element of a key, for the whole group of query heads.
#ifndef ROPELINE_KERNELS_UNROTATED_KEYS_H_
#define ROPELINE_KERNELS_UNROTATED_KEYS_H_

#include <cstddef>

#include "kernels/cost.h"
#include "kernels/kv_turn.h"
#include "kernels/memory.h"

namespace ropeline {

// Tables, f32, within an ulp; see angle_table.h. One for all layers.
class UnrotatedKeys {
 public:
  // For positions below `capacity`.
  UnrotatedKeys(const KeyRotation& rotation, size_t capacity);

  Pairing pairing() const { return pairing_; }
  size_t bands() const { return bands_; }  // d_rot/2
  size_t capacity() const { return capacity_; }
  // Of position 32·block: cosines [bands], then sines.
  const float* OfBlock(size_t block) const { return of_block_.get() + block * 2 * bands_; }
  const float* Cosines() const { return of_token_.get(); }  // [bands][32]
  const float* Sines() const { return of_token_.get() + bands_ * kKvTile; }

 private:
  Pairing pairing_;
  size_t bands_ = 0;
  size_t capacity_ = 0;
  TableMemory of_block_, of_token_;
};

// What turning adds to attention of n_heads over `tokens` tokens of every KV head: the tables are read once;
// three flops for each element of a key that turns, and of the query for each block.
Cost TurnWhileReadingCost(const UnrotatedKeys& angles, size_t n_heads, size_t n_kv_heads, double tokens);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_UNROTATED_KEYS_H_
