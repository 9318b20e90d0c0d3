// The memory of a KV cache, and its elements one by one. No SIMD.
#include <hwy/base.h>

#include <algorithm>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/kv_cache.h"

namespace ropeline {

namespace {

// Kernels read whole vectors: a few beyond the last block.
constexpr size_t kSlack = 4096;
constexpr size_t kLine = 64;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

KvCache::KvCache(const KvShape& shape, size_t capacity)
    : shape_(shape),
      capacity_(RoundUp(capacity, kKvTile)),
      blocks_(capacity_ / kKvTile),
      key_block_bytes_(shape.KeyBlockBytes()),
      value_block_bytes_(shape.ValueBlockBytes()) {
  if (shape.d_head_k % 8 != 0 || shape.d_head_v % 8 != 0 || shape.d_head_k == 0) {
    HWY_ABORT("a KV cache of heads of %d and %d dimensions, expected multiples of 8",
              static_cast<int>(shape.d_head_k), static_cast<int>(shape.d_head_v));
  }
  const size_t keys = RoundUp(shape.n_kv_heads * blocks_ * key_block_bytes_ + kSlack, 4096);
  const size_t values = RoundUp(shape.n_kv_heads * blocks_ * value_block_bytes_ + kSlack, 4096);
  const size_t unfinished =
      shape.format == KvFormat::kKivi4 ? shape.n_kv_heads * shape.d_head_k * kKvTile * 2 + kSlack : 0;
  memory_ = Mapping(keys + values + unfinished + kLine, Pages::kHuge);
  keys_ = static_cast<uint8_t*>(memory_.Data());
  // Not at the same place within a page as the keys.
  values_ = keys_ + keys + kLine;
  if (unfinished != 0) unfinished_ = reinterpret_cast<uint16_t*>(values_ + values);
}

uint16_t* KvCache::UnfinishedKeys(size_t head) const {
  return unfinished_ == nullptr ? nullptr : unfinished_ + head * shape_.d_head_k * kKvTile;
}

void KvCache::RepeatTo(size_t n) {
  const size_t end = std::min(RoundUp(n, kKvTile), capacity_) / kKvTile;
  const size_t have = n_ / kKvTile;
  if (have == 0 || n_ % kKvTile != 0) {
    HWY_ABORT("a cache of %d tokens to repeat, expected whole blocks of 32", static_cast<int>(n_));
  }
  for (size_t h = 0; h < shape_.n_kv_heads; ++h) {
    for (size_t b = have; b < end; ++b) {
      std::memcpy(KeyBlock(h, b), KeyBlock(h, b % have), key_block_bytes_);
      std::memcpy(ValueBlock(h, b), ValueBlock(h, b % have), value_block_bytes_);
    }
  }
  n_ = std::max(n_, end * kKvTile);
}

void KvCache::SetTokens(size_t n) {
  if (n > capacity_)
    HWY_ABORT("%d tokens in a cache for %d", static_cast<int>(n), static_cast<int>(capacity_));
  n_ = n;
}

float KvCache::Key(size_t head, size_t token, size_t i) const {
  const size_t block = token / kKvTile, t = token % kKvTile;
  if (IsUnfinished(block)) return FloatFromF16(UnfinishedKeys(head)[i * kKvTile + t]);
  const uint8_t* tile = KeyBlock(head, block) + i / kKvTile * KvTileBytes(shape_.format, kKvTile);
  return KvTileElement(shape_.format, KeyScale(shape_.format), kKvTile, tile, i % kKvTile, t);
}

float KvCache::Value(size_t head, size_t token, size_t i) const {
  const size_t width = std::min(kKvTile, shape_.d_head_v - i / kKvTile * kKvTile);
  const uint8_t* tile = ValueBlock(head, token / kKvTile) + i / kKvTile * KvTileBytes(shape_.format, kKvTile);
  return KvTileElement(shape_.format, ValueScale(shape_.format), width, tile, token % kKvTile, i % kKvTile);
}

Cost KvAppendCost(const KvShape& shape, size_t count, bool rotated) {
  const auto tokens = static_cast<double>(count);
  const auto keys = static_cast<double>(shape.n_kv_heads * shape.d_head_k);
  const auto values = static_cast<double>(shape.n_kv_heads * shape.d_head_v);
  const double angles = rotated ? static_cast<double>(shape.d_head_k) : 0;
  return {.bytes_read = 4 * tokens * (keys + values + angles),
          .bytes_written = tokens * shape.BytesPerToken(),
          .flops = rotated ? 3 * tokens * keys : 0};
}

}  // namespace ropeline
