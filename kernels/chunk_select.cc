#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk_select.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/chunk_select.h"
#include "kernels/exp-inl.h"
#include "kernels/kv_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kSummaryStep = 2 * kMostDecodeDimensions + 16;  // rows of q start in different cache sets

// keys [d_head][32], the first `tokens` of which count. so_far and out [rows]: sums, or largest and least.
void ReduceKeys(ChunkSummary summary, const float* keys, size_t d_head, size_t tokens, const float* so_far,
                float* out) {
  const TileTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < d_head; ++i) {
    const float* row = keys + i * kKvTile;
    const auto none = summary == ChunkSummary::kMean ? hn::Zero(d) : hn::Set(d, row[0]);
    auto sum = hn::Zero(d), most = hn::Set(d, row[0]), least = most;
    for (size_t t = 0; t < tokens; t += lanes) {
      auto x = hn::LoadU(d, row + t);
      if (t + lanes > tokens) x = hn::IfThenElse(hn::FirstN(d, tokens - t), x, none);
      sum = hn::Add(sum, x);
      most = hn::Max(most, x);
      least = hn::Min(least, x);
    }
    if (summary == ChunkSummary::kMean) {
      out[i] = so_far[i] + hn::GetLane(hn::SumOfLanes(d, sum));
      continue;
    }
    const float high = hn::GetLane(hn::MaxOfLanes(d, most)), low = hn::GetLane(hn::MinOfLanes(d, least));
    out[i] = so_far[i] > high ? so_far[i] : high;
    out[d_head + i] = so_far[d_head + i] < low ? so_far[d_head + i] : low;
  }
}

// q [rows rounded up as WithRows does][kSummaryStep] · `blocks` blocks; scores [rows][stride].
void ScoreBlocks(const float* q, size_t rows, const float* summaries, size_t blocks, size_t summary_rows,
                 float* scores, size_t stride) {
  for (size_t b = 0; b < blocks; ++b, summaries += summary_rows * kKvTile) {
    for (size_t row = 0; row < rows; row += kMostRows) {
      WithRows(rows - row < kMostRows ? rows - row : kMostRows, [&](auto count) HWY_ATTR {
        NumberProduct<count, kSummaryStep, 1, true, true>(q + row * kSummaryStep,
                                                          NumbersAt(summaries, kKvTile, summary_rows),
                                                          scores + row * stride + b * kKvTile, stride);
      });
    }
  }
}

// ranks[c] += softmax(scores)[c] over `chunks` chunks, unless a NaN or an infinity is among them, which is no
// other head's affair. A multiple of 32 floats of each may be used.
void AddShares(const float* scores, size_t chunks, float* scratch, float* ranks) {
  const TileTag d;
  const size_t lanes = hn::Lanes(d);
  float largest = scores[0];
  for (size_t c = 1; c < chunks; ++c) largest = scores[c] > largest ? scores[c] : largest;
  auto sum = hn::Zero(d);
  for (size_t c = 0; c < chunks; c += lanes) {
    auto share = Exp(d, hn::Sub(hn::LoadU(d, scores + c), hn::Set(d, largest)));
    if (c + lanes > chunks) share = hn::IfThenElseZero(hn::FirstN(d, chunks - c), share);
    hn::StoreU(share, d, scratch + c);
    sum = hn::Add(sum, share);
  }
  const float total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (!(total >= 1)) return;
  const auto inverse = hn::Set(d, 1 / total);
  for (size_t c = 0; c < chunks; c += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, scratch + c), inverse, hn::LoadU(d, ranks + c)), d, ranks + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <limits>

namespace ropeline {

HWY_EXPORT(ReduceKeys);
HWY_EXPORT(ScoreBlocks);
HWY_EXPORT(AddShares);

namespace {

constexpr size_t kQueryStep = 2 * kMostDecodeDimensions + 16;  // kSummaryStep
constexpr size_t kMostRowsBeyond = 12;                         // that a group is rounded up by

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

size_t VisibleEnd(const DecodeAttention& call) {
  const size_t n = call.cache->n();
  return call.position < n ? call.position + 1 : n;
}

void Check(const ChunkSummaries& summaries, const DecodeAttention& call) {
  const KvCache& cache = *call.cache;
  const size_t d_head = cache.shape().d_head_k;
  if (summaries.n() == cache.n() && d_head <= kMostDecodeDimensions) return;
  HWY_ABORT("summaries of %d tokens for a cache of %d, of heads of %d dimensions",
            static_cast<int>(summaries.n()), static_cast<int>(cache.n()), static_cast<int>(d_head));
}

// Buffers of a thread.
float* Scratch(size_t floats) {
  static thread_local TableMemory scratch;
  static thread_local size_t have = 0;
  if (have < floats) {
    scratch = TableMemory(floats);
    have = floats;
  }
  return scratch.get();
}

// [Group()][stride], and one row of `stride` floats after them; of the first `chunks` chunks.
struct Scores {
  float* scores;
  float* spare;
  size_t stride;
};

Scores ScoresOf(const ChunkSummaries& summaries, const DecodeAttention& call, size_t head, size_t chunks) {
  const size_t group = call.Group(), d_head = call.cache->shape().d_head_k, rows = group + kMostRowsBeyond;
  const size_t stride = RoundUp(chunks, kKvTile);
  float* q = Scratch(rows * (kQueryStep + stride) + 2 * stride);
  const Scores out{q + rows * kQueryStep, q + rows * (kQueryStep + stride), stride};
  for (size_t r = 0; r < group; ++r) {
    const float* from = call.q + (head * group + r) * d_head;
    float* to = q + r * kQueryStep;
    for (size_t i = 0; i < d_head; ++i) {
      const float x = from[i] * call.scale;
      to[i] = x;
      if (summaries.summary() == ChunkSummary::kMean) continue;
      to[i] = std::max(x, 0.0f);
      to[d_head + i] = std::min(x, 0.0f);
    }
  }
  for (size_t r = group; r < rows; ++r) std::fill_n(q + r * kQueryStep, summaries.rows(), 0.0f);
  HWY_DYNAMIC_DISPATCH(ScoreBlocks)
  (q, group, summaries.Block(head, 0), stride / kKvTile, summaries.rows(), out.scores, stride);
  return out;
}

}  // namespace

const char* ChunkSummaryName(ChunkSummary summary) {
  return summary == ChunkSummary::kMean ? "mean" : "bounds";
}

size_t SummaryRows(ChunkSummary summary, size_t d_head_k) {
  return summary == ChunkSummary::kMean ? d_head_k : 2 * d_head_k;
}

ChunkSummaries::ChunkSummaries(const KvCache& cache, ChunkSummary summary, size_t chunk)
    : summary_(summary), chunk_(chunk) {
  if (chunk == 0 || chunk % kKvTile != 0) {
    HWY_ABORT("chunks of %d tokens, expected a multiple of %d", static_cast<int>(chunk),
              static_cast<int>(kKvTile));
  }
  const KvShape& shape = cache.shape();
  rows_ = SummaryRows(summary, shape.d_head_k);
  blocks_ = (RoundUp(cache.capacity(), chunk) / chunk + kKvTile - 1) / kKvTile;
  const size_t floats = shape.n_kv_heads * blocks_ * rows_ * kKvTile;
  memory_ = TableMemory(floats);
  std::fill_n(memory_.get(), floats, 0.0f);
  open_.resize(shape.n_kv_heads * rows_);
  Update(cache);
}

void ChunkSummaries::Update(const KvCache& cache, size_t first_changed) {
  if (first_changed < n_ || cache.n() < n_) n_ = std::min(first_changed, cache.n()) / chunk_ * chunk_;
  for (size_t h = 0; h < cache.shape().n_kv_heads; ++h) UpdateHead(cache, h, cache.n());
  n_ = cache.n();
}

void ChunkSummaries::UpdateHead(const KvCache& cache, size_t head, size_t n) {
  const size_t d_head = cache.shape().d_head_k, blocks_of_chunk = chunk_ / kKvTile;
  const size_t end = (n + kKvTile - 1) / kKvTile;
  std::vector<float> reduced(rows_);
  float* open = open_.data() + head * rows_;
  TableMemory keys(d_head * kKvTile);
  for (size_t block = n_ / kKvTile; block < end; ++block) {
    if (block % blocks_of_chunk == 0) {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      const bool mean = summary_ == ChunkSummary::kMean;
      std::fill_n(open, d_head, mean ? 0.0f : -kInfinity);
      if (!mean) std::fill_n(open + d_head, d_head, kInfinity);
    }
    KeyBlockAsF32(cache, head, block, keys.get());
    const size_t tokens = std::min(kKvTile, n - block * kKvTile);
    HWY_DYNAMIC_DISPATCH(ReduceKeys)(summary_, keys.get(), d_head, tokens, open, reduced.data());
    if (tokens == kKvTile) std::copy(reduced.begin(), reduced.end(), open);
    if ((block + 1) % blocks_of_chunk != 0 && block + 1 < end) continue;
    const size_t chunk = block / blocks_of_chunk;
    const size_t count = std::min(n, (block + 1) * kKvTile) - chunk * chunk_;
    const float factor = summary_ == ChunkSummary::kMean ? 1 / static_cast<float>(count) : 1;
    float* to = memory_.get() + (head * blocks_ + chunk / kKvTile) * rows_ * kKvTile + chunk % kKvTile;
    for (size_t i = 0; i < rows_; ++i) to[i * kKvTile] = reduced[i] * factor;
  }
}

void ScoreChunks(const ChunkSummaries& summaries, const DecodeAttention& call, size_t head, float* scores) {
  Check(summaries, call);
  const size_t chunks = summaries.chunks();
  const Scores from = ScoresOf(summaries, call, head, chunks);
  for (size_t r = 0; r < call.Group(); ++r) {
    std::copy_n(from.scores + r * from.stride, chunks, scores + r * chunks);
  }
}

std::vector<TokenRange> ChooseTokens(const ChunkSummaries& summaries, const DecodeAttention& call,
                                     size_t head, const ChunkChoice& choice) {
  Check(summaries, call);
  const size_t end = VisibleEnd(call), chunk = summaries.chunk();
  const size_t sinks = std::min(end, RoundUp(choice.sinks, kKvTile));
  const size_t window = choice.window == 0 ? end : (end - std::min(end, choice.window)) / kKvTile * kKvTile;
  std::vector<TokenRange> chosen;
  const auto add = [&](size_t from, size_t to) {
    if (from < to) chosen.push_back({from, to});
  };
  add(0, sinks);
  add(window, end);
  // Chunks that hold a token beside those.
  const size_t first = sinks / chunk;
  const size_t last = window > sinks ? (window + chunk - 1) / chunk : first;
  if (choice.best > 0 && first < last) {
    const Scores from = ScoresOf(summaries, call, head, last);
    float* ranks = from.spare;
    std::fill_n(ranks, from.stride, 0.0f);
    for (size_t r = 0; r < call.Group(); ++r) {
      HWY_DYNAMIC_DISPATCH(AddShares)
      (from.scores + r * from.stride, last, from.spare + from.stride, ranks);
    }
    std::vector<size_t> best(last - first);
    for (size_t i = 0; i < best.size(); ++i) best[i] = first + i;
    const size_t count = std::min(choice.best, best.size());
    // Of equals the later one.
    std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(count), best.end(),
                      [&](size_t a, size_t b) { return ranks[a] != ranks[b] ? ranks[a] > ranks[b] : a > b; });
    for (size_t i = 0; i < count; ++i) add(best[i] * chunk, std::min(end, (best[i] + 1) * chunk));
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const TokenRange& a, const TokenRange& b) { return a.first < b.first; });
  std::vector<TokenRange> joined;
  for (const TokenRange& range : chosen) {
    if (!joined.empty() && range.first <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

size_t TokensOf(const std::vector<TokenRange>& ranges) {
  size_t tokens = 0;
  for (const TokenRange& range : ranges) tokens += range.end - range.first;
  return tokens;
}

std::vector<TokenRange> SliceOf(const std::vector<TokenRange>& ranges, size_t slice, size_t slices) {
  const auto blocks_of = [](const TokenRange& r) { return (r.end - r.first + kKvTile - 1) / kKvTile; };
  size_t blocks = 0;
  for (const TokenRange& range : ranges) blocks += blocks_of(range);
  const size_t from = blocks * slice / slices, to = blocks * (slice + 1) / slices;
  std::vector<TokenRange> part;
  size_t passed = 0;
  for (const TokenRange& range : ranges) {
    const size_t here = blocks_of(range);
    const size_t low = std::clamp(from, passed, passed + here) - passed;
    const size_t high = std::clamp(to, passed, passed + here) - passed;
    if (low < high) {
      part.push_back({range.first + low * kKvTile, std::min(range.end, range.first + high * kKvTile)});
    }
    passed += here;
  }
  return part;
}

void AttendChosen(const ChunkSummaries& summaries, const DecodeAttention& call, const ChunkChoice& choice,
                  float* out) {
  const size_t heads = call.cache->shape().n_kv_heads;
  std::vector<float> partials(heads * PartialFloats(call));
  for (size_t h = 0; h < heads; ++h) {
    const std::vector<TokenRange> ranges = ChooseTokens(summaries, call, h, choice);
    AttendRangesOf(call, h, ranges.data(), ranges.size(), partials.data() + h * PartialFloats(call));
  }
  MergeUnits(call, 0, heads, 1, partials.data(), out);
}

void AttentionMass(const DecodeAttention& call, size_t head, const std::vector<TokenRange>& ranges,
                   double* mass) {
  const size_t d_v = call.cache->shape().d_head_v;
  std::vector<float> all(PartialFloats(call)), chosen(PartialFloats(call));
  AttendUnit(call, head, 1, all.data());
  AttendRangesOf(call, head, ranges.data(), ranges.size(), chosen.data());
  for (size_t r = 0; r < call.Group(); ++r) {
    const float* a = all.data() + r * (d_v + 2) + d_v;
    const float* c = chosen.data() + r * (d_v + 2) + d_v;
    const double factor = std::exp(static_cast<double>(c[0]) - static_cast<double>(a[0]));
    mass[r] = static_cast<double>(c[1]) * factor / static_cast<double>(a[1]);
  }
}

double AttentionRecall(const ChunkSummaries& summaries, const DecodeAttention& call,
                       const ChunkChoice& choice) {
  std::vector<double> mass(call.Group());
  double sum = 0;
  for (size_t h = 0; h < call.cache->shape().n_kv_heads; ++h) {
    AttentionMass(call, h, ChooseTokens(summaries, call, h, choice), mass.data());
    for (const double m : mass) sum += m;
  }
  return sum / static_cast<double>(call.n_heads);
}

Cost ChunkScoreCost(const ChunkSummaries& summaries, const DecodeAttention& call) {
  const KvShape& shape = call.cache->shape();
  return ChunkScoreCost(summaries.summary(), static_cast<double>(summaries.chunks()), call.n_heads,
                        shape.n_kv_heads, shape.d_head_k);
}

Cost ChunkScoreCost(ChunkSummary summary, double chunks, size_t n_heads, size_t n_kv_heads, size_t d_head_k) {
  const auto rows = static_cast<double>(SummaryRows(summary, d_head_k));
  const auto heads = static_cast<double>(n_heads);
  return {.bytes_read =
              4 * chunks * rows * static_cast<double>(n_kv_heads) + 4 * heads * static_cast<double>(d_head_k),
          .flops = 2 * heads * chunks * rows};
}

Cost ChunkUpdateCost(const ChunkSummaries& summaries, const KvShape& shape, size_t tokens) {
  const auto heads = static_cast<double>(shape.n_kv_heads), rows = static_cast<double>(summaries.rows());
  const auto count = static_cast<double>(tokens);
  const double chunks = std::ceil(count / static_cast<double>(summaries.chunk()));
  return {.bytes_read = count * heads * static_cast<double>(shape.KeyBlockBytes()) / kKvTile,
          .bytes_written = 4 * heads * chunks * rows,
          .flops = count * heads * rows};
}

}  // namespace ropeline
#endif  // HWY_ONCE
