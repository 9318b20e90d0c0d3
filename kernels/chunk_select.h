// Retrieval inside the KV cache: chunks of tokens are scored by a summary of their keys, and attention reads
// the best ones only, beside the first tokens and the recent ones. What it reads it attends to exactly.
#ifndef ROPELINE_KERNELS_CHUNK_SELECT_H_
#define ROPELINE_KERNELS_CHUNK_SELECT_H_

#include <cstddef>
#include <vector>

#include "kernels/cost.h"
#include "kernels/decode_attention.h"
#include "kernels/kv_cache.h"
#include "kernels/memory.h"

namespace ropeline {

enum class ChunkSummary {
  kMean,    // the mean key
  kBounds,  // least and largest of each channel; the score Σ_i max(q_i·least_i, q_i·largest_i) is at least
            // that of every key in the chunk. Tang et al. 2024, "Quest", section 3, "Dynamically estimating
            // token criticality"
};

const char* ChunkSummaryName(ChunkSummary summary);         // "mean", "bounds"
size_t SummaryRows(ChunkSummary summary, size_t d_head_k);  // f32 values of one chunk and KV head

// Summaries of a cache's keys, as the cache decodes them, in f32. A head's chunks stand in blocks of 32, one
// after the other: mean [d_head_k][32], or bounds [2·d_head_k][32], largest before least: the order of an f32
// key block, in which one broadcast element of q serves 32 chunks.
class ChunkSummaries {
 public:
  // For all that the cache may hold; of what it holds now. `chunk` is in tokens; aborts where it is no
  // multiple of 32.
  ChunkSummaries(const KvCache& cache, ChunkSummary summary, size_t chunk);

  // After an append: tokens from n() on are new. One key block of each head is read again where n() was
  // within one.
  void Update(const KvCache& cache) { Update(cache, n_); }
  // After a change of tokens from first_changed on, or their removal; chunks before it are left alone.
  void Update(const KvCache& cache, size_t first_changed);

  ChunkSummary summary() const { return summary_; }
  size_t chunk() const { return chunk_; }
  size_t n() const { return n_; }  // tokens
  size_t chunks() const { return (n_ + chunk_ - 1) / chunk_; }
  size_t rows() const { return rows_; }  // of a block
  const float* Block(size_t head, size_t block) const {
    return memory_.get() + (head * blocks_ + block) * rows_ * kKvTile;
  }

 private:
  void UpdateHead(const KvCache& cache, size_t head, size_t n);

  ChunkSummary summary_;
  size_t chunk_ = 0;
  size_t rows_ = 0;
  size_t blocks_ = 0;  // of a head
  size_t n_ = 0;
  TableMemory memory_;
  std::vector<float> open_;  // [n_kv_heads][rows]: over the whole key blocks of the last chunk
};

// scores [Group()][chunks()]: of each query head of KV head `head` with each chunk, times call.scale. A bias
// has no part in them: for rotary encodings.
void ScoreChunks(const ChunkSummaries& summaries, const DecodeAttention& call, size_t head, float* scores);

struct ChunkChoice {
  size_t best = 16;     // chunks beside those that sinks and window hold anyway
  size_t sinks = 32;    // first tokens, rounded up to whole blocks of 32
  size_t window = 256;  // last tokens, the query's own included; rounded up to whole blocks
};

// The tokens of one KV head to attend to: ascending, apart from each other, each range from a block's first
// token to a block's end or to what the query sees. All heads of the group share one choice, because the
// cache is read once for all of them: a chunk's rank is the sum over the heads of softmax(scores) over the
// chunks, its share of attention as far as a summary can tell. A sum of scores would let a head whose scores
// spread widely outvote the others.
std::vector<TokenRange> ChooseTokens(const ChunkSummaries& summaries, const DecodeAttention& call,
                                     size_t head, const ChunkChoice& choice);

size_t TokensOf(const std::vector<TokenRange>& ranges);
// Part `slice` of `slices` of about the same number of blocks: units of several threads for one head.
std::vector<TokenRange> SliceOf(const std::vector<TokenRange>& ranges, size_t slice, size_t slices);

// out [n_heads, d_head_v]: chooses for each KV head, and attends, on the calling thread. One head's part for
// threads: ChooseTokens, AttendRangesOf, MergeUnits.
void AttendChosen(const ChunkSummaries& summaries, const DecodeAttention& call, const ChunkChoice& choice,
                  float* out);

// The share of its softmax that each of the group's query heads has on these tokens, mass [Group()]; attends
// to the whole cache to find out. call.bias.window must be 0; sink logits are left out.
void AttentionMass(const DecodeAttention& call, size_t head, const std::vector<TokenRange>& ranges,
                   double* mass);
// Their mean over all query heads for that choice: the recall.
double AttentionRecall(const ChunkSummaries& summaries, const DecodeAttention& call,
                       const ChunkChoice& choice);

// Reads the summaries once for the whole group and Q, two flops for each product; the choice itself counts
// none.
Cost ChunkScoreCost(const ChunkSummaries& summaries, const DecodeAttention& call);
Cost ChunkScoreCost(ChunkSummary summary, double chunks, size_t n_heads, size_t n_kv_heads, size_t d_head_k);
// Reads `tokens` keys of every head, writes the summaries of their chunks; one flop for each element of a
// mean, two for each of the bounds.
Cost ChunkUpdateCost(const ChunkSummaries& summaries, const KvShape& shape, size_t tokens);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_CHUNK_SELECT_H_
