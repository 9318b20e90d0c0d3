// The KV cache of one layer and one sequence: keys and values in the order that the attention kernels read
// (see kv_format.h).
#ifndef ROPELINE_KERNELS_KV_CACHE_H_
#define ROPELINE_KERNELS_KV_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cost.h"
#include "kernels/kv_format.h"
#include "kernels/memory.h"

namespace ropeline {

struct KvShape {
  KvFormat format = KvFormat::kF32;
  size_t n_kv_heads = 0;
  size_t d_head_k = 0;  // multiples of 8
  size_t d_head_v = 0;  // 0: values are part of the keys

  size_t KeyBlockBytes() const { return KvBlockBytes(format, d_head_k); }
  size_t ValueBlockBytes() const { return KvBlockBytes(format, d_head_v); }
  // What one token adds, K and V of all heads; tiles of 32 tokens filled.
  double BytesPerToken() const {
    return static_cast<double>(n_kv_heads * (KeyBlockBytes() + ValueBlockBytes())) / kKvTile;
  }
};

// Head h's keys: blocks of 32 tokens one after the other, capacity/32 of them; then the next head's. Values
// the same way. Token t is at position t.
class KvCache {
 public:
  // Memory for `capacity` tokens, zero; huge pages asked for. Aborts for a dimension that is no multiple
  // of 8.
  KvCache(const KvShape& shape, size_t capacity);

  const KvShape& shape() const { return shape_; }
  size_t capacity() const { return capacity_; }
  size_t n() const { return n_; }  // tokens

  const uint8_t* KeyBlock(size_t head, size_t block) const {
    return keys_ + At(head, block, key_block_bytes_);
  }
  const uint8_t* ValueBlock(size_t head, size_t block) const {
    return values_ + At(head, block, value_block_bytes_);
  }
  uint8_t* KeyBlock(size_t head, size_t block) { return keys_ + At(head, block, key_block_bytes_); }
  uint8_t* ValueBlock(size_t head, size_t block) { return values_ + At(head, block, value_block_bytes_); }
  // kivi4: the keys of the last, unfinished block, which have no scale yet: f16 [d_head_k][32]. nullptr in
  // any other format.
  uint16_t* UnfinishedKeys(size_t head) const;
  // Are the keys of that block in UnfinishedKeys?
  bool IsUnfinished(size_t block) const {
    return shape_.format == KvFormat::kKivi4 && block == n_ / kKvTile && n_ % kKvTile != 0;
  }

  // Tokens n() … n() + count − 1: k [count, n_kv_heads, d_head_k], v [count, n_kv_heads, d_head_v], f32.
  // Aborts beyond the capacity.
  void Append(const float* k, const float* v, size_t count);
  // The same, and keys are turned on their way (pairs i, i + d/2): angles [count, d_head_k], cosines, then
  // sines (AngleLayout::kSplit).
  void AppendRotated(const float* k, const float* v, const float* angles, size_t count);
  // A part of an append, so that several threads can share its heads: heads [head, end_head) of tokens first
  // … first + count − 1; k, v and angles as above, of all heads, angles nullptr for keys as they are. Leaves
  // n() to SetTokens, and allocates nothing after a thread's first call. Aborts beyond the capacity.
  void WriteHeads(size_t head, size_t end_head, size_t first, const float* k, const float* v,
                  const float* angles, size_t count);
  // Fills up to n tokens for a measurement: each head's tokens repeat those that are there. Needs n() >= 32,
  // a multiple of 32; n is rounded up to one.
  void RepeatTo(size_t n);
  // Forgets tokens from n on. kivi4: a finished block that is cut becomes the unfinished one again, of the
  // numbers that it stood for.
  void Truncate(size_t n);
  // Sets n() and nothing else: for operations that wrote the blocks themselves. Aborts beyond the capacity.
  void SetTokens(size_t n);

  // Element i of head h's key or value at token t, as a number. Slow.
  float Key(size_t head, size_t token, size_t i) const;
  float Value(size_t head, size_t token, size_t i) const;

 private:
  size_t At(size_t head, size_t block, size_t bytes) const { return (head * blocks_ + block) * bytes; }
  void WriteToken(size_t head, size_t token, const float* k, const float* v);

  KvShape shape_;
  size_t capacity_ = 0;
  size_t blocks_ = 0;
  size_t n_ = 0;
  size_t key_block_bytes_ = 0;
  size_t value_block_bytes_ = 0;
  Mapping memory_;
  uint8_t* keys_ = nullptr;
  uint8_t* values_ = nullptr;
  uint16_t* unfinished_ = nullptr;
};

// 32 rows, `stride` floats apart, of `columns` (a multiple of 4) to out [columns][32], 16-byte aligned.
void TransposeRows(const float* rows, size_t stride, size_t columns, float* out);

// Bytes of `count` new tokens: read in f32, written as stored. No flops counted for conversions.
Cost KvAppendCost(const KvShape& shape, size_t count, bool rotated);

// Blocks as f32: keys [d_head_k][32] (c = dimension), values as tiles [⌈d_head_v/32⌉][32 tokens][32]
// (columns past the head's end hold anything).
void KeyBlockAsF32(const KvCache& cache, size_t head, size_t block, float* out);
void ValueBlockAsF32(const KvCache& cache, size_t head, size_t block, float* out);

// A block from f32 [d_head_k][32]; values from [32 tokens][d_head_v]. For kivi4 the block becomes a finished
// one.
void KeyBlockFromF32(const float* in, size_t head, size_t block, KvCache* cache);
void ValueBlockFromF32(const float* in, size_t head, size_t block, KvCache* cache);
// kivi4: UnfinishedKeys from f32 [d_head_k][32].
void UnfinishedKeysFromF32(const float* in, size_t head, KvCache* cache);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_CACHE_H_
