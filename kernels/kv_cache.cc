#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_cache.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <type_traits>

#include "kernels/kv_cache.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f(rows as T*) for the formats that are plain numbers.
template <class F>
HWY_INLINE void WithNumbers(KvFormat format, void* block, const F& f) {
  switch (format) {
    case KvFormat::kF32:
      return f(static_cast<float*>(block));
    case KvFormat::kF16:
      return f(static_cast<F16*>(block));
    default:
      return f(static_cast<Bf16*>(block));
  }
}

void KeysToF32(KvFormat format, const uint8_t* block, size_t d_head, float* out) {
  if (!IsQuantised(format)) {
    // Not written to.
    WithNumbers(format, const_cast<uint8_t*>(block),
                [&](const auto* rows) HWY_ATTR { FloatRowsToF32(rows, d_head, kKvTile, out); });
    return;
  }
  const size_t bytes = KvTileBytes(format, kKvTile);
  HWY_ALIGN float last[kKvTile * kKvTile];
  for (size_t i = 0; i < d_head; i += kKvTile, block += bytes, out += kKvTile * kKvTile) {
    float* whole = i + kKvTile <= d_head ? out : last;
    WithQuantised(format, [&](auto f) HWY_ATTR { QuantisedTileToF32(f, KeyScale(f), block, whole); });
    if (whole == out) continue;
    for (size_t j = 0; j < (d_head - i) * kKvTile; ++j) out[j] = last[j];
  }
}

void ValuesToF32(KvFormat format, const uint8_t* block, size_t d_head, float* out) {
  for (size_t i = 0; i < d_head; i += kKvTile, out += kKvTile * kKvTile) {
    const size_t width = d_head - i < kKvTile ? d_head - i : kKvTile;
    if (IsQuantised(format)) {
      WithQuantised(format, [&](auto f) HWY_ATTR { QuantisedTileToF32(f, ValueScale(f), block, out); });
    } else {
      WithNumbers(format, const_cast<uint8_t*>(block),
                  [&](const auto* rows) HWY_ATTR { FloatRowsToF32(rows, kKvTile, width, out); });
    }
    block += KvTileBytes(format, width);
  }
}

void KeysFromF32(KvFormat format, const float* in, size_t d_head, uint8_t* block) {
  if (!IsQuantised(format)) {
    WithNumbers(format, block,
                [&](auto* rows) HWY_ATTR { FloatRowsFromF32(in, kKvTile, d_head, kKvTile, rows); });
    return;
  }
  HWY_ALIGN float last[kKvTile * kKvTile];
  for (size_t i = 0; i < d_head; i += kKvTile, block += KvTileBytes(format, kKvTile)) {
    const float* tile = in + i * kKvTile;
    if (i + kKvTile > d_head) {
      for (size_t j = 0; j < kKvTile * kKvTile; ++j) last[j] = j < (d_head - i) * kKvTile ? tile[j] : 0;
      tile = last;
    }
    WithQuantised(format,
                  [&](auto f) HWY_ATTR { QuantisedTileFromF32(f, KeyScale(f), tile, kKvTile, block); });
  }
}

// Values from rows `stride` apart.
void ValuesFromF32(KvFormat format, const float* in, size_t stride, size_t d_head, uint8_t* block) {
  HWY_ALIGN float last[kKvTile * kKvTile];
  for (size_t i = 0; i < d_head; i += kKvTile) {
    const size_t width = d_head - i < kKvTile ? d_head - i : kKvTile;
    if (!IsQuantised(format)) {
      WithNumbers(format, block,
                  [&](auto* rows) HWY_ATTR { FloatRowsFromF32(in + i, stride, kKvTile, width, rows); });
    } else {
      const bool whole = width == kKvTile;
      for (size_t j = 0; !whole && j < kKvTile * kKvTile; ++j) {
        last[j] = j % kKvTile < width ? in[j / kKvTile * stride + i + j % kKvTile] : 0;
      }
      WithQuantised(format, [&](auto f) HWY_ATTR {
        QuantisedTileFromF32(f, ValueScale(f), whole ? in + i : last, whole ? stride : kKvTile, block);
      });
    }
    block += KvTileBytes(format, width);
  }
}

// Rows of 32 tokens, `stride` apart, to [d_head][32]: sixteen rows at a time go through registers as four
// lanes each, which every target can shuffle.
void TransposeKeys(const float* rows, size_t stride, size_t d_head, float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < d_head; ++i) {
    for (size_t t = 0; t < kKvTile; ++t) out[i * kKvTile + t] = rows[t * stride + i];
  }
#else
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> dd;
  for (size_t t = 0; t < kKvTile; t += 4) {
    const float* from = rows + t * stride;
    float* to = out + t;
    for (size_t i = 0; i < d_head; i += 4) {
      const auto r0 = hn::LoadU(d, from + i), r1 = hn::LoadU(d, from + stride + i);
      const auto r2 = hn::LoadU(d, from + 2 * stride + i), r3 = hn::LoadU(d, from + 3 * stride + i);
      const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
      hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, to + i * kKvTile);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, to + (i + 1) * kKvTile);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, to + (i + 2) * kKvTile);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, to + (i + 3) * kKvTile);
    }
  }
#endif
}

// One head of one token, turned by one row of angles.
void TurnKey(const float* angles, const float* key, size_t d_head, float* out) {
  TurnToken<true>(AngleRow{angles, 0.0f}, d_head, d_head,
                  TokenHeads<float, float>{key, d_head, out, d_head, 1});
}

// 32 keys of one head, `stride` apart, to rows d_head apart; angles [32, d_head].
void TurnKeys(const float* angles, const float* keys, size_t stride, size_t d_head, float* out) {
  for (size_t t = 0; t < kKvTile; ++t)
    TurnKey(angles + t * d_head, keys + t * stride, d_head, out + t * d_head);
}

// One token's key into column t of [d_head][32].
void KeyColumn(KvFormat format, const float* key, size_t d_head, size_t t, void* block) {
  WithNumbers(format, block, [&](auto* rows) HWY_ATTR {
    std::remove_reference_t<decltype(*rows)> line[kKvTile];
    for (size_t i = 0; i < d_head; i += kKvTile) {
      const size_t width = d_head - i < kKvTile ? d_head - i : kKvTile;
      FloatRowsFromF32(key + i, width, 1, width, line);
      for (size_t j = 0; j < width; ++j) rows[(i + j) * kKvTile + t] = line[j];
    }
  });
}

// One token's values into row t of a tile [32][width].
void ValueRow(KvFormat format, const float* value, size_t t, size_t width, void* tile) {
  WithNumbers(format, tile,
              [&](auto* rows) HWY_ATTR { FloatRowsFromF32(value, width, 1, width, rows + t * width); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "kernels/dtype.h"

namespace ropeline {

HWY_EXPORT(KeyColumn);
HWY_EXPORT(ValueRow);
HWY_EXPORT(KeysToF32);
HWY_EXPORT(ValuesToF32);
HWY_EXPORT(KeysFromF32);
HWY_EXPORT(ValuesFromF32);
HWY_EXPORT(TransposeKeys);
HWY_EXPORT(TurnKey);
HWY_EXPORT(TurnKeys);

void KvCache::WriteToken(size_t head, size_t token, const float* k, const float* v) {
  const KvFormat format = shape_.format;
  const size_t block = token / kKvTile, t = token % kKvTile;
  uint8_t* keys = KeyBlock(head, block);
  if (format == KvFormat::kKivi4) {
    HWY_DYNAMIC_DISPATCH(KeyColumn)(KvFormat::kF16, k, shape_.d_head_k, t, UnfinishedKeys(head));
  } else if (!IsQuantised(format)) {
    HWY_DYNAMIC_DISPATCH(KeyColumn)(format, k, shape_.d_head_k, t, keys);
  }
  float line[kKvTile];
  const auto padded = [&](const float* x, size_t from, size_t end) {
    for (size_t i = 0; i < kKvTile; ++i) line[i] = from + i < end ? x[from + i] : 0;
    return line;
  };
  if (KeyScale(format) == TileScale::kOfOutput) {
    for (size_t i = 0; i < shape_.d_head_k; i += kKvTile, keys += KvTileBytes(format, kKvTile)) {
      QuantiseKvLine(format, TileScale::kOfOutput, padded(k, i, shape_.d_head_k), t, keys);
    }
  }
  uint8_t* values = ValueBlock(head, block);
  for (size_t i = 0; i < shape_.d_head_v; i += kKvTile) {
    const size_t width = std::min(kKvTile, shape_.d_head_v - i);
    if (IsQuantised(format)) {
      QuantiseKvLine(format, ValueScale(format), padded(v, i, shape_.d_head_v), t, values);
    } else {
      HWY_DYNAMIC_DISPATCH(ValueRow)(format, v + i, t, width, values);
    }
    values += KvTileBytes(format, width);
  }
}

void KvCache::Append(const float* k, const float* v, size_t count) {
  WriteHeads(0, shape_.n_kv_heads, n_, k, v, nullptr, count);
  n_ += count;
}

void KvCache::AppendRotated(const float* k, const float* v, const float* angles, size_t count) {
  WriteHeads(0, shape_.n_kv_heads, n_, k, v, angles, count);
  n_ += count;
}

void KvCache::WriteHeads(size_t head, size_t end_head, size_t first, const float* k, const float* v,
                         const float* angles, size_t count) {
  if (first + count > capacity_) {
    HWY_ABORT("%d tokens appended to %d of a cache for %d", static_cast<int>(count), static_cast<int>(first),
              static_cast<int>(capacity_));
  }
  const size_t d_k = shape_.d_head_k, d_v = shape_.d_head_v;
  const size_t k_stride = shape_.n_kv_heads * d_k, v_stride = shape_.n_kv_heads * d_v;
  // Whole blocks go through these; both stay in the first-level cache.
  static thread_local TableMemory turned_memory, column_memory;
  static thread_local size_t room = 0;
  if (room < kKvTile * d_k) {
    room = kKvTile * d_k;
    turned_memory = TableMemory(room);
    column_memory = TableMemory(room);
  }
  float* turned = turned_memory.get();
  float* columns = column_memory.get();
  for (size_t t = 0; t < count;) {
    const size_t token = first + t;
    const bool whole = token % kKvTile == 0 && count - t >= kKvTile;
    for (size_t h = head; h < end_head; ++h) {
      const float* key = k + t * k_stride + h * d_k;
      const float* value = v + t * v_stride + h * d_v;
      if (!whole) {
        if (angles != nullptr) {
          HWY_DYNAMIC_DISPATCH(TurnKey)(angles + t * d_k, key, d_k, turned);
          key = turned;
        }
        WriteToken(h, token, key, value);
        continue;
      }
      size_t stride = k_stride;
      if (angles != nullptr) {
        HWY_DYNAMIC_DISPATCH(TurnKeys)(angles + t * d_k, key, k_stride, d_k, turned);
        key = turned;
        stride = d_k;
      }
      const size_t block = token / kKvTile;
      const bool as_is = shape_.format == KvFormat::kF32;
      float* transposed = as_is ? reinterpret_cast<float*>(KeyBlock(h, block)) : columns;
      HWY_DYNAMIC_DISPATCH(TransposeKeys)(key, stride, d_k, transposed);
      if (shape_.format == KvFormat::kKivi4) {
        // As if the tokens had come one by one.
        auto* halves = reinterpret_cast<uint8_t*>(UnfinishedKeys(h));
        HWY_DYNAMIC_DISPATCH(KeysFromF32)(KvFormat::kF16, transposed, d_k, halves);
        HWY_DYNAMIC_DISPATCH(KeysToF32)(KvFormat::kF16, halves, d_k, transposed);
      }
      if (!as_is) HWY_DYNAMIC_DISPATCH(KeysFromF32)(shape_.format, transposed, d_k, KeyBlock(h, block));
      HWY_DYNAMIC_DISPATCH(ValuesFromF32)(shape_.format, value, v_stride, d_v, ValueBlock(h, block));
    }
    t += whole ? kKvTile : 1;
    const size_t end = first + t;
    if (!whole && end % kKvTile == 0 && shape_.format == KvFormat::kKivi4) {
      // The unfinished block is full: its channels get their scales.
      for (size_t h = head; h < end_head; ++h) {
        const auto* halves = reinterpret_cast<const uint8_t*>(UnfinishedKeys(h));
        HWY_DYNAMIC_DISPATCH(KeysToF32)(KvFormat::kF16, halves, d_k, columns);
        HWY_DYNAMIC_DISPATCH(KeysFromF32)(shape_.format, columns, d_k, KeyBlock(h, end / kKvTile - 1));
      }
    }
  }
}

void KvCache::Truncate(size_t n) {
  if (n >= n_) return;
  const size_t block = n / kKvTile;
  if (shape_.format == KvFormat::kKivi4 && n % kKvTile != 0 && !IsUnfinished(block)) {
    TableMemory columns(kKvTile * shape_.d_head_k);
    for (size_t h = 0; h < shape_.n_kv_heads; ++h) {
      HWY_DYNAMIC_DISPATCH(KeysToF32)(shape_.format, KeyBlock(h, block), shape_.d_head_k, columns.get());
      auto* halves = reinterpret_cast<uint8_t*>(UnfinishedKeys(h));
      HWY_DYNAMIC_DISPATCH(KeysFromF32)(KvFormat::kF16, columns.get(), shape_.d_head_k, halves);
    }
  }
  n_ = n;
}

void TransposeRows(const float* rows, size_t stride, size_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(TransposeKeys)(rows, stride, columns, out);
}

void KeyBlockAsF32(const KvCache& cache, size_t head, size_t block, float* out) {
  const KvShape& shape = cache.shape();
  if (cache.IsUnfinished(block)) {
    const auto* keys = reinterpret_cast<const uint8_t*>(cache.UnfinishedKeys(head));
    HWY_DYNAMIC_DISPATCH(KeysToF32)(KvFormat::kF16, keys, shape.d_head_k, out);
    return;
  }
  HWY_DYNAMIC_DISPATCH(KeysToF32)(shape.format, cache.KeyBlock(head, block), shape.d_head_k, out);
}

void ValueBlockAsF32(const KvCache& cache, size_t head, size_t block, float* out) {
  const KvShape& shape = cache.shape();
  HWY_DYNAMIC_DISPATCH(ValuesToF32)(shape.format, cache.ValueBlock(head, block), shape.d_head_v, out);
}

void KeyBlockFromF32(const float* in, size_t head, size_t block, KvCache* cache) {
  const KvShape& shape = cache->shape();
  HWY_DYNAMIC_DISPATCH(KeysFromF32)(shape.format, in, shape.d_head_k, cache->KeyBlock(head, block));
}

void UnfinishedKeysFromF32(const float* in, size_t head, KvCache* cache) {
  auto* keys = reinterpret_cast<uint8_t*>(cache->UnfinishedKeys(head));
  HWY_DYNAMIC_DISPATCH(KeysFromF32)(KvFormat::kF16, in, cache->shape().d_head_k, keys);
}

void ValueBlockFromF32(const float* in, size_t head, size_t block, KvCache* cache) {
  const KvShape& shape = cache->shape();
  HWY_DYNAMIC_DISPATCH(ValuesFromF32)
  (shape.format, in, shape.d_head_v, shape.d_head_v, cache->ValueBlock(head, block));
}

}  // namespace ropeline
#endif  // HWY_ONCE
