// Queries, keys and values that have the statistics of real ones, for error studies: reproducible, any token
// without those before it.
#ifndef ROPELINE_KERNELS_SYNTHETIC_KV_H_
#define ROPELINE_KERNELS_SYNTHETIC_KV_H_

#include <cstddef>
#include <cstdint>

namespace ropeline {

enum class KeyStatistics {
  kWhite,  // every channel alike, mean 0, variance 1
  // One channel in 32 is 10 to 20 times larger than the others and keeps its sign over the tokens; the others
  // have means of their own, of magnitude up to 1, and deviations of 0.5 to 1. What Liu et al. 2024, "KIVI",
  // section 3.2 and figure 2, report of keys; values have no such channels there. Channels that large have
  // small weights in a trained model's queries: here 1/10, or they would decide every score.
  kOutliers,
  // As kWhite, and a sixteenth of the text (passages of 192 tokens) is about what the query asks for: tokens
  // there have up to 7 added to their scores. Most of the softmax's mass is in few places, as Tang et al.
  // 2024, "Quest", section 3, "Self-attention operation features high sparsity", report of trained models.
  kTopics,
};

const char* KeyStatisticsName(KeyStatistics statistics);  // "white", "outliers", "topics"

struct SyntheticKv {
  KeyStatistics statistics = KeyStatistics::kWhite;
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t d_head = 0;
  uint64_t seed = 1;

  // Tokens first … first + count − 1: [count, n_kv_heads, d_head].
  void Keys(size_t first, size_t count, float* k) const;
  void Values(size_t first, size_t count, float* v) const;  // white
  // [n_heads, d_head], for scores scale · q·k with scale = 1/√d_head. With kTopics the heads of a group ask
  // for the same in words of their own.
  void Query(float* q) const;
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SYNTHETIC_KV_H_
