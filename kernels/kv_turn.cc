#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_turn.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "kernels/kv_tile-inl.h"
#include "kernels/kv_turn.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A block of f32, f16 or bf16: rows [d_head][32]. `ahead` is another block of the same kind.
template <bool kPerToken, typename T>
HWY_INLINE void TurnRows(const BlockAngles& angles, size_t d_head, const T* in, const T* ahead, T* out) {
  const TileTag d;
  using V = hn::Vec<TileTag>;
  const size_t lanes = hn::Lanes(d);
  const bool half = angles.pairing == Pairing::kHalf;
  const size_t bands = angles.d_rot / 2;
  for (size_t band = 0; band < bands; ++band) {
    const size_t first = (half ? band : 2 * band) * kKvTile;
    const size_t second = (half ? band + bands : 2 * band + 1) * kKvTile;
    for (size_t line = 0; line < kKvTile; line += 64 / sizeof(T)) {
      hwy::Prefetch(ahead + first + line);
      hwy::Prefetch(ahead + second + line);
    }
    if constexpr (!kPerToken) {
      const V c = hn::Set(d, angles.cosines[band]), s = hn::Set(d, angles.sines[band]);
#if HWY_TARGET != HWY_SCALAR
      if constexpr (kHasPairs<T>) {
        for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
          V a0, a1, b0, b1;
          LoadPair(d, in + first + o, a0, a1);
          LoadPair(d, in + second + o, b0, b1);
          StorePair(hn::NegMulAdd(b0, s, hn::Mul(a0, c)), hn::NegMulAdd(b1, s, hn::Mul(a1, c)), d,
                    out + first + o);
          StorePair(hn::MulAdd(a0, s, hn::Mul(b0, c)), hn::MulAdd(a1, s, hn::Mul(b1, c)), d,
                    out + second + o);
        }
        continue;
      }
#endif
      for (size_t o = 0; o < kKvTile; o += lanes) {
        const V a = LoadF32(d, in + first + o), b = LoadF32(d, in + second + o);
        StoreF32(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, out + first + o);
        StoreF32(hn::MulAdd(a, s, hn::Mul(b, c)), d, out + second + o);
      }
    } else {
      for (size_t o = 0; o < kKvTile; o += lanes) {
        const V c = hn::Load(d, angles.cosines + band * kKvTile + o);
        const V s = hn::Load(d, angles.sines + band * kKvTile + o);
        const V a = LoadF32(d, in + first + o), b = LoadF32(d, in + second + o);
        StoreF32(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, out + first + o);
        StoreF32(hn::MulAdd(a, s, hn::Mul(b, c)), d, out + second + o);
      }
    }
  }
  if (in != out) {
    std::memcpy(out + angles.d_rot * kKvTile, in + angles.d_rot * kKvTile,
                (d_head - angles.d_rot) * kKvTile * sizeof(T));
  }
}

template <typename T>
void TurnNumbers(const BlockAngles& angles, size_t d_head, const void* in, const void* ahead, void* out) {
  const auto* from = static_cast<const T*>(in);
  const auto* next = static_cast<const T*>(ahead);
  if (angles.per_token) {
    TurnRows<true>(angles, d_head, from, next, static_cast<T*>(out));
  } else {
    TurnRows<false>(angles, d_head, from, next, static_cast<T*>(out));
  }
}

// Only tiles in which something turns are quantised again. scratch: f32 of those tiles.
template <KvFormat kFormat>
HWY_INLINE void TurnQuantised(const BlockAngles& angles, size_t d_head, const uint8_t* in,
                              const uint8_t* ahead, float* scratch, uint8_t* out) {
  constexpr size_t kBytes = KvTileBytes(kFormat, kKvTile), kElements = kKvTile * kKvTile;
  const size_t tiles = (d_head + kKvTile - 1) / kKvTile, turned = (angles.d_rot + kKvTile - 1) / kKvTile;
  for (size_t i = 0; i < turned; ++i) {
    for (size_t line = 0; line < kBytes; line += 64) hwy::Prefetch(ahead + i * kBytes + line);
    QuantisedTileToF32(kFormat, KeyScale(kFormat), in + i * kBytes, scratch + i * kElements);
  }
  TurnNumbers<float>(angles, angles.d_rot, scratch, scratch, scratch);
  for (size_t i = 0; i < turned; ++i) {
    QuantisedTileFromF32(kFormat, KeyScale(kFormat), scratch + i * kElements, kKvTile, out + i * kBytes);
  }
  if (in != out) std::memcpy(out + turned * kBytes, in + turned * kBytes, (tiles - turned) * kBytes);
}

void TurnBlock(KvFormat format, const BlockAngles& angles, size_t d_head, const uint8_t* in,
               const uint8_t* ahead, float* scratch, uint8_t* out) {
  switch (format) {
    case KvFormat::kF32:
      return TurnNumbers<float>(angles, d_head, in, ahead, out);
    case KvFormat::kF16:
      return TurnNumbers<F16>(angles, d_head, in, ahead, out);
    case KvFormat::kBf16:
      return TurnNumbers<Bf16>(angles, d_head, in, ahead, out);
    default:
      return WithQuantised(format, [&](auto constant) HWY_ATTR {
        TurnQuantised<decltype(constant)::value>(angles, d_head, in, ahead, scratch, out);
      });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/kv_key_rows.h"

namespace ropeline {

HWY_EXPORT(TurnBlock);

KeyTurner::KeyTurner(const BlockAngles& angles, KvCache* cache)
    : angles_(angles),
      cache_(cache),
      scratch_((angles.d_rot + kKvTile - 1) / kKvTile * kKvTile * kKvTile),
      before_(std::max(cache->shape().d_head_k * kKvTile, (cache->shape().KeyBlockBytes() + 3) / 4)) {
  if (angles.d_rot > cache->shape().d_head_k || angles.d_rot % 2 != 0) {
    HWY_ABORT("%d dimensions to turn of keys of %d", static_cast<int>(angles.d_rot),
              static_cast<int>(cache->shape().d_head_k));
  }
}

uint8_t* KeyTurner::Home(size_t head, size_t block) const {
  return cache_->IsUnfinished(block) ? reinterpret_cast<uint8_t*>(cache_->UnfinishedKeys(head))
                                     : cache_->KeyBlock(head, block);
}

void KeyTurner::Turn(KvFormat format, const uint8_t* in, const uint8_t* ahead, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(TurnBlock)
  (format, angles_, cache_->shape().d_head_k, in, ahead, scratch_.get(), out);
}

void KeyTurner::Block(size_t head, size_t from, size_t to, const uint8_t* ahead) {
  const KvFormat format = cache_->IsUnfinished(from) ? KvFormat::kF16 : cache_->shape().format;
  uint8_t* in = Home(head, from);
  Turn(format, in, ahead, from == to ? in : cache_->KeyBlock(head, to));
}

void KeyTurner::BlockInto(size_t head, size_t from, const uint8_t* ahead, uint8_t* to) {
  Turn(cache_->shape().format, cache_->KeyBlock(head, from), ahead, to);
}

void KeyTurner::Floats(float* keys) {
  auto* bytes = reinterpret_cast<uint8_t*>(keys);
  Turn(KvFormat::kF32, bytes, bytes, bytes);
}

void KeyTurner::Lanes(size_t head, size_t block, size_t first, size_t last) {
  const KvShape& shape = cache_->shape();
  if (first == 0 && last == kKvTile) return Block(head, block, block, Home(head, block));
  if (shape.format == KvFormat::kKivi4 && !cache_->IsUnfinished(block)) {
    TableMemory floats(shape.d_head_k * kKvTile);
    KeyBlockAsF32(*cache_, head, block, before_.get());
    std::copy_n(before_.get(), shape.d_head_k * kKvTile, floats.get());
    Floats(floats.get());
    const auto* before = reinterpret_cast<const uint8_t*>(before_.get());
    auto* turned = reinterpret_cast<uint8_t*>(floats.get());
    CopyKeyTokens(KvFormat::kF32, shape.d_head_k, before, 0, first, turned);
    CopyKeyTokens(KvFormat::kF32, shape.d_head_k, before, last, kKvTile, turned);
    KeyBlockFromF32(floats.get(), head, block, cache_);
    return;
  }
  const KvFormat format = cache_->IsUnfinished(block) ? KvFormat::kF16 : shape.format;
  auto* before = reinterpret_cast<uint8_t*>(before_.get());
  uint8_t* home = Home(head, block);
  std::memcpy(before, home, KvBlockBytes(format, shape.d_head_k));
  Turn(format, home, home, home);
  CopyKeyTokens(format, shape.d_head_k, before, 0, first, home);
  CopyKeyTokens(format, shape.d_head_k, before, last, kKvTile, home);
}

void CopyKeyTokens(KvFormat format, size_t d_head, const uint8_t* source, size_t from, size_t to,
                   uint8_t* target) {
  if (from >= to) return;
  ForEachKeyRow(format, d_head, [&](size_t at, size_t element_bytes) {
    const size_t start = at + from * element_bytes;
    std::memcpy(target + start, source + start, (to - from) * element_bytes);
  });
}

FixedAngles::FixedAngles(const KeyRotation& rotation, int64_t positions) : pairing(rotation.pairing) {
  for (const double inv_freq : rotation.inv_freq) {
    const double angle = static_cast<double>(positions) * inv_freq;
    cosines.push_back(static_cast<float>(std::cos(angle)));
    sines.push_back(static_cast<float>(std::sin(angle)));
  }
}

void TurnKeys(size_t first, size_t last, int64_t positions, const KeyRotation& rotation, KvCache* cache) {
  if (first > last || last > cache->n()) {
    HWY_ABORT("keys of tokens %d to %d turned in a cache of %d", static_cast<int>(first),
              static_cast<int>(last), static_cast<int>(cache->n()));
  }
  const FixedAngles angles(rotation, positions);
  KeyTurner turner(angles.Get(), cache);
  if (rotation.inv_freq.empty() || first == last) return;
  const size_t begin = first / kKvTile, end = (last + kKvTile - 1) / kKvTile;
  for (size_t h = 0; h < cache->shape().n_kv_heads; ++h) {
    for (size_t b = begin; b < end; ++b) {
      const size_t from = b == begin ? first % kKvTile : 0;
      // What stands behind the last token is no token.
      const size_t to = last == cache->n() ? kKvTile : std::min(kKvTile, last - b * kKvTile);
      if (from == 0 && to == kKvTile) {
        turner.Block(h, b, b, cache->KeyBlock(h, b) + cache->shape().KeyBlockBytes());
      } else {
        turner.Lanes(h, b, from, to);
      }
    }
  }
}

Cost TurnKeysCost(const KvShape& shape, size_t count, const KeyRotation& rotation) {
  const auto tokens = static_cast<double>(count * shape.n_kv_heads);
  const double bytes = tokens * static_cast<double>(KvBlockBytes(shape.format, rotation.DRot())) / kKvTile;
  return {.bytes_read = bytes,
          .bytes_written = bytes,
          .flops = 3 * tokens * static_cast<double>(rotation.DRot())};
}

}  // namespace ropeline
#endif  // HWY_ONCE
