// Turning keys that are in the cache: by the same angles for every token (their positions all change by the
// same number), or by angles of each token's own.
//   a' = a·cos − b·sin
//   b' = b·cos + a·sin      Su et al. 2021, "RoFormer", section 3.4.2; R(−s)·R(m) = R(m − s)
// In a block [d_head][32 tokens] both members of a pair are rows, so that no lane is moved for either
// pairing. Quantised keys are turned as f32 and quantised again: kivi4 by channels of the whole block.
#ifndef ROPELINE_KERNELS_KV_TURN_H_
#define ROPELINE_KERNELS_KV_TURN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"
#include "kernels/kv_cache.h"
#include "kernels/memory.h"
#include "kernels/qk_rotation.h"

namespace ropeline {

// What a layer's keys hold of their positions.
struct KeyRotation {
  Pairing pairing = Pairing::kHalf;
  std::vector<double> inv_freq;  // [d_rot/2], radians per token; empty: nothing (T5, ALiBi, NoPE)

  size_t DRot() const { return 2 * inv_freq.size(); }  // dimensions from here on do not turn
};

// cos and sin for one block of 32 tokens.
struct BlockAngles {
  Pairing pairing = Pairing::kHalf;
  size_t d_rot = 0;
  bool per_token = false;
  const float* cosines = nullptr;  // [d_rot/2], or per token [d_rot/2][32], 64-byte aligned
  const float* sines = nullptr;
};

// Turns the keys of whole blocks of one cache. Not for several threads at once.
class KeyTurner {
 public:
  // Aborts where d_rot is beyond the cache's d_head_k.
  KeyTurner(const BlockAngles& angles, KvCache* cache);

  // Block `from` of that head to block `to`, or in place where they are one. `from` is not unfinished, or the
  // two are one. `ahead`: what will be read next, asked for on the way.
  void Block(size_t head, size_t from, size_t to, const uint8_t* ahead);
  // The same, to memory of the caller's. Not of an unfinished block.
  void BlockInto(size_t head, size_t from, const uint8_t* ahead, uint8_t* to);
  // Tokens [first, last) of a block, 0 <= first <= last <= 32; the others keep their bits (kivi4, finished:
  // they get their channels' new scales).
  void Lanes(size_t head, size_t block, size_t first, size_t last);
  // f32 [d_head_k][32], in place.
  void Floats(float* keys);

 private:
  void Turn(KvFormat format, const uint8_t* in, const uint8_t* ahead, uint8_t* out);
  uint8_t* Home(size_t head, size_t block) const;  // where the keys of that block are

  BlockAngles angles_;
  KvCache* cache_;
  TableMemory scratch_, before_;
};

// Tokens [from, to) of a block of keys, bit for bit, to the same places of another. Not for kivi4, whose
// scales belong to all tokens of a block.
void CopyKeyTokens(KvFormat format, size_t d_head, const uint8_t* source, size_t from, size_t to,
                   uint8_t* target);

// Tokens [first, last) of the cache are now `positions` later than they were (negative: earlier).
// Aborts for tokens that are not there.
void TurnKeys(size_t first, size_t last, int64_t positions, const KeyRotation& rotation, KvCache* cache);

// Bytes of the keys that turn, read and written once: rows of d_rot dimensions, quantised: whole tiles; three
// flops for each element that turns. The d_rot cosines and sines are not counted, conversions are no flops.
Cost TurnKeysCost(const KvShape& shape, size_t count, const KeyRotation& rotation);

// cos and sin of positions · inv_freq[i].
struct FixedAngles {
  FixedAngles(const KeyRotation& rotation, int64_t positions);
  BlockAngles Get() const { return {pairing, 2 * cosines.size(), false, cosines.data(), sines.data()}; }

  Pairing pairing;
  std::vector<float> cosines, sines;  // [d_rot/2]
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_TURN_H_
