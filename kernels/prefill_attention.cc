// A unit is a hundred or so rows, each a query and a head that share one KV head. For every 128 keys, which
// stay in the second-level cache: tiles of 6 rows take scores, softmax and values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/prefill_attention.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/kv_product-inl.h"
#include "kernels/prefill_attention.h"
#include "kernels/prefill_unit.h"
#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a tile: with four vectors of sums each, or two where there are 16 registers.
constexpr size_t kTileRows = 6;
constexpr bool kWide = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// What a chunk of keys looks like to the rows of a unit.
struct Chunk {
  size_t start;         // token
  size_t blocks;        // of 32 tokens; the last may hold fewer
  const float* keys;    // [blocks][d_k][32]
  const float* values;  // [blocks][tiles][32][32]
};

// The next chunk is asked for while this one is computed: a few lines at a time, because more than the
// core's dozen fill buffers hold would keep its loads waiting.
class Ahead {
 public:
  Ahead(const NextChunk& next, size_t tiles) : next_(next) {
    constexpr size_t kStepsOfTile = 10;  // of six rows and heads of 128
    const size_t lines = (next.key_bytes + next.value_bytes + kLine - 1) / kLine;
    lines_ = (lines + tiles * kStepsOfTile - 1) / (tiles * kStepsOfTile);
  }
  HWY_INLINE void Step() {
    for (size_t i = 0; i < lines_; ++i, at_ += kLine) {
      if (at_ < next_.key_bytes) {
        hwy::Prefetch(next_.keys + at_);
      } else if (at_ < next_.key_bytes + next_.value_bytes) {
        hwy::Prefetch(next_.values + (at_ - next_.key_bytes));
      }
    }
  }

 private:
  static constexpr size_t kLine = 64;
  const NextChunk& next_;
  size_t lines_, at_ = 0;
};

// Rows [row, row + kRows) of the unit; positions of the first and the last of them bound what they see.
template <size_t kRows>
HWY_NOINLINE void TileOfRows(const PrefillAttention& call, const PrefillUnit& unit, const Chunk& chunk,
                             Ahead* ahead, size_t row, size_t count) {
  const size_t d_k = call.cache->shape().d_head_k;
  const size_t end = call.cache->n();
  size_t first = unit.Position(row), last = first;
  for (size_t r = row + 1; r < row + count; ++r) {
    first = first < unit.Position(r) ? first : unit.Position(r);
    last = last > unit.Position(r) ? last : unit.Position(r);
  }
  // Blocks that no row sees are left out, at the end and before the window.
  size_t blocks = chunk.blocks;
  if (call.causal && chunk.start + blocks * kKvTile > last + 1) {
    if (chunk.start > last) return;
    blocks = (last + 1 - chunk.start + kKvTile - 1) / kKvTile;
  }
  size_t skipped = 0;
  const size_t window = call.bias.window;
  const size_t low = window != 0 && first >= window ? first - window + 1 : 0;
  // Of a chunk before the window only the blocks of sinks count.
  const size_t sinks = call.bias.sinks;
  if (chunk.start < sinks && low >= chunk.start + blocks * kKvTile) {
    const size_t with_sinks = (sinks - chunk.start + kKvTile - 1) / kKvTile;
    blocks = blocks < with_sinks ? blocks : with_sinks;
  }
  if (chunk.start >= sinks && low > chunk.start) {
    skipped = (low - chunk.start) / kKvTile;
    if (skipped >= blocks) return;
  }
  const size_t start = chunk.start + skipped * kKvTile;
  blocks -= skipped;
  const float* block_keys = chunk.keys + skipped * d_k * kKvTile;
  const float* block_values = chunk.values + skipped * unit.d_v * kKvTile;
  const float* q = unit.q + row / kPanel * kPanel * d_k + row % kPanel;
  HWY_ALIGN float scores[kRows * kPrefillChunk];
  const size_t block_floats = d_k * kKvTile;
  size_t b = 0;
  for (; kWide && b + 2 <= blocks; b += 2) {
    const Numbers<float> keys{block_keys + b * block_floats, kKvTile, d_k};
    WideProduct<kRows, 1, kPanel, true>(q, keys, block_floats, scores + b * kKvTile, kPrefillChunk);
    ahead->Step();
  }
  for (; b < blocks; ++b) {
    const Numbers<float> keys{block_keys + b * block_floats, kKvTile, d_k};
    NumberProduct<kRows, 1, kPanel, true, false>(q, keys, scores + b * kKvTile, kPrefillChunk);
  }
  float* sums = unit.sums + row * unit.sums_stride;
  for (size_t r = 0; r < count; ++r) {
    const size_t position = unit.Position(row + r);
    const Seen seen = SeenInChunk(call, position, start, blocks * kKvTile, end);
    WithBias(call.bias.kind, [&](auto kind) HWY_ATTR {
      const ScoreBias<decltype(kind)::value> bias(call.bias, unit.Head(row + r), position, start);
      SoftmaxStep(bias, seen, blocks * kKvTile, scores + r * kPrefillChunk, sums + r * unit.sums_stride,
                  unit.d_v, &unit.states[row + r]);
    });
    ahead->Step();
  }
  // Rows beyond the last have no weights.
  for (size_t i = count * kPrefillChunk; i < kRows * kPrefillChunk; ++i) scores[i] = 0;
  constexpr size_t kTile = kKvTile * kKvTile;
  const size_t tiles = unit.d_v / kKvTile;
  size_t i = 0;
  for (; kWide && i + 2 <= tiles; i += 2) {
    const Numbers<float> values{block_values + i * kTile, kKvTile, kKvTile, blocks, tiles * kTile};
    WideProduct<kRows, kPrefillChunk, 1, false>(scores, values, kTile, sums + i * kKvTile, unit.sums_stride);
    ahead->Step();
  }
  for (; i < tiles; ++i) {
    const Numbers<float> values{block_values + i * kTile, kKvTile, kKvTile, blocks, tiles * kTile};
    NumberProduct<kRows, kPrefillChunk, 1, false, false>(scores, values, sums + i * kKvTile,
                                                         unit.sums_stride);
  }
}

void AttendChunk(const PrefillAttention& call, const PrefillUnit& unit, size_t start, size_t blocks,
                 const float* keys, const float* values, const NextChunk& next) {
  const Chunk chunk{start, blocks, keys, values};
  Ahead ahead(next, (unit.rows + kTileRows - 1) / kTileRows);
  for (size_t row = 0; row < unit.rows; row += kTileRows) {
    const size_t count = unit.rows - row < kTileRows ? unit.rows - row : kTileRows;
    WithRows<kTileRows>(count,
                        [&](auto rows) HWY_ATTR { TileOfRows<rows>(call, unit, chunk, &ahead, row, count); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

#include "kernels/memory.h"

namespace ropeline {

HWY_EXPORT(AttendChunk);

namespace {

void Check(const PrefillAttention& call) {
  const KvShape& shape = call.cache->shape();
  if (shape.n_kv_heads == 0 || call.n_heads % shape.n_kv_heads != 0 || call.latent > shape.d_head_k) {
    HWY_ABORT("attention of %d query heads on %d KV heads, latent %d of %d, expected a whole number of each",
              static_cast<int>(call.n_heads), static_cast<int>(shape.n_kv_heads),
              static_cast<int>(call.latent), static_cast<int>(shape.d_head_k));
  }
}

// Queries of a unit: a multiple of a tile's rows, so that a tile is of one head, and rows enough to make up
// for unpacking a chunk of keys.
size_t QueriesPerUnit(const PrefillAttention& call) {
  constexpr size_t kRows = 144;
  const size_t panels = std::max<size_t>(1, kRows / (kPanel * call.Group()));
  return std::min(call.n_q, panels * kPanel);
}

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

struct Scratch {
  PrefillUnit unit;
  float* keys;
  float* values;
};

// One cache line more than a power of two from row to row.
Scratch LayOut(const PrefillAttention& call, size_t rows) {
  static thread_local TableMemory memory;
  static thread_local size_t have = 0;
  const size_t room = RoundUp(rows, kPanel);
  Scratch scratch{};
  PrefillUnit& unit = scratch.unit;
  unit.d_v = RoundUp(call.ValueDimensions(), kKvTile);
  unit.sums_stride = unit.d_v + 16;
  const size_t keys = kPrefillChunk * call.cache->shape().d_head_k, values = kPrefillChunk * unit.d_v;
  const size_t states = RoundUp(room * sizeof(SoftmaxState) / sizeof(float), 16);
  const size_t d_k = call.cache->shape().d_head_k;
  const size_t need = room * (d_k + unit.sums_stride) + states + keys + values;
  if (have < need) {
    memory = TableMemory(need);
    have = need;
  }
  float* next = memory.get();
  const auto take = [&](size_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  scratch.keys = take(keys);
  scratch.values = take(values);
  unit.q = take(room * d_k);
  unit.sums = take(room * unit.sums_stride);
  unit.states = reinterpret_cast<SoftmaxState*>(take(states));
  std::fill_n(unit.q, room * d_k, 0.0f);
  std::fill_n(unit.sums, room * unit.sums_stride, 0.0f);
  return scratch;
}

// keys [d_k][32] to values [tiles][32][32] of the first `latent` dimensions.
void ValuesOfKeys(const float* keys, size_t d_k, size_t latent, float* values) {
  for (size_t i = 0; i < latent; i += kKvTile, values += kKvTile * kKvTile) {
    if (i + kKvTile <= d_k) {
      TransposeRows(keys + i * kKvTile, kKvTile, kKvTile, values);
      continue;
    }
    for (size_t j = 0; j < kKvTile * kKvTile; ++j) {
      const size_t t = j / kKvTile, dimension = i + j % kKvTile;
      values[j] = dimension < latent ? keys[dimension * kKvTile + t] : 0;
    }
  }
}

// Values of tokens that are not there must not be NaN.
void ClearFrom(size_t token, size_t d_v, float* values) {
  for (size_t i = 0; i < d_v; i += kKvTile, values += kKvTile * kKvTile) {
    std::fill_n(values + token * kKvTile, (kKvTile - token) * kKvTile, 0.0f);
  }
}

// The chunk from token `start` on, as it is stored; empty from `end` on.
NextChunk ChunkAfter(const KvCache& cache, size_t kv_head, size_t start, size_t end) {
  if (start >= end) return {};
  const size_t block = start / kKvTile;
  const size_t blocks = (std::min(end - start, kPrefillChunk) + kKvTile - 1) / kKvTile;
  NextChunk next;
  next.keys = cache.KeyBlock(kv_head, block);
  next.key_bytes = blocks * cache.shape().KeyBlockBytes();
  next.values = cache.ValueBlock(kv_head, block);
  next.value_bytes = blocks * cache.shape().ValueBlockBytes();
  return next;
}

}  // namespace

size_t PrefillUnits(const PrefillAttention& call) {
  Check(call);
  if (call.n_q == 0 || call.n_heads == 0) return 0;
  const size_t queries = QueriesPerUnit(call);
  return (call.n_q + queries - 1) / queries * call.cache->shape().n_kv_heads;
}

void AttendPrefillUnit(const PrefillAttention& call, size_t index, float* out) {
  const KvCache& cache = *call.cache;
  const KvShape& shape = cache.shape();
  Check(call);
  const size_t per_unit = QueriesPerUnit(call);
  const size_t kv_head = index % shape.n_kv_heads, first = index / shape.n_kv_heads * per_unit;
  const size_t queries = std::min(per_unit, call.n_q - first);
  Scratch scratch = LayOut(call, queries * call.Group());
  PrefillUnit& unit = scratch.unit;
  unit.rows = queries * call.Group();
  unit.queries = queries;
  unit.first_position = call.first_position + first;
  unit.first_head = kv_head * call.Group();
  for (size_t r = 0; r < unit.rows; ++r) {
    const size_t head = unit.Head(r), query = first + r % queries;
    const float* from = call.q + (query * call.n_heads + head) * shape.d_head_k;
    float* panel = unit.q + r / kPanel * kPanel * shape.d_head_k + r % kPanel;
    for (size_t i = 0; i < shape.d_head_k; ++i) panel[i * kPanel] = from[i] * call.scale;
    unit.states[r] = {};
    if (call.bias.sink_logits != nullptr) unit.states[r] = {call.bias.sink_logits[head], 1};
  }
  const size_t end = call.causal ? std::min(cache.n(), unit.first_position + queries) : cache.n();
  const size_t tile = kKvTile * kKvTile, tiles = unit.d_v / kKvTile;
  const bool keys_as_they_are = shape.format == KvFormat::kF32;
  const bool values_as_they_are = keys_as_they_are && call.latent == 0 && shape.d_head_v % kKvTile == 0;
  for (size_t start = 0; start < end; start += kPrefillChunk) {
    // The earliest query's window is the furthest back.
    const size_t chunk_end = std::min(end, start + kPrefillChunk);
    if (!SeenByAny(call, unit.first_position, start, chunk_end)) continue;
    const size_t block = start / kKvTile, blocks = (chunk_end - start + kKvTile - 1) / kKvTile;
    const auto* keys = reinterpret_cast<const float*>(cache.KeyBlock(kv_head, block));
    if (!keys_as_they_are) {
      for (size_t b = 0; b < blocks; ++b) {
        KeyBlockAsF32(cache, kv_head, block + b, scratch.keys + b * shape.d_head_k * kKvTile);
      }
      keys = scratch.keys;
    }
    const auto* values = reinterpret_cast<const float*>(cache.ValueBlock(kv_head, block));
    const bool cut = block + blocks > cache.n() / kKvTile;  // the last block is not full
    if (!values_as_they_are || cut) {
      for (size_t b = 0; b < blocks; ++b) {
        float* to = scratch.values + b * tiles * tile;
        if (call.latent != 0) {
          ValuesOfKeys(keys + b * shape.d_head_k * kKvTile, shape.d_head_k, call.latent, to);
        } else {
          ValueBlockAsF32(cache, kv_head, block + b, to);
        }
        if (block + b == cache.n() / kKvTile) ClearFrom(cache.n() % kKvTile, unit.d_v, to);
      }
      values = scratch.values;
    }
    const NextChunk next = ChunkAfter(cache, kv_head, chunk_end, end);
    HWY_DYNAMIC_DISPATCH(AttendChunk)(call, unit, start, blocks, keys, values, next);
  }
  const size_t d_v = call.ValueDimensions();
  for (size_t r = 0; r < unit.rows; ++r) {
    const float weights = unit.states[r].weights;
    const float inverse = weights == 0 ? 0 : 1 / weights;
    float* to = out + ((first + r % queries) * call.n_heads + unit.Head(r)) * d_v;
    for (size_t i = 0; i < d_v; ++i) to[i] = unit.sums[r * unit.sums_stride + i] * inverse;
  }
}

void AttendPrefill(const PrefillAttention& call, float* out) {
  for (size_t unit = 0; unit < PrefillUnits(call); ++unit) AttendPrefillUnit(call, unit, out);
}

double SeenPairs(const PrefillAttention& call, size_t n) {
  double pairs = 0;
  for (size_t t = 0; t < call.n_q; ++t) {
    const size_t position = call.first_position + t;
    const Seen seen = SeenInChunk(call, position, 0, n, n);
    const size_t sinks = std::min({seen.sinks, seen.low, seen.high});
    pairs += static_cast<double>(sinks + (seen.high > seen.low ? seen.high - seen.low : 0));
  }
  return pairs;
}

Cost PrefillAttentionCost(const PrefillAttention& call) {
  return PrefillAttentionCost(call, call.cache->n());
}

Cost PrefillAttentionCost(const PrefillAttention& call, size_t n) {
  const KvShape& shape = call.cache->shape();
  const auto heads = static_cast<double>(call.n_heads), queries = static_cast<double>(call.n_q);
  const auto d_k = static_cast<double>(shape.d_head_k), d_v = static_cast<double>(call.ValueDimensions());
  return {.bytes_read = static_cast<double>(n) * shape.BytesPerToken() + 4 * queries * heads * d_k,
          .bytes_written = 4 * queries * heads * d_v,
          .flops = 2 * heads * SeenPairs(call, n) * (d_k + d_v)};
}

}  // namespace ropeline
#endif  // HWY_ONCE
