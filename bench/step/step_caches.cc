#include "bench/step/step_caches.h"

#include <algorithm>
#include <cstring>

#include "kernels/hash.h"

namespace ropeline {

StepCaches::StepCaches(const StepPlan& plan, KvFormat format, size_t capacity)
    : format_(format), capacity_((capacity + kKvTile - 1) / kKvTile * kKvTile) {
  for (const StepLayer& layer : plan.layers) {
    layers_.push_back(std::make_unique<KvCache>(layer.CacheShape(format), capacity_));
  }
}

void StepCaches::Fill(size_t part, size_t parts, size_t n) {
  constexpr size_t kDistinct = 256;  // tokens; a multiple of 32
  const size_t end = std::min((n + kKvTile - 1) / kKvTile * kKvTile, capacity_);
  const size_t fresh = std::min(end, kDistinct);
  std::vector<float> k, v;
  for (const auto& cache : layers_) {
    const KvShape& shape = cache->shape();
    const size_t first = shape.n_kv_heads * part / parts, last = shape.n_kv_heads * (part + 1) / parts;
    const size_t keys = fresh * shape.n_kv_heads * shape.d_head_k;
    const size_t values = fresh * shape.n_kv_heads * shape.d_head_v;
    for (size_t i = k.size(); i < keys; ++i) k.push_back(HashToFloat(i, 1));
    for (size_t i = v.size(); i < values; ++i) v.push_back(HashToFloat(i, 2));
    cache->WriteHeads(first, last, 0, k.data(), v.data(), nullptr, fresh);
    for (size_t h = first; h < last; ++h) {
      for (size_t block = fresh / kKvTile; block < end / kKvTile; ++block) {
        const size_t from = block % (kDistinct / kKvTile);
        std::memcpy(cache->KeyBlock(h, block), cache->KeyBlock(h, from), shape.KeyBlockBytes());
        std::memcpy(cache->ValueBlock(h, block), cache->ValueBlock(h, from), shape.ValueBlockBytes());
      }
    }
  }
}

void StepCaches::SetTokens(size_t n) {
  for (const auto& cache : layers_) cache->SetTokens(n);
}

void StepCaches::FilledTo(size_t n) {
  SetTokens((n + kKvTile - 1) / kKvTile * kKvTile);
  for (const auto& cache : layers_) cache->Truncate(n);
}

}  // namespace ropeline
