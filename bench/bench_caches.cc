#include "bench/bench_caches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

#include "kernels/chunk_select.h"
#include "kernels/hash.h"
#include "kernels/synthetic_kv.h"

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

namespace {
constexpr size_t kTextTokens = 32768, kTextHeads = 3, kTextHead = 128;
}

SyntheticText::SyntheticText()
    : cache(KvShape{KvFormat::kF16, 1, kTextHead, kTextHead}, kTextTokens), q(kTextHeads * kTextHead) {
  constexpr size_t kPiece = 1024;
  const SyntheticKv kv{KeyStatistics::kTopics, kTextHeads, 1, kTextHead, 1};
  std::vector<float> k(kPiece * kTextHead), v(k.size());
  for (size_t token = 0; token < kTextTokens; token += kPiece) {
    kv.Keys(token, kPiece, k.data());
    kv.Values(token, kPiece, v.data());
    cache.Append(k.data(), v.data(), kPiece);
  }
  kv.Query(q.data());
}

DecodeAttention SyntheticText::Call() const {
  DecodeAttention call;
  call.cache = &cache;
  call.n_heads = kTextHeads;
  call.q = q.data();
  call.scale = 1 / std::sqrt(static_cast<float>(kTextHead));
  call.position = kTextTokens - 1;
  return call;
}

double SyntheticText::WindowRecall(size_t sinks, size_t window) const {
  std::vector<double> mass(kTextHeads);
  AttentionMass(Call(), 0, {{0, sinks}, {kTextTokens - window, kTextTokens}}, mass.data());
  return std::accumulate(mass.begin(), mass.end(), 0.0) / static_cast<double>(kTextHeads);
}

const SyntheticText& OneSyntheticText() {
  static const auto* const text = new SyntheticText;
  return *text;
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
