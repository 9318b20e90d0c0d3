#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_evict.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/kv_evict.h"
#include "kernels/kv_key_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kAhead = 4096;  // bytes

// row[o] = o + shift < 32 ? from[o + shift] : next[o + shift − 32]. A vector may reach into the rows behind
// `from` and before `next`. In place for from == row.
template <typename T>
HWY_INLINE void ShiftRow(const T* from, const T* next, size_t shift, T* row) {
  const hn::CappedTag<T, 32> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t o = 0; o < kKvTile; o += lanes) {
    const size_t there = kKvTile - shift;  // lanes that come from `from`
    if (o + lanes <= there) {
      hn::StoreU(hn::LoadU(d, from + o + shift), d, row + o);
    } else if (o >= there) {
      hn::StoreU(hn::LoadU(d, next + (o - there)), d, row + o);
    } else {
      const auto first = hn::LoadU(d, from + o + shift);
      const auto second = hn::LoadU(d, next - (there - o));
      hn::StoreU(hn::IfThenElse(hn::FirstN(d, there - o), first, second), d, row + o);
    }
  }
}

// 32 tokens of keys that begin `shift` (1 … 31) tokens into `from`, bit for bit.
void ShiftKeys(KvFormat format, size_t d_head, const uint8_t* from, const uint8_t* next, size_t shift,
               uint8_t* to) {
  ForEachKeyRow(format, d_head, [&](size_t at, size_t element_bytes) HWY_ATTR {
    if (element_bytes == 4) {
      ShiftRow(reinterpret_cast<const uint32_t*>(from + at), reinterpret_cast<const uint32_t*>(next + at),
               shift, reinterpret_cast<uint32_t*>(to + at));
    } else {
      ShiftRow(reinterpret_cast<const uint16_t*>(from + at), reinterpret_cast<const uint16_t*>(next + at),
               shift, reinterpret_cast<uint16_t*>(to + at));
    }
  });
}

// Rows of numbers of a value tile hold several tokens of each dimension: 2 bytes of q8_0, 8 nibbles of q4_0
// and kivi4. row = the tokens that begin `shift` into a, and go on in b; the first `kept` are left alone.
void ShiftBytePairs(const uint8_t* a, const uint8_t* b, size_t shift, size_t kept, uint8_t* row) {
  const hn::CappedTag<uint16_t, 32> d;
  const auto* first = reinterpret_cast<const uint16_t*>(a);
  const auto* second = reinterpret_cast<const uint16_t*>(b);
  auto* out = reinterpret_cast<uint16_t*>(row);
  const auto keep = hn::Set(d, static_cast<uint16_t>((1u << (8 * kept)) - 1));
  for (size_t o = 0; o < kKvTile; o += hn::Lanes(d)) {
    auto moved = hn::LoadU(d, first + o);
    if (shift != 0) {
      moved = hn::Or(hn::ShiftRight<8>(moved), hn::ShiftLeft<8>(hn::LoadU(d, second + o)));
    }
    if (kept != 0) moved = hn::Or(hn::AndNot(keep, moved), hn::And(keep, hn::LoadU(d, out + o)));
    hn::StoreU(moved, d, out + o);
  }
}

void ShiftNibbles(const uint8_t* a, const uint8_t* b, size_t shift, size_t kept, uint8_t* row) {
  const hn::CappedTag<uint32_t, 32> d;
  const auto* first = reinterpret_cast<const uint32_t*>(a);
  const auto* second = reinterpret_cast<const uint32_t*>(b);
  auto* out = reinterpret_cast<uint32_t*>(row);
  const auto low = hn::Set(d, 0xffffu), high = hn::Set(d, 0xffff0000u);
  uint32_t kept_bits = 0;
  for (size_t c = 0; c < kept; ++c) kept_bits |= 0xfu << (16 * (c % 2) + 4 * (c / 2));
  const auto keep = hn::Set(d, kept_bits);
  const int to_even = static_cast<int>(shift / 2 * 4), to_odd = static_cast<int>((shift + 1) / 2 * 4);
  for (size_t o = 0; o < kKvTile; o += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, first + o), y = hn::LoadU(d, second + o);
    // Eight even tokens, four of them y's, and eight odd ones.
    const auto even = hn::Or(hn::And(x, low), hn::ShiftLeft<16>(y));
    const auto odd = hn::Or(hn::ShiftRight<16>(x), hn::And(y, high));
    const auto new_even = hn::ShiftRightSame(shift % 2 == 0 ? even : odd, to_even);
    const auto new_odd = hn::ShiftRightSame(shift % 2 == 0 ? odd : even, to_odd);
    auto moved = hn::Or(hn::And(new_even, low), hn::ShiftLeft<16>(new_odd));
    if (kept != 0) moved = hn::Or(hn::AndNot(keep, moved), hn::And(keep, hn::LoadU(d, out + o)));
    hn::StoreU(moved, d, out + o);
  }
}

// The numbers of a value tile, without scales: rows of `per_row` tokens, 64 or 128 bytes.
void ShiftValueNumbers(KvFormat format, const uint8_t* from, const uint8_t* next, size_t shift, size_t kept,
                       uint8_t* to) {
  const bool bytes = format == KvFormat::kQ80;
  const size_t per_row = bytes ? 2 : 8, row_bytes = bytes ? 64 : 128, rows = kKvTile / per_row;
  const auto source = [&](size_t row) {
    // Past the last token anything will do.
    if (row >= rows && next == nullptr) return from + (rows - 1) * row_bytes;
    return row < rows ? from + row * row_bytes : next + (row - rows) * row_bytes;
  };
  for (size_t row = kept / per_row; row < rows; ++row) {
    const size_t kept_here = row == kept / per_row ? kept % per_row : 0;
    const size_t first = row + shift / per_row;
    const uint8_t* a = source(first);
    const uint8_t* b = shift % per_row != 0 ? source(first + 1) : a;
    (bytes ? ShiftBytePairs : ShiftNibbles)(a, b, shift % per_row, kept_here, to + row * row_bytes);
  }
}

// Past the caches, which saves reading what is overwritten. Whole lines of 64 bytes, aligned, from the first
// to the last; `from` may lie anywhere behind `to`, or elsewhere.
void StreamLines(const uint8_t* from, size_t bytes, uint8_t* to) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < bytes; i += 64) {
    hwy::Prefetch(from + i + kAhead);
    for (size_t j = i; j < i + 64; j += lanes) hn::Stream(hn::LoadU(d, from + j), d, to + j);
  }
}

// After StreamLines, before another thread is told.
void Flush() { hwy::FlushStream(); }

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

namespace ropeline {

HWY_EXPORT(StreamLines);
HWY_EXPORT(Flush);
HWY_EXPORT(ShiftKeys);
HWY_EXPORT(ShiftValueNumbers);

namespace {

// 32 places of `element_bytes` each: place o gets place o + shift of `from`, and beyond its 32nd of `next`;
// the first `kept` are left alone, and those for which there is nothing.
void ShiftPlaces(const uint8_t* from, const uint8_t* next, size_t element_bytes, size_t shift, size_t kept,
                 uint8_t* to) {
  const size_t there = std::max(kKvTile - shift, kept);
  std::memmove(to + kept * element_bytes, from + (kept + shift) * element_bytes,
               (there - kept) * element_bytes);
  if (next == nullptr) return;
  std::memmove(to + there * element_bytes, next + (there + shift - kKvTile) * element_bytes,
               (kKvTile - there) * element_bytes);
}

// A gap of that many bytes: what is overwritten was read so long ago that no cache of the core's own holds
// it.
constexpr size_t kFarBytes = size_t{1} << 20;

// Moves what follows a gap, which may be as wide as it is long.
void MoveDown(const uint8_t* from, size_t bytes, uint8_t* to) {
  if (static_cast<size_t>(from - to) >= kFarBytes) {
    HWY_DYNAMIC_DISPATCH(StreamLines)(from, bytes, to);
  } else {
    std::memmove(to, from, bytes);
  }
}

// Evicts from one head after the other.
class Eviction {
 public:
  Eviction(size_t begin, size_t end, const KeyRotation& rotation, KvCache* cache)
      : cache_(cache),
        shape_(cache->shape()),
        n_(cache->n()),
        gone_(end - begin),
        first_(begin / kKvTile),
        kept_(begin % kKvTile),
        last_((n_ - gone_ - 1) / kKvTile),
        angles_(rotation, -static_cast<int64_t>(gone_)),
        turns_(!rotation.inv_freq.empty()),
        turner_(angles_.Get(), cache),
        block_memory_(shape_.KeyBlockBytes(), 1),
        block_(static_cast<uint8_t*>(block_memory_.Data())) {
    if (shape_.format != KvFormat::kKivi4) return;
    for (TableMemory& floats : floats_) floats = TableMemory(shape_.d_head_k * kKvTile);
  }

  void Head(size_t h) {
    if (shape_.format == KvFormat::kKivi4) {
      KiviKeys(h);
    } else {
      Keys(h);
    }
    Values(h);
  }

 private:
  size_t Shift() const { return gone_ % kKvTile; }
  size_t Source(size_t block) const { return block + gone_ / kKvTile; }
  bool HasNext(size_t block) const { return Shift() != 0 && (Source(block) + 1) * kKvTile < n_; }
  size_t Kept(size_t block) const { return block == first_ ? kept_ : 0; }
  // Does all of the block come from one?
  bool MovesWhole(size_t block) const { return Shift() == 0 && Kept(block) == 0; }

  void Keys(size_t h) {
    for (size_t b = first_; b <= last_; ++b) {
      const uint8_t* from = cache_->KeyBlock(h, Source(b));
      uint8_t* to = cache_->KeyBlock(h, b);
      if (MovesWhole(b)) {
        if (!turns_) return MoveDown(from, (last_ + 1 - b) * shape_.KeyBlockBytes(), to);
        const uint8_t* ahead = from + shape_.KeyBlockBytes();
        if (static_cast<size_t>(from - to) < kFarBytes) {
          turner_.Block(h, Source(b), b, ahead);
        } else {
          turner_.BlockInto(h, Source(b), ahead, block_);
          HWY_DYNAMIC_DISPATCH(StreamLines)(block_, shape_.KeyBlockBytes(), to);
        }
        continue;
      }
      const uint8_t* next = HasNext(b) ? cache_->KeyBlock(h, Source(b) + 1) : nullptr;
      if (next != nullptr && Kept(b) == 0) {
        HWY_DYNAMIC_DISPATCH(ShiftKeys)(shape_.format, shape_.d_head_k, from, next, Shift(), to);
      } else {
        ForEachKeyRow(shape_.format, shape_.d_head_k, [&](size_t at, size_t element_bytes) {
          ShiftPlaces(from + at, next != nullptr ? next + at : nullptr, element_bytes, Shift(), Kept(b),
                      to + at);
        });
      }
      if (turns_) turner_.Lanes(h, b, Kept(b), kKvTile);
    }
  }

  // A block of keys as f32 in one of two places.
  const float* Floats(size_t h, size_t block, size_t place) {
    KeyBlockAsF32(*cache_, h, block, floats_[place].get());
    return floats_[place].get();
  }

  void KiviKeys(size_t h) {
    const size_t d = shape_.d_head_k;
    for (size_t b = first_; b <= last_; ++b) {
      const bool unfinished = (b + 1) * kKvTile > n_ - gone_;
      if (MovesWhole(b)) {
        const size_t from = Source(b);
        if (unfinished) {
          // So was the source: they are in the same place.
          if (turns_) turner_.Block(h, from, from, reinterpret_cast<uint8_t*>(cache_->UnfinishedKeys(h)));
        } else if (turns_) {
          turner_.Block(h, from, b, cache_->KeyBlock(h, from + 1));
        } else {
          std::memcpy(cache_->KeyBlock(h, b), cache_->KeyBlock(h, from), shape_.KeyBlockBytes());
        }
        continue;
      }
      auto* from = reinterpret_cast<const uint8_t*>(Floats(h, Source(b), 0));
      const uint8_t* next =
          HasNext(b) ? reinterpret_cast<const uint8_t*>(Floats(h, Source(b) + 1, 1)) : nullptr;
      auto* to = reinterpret_cast<uint8_t*>(floats_[2].get());
      ForEachKeyRow(KvFormat::kF32, d, [&](size_t at, size_t element_bytes) {
        ShiftPlaces(from + at, next != nullptr ? next + at : nullptr, element_bytes, Shift(), 0, to + at);
      });
      if (turns_) turner_.Floats(floats_[2].get());
      if (Kept(b) != 0) {
        const auto* before = reinterpret_cast<const uint8_t*>(Floats(h, b, 0));
        CopyKeyTokens(KvFormat::kF32, d, before, 0, Kept(b), to);
      }
      if (unfinished) {
        UnfinishedKeysFromF32(floats_[2].get(), h, cache_);
      } else {
        KeyBlockFromF32(floats_[2].get(), h, b, cache_);
      }
    }
  }

  void Values(size_t h) {
    const KvFormat format = shape_.format;
    const size_t tiles = (shape_.d_head_v + kKvTile - 1) / kKvTile;
    for (size_t b = first_; b <= last_; ++b) {
      const uint8_t* from = cache_->ValueBlock(h, Source(b));
      const uint8_t* next = HasNext(b) ? cache_->ValueBlock(h, Source(b) + 1) : nullptr;
      uint8_t* to = cache_->ValueBlock(h, b);
      if (MovesWhole(b)) {
        return MoveDown(from, (last_ + 1 - b) * shape_.ValueBlockBytes(), to);
      }
      for (size_t i = 0; i < tiles; ++i) {
        const size_t width = std::min(kKvTile, shape_.d_head_v - i * kKvTile);
        const size_t at = i * KvTileBytes(format, kKvTile);
        const auto places = [&](size_t start, size_t element_bytes) {
          ShiftPlaces(from + start, next != nullptr ? next + start : nullptr, element_bytes, Shift(), Kept(b),
                      to + start);
        };
        if (!IsQuantised(format)) {
          places(at, KvTileBytes(format, width) / kKvTile);
          continue;
        }
        places(at, 2);  // scales
        if (format == KvFormat::kKivi4) places(at + 2 * kKvTile, 2);
        const size_t numbers = at + (format == KvFormat::kKivi4 ? 4 : 2) * kKvTile;
        HWY_DYNAMIC_DISPATCH(ShiftValueNumbers)
        (format, from + numbers, next != nullptr ? next + numbers : nullptr, Shift(), Kept(b), to + numbers);
      }
    }
  }

  KvCache* cache_;
  const KvShape& shape_;
  size_t n_, gone_;
  size_t first_, kept_;  // the block in which the gap begins, and its tokens before it
  size_t last_;          // the survivors' last block
  FixedAngles angles_;
  bool turns_;
  KeyTurner turner_;
  TableMemory block_memory_;
  uint8_t* block_;         // of keys, on its way past the caches
  TableMemory floats_[3];  // kivi4: a source, the next one, and what becomes of them
};

}  // namespace

void EvictTokens(size_t begin, size_t end, const KeyRotation& rotation, KvCache* cache) {
  if (begin > end || end > cache->n()) {
    HWY_ABORT("tokens %d to %d evicted from a cache of %d", static_cast<int>(begin), static_cast<int>(end),
              static_cast<int>(cache->n()));
  }
  if (begin == end) return;
  if (end == cache->n()) return cache->Truncate(begin);
  Eviction eviction(begin, end, rotation, cache);
  for (size_t h = 0; h < cache->shape().n_kv_heads; ++h) eviction.Head(h);
  HWY_DYNAMIC_DISPATCH(Flush)();
  cache->SetTokens(cache->n() - (end - begin));
}

Cost EvictCost(const KvShape& shape, size_t n, size_t begin, size_t end, const KeyRotation& rotation) {
  if (begin == end) return {};
  const double bytes = static_cast<double>(n - end) * shape.BytesPerToken();
  return {.bytes_read = bytes, .bytes_written = bytes, .flops = TurnKeysCost(shape, n - end, rotation).flops};
}

size_t KeepSinksAndWindow(size_t sinks, size_t window, const KeyRotation& rotation, KvCache* cache) {
  const size_t n = cache->n();
  if (window >= n || sinks >= n - window) return 0;
  EvictTokens(sinks, n - window, rotation, cache);
  return n - window - sinks;
}

Cost KeepSinksAndWindowCost(const KvShape& shape, size_t n, size_t sinks, size_t window,
                            const KeyRotation& rotation) {
  if (window >= n || sinks >= n - window) return {};
  return EvictCost(shape, n, sinks, n - window, rotation);
}

}  // namespace ropeline
#endif  // HWY_ONCE
