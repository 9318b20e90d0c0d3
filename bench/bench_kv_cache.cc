// What is done to a KV cache besides reading it: tokens appended, evicted, turned to other positions.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_caches.h"
#include "bench/harness.h"
#include "kernels/angle_table.h"
#include "kernels/hash.h"
#include "kernels/kv_error.h"
#include "kernels/kv_evict.h"
#include "kernels/kv_reschedule.h"
#include "kernels/kv_turn.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

namespace {

constexpr double kBase = 500000;  // Llama 3's
constexpr size_t kHeads = 8, kHead = 128;

KvShape ShapeOf(KvFormat format, int threads) {
  return {format, kHeads / static_cast<size_t>(threads), kHead, kHead};
}

Row CacheRow(const Plan& plan, const char* variant, KvFormat format, size_t n, int threads) {
  Row row;
  row.name = {"kv_cache", variant, KvFormatName(format), plan.targets.front(), {}};
  row.name.With("n", n).With("hkv", kHeads).With("d", kHead);
  row.threads = threads;
  return row;
}

void Finish(const Plan& plan, Cache cache, double span_bytes, Traffic traffic, Row* row) {
  row->name.With("cache", cache == Cache::kHot ? "hot" : "cold");
  row->name.With("threads", static_cast<size_t>(row->threads));
  row->cold = cache == Cache::kCold;
  row->traffic = traffic;
  row->working_set_bytes = span_bytes;
  if (row->cold) row->working_set_bytes *= static_cast<double>(RingSlots(plan, span_bytes, cache));
}

// ------------------------------------------------------------------------------------------------- append

// Tokens go to the end of a cache larger than any CPU cache; a full one starts anew. The new keys and values
// were just computed: they are in a cache.
void AddAppend(const Plan& plan, KvFormat format, size_t count, bool turned, int threads,
               std::vector<Row>* rows) {
  Row row = CacheRow(plan, "append", format, count, threads);
  if (turned) row.name.With("turn", 1);
  const KvShape whole = ShapeOf(format, 1);
  row.cost = KvAppendCost(whole, count, turned);
  row.items = static_cast<double>(count * 2 * kHeads * kHead);
  // A single token always goes next to the last one: its lines are there.
  const Cache cache = count == 1 ? Cache::kHot : Cache::kCold;
  const size_t capacity =
      cache == Cache::kHot
          ? 1024
          : static_cast<size_t>(static_cast<double>(plan.cold_bytes) / whole.BytesPerToken());
  row.name.With("cache", cache == Cache::kHot ? "hot" : "cold").With("threads", static_cast<size_t>(threads));
  row.cold = cache == Cache::kCold;
  row.traffic = Traffic::kCopy;
  row.working_set_bytes = row.cold ? static_cast<double>(plan.cold_bytes) : row.cost.Bytes();
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const KvShape shape = ShapeOf(format, threads);
    KvCache& cache_of_row = *CachesFor(self, state.thread_index(), shape, kKvTile, 1, capacity)[0];
    std::vector<float> k(count * shape.n_kv_heads * kHead), angles(count * kHead);
    for (size_t i = 0; i < k.size(); ++i) k[i] = HashToFloat(i, 4);
    BuildAngleTable(DefaultInvFreq(kHead, kBase), 1000, count, AngleLayout::kSplit, angles.data());
    TimeCalls(state, self, [&] {
      if (cache_of_row.n() + count > cache_of_row.capacity()) cache_of_row.Truncate(0);
      if (turned) {
        cache_of_row.AppendRotated(k.data(), k.data(), angles.data(), count);
      } else {
        cache_of_row.Append(k.data(), k.data(), count);
      }
    });
  };
  rows->push_back(std::move(row));
}

// -------------------------------------------------------------------------------------------------- evict

// Relative error of the logits after so many evictions, computed once.
double LogitError(KvFormat format, size_t evictions) {
  static auto* const known = new std::map<std::pair<KvFormat, size_t>, double>;
  const auto [at, fresh] = known->try_emplace({format, evictions});
  if (fresh) at->second = RerotationError({.format = format, .evictions = evictions}).logit;
  return at->second;
}

// `gap` tokens after the first 32 go, the others close up; then the cache counts as full again.
void AddEvict(const Plan& plan, KvFormat format, size_t n, size_t gap, bool turns, int threads,
              std::vector<Row>* rows) {
  Row row = CacheRow(plan, turns ? "evict" : "evict_position_free", format, n, threads);
  row.name.With("gap", gap);
  const KeyRotation rotation{Pairing::kHalf, turns ? DefaultInvFreq(kHead, kBase) : std::vector<double>()};
  const KvShape whole = ShapeOf(format, 1);
  row.cost = EvictCost(whole, n, kKvTile, kKvTile + gap, rotation);
  row.items = static_cast<double>(n - kKvTile - gap);
  if (turns && !plan.quick) {
    row.counters["logit_error_1"] = LogitError(format, 1);
    row.counters["logit_error_100"] = LogitError(format, 100);
  }
  const double span = static_cast<double>(n) * whole.BytesPerToken();
  const size_t slots = RingSlots(plan, span, Cache::kCold);
  Finish(plan, Cache::kCold, span, Traffic::kUpdate, &row);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const CacheRing& caches = CachesFor(self, state.thread_index(), ShapeOf(format, threads), n, slots);
    size_t next = 0;
    TimeCalls(state, self, [&] {
      EvictTokens(kKvTile, kKvTile + gap, rotation, caches[next].get());
      caches[next]->SetTokens(n);
      next = next + 1 == slots ? 0 : next + 1;
    });
  };
  rows->push_back(std::move(row));
}

// ------------------------------------------------------------------------------------------------ schedule

// Position interpolation by 2 undone and done: the cache stays what it was, whatever the number of calls.
void AddReschedule(const Plan& plan, KvFormat format, size_t n, int threads, std::vector<Row>* rows) {
  Row row = CacheRow(plan, "reschedule", format, n, threads);
  const KvShape whole = ShapeOf(format, 1);
  row.cost = RescheduleKeysCost(whole, n, kHead);
  row.items = static_cast<double>(n);
  const double span = static_cast<double>(n) * static_cast<double>(whole.n_kv_heads * whole.KeyBlockBytes()) /
                      static_cast<double>(kKvTile);
  const size_t slots = RingSlots(plan, span, Cache::kCold);
  Finish(plan, Cache::kCold, span, Traffic::kUpdate, &row);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const CacheRing& caches = CachesFor(self, state.thread_index(), ShapeOf(format, threads), n, slots);
    KeySchedule plain{DefaultInvFreq(kHead, kBase), 1}, squeezed = plain;
    for (double& frequency : squeezed.inv_freq) frequency /= 2;
    size_t next = 0;
    bool back = false;
    TimeCalls(state, self, [&] {
      RescheduleKeys(Pairing::kHalf, back ? squeezed : plain, back ? plain : squeezed, caches[next].get());
      if (++next == slots) next = 0, back = !back;
    });
  };
  rows->push_back(std::move(row));
}

}  // namespace

void AddKvCacheRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  for (const int threads : plan.threads) {
    if (kHeads % static_cast<size_t>(threads) != 0) {
      Row row = CacheRow(plan, "evict", KvFormat::kF32, 8192, threads);
      row.name.With("threads", static_cast<size_t>(threads));
      skipped->push_back({row.name, "8 KV heads do not share out evenly over so many threads"});
      continue;
    }
    for (const KvFormat format : kAllKvFormats) {
      if (plan.quick && threads != plan.threads.back()) continue;
      AddAppend(plan, format, 1, false, threads, rows);
      AddAppend(plan, format, 512, false, threads, rows);
      if (!plan.quick && threads == 1) AddAppend(plan, format, 512, true, threads, rows);
    }
    const size_t n = plan.quick ? 2048 : 8192;
    for (const KvFormat format : kAllKvFormats) {
      if (plan.quick && (threads != plan.threads.back() || format != KvFormat::kF16)) continue;
      AddEvict(plan, format, n, 32, true, threads, rows);
      if (plan.quick) continue;
      if (!IsQuantised(format)) AddEvict(plan, format, n, 1024, true, threads, rows);
      const bool common = format == KvFormat::kF16 || format == KvFormat::kQ80 || format == KvFormat::kQ40;
      if (common) AddEvict(plan, format, n, 32, false, threads, rows);
      AddReschedule(plan, format, n, threads, rows);
    }
    if (!plan.quick) AddEvict(plan, KvFormat::kF16, n, 33, true, threads, rows);
  }
}

}  // namespace ropeline
