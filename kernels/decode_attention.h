// Attention of one new token over the KV cache of one sequence and one layer: softmax(scale · q Kᵀ + bias) V.
// Bound by reading the cache: every element is read once for the whole group of query heads that share it.
#ifndef ROPELINE_KERNELS_DECODE_ATTENTION_H_
#define ROPELINE_KERNELS_DECODE_ATTENTION_H_

#include <cstddef>
#include <vector>

#include "kernels/attention_bias.h"
#include "kernels/cost.h"
#include "kernels/kv_cache.h"
#include "kernels/unrotated_keys.h"

namespace ropeline {

// Arithmetic is f32; over q8_0, q4_0 and kivi4 q and the probabilities are rounded to 16-bit whole numbers
// (relative to the largest of 32), over q4_0 keys q to 8 bits, as ggml does, where the CPU multiplies bytes;
// products of whole numbers are exact. Products of 0 and a NaN value are
// NaN: a hidden token's value must be finite. Without a visible key the result is 0.
struct DecodeAttention {
  const KvCache* cache = nullptr;
  size_t n_heads = 0;        // a multiple of the cache's n_kv_heads
  const float* q = nullptr;  // [n_heads, d_head_k], turned already
  float scale = 1;           // on q·k
  size_t position = 0;       // of the query; keys after it are not seen. n() − 1: sees all
  AttentionBias bias{};
  // Not nullptr: the cache's keys have no rotation yet and get it as they are read, each by its token's
  // number; q has its own already.
  const UnrotatedKeys* unrotated = nullptr;

  size_t Group() const { return n_heads / cache->shape().n_kv_heads; }
};

// out [n_heads, d_head_v], on the calling thread.
void Attend(const DecodeAttention& call, float* out);

// The same in parts, for several threads. A unit is one KV head and one of `slices` ranges of its tokens;
// units u = head · slices + slice, u < n_kv_heads · slices, write a partial result each:
// [Group()][d_head_v + 2], the sum of weighted values, the largest score and the sum of weights.
size_t DecodeSlices(const DecodeAttention& call, size_t threads);  // fewest that share out evenly
inline constexpr size_t kMostGroup = 256;                          // query heads of one KV head
inline constexpr size_t kMostDecodeDimensions = 1024;              // of a head
size_t PartialFloats(const DecodeAttention& call);                 // of one unit
void AttendUnit(const DecodeAttention& call, size_t unit, size_t slices, float* partial);
// The same for one KV head and the tokens of `count` ranges: ascending, not empty, none overlaps another,
// none beyond what the query sees; aborts otherwise. bias.window and bias.sinks have no say.
struct TokenRange {
  size_t first, end;
};
void AttendRangesOf(const DecodeAttention& call, size_t head, const TokenRange* ranges, size_t count,
                    float* partial);
// Of all units of heads [head, head + heads): exact, whatever the slices (Milakov & Gimelshein 2018, "Online
// normalizer calculation for softmax", section 3.1). partials: of all units from unit 0 on.
void MergeUnits(const DecodeAttention& call, size_t head, size_t heads, size_t slices, const float* partials,
                float* out);

// Reads the visible tokens' keys and values once, Q once, writes the result; two flops for each product of
// q·k and p·v. A soft cap, a softmax and a bias count none (they are per score, not per element).
Cost DecodeAttentionCost(const DecodeAttention& call);
// The same for so many tokens of each KV head (the mean of them, where heads differ).
Cost DecodeAttentionCost(const DecodeAttention& call, double tokens);
// Tokens that the query sees.
size_t VisibleTokens(const DecodeAttention& call);
size_t VisibleTokens(const DecodeAttention& call, size_t n);  // of a cache of n tokens

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_DECODE_ATTENTION_H_
