// For each KV head, 256 tokens at a time: scores of the group's rows from 8 blocks of keys, their softmax so
// far, and the blocks of values weighted with it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode_attention.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/byte_dot-inl.h"
#include "kernels/decode_attention.h"
#include "kernels/kv_nibble_product-inl.h"
#include "kernels/kv_product-inl.h"
#include "kernels/kv_whole_product-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/turned_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kChunk = 256;  // tokens of one softmax step
constexpr size_t kMostTiles = kMostDecodeDimensions / kKvTile;
constexpr size_t kRowStep = kMostDecodeDimensions + 16;  // rows of q start in different cache sets
// Bytes between a load and the prefetch of its line: some 8 KiB hide the memory's latency behind one core's
// bandwidth.
constexpr size_t kAheadBytes = 8192;

// What the keys and the values of a chunk are read from, and what comes after them.
struct Stream {
  const uint8_t* from;
  const uint8_t* end;
  const uint8_t* next;
  // Where to ask for memory while `at` is read.
  const uint8_t* Ahead(const uint8_t* at) const {
    const auto left = static_cast<size_t>(end - at);
    return left > kAheadBytes ? at + kAheadBytes : next + (kAheadBytes - left);
  }
};

// Buffers of one unit.
struct Rows {
  size_t count;      // of the group, rounded up to what WithRows takes
  size_t d_k, d_v;   // rounded up to 32
  float* q;          // [count][kRowStep], d_k of them filled
  float* scores;     // [count][kChunk]
  float* sums;       // [count][d_v]
  WholeRows whole;   // of q; for nibbles its numbers are the bytes of ByteRows
  float* largest_q;  // [tiles][count]
  float* zeros;      // [tiles of values][count][kZeroLanes], of one chunk
  float* turned;     // [count][kRowStep]: q turned back by a block's position
  float* keys;       // [d_k][32]: an unpacked block
};

HWY_INLINE Rows LayOut(const DecodeAttention& call, float* scratch) {
  const KvShape& shape = call.cache->shape();
  const auto rounded = [](size_t d_head) { return (d_head + kKvTile - 1) / kKvTile * kKvTile; };
  Rows rows{};
  const size_t last = call.Group() % kMostRows;
  WithRows(last == 0 ? kMostRows : last, [&](auto count) { rows.count = count; });
  rows.count += (call.Group() - 1) / kMostRows * kMostRows;
  rows.d_k = rounded(shape.d_head_k);
  rows.d_v = rounded(shape.d_head_v);
  const auto take = [&](size_t floats) {
    float* taken = scratch;
    scratch += (floats + 15) / 16 * 16;
    return taken;
  };
  const size_t steps = rows.d_k / kKvTile * rows.count;
  rows.q = take(rows.count * kRowStep);
  rows.scores = take(rows.count * kChunk);
  rows.sums = take(rows.count * rows.d_v);
  rows.whole.numbers = reinterpret_cast<int16_t*>(take(rows.count * rows.d_k / 2));
  rows.whole.steps = take(steps);
  rows.whole.offsets = take(steps);
  rows.largest_q = take(steps);
  rows.zeros = take(rows.d_v / kKvTile * rows.count * kZeroLanes);
  if (call.unrotated != nullptr) {
    rows.turned = take(rows.count * kRowStep);
    rows.keys = take(rows.d_k * kKvTile);
  }
  return rows;
}

// Rows [row, row + kRows) · keys of one block.
template <size_t kRows>
HWY_NOINLINE void KeyProduct(const KvCache& cache, const Rows& rows, size_t row, size_t head, size_t block,
                             const Stream& stream, float* scores) {
  const KvFormat format = cache.shape().format;
  const size_t d_head = cache.shape().d_head_k;
  const uint8_t* keys = cache.KeyBlock(head, block);
  const float* q = rows.q + row * kRowStep;
  const auto numbers = [&](const auto* m) HWY_ATTR {
    NumberProduct<kRows, kRowStep, 1, true, true>(q, NumbersAt(m, kKvTile, d_head), scores, kChunk,
                                                  stream.Ahead(keys));
  };
  if (cache.IsUnfinished(block)) return numbers(reinterpret_cast<const F16*>(cache.UnfinishedKeys(head)));
  switch (format) {
    case KvFormat::kF32:
      return numbers(reinterpret_cast<const float*>(keys));
    case KvFormat::kF16:
      return numbers(reinterpret_cast<const F16*>(keys));
    case KvFormat::kBf16:
      return numbers(reinterpret_cast<const Bf16*>(keys));
    default:
      break;
  }
  const size_t bytes = KvTileBytes(format, kKvTile), tiles = rows.d_k / kKvTile;
  RoundedRows<kRows> rounded[kMostTiles];
  HWY_ALIGN float zeros[kRows * kZeroLanes] = {};
  const TileTag d;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t o = 0; o < kKvTile; o += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, scores + r * kChunk + o);
  }
  if (format == KvFormat::kKivi4) {
    for (size_t i = 0; i < tiles; ++i) {
      const float* largest = rows.largest_q + i * rows.count + row;
      float factors[kRows];
      for (size_t r = 0; r < kRows; ++r) factors[r] = NumberFactor(largest[r]);
      RoundForTile<kRows, TileZero::kMinimum>(q + i * kKvTile, kRowStep, largest, factors, keys + i * bytes,
                                              0, kKvTile, &rounded[i], zeros);
#if ROPELINE_NIBBLE_BYTES
      SplitNumbers(&rounded[i]);
#endif
    }
  }
  for (size_t i = 0; i < tiles; ++i, keys += bytes) {
    const uint8_t* ahead = stream.Ahead(keys);
    const size_t at = i * rows.count + row;
    const WholeRows whole{rows.whole.numbers + at * kKvTile, rows.whole.steps + at, rows.whole.offsets + at};
#if ROPELINE_NIBBLE_BYTES
    if (format == KvFormat::kQ40) {
      const ByteRows bytes_of{reinterpret_cast<int8_t*>(rows.whole.numbers) + at * kKvTile, whole.steps,
                              whole.offsets};
      ByteRowsProduct<kRows>(bytes_of, keys, scores, kChunk, ahead);
      continue;
    }
    if (format == KvFormat::kKivi4) {
      SplitProduct<kRows, true>(rounded[i], keys, scores, kChunk, ahead);
      continue;
    }
#endif
    if (format == KvFormat::kQ80) {
      ScaledOutputProduct<kRows, false>(whole, keys, scores, kChunk, ahead);
    } else if (format == KvFormat::kQ40) {
      ScaledOutputProduct<kRows, true>(whole, keys, scores, kChunk, ahead);
    } else {
      RoundedProduct<kRows, true, true>(rounded[i], keys, scores, kChunk, ahead);
    }
  }
  if (format != KvFormat::kKivi4) return;
  for (size_t r = 0; r < kRows; ++r) AddZeros(zeros + r * kZeroLanes, scores + r * kChunk, kKvTile);
}

// The same for keys that turn as they are read. Quantised ones are unpacked first: their numbers have no
// rotation.
template <size_t kRows>
HWY_NOINLINE void TurnedKeyProduct(const UnrotatedKeys& angles, const KvCache& cache, const Rows& rows,
                                   size_t row, size_t head, size_t block, const Stream& stream,
                                   float* scores) {
  const KvFormat format = cache.shape().format;
  const size_t d_head = cache.shape().d_head_k;
  const uint8_t* keys = cache.KeyBlock(head, block);
  const uint8_t* ahead = stream.Ahead(keys);
  const auto product = [&](const auto* m) HWY_ATTR {
    TurnedProduct<kRows, kRowStep>(angles, rows.turned + row * kRowStep, m, d_head, scores, kChunk, ahead);
  };
  if (cache.IsUnfinished(block)) return product(reinterpret_cast<const F16*>(cache.UnfinishedKeys(head)));
  switch (format) {
    case KvFormat::kF32:
      return product(reinterpret_cast<const float*>(keys));
    case KvFormat::kF16:
      return product(reinterpret_cast<const F16*>(keys));
    case KvFormat::kBf16:
      return product(reinterpret_cast<const Bf16*>(keys));
    default:
      break;
  }
  if (row == 0) UnpackKeys(format, keys, rows.d_k / kKvTile, rows.keys);
  product(static_cast<const float*>(rows.keys));
}

// Rows' weights · values of tokens [first, end) of one block, added to the sums. `largest`: of each row's
// weights in this chunk.
template <size_t kRows>
HWY_NOINLINE void ValueProduct(const KvCache& cache, const Rows& rows, size_t row, size_t head, size_t block,
                               size_t first, size_t end, const Stream& stream, const float* weights,
                               const float* largest) {
  const KvFormat format = cache.shape().format;
  const size_t d_head = cache.shape().d_head_v;
  const uint8_t* values = cache.ValueBlock(head, block);
  float* sums = rows.sums + row * rows.d_v;
  if (!IsQuantised(format)) {
    for (size_t i = 0; i < d_head; i += kKvTile, sums += kKvTile) {
      const size_t width = d_head - i < kKvTile ? d_head - i : kKvTile;
      const auto numbers = [&](const auto* m) HWY_ATTR {
        NumberProduct<kRows, kChunk, 1, false, true>(weights + first,
                                                     NumbersAt(m + first * width, width, end - first), sums,
                                                     rows.d_v, stream.Ahead(values));
      };
      if (format == KvFormat::kF32) {
        numbers(reinterpret_cast<const float*>(values));
      } else if (format == KvFormat::kF16) {
        numbers(reinterpret_cast<const F16*>(values));
      } else {
        numbers(reinterpret_cast<const Bf16*>(values));
      }
      values += KvTileBytes(format, width);
    }
    return;
  }
  const auto product = [&](auto zero) HWY_ATTR {
    constexpr TileZero kZero = decltype(zero)::value;
    constexpr bool kNibbles = kZero != TileZero::kNone, kMinimum = kZero == TileZero::kMinimum;
    RoundedRows<kRows> rounded[kMostTiles];
    const size_t bytes = KvTileBytes(format, kKvTile), tiles = rows.d_v / kKvTile;
    float factors[kRows];
    for (size_t r = 0; r < kRows; ++r) factors[r] = NumberFactor(largest[r]);
    for (size_t i = 0; i < tiles; ++i) {
      RoundForTile<kRows, kZero>(weights, kChunk, largest, factors, values + i * bytes, first, end,
                                 &rounded[i], rows.zeros + (i * rows.count + row) * kZeroLanes);
#if ROPELINE_NIBBLE_BYTES
      if constexpr (kNibbles) SplitNumbers(&rounded[i]);
#endif
    }
    for (size_t i = 0; i < tiles; ++i, values += bytes) {
#if ROPELINE_NIBBLE_BYTES
      if constexpr (kNibbles) {
        SplitProduct<kRows, kMinimum>(rounded[i], values, sums + i * kKvTile, rows.d_v, stream.Ahead(values));
        continue;
      }
#endif
      RoundedProduct<kRows, kNibbles, kMinimum>(rounded[i], values, sums + i * kKvTile, rows.d_v,
                                                stream.Ahead(values));
    }
  };
  if (format == KvFormat::kQ80) return product(std::integral_constant<TileZero, TileZero::kNone>());
  if (format == KvFormat::kQ40) return product(std::integral_constant<TileZero, TileZero::kEight>());
  product(std::integral_constant<TileZero, TileZero::kMinimum>());
}

// Tokens [first, end) of one KV head, `first` and `end` in blocks that follow each other; next: the keys
// read after these.
HWY_NOINLINE void AttendRange(const DecodeAttention& call, const Rows& rows, size_t head, size_t first,
                              size_t end, const uint8_t* next, SoftmaxState* states) {
  const KvCache& cache = *call.cache;
  const size_t group = call.Group();
  for (size_t from = first; from < end;) {
    const size_t start = from / kKvTile * kKvTile;
    const size_t to = start + kChunk < end ? start + kChunk : end;
    const size_t blocks = (to - start + kKvTile - 1) / kKvTile;
    const size_t block = start / kKvTile;
    const uint8_t* after = to < end ? cache.KeyBlock(head, block + blocks) : next;
    const Stream keys{cache.KeyBlock(head, block), cache.KeyBlock(head, block + blocks),
                      cache.ValueBlock(head, block)};
    const Stream values{cache.ValueBlock(head, block), cache.ValueBlock(head, block + blocks), after};
    for (size_t b = 0; b < blocks; ++b) {
      if (call.unrotated != nullptr) {
        for (size_t r = 0; r < rows.count; ++r) {
          TurnBack(*call.unrotated, block + b, rows.q + r * kRowStep, rows.d_k, rows.turned + r * kRowStep);
        }
      }
      for (size_t row = 0; row < rows.count; row += kMostRows) {
        WithRows(rows.count - row < kMostRows ? rows.count - row : kMostRows, [&](auto count) HWY_ATTR {
          float* scores = rows.scores + row * kChunk + b * kKvTile;
          if (call.unrotated != nullptr) {
            TurnedKeyProduct<count>(*call.unrotated, cache, rows, row, head, block + b, keys, scores);
          } else {
            KeyProduct<count>(cache, rows, row, head, block + b, keys, scores);
          }
        });
      }
    }
    HWY_ALIGN float largest[kMostGroup];
    for (size_t r = 0; r < group; ++r) {
      const auto step = [&](auto bias) HWY_ATTR {
        const ScoreBias<decltype(bias)::value> of_row(call.bias, head * group + r, call.position, start);
        largest[r] = SoftmaxStep(of_row, Seen{from - start, to - start}, blocks * kKvTile,
                                 rows.scores + r * kChunk, rows.sums + r * rows.d_v, rows.d_v, &states[r]);
      };
      WithBias(call.bias.kind, step);
    }
    for (size_t r = 0; r < group; ++r) largest[r] = LargestWeight(largest[r], states[r]);
    for (size_t r = group; r < rows.count; ++r) largest[r] = 0;
    const bool has_zeros = IsQuantised(cache.shape().format) && cache.shape().format != KvFormat::kQ80;
    const size_t tiles = rows.d_v / kKvTile;
    for (size_t i = 0; has_zeros && i < tiles * rows.count * kZeroLanes; ++i) rows.zeros[i] = 0;
    for (size_t b = 0; b < blocks; ++b) {
      const size_t low = from > start + b * kKvTile ? from - start - b * kKvTile : 0;
      const size_t left = to - start - b * kKvTile;
      for (size_t row = 0; row < rows.count; row += kMostRows) {
        WithRows(rows.count - row < kMostRows ? rows.count - row : kMostRows, [&](auto count) HWY_ATTR {
          ValueProduct<count>(cache, rows, row, head, block + b, low, left < kKvTile ? left : kKvTile, values,
                              rows.scores + row * kChunk + b * kKvTile, largest + row);
        });
      }
    }
    for (size_t i = 0; has_zeros && i < tiles; ++i) {
      for (size_t r = 0; r < group; ++r) {
        AddZeros(rows.zeros + (i * rows.count + r) * kZeroLanes, rows.sums + r * rows.d_v + i * kKvTile,
                 kKvTile);
      }
    }
    from = start + kChunk;
  }
}

// One unit: `count` ranges of tokens; next: the keys read after them. partial [group][d_head_v + 2].
void AttendTokens(const DecodeAttention& call, size_t head, const TokenRange* ranges, size_t count,
                  const uint8_t* next, float* scratch, float* partial) {
  const TileTag d;
  const KvShape& shape = call.cache->shape();
  const size_t group = call.Group();
  const Rows rows = LayOut(call, scratch);
  for (size_t r = 0; r < rows.count; ++r) {
    float* q = rows.q + r * kRowStep;
    const float* from = call.q + (head * group + r) * shape.d_head_k;
    for (size_t i = 0; i < rows.d_k; ++i) q[i] = r < group && i < shape.d_head_k ? from[i] * call.scale : 0;
    if (call.unrotated != nullptr) {
      for (size_t i = 0; i < rows.d_k; ++i) rows.turned[i] = q[i];
      SplitPairs(*call.unrotated, rows.turned, rows.d_k, q);
    }
    float* sums = rows.sums + r * rows.d_v;
    for (size_t i = 0; i < rows.d_v; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, sums + i);
  }
  // Rows beyond the group have weights too; theirs stay zero.
  for (size_t i = 0; i < rows.count * kChunk; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, rows.scores + i);
#if ROPELINE_NIBBLE_BYTES
  const bool bytes = shape.format == KvFormat::kQ40;
  if (bytes) {
    RoundRowsToBytes(rows.q, kRowStep, rows.count, rows.d_k / kKvTile,
                     {reinterpret_cast<int8_t*>(rows.whole.numbers), rows.whole.steps, rows.whole.offsets});
  }
#else
  const bool bytes = false;
#endif
  if (KeyScale(shape.format) == TileScale::kOfOutput && !bytes) {
    RoundRows(rows.q, kRowStep, rows.count, rows.d_k / kKvTile, rows.whole);
  } else if (KeyScale(shape.format) == TileScale::kOfSummedFrom) {
    for (size_t i = 0; i < rows.d_k / kKvTile * rows.count; ++i) {
      const size_t tile = i / rows.count, r = i % rows.count;
      rows.largest_q[i] = LargestMagnitude(rows.q + r * kRowStep + tile * kKvTile, kKvTile);
    }
  }
  HWY_ALIGN SoftmaxState states[kMostGroup];
  for (size_t r = 0; r < group; ++r) states[r] = {};
  for (size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const uint8_t* after = last ? next : call.cache->KeyBlock(head, ranges[i + 1].first / kKvTile);
    AttendRange(call, rows, head, ranges[i].first, ranges[i].end, after, states);
  }
  for (size_t r = 0; r < group; ++r) {
    float* out = partial + r * (shape.d_head_v + 2);
    for (size_t i = 0; i < shape.d_head_v; ++i) out[i] = rows.sums[r * rows.d_v + i];
    out[shape.d_head_v] = states[r].largest;
    out[shape.d_head_v + 1] = states[r].weights;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "kernels/decode_visible.h"
#include "kernels/memory.h"

namespace ropeline {

HWY_EXPORT(AttendTokens);

namespace {

void Check(const DecodeAttention& call) {
  const KvShape& shape = call.cache->shape();
  if (shape.n_kv_heads == 0 || call.n_heads % shape.n_kv_heads != 0 || call.Group() > kMostGroup ||
      shape.d_head_k > kMostDecodeDimensions || shape.d_head_v > kMostDecodeDimensions) {
    HWY_ABORT(
        "attention of %d query heads on %d KV heads, expected a whole number each, at most %d, of at most %d "
        "dimensions",
        static_cast<int>(call.n_heads), static_cast<int>(shape.n_kv_heads), static_cast<int>(kMostGroup),
        static_cast<int>(kMostDecodeDimensions));
  }
  const UnrotatedKeys* angles = call.unrotated;
  if (angles != nullptr && (2 * angles->bands() > shape.d_head_k || angles->capacity() < call.cache->n())) {
    HWY_ABORT("%d tokens of %d dimensions, of which %d turn, and angles for %d tokens",
              static_cast<int>(call.cache->n()), static_cast<int>(shape.d_head_k),
              static_cast<int>(2 * angles->bands()), static_cast<int>(angles->capacity()));
  }
}

// Rows that a group may be rounded up to, and what belongs to each.
size_t ScratchFloats(const DecodeAttention& call) {
  const KvShape& shape = call.cache->shape();
  const size_t rows = call.Group() + 12;
  const size_t of_row = kMostDecodeDimensions + 16 + shape.d_head_k + 2 * shape.d_head_v + 256 +
                        4 * (shape.d_head_k / kKvTile + 2) + 256;
  size_t floats = rows * of_row + 256;
  if (call.unrotated != nullptr) {
    floats += rows * (kMostDecodeDimensions + 16) + (shape.d_head_k + kKvTile) * kKvTile + 32;
  }
  return floats;
}

float* Scratch(const DecodeAttention& call) {
  static thread_local TableMemory scratch;
  static thread_local size_t have = 0;
  const size_t need = ScratchFloats(call);
  if (have < need) {
    scratch = TableMemory(need);
    have = need;
  }
  return scratch.get();
}

}  // namespace

void AttendUnit(const DecodeAttention& call, size_t unit, size_t slices, float* partial) {
  Check(call);
  const size_t head = unit / slices, slice = unit % slices;
  const Visible visible = VisibleOf(call, call.cache->n());
  // Slices end where blocks do.
  const size_t from = visible.first / kKvTile, blocks = (visible.end + kKvTile - 1) / kKvTile - from;
  const auto boundary = [&](size_t s) { return (from + blocks * s / slices) * kKvTile; };
  const size_t first = std::max(visible.first, boundary(slice));
  const size_t end = std::max(first, std::min(visible.end, boundary(slice + 1)));
  const KvCache& cache = *call.cache;
  const bool last = head + 1 == cache.shape().n_kv_heads;
  const uint8_t* next =
      slice + 1 < slices ? cache.KeyBlock(head, end / kKvTile) : cache.KeyBlock(last ? head : head + 1, from);
  TokenRange ranges[2];
  size_t count = 0;
  if (slice == 0 && visible.sinks > 0) ranges[count++] = {0, visible.sinks};
  if (first < end) ranges[count++] = {first, end};
  HWY_DYNAMIC_DISPATCH(AttendTokens)(call, head, ranges, count, next, Scratch(call), partial);
}

void AttendRangesOf(const DecodeAttention& call, size_t head, const TokenRange* ranges, size_t count,
                    float* partial) {
  Check(call);
  const KvCache& cache = *call.cache;
  size_t from = 0;
  for (size_t i = 0; i < count; from = ranges[i++].end) {
    if (ranges[i].first >= from && ranges[i].first < ranges[i].end &&
        ranges[i].end <= VisibleOf(call, cache.n()).end) {
      continue;
    }
    HWY_ABORT("attention to tokens [%d, %d) after %d, expected ascending ranges of the %d visible ones",
              static_cast<int>(ranges[i].first), static_cast<int>(ranges[i].end), static_cast<int>(from),
              static_cast<int>(VisibleOf(call, cache.n()).end));
  }
  const uint8_t* next = cache.KeyBlock(head + 1 == cache.shape().n_kv_heads ? head : head + 1, 0);
  HWY_DYNAMIC_DISPATCH(AttendTokens)(call, head, ranges, count, next, Scratch(call), partial);
}

}  // namespace ropeline
#endif  // HWY_ONCE
