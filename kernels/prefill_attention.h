// Attention of many queries over a KV cache: the prefill of a prompt, a chunk of one against a longer cache,
// or the heads of a latent cache (MLA). Bound by multiply-adds. Scores are never stored: scratch memory is a
// few hundred KiB a thread, whatever n.
#ifndef ROPELINE_KERNELS_PREFILL_ATTENTION_H_
#define ROPELINE_KERNELS_PREFILL_ATTENTION_H_

#include <cstddef>

#include "kernels/attention_bias.h"
#include "kernels/cost.h"
#include "kernels/kv_cache.h"

namespace ropeline {

// softmax(scale · Q Kᵀ + bias) V in f32 on blocks of the cache unpacked to f32; the tiling is that of Dao
// 2023, "FlashAttention-2", section 3.1. As there, a hidden token's value must be finite; a query that sees
// no key has the result 0.
struct PrefillAttention {
  const KvCache* cache = nullptr;
  size_t n_heads = 0;  // a multiple of the cache's n_kv_heads
  size_t n_q = 0;
  const float* q = nullptr;   // [n_q, n_heads, d_head_k], turned already
  size_t first_position = 0;  // of query 0; query t is at first_position + t
  bool causal = true;         // false: keys after a query are seen too
  float scale = 1;
  AttentionBias bias{};
  // Not 0: the value of a token is the first `latent` dimensions of its key, and the cache holds no values
  // (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1, with the up-projections absorbed in Q and in the output).
  size_t latent = 0;

  size_t Group() const { return n_heads / cache->shape().n_kv_heads; }
  size_t ValueDimensions() const { return latent != 0 ? latent : cache->shape().d_head_v; }
};

// out [n_q, n_heads, ValueDimensions()], on the calling thread.
void AttendPrefill(const PrefillAttention& call, float* out);

// The same in units that do not depend on each other: some queries of one KV head. With a causal mask later
// units take longer, so that threads do best to take every threads-th.
size_t PrefillUnits(const PrefillAttention& call);
void AttendPrefillUnit(const PrefillAttention& call, size_t unit, float* out);

// (query, key) pairs that are seen, per head.
double SeenPairs(const PrefillAttention& call, size_t n);
// Two flops for each product of q·k and p·v over the seen pairs; Q, K and V read once, the result written.
// n: the cache's tokens, where they are other than those it has now.
Cost PrefillAttentionCost(const PrefillAttention& call);
Cost PrefillAttentionCost(const PrefillAttention& call, size_t n);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_PREFILL_ATTENTION_H_
