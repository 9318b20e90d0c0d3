// KV caches for timed loops.
#ifndef ROPELINE_BENCH_BENCH_CACHES_H_
#define ROPELINE_BENCH_BENCH_CACHES_H_

#include <memory>
#include <vector>

#include "bench/harness.h"
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

}  // namespace ropeline

#endif  // ROPELINE_BENCH_BENCH_CACHES_H_
