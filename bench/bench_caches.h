// KV caches for timed loops.
#ifndef ROPELINE_BENCH_BENCH_CACHES_H_
#define ROPELINE_BENCH_BENCH_CACHES_H_

#include <memory>
#include <vector>

#include "bench/harness.h"
#include "kernels/decode_attention.h"
#include "kernels/kv_cache.h"

namespace ropeline {

using CacheRing = std::vector<std::unique_ptr<KvCache>>;

// n tokens of keys and values in [−1, 1). The calling thread touches the memory first. `room`: tokens that
// may be appended.
std::unique_ptr<KvCache> FilledCache(const KvShape& shape, size_t n, size_t room = 0);

// `slots` caches of n tokens for one thread of a row. Google Benchmark runs a row several times while it
// looks for the number of iterations: they are kept until that thread's next row.
const CacheRing& CachesFor(const Row& row, int thread, const KvShape& shape, size_t n, size_t slots,
                           size_t room = 0);

// 32,768 tokens of one KV head, d 128, and a query of three heads, with attention concentrated as a trained
// model's is (kernels/synthetic_kv.h, kTopics): for the accuracy of what reads less than all.
struct SyntheticText {
  SyntheticText();
  DecodeAttention Call() const;
  // The share of attention on the first `sinks` and the last `window` tokens.
  double WindowRecall(size_t sinks, size_t window) const;

  KvCache cache;
  std::vector<float> q;
};
const SyntheticText& OneSyntheticText();  // made once

}  // namespace ropeline

#endif  // ROPELINE_BENCH_BENCH_CACHES_H_
