#include "bench/bench_caches.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "kernels/hash.h"

namespace ropeline {

std::unique_ptr<KvCache> FilledCache(const KvShape& shape, size_t n, size_t room) {
  constexpr size_t kDistinct = 256;  // tokens; a multiple of 32
  auto cache = std::make_unique<KvCache>(shape, n + room + kKvTile);
  const size_t fresh = std::min((n + kKvTile - 1) / kKvTile * kKvTile, kDistinct);
  std::vector<float> k(fresh * shape.n_kv_heads * shape.d_head_k),
      v(fresh * shape.n_kv_heads * shape.d_head_v);
  for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 1);
  for (size_t i = 0; i < v.size(); ++i) v[i] = HashToFloat(i, 2);
  cache->Append(k.data(), v.data(), fresh);
  if (n > fresh) cache->RepeatTo(n);
  cache->Truncate(n);
  return cache;
}

const CacheRing& CachesFor(const Row& row, int thread, const KvShape& shape, size_t n, size_t slots,
                           size_t room) {
  struct Kept {
    std::string row;
    CacheRing caches;
  };
  static std::mutex mutex;
  static auto* const by_thread = new std::map<int, Kept>;
  Kept* kept;
  {
    const std::lock_guard lock(mutex);
    kept = &(*by_thread)[thread];  // stays where it is: only this thread changes it
  }
  const std::string name = row.name.Text();
  if (kept->row != name) {
    kept->caches.clear();
    for (size_t slot = 0; slot < slots; ++slot) kept->caches.push_back(FilledCache(shape, n, room));
    kept->row = name;
  }
  return kept->caches;
}

}  // namespace ropeline
