// Reading less of the cache: chunks chosen by their summaries, the time of choosing included; and keys that
// get their rotation while they are read.
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_caches.h"
#include "bench/harness.h"
#include "kernels/chunk_select.h"
#include "kernels/hash.h"
#include "kernels/rope_schedule.h"
#include "kernels/unrotated_keys.h"

namespace ropeline {

namespace {

constexpr size_t kHeads = 24, kKvHeads = 8, kHead = 128;  // Llama 3.2 3B
constexpr double kBase = 500000;

DecodeAttention CallOf(const KvCache& cache, const std::vector<float>& q, size_t parts) {
  DecodeAttention call;
  call.cache = &cache;
  call.n_heads = kHeads / parts;
  call.q = q.data();
  call.scale = 1 / std::sqrt(static_cast<float>(kHead));
  call.position = cache.n() - 1;
  return call;
}

std::vector<float> Queries(size_t parts) {
  std::vector<float> q(kHeads / parts * kHead);
  for (size_t i = 0; i < q.size(); ++i) q[i] = HashToFloat(i, 3);
  return q;
}

RowName NameOf(const Plan& plan, const char* variant, KvFormat format, size_t n) {
  RowName name{"attention", variant, KvFormatName(format), plan.targets.front(), {}};
  name.With("n", n).With("h", kHeads).With("hkv", kKvHeads).With("d", kHead);
  return name;
}

// The share of attention that the chosen tokens hold in the synthetic text: the rows' own keys are noise.
double SyntheticRecall(ChunkSummary summary, size_t chunk, const ChunkChoice& choice) {
  static auto* const known = new std::map<std::pair<ChunkSummary, size_t>, double>;
  const auto [at, fresh] = known->try_emplace({summary, choice.best});
  if (fresh) {
    const SyntheticText& text = OneSyntheticText();
    at->second = AttentionRecall(ChunkSummaries(text.cache, summary, chunk), text.Call(), choice);
  }
  return at->second;
}

// Best chunks of 256, the first 32 tokens and the last 256 ones.
void AddRetrieval(const Plan& plan, KvFormat format, ChunkSummary summary, size_t n, size_t best, int threads,
                  std::vector<Row>* rows) {
  constexpr size_t kChunk = 256;
  const ChunkChoice choice{best, 32, 256};
  const size_t parts = static_cast<size_t>(threads);
  const KvShape whole{format, kKvHeads, kHead, kHead};
  Row row;
  row.name = NameOf(plan, "retrieval", format, n);
  row.name.With("summary", ChunkSummaryName(summary)).With("chunk", kChunk).With("best", best);
  row.name.With("sinks", choice.sinks).With("window", choice.window);
  row.name.With("cache", "cold").With("threads", parts);
  row.threads = threads;
  // What is read: summaries, and the tokens chosen. Their number depends on which chunks win only where these
  // touch the first or the last tokens.
  const KvCache empty(whole, kKvTile);
  DecodeAttention call;
  call.cache = &empty;
  call.n_heads = kHeads;
  call.position = n - 1;
  const auto tokens = static_cast<double>(best * kChunk + choice.sinks + choice.window);
  row.cost = DecodeAttentionCost(call, tokens);
  Cost scores = ChunkScoreCost(summary, static_cast<double>(n / kChunk), kHeads, kKvHeads, kHead);
  scores.bytes_read -= 4 * kHeads * kHead;  // Q, which attention has read
  row.cost = row.cost + scores;
  if (!plan.quick) row.counters["recall"] = SyntheticRecall(summary, kChunk, choice);
  row.items = static_cast<double>(kHeads);
  row.traffic = Traffic::kRead;
  row.cold = true;
  const double span = static_cast<double>(n) * whole.BytesPerToken();
  const size_t slots = RingSlots(plan, span, Cache::kCold);
  row.working_set_bytes = span * static_cast<double>(slots);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const KvShape shape{format, kKvHeads / parts, kHead, kHead};
    const CacheRing& caches = CachesFor(self, state.thread_index(), shape, n, slots);
    std::vector<ChunkSummaries> summaries;
    for (const auto& cache : caches) summaries.emplace_back(*cache, summary, kChunk);
    const std::vector<float> q = Queries(parts);
    std::vector<float> out(q.size());
    size_t next = 0;
    TimeCalls(state, self, [&] {
      AttendChosen(summaries[next], CallOf(*caches[next], q, parts), choice, out.data());
      next = next + 1 == slots ? 0 : next + 1;
    });
    benchmark::DoNotOptimize(out.data());
  };
  rows->push_back(std::move(row));
}

// The same step over turned keys is attention/decode; the difference is paid in every step, turning at an
// eviction once (kv_cache/evict).
void AddUnrotated(const Plan& plan, KvFormat format, size_t n, int threads, std::vector<Row>* rows) {
  const size_t parts = static_cast<size_t>(threads);
  const KvShape whole{format, kKvHeads, kHead, kHead};
  const KeyRotation rotation{Pairing::kHalf, DefaultInvFreq(kHead, kBase)};
  Row row;
  row.name = NameOf(plan, "decode_unrotated", format, n);
  row.name.With("cache", "cold").With("threads", parts);
  row.threads = threads;
  const KvCache empty(whole, kKvTile);
  DecodeAttention call;
  call.cache = &empty;
  call.n_heads = kHeads;
  call.position = n - 1;
  const auto tokens = static_cast<double>(n);
  row.cost = DecodeAttentionCost(call, tokens) +
             TurnWhileReadingCost(UnrotatedKeys(rotation, n), kHeads, kKvHeads, tokens);
  row.items = static_cast<double>(kHeads);
  row.traffic = Traffic::kRead;
  row.cold = true;
  const double span = tokens * whole.BytesPerToken();
  const size_t slots = RingSlots(plan, span, Cache::kCold);
  row.working_set_bytes = span * static_cast<double>(slots);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const KvShape shape{format, kKvHeads / parts, kHead, kHead};
    const CacheRing& caches = CachesFor(self, state.thread_index(), shape, n, slots);
    const UnrotatedKeys angles(rotation, n);
    const std::vector<float> q = Queries(parts);
    std::vector<float> out(q.size());
    size_t next = 0;
    TimeCalls(state, self, [&] {
      DecodeAttention step = CallOf(*caches[next], q, parts);
      step.unrotated = &angles;
      Attend(step, out.data());
      next = next + 1 == slots ? 0 : next + 1;
    });
    benchmark::DoNotOptimize(out.data());
  };
  rows->push_back(std::move(row));
}

}  // namespace

void AddRetrievalRows(const Plan& plan, std::vector<Row>* rows) {
  for (const int threads : plan.threads) {
    if (kKvHeads % static_cast<size_t>(threads) != 0) continue;  // attention/decode says so
    if (plan.quick && threads != plan.threads.back()) continue;
    for (const ChunkSummary summary : {ChunkSummary::kMean, ChunkSummary::kBounds}) {
      AddRetrieval(plan, KvFormat::kF16, summary, 32768, 16, threads, rows);
      if (!plan.quick) AddRetrieval(plan, KvFormat::kQ80, summary, 32768, 16, threads, rows);
    }
    if (plan.quick) continue;
    for (const KvFormat format : {KvFormat::kF16, KvFormat::kQ80}) {
      AddUnrotated(plan, format, 8192, threads, rows);
      AddUnrotated(plan, format, 32768, threads, rows);
    }
  }
}

}  // namespace ropeline
