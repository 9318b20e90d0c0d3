// Attention: a decode step over a cache, and prefill, in the shapes of real models.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/bench_caches.h"
#include "bench/core_probe.h"
#include "bench/harness.h"
#include "kernels/decode_attention.h"
#include "kernels/hash.h"
#include "kernels/kv_format_error.h"
#include "kernels/prefill_attention.h"

namespace ropeline {

namespace {

// What a row adds to plain attention.
struct Extra {
  BiasKind kind = BiasKind::kNone;
  size_t window = 0, sinks = 0;
};

// Tables of every bias, for n_heads heads and distances below n.
struct BiasTables {
  BiasTables(size_t n_heads, size_t n) : slopes(n_heads, 0.01f), by_distance(n_heads * (n + 64), 0.25f) {
    stride = n + 64;
    origin = n + 31;
  }
  AttentionBias Bias(const Extra& extra) const {
    AttentionBias bias;
    bias.kind = extra.kind;
    bias.slopes = slopes.data();
    bias.by_distance = by_distance.data();
    bias.stride = stride;
    bias.origin = origin;
    bias.cap = 50;  // Gemma 2's
    bias.window = extra.window;
    bias.sinks = extra.sinks;
    return bias;
  }
  std::vector<float> slopes, by_distance;
  size_t stride, origin;
};

std::vector<float> Queries(size_t elements) {
  std::vector<float> q(elements);
  for (size_t i = 0; i < elements; ++i) q[i] = HashToFloat(i, 3);
  return q;
}

float Scale(size_t d_head) { return 1 / std::sqrt(static_cast<float>(d_head)); }

void NameExtra(const Extra& extra, RowName* name) {
  if (extra.kind != BiasKind::kNone) name->With("bias", BiasKindName(extra.kind));
  if (extra.window != 0) name->With("window", extra.window).With("sinks", extra.sinks);
}

// ------------------------------------------------------------------------------------------------- decode

struct Decode {
  size_t n, n_heads, n_kv_heads, d_head;
  Cache cache = Cache::kCold;
  Extra extra{};
  size_t batch = 1;
};

DecodeAttention CallOf(const Decode& decode, const KvCache& cache, const float* q, size_t parts,
                       const BiasTables& tables) {
  DecodeAttention call;
  call.cache = &cache;
  call.n_heads = decode.n_heads / parts;
  call.q = q;
  call.scale = Scale(decode.d_head);
  call.position = decode.n - 1;
  call.bias = tables.Bias(decode.extra);
  return call;
}

// Each thread has the caches of its share of the KV heads: a ring of sequences.
void DecodeBody(benchmark::State& state, const Row& row, const Topology& topology, KvFormat format,
                const Decode& decode, size_t slots) {
  BeginRow(state, row, topology);
  const size_t parts = static_cast<size_t>(row.threads);
  const KvShape shape{format, decode.n_kv_heads / parts, decode.d_head, decode.d_head};
  const CacheRing& caches = CachesFor(row, state.thread_index(), shape, decode.n, slots);
  const std::vector<float> q = Queries(decode.n_heads / parts * decode.d_head);
  std::vector<float> out(q.size());
  const BiasTables tables(decode.n_heads / parts, decode.extra.kind == BiasKind::kByDistance ? decode.n : 1);
  size_t next = 0;
  TimeCalls(state, row, [&] {
    for (size_t sequence = 0; sequence < decode.batch; ++sequence) {
      Attend(CallOf(decode, *caches[next], q.data(), parts, tables), out.data());
      next = next + 1 == slots ? 0 : next + 1;
    }
  });
  benchmark::DoNotOptimize(out.data());
}

// Relative error of attention's output over a cache of that format, keys with outlier channels; computed
// once.
double OutputError(KvFormat format) {
  static auto* const known = new std::map<KvFormat, double>;
  const auto [at, fresh] = known->try_emplace(format);
  if (fresh) at->second = ErrorOfKvFormat({.format = format}).output;
  return at->second;
}

void AddDecode(const Plan& plan, KvFormat format, const Decode& decode, int threads, std::vector<Row>* rows,
               std::vector<SkippedRow>* skipped) {
  Row row;
  row.name = {"attention", "decode", KvFormatName(format), plan.targets.front(), {}};
  row.name.With("n", decode.n).With("h", decode.n_heads).With("hkv", decode.n_kv_heads);
  row.name.With("d", decode.d_head);
  NameExtra(decode.extra, &row.name);
  if (decode.batch > 1) row.name.With("batch", decode.batch);
  row.name.With("cache", decode.cache == Cache::kHot ? "hot" : "cold");
  row.name.With("threads", static_cast<size_t>(threads));
  if (decode.n_kv_heads % static_cast<size_t>(threads) != 0) {
    skipped->push_back({row.name, "its KV heads do not share out evenly over so many threads"});
    return;
  }
  const KvShape shape{format, decode.n_kv_heads, decode.d_head, decode.d_head};
  KvCache empty(shape, kKvTile);
  DecodeAttention call = CallOf(decode, empty, nullptr, 1, BiasTables(decode.n_heads, 1));
  row.threads = threads;
  const auto tokens = static_cast<double>(VisibleTokens(call, decode.n));
  row.cost = DecodeAttentionCost(call, tokens) * static_cast<double>(decode.batch);
  row.items = static_cast<double>(decode.batch * decode.n_heads);  // query heads
  row.traffic = Traffic::kRead;
  row.cold = decode.cache == Cache::kCold;
  row.working_set_bytes = row.cost.bytes_read;
  const size_t slots = std::max(decode.batch, RingSlots(plan, row.working_set_bytes, decode.cache));
  if (row.cold) row.working_set_bytes *= static_cast<double>(slots);
  if (!plan.quick && decode.extra.window == 0) row.counters["output_error"] = OutputError(format);
  if (!plan.quick && decode.extra.window != 0) {
    row.counters["recall"] = OneSyntheticText().WindowRecall(decode.extra.sinks, decode.extra.window);
  }
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    DecodeBody(state, self, topology, format, decode, slots);
  };
  rows->push_back(std::move(row));
}

// One KV head for all threads: they share its tokens, meet, and the first one merges.
void AddSplitDecode(const Plan& plan, KvFormat format, const Decode& decode, int threads,
                    std::vector<Row>* rows) {
  struct Shared {
    explicit Shared(int count) : barrier(count) {}
    SpinBarrier barrier;
    std::unique_ptr<KvCache> cache;
    std::vector<float> q, out, partials[2];
  };
  Row row;
  row.name = {"attention", "decode", KvFormatName(format), plan.targets.front(), {}};
  row.name.With("n", decode.n).With("h", decode.n_heads).With("hkv", decode.n_kv_heads);
  row.name.With("d", decode.d_head).With("split", static_cast<size_t>(threads)).With("cache", "cold");
  row.name.With("threads", static_cast<size_t>(threads));
  const KvShape shape{format, decode.n_kv_heads, decode.d_head, decode.d_head};
  KvCache empty(shape, kKvTile);
  row.threads = threads;
  row.cost =
      DecodeAttentionCost(CallOf(decode, empty, nullptr, 1, BiasTables(1, 1)), static_cast<double>(decode.n));
  row.items = static_cast<double>(decode.n_heads);
  row.traffic = Traffic::kRead;
  row.cold = true;
  row.working_set_bytes = row.cost.bytes_read;
  const auto shared = std::make_shared<Shared>(threads);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const size_t thread = static_cast<size_t>(state.thread_index());
    const size_t slices = static_cast<size_t>(threads);
    if (thread == 0) {
      shared->cache = FilledCache(shape, decode.n);
      shared->q = Queries(decode.n_heads * decode.d_head);
      shared->out.resize(shared->q.size());
    }
    const BiasTables tables(1, 1);
    shared->barrier.Wait();
    const DecodeAttention call = CallOf(decode, *shared->cache, shared->q.data(), 1, tables);
    if (thread == 0) {
      for (auto& partials : shared->partials) partials.resize(slices * PartialFloats(call));
    }
    shared->barrier.Wait();
    size_t turn = 0;
    TimeCalls(state, self, [&] {
      // Two sets in turn: a thread that is ahead does not write what is being merged.
      float* partials = shared->partials[turn++ % 2].data();
      AttendUnit(call, thread, slices, partials + thread * PartialFloats(call));
      shared->barrier.Wait();
      if (thread == 0) MergeUnits(call, 0, 1, slices, partials, shared->out.data());
    });
    shared->barrier.Wait();
    if (thread == 0) shared->cache.reset();
  };
  rows->push_back(std::move(row));
}

// ------------------------------------------------------------------------------------------------ prefill

struct Prefill {
  size_t n, n_q, n_heads, n_kv_heads, d_k, d_v;
  bool causal = true;
  Extra extra{};
  size_t latent = 0;
};

// What the threads of a prefill row share; made by the first that comes.
struct PrefillInputs {
  std::mutex mutex;
  std::unique_ptr<KvCache> cache;
  std::vector<float> q, out;
};

PrefillAttention CallOf(const Prefill& prefill, const KvCache& cache, const float* q,
                        const BiasTables& tables) {
  PrefillAttention call;
  call.cache = &cache;
  call.n_heads = prefill.n_heads;
  call.n_q = prefill.n_q;
  call.q = q;
  call.first_position = prefill.n - prefill.n_q;
  call.causal = prefill.causal;
  call.scale = Scale(prefill.d_k);
  call.bias = tables.Bias(prefill.extra);
  call.latent = prefill.latent;
  return call;
}

void AddPrefill(const Plan& plan, KvFormat format, const Prefill& prefill, int threads,
                std::vector<Row>* rows) {
  Row row;
  row.name = {"attention",
              prefill.latent != 0 ? "mla_decode" : "prefill",
              KvFormatName(format),
              plan.targets.front(),
              {}};
  row.name.With("n", prefill.n);
  if (prefill.latent != 0) {
    row.name.With("h", prefill.n_heads).With("latent", prefill.latent);
    row.name.With("rope", prefill.d_k - prefill.latent);
  } else {
    row.name.With("m", prefill.n_q).With("h", prefill.n_heads).With("hkv", prefill.n_kv_heads);
    row.name.With("d", prefill.d_k).With("causal", prefill.causal ? 1 : 0);
    row.name.With("bias", BiasKindName(prefill.extra.kind));
    if (prefill.extra.window != 0) {
      row.name.With("window", prefill.extra.window).With("sinks", prefill.extra.sinks);
    }
  }
  row.name.With("cache", "hot").With("threads", static_cast<size_t>(threads));
  const KvShape shape{format, prefill.n_kv_heads, prefill.d_k, prefill.d_v};
  row.threads = threads;
  {
    KvCache empty(shape, kKvTile);
    const PrefillAttention call = CallOf(prefill, empty, nullptr, BiasTables(1, 1));
    row.cost = PrefillAttentionCost(call, prefill.n);
  }
  row.items = static_cast<double>(prefill.n_q * prefill.n_heads);
  row.traffic = Traffic::kRead;
  row.working_set_bytes = row.cost.Bytes();
  const auto inputs = std::make_shared<PrefillInputs>();
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    {
      const std::lock_guard lock(inputs->mutex);
      if (inputs->cache == nullptr) {
        inputs->cache = FilledCache(shape, prefill.n);
        inputs->q = Queries(prefill.n_q * prefill.n_heads * prefill.d_k);
        const size_t d_v = prefill.latent != 0 ? prefill.latent : prefill.d_v;
        inputs->out.resize(prefill.n_q * prefill.n_heads * d_v);
      }
    }
    const BiasTables tables(prefill.n_heads, prefill.n);
    const PrefillAttention call = CallOf(prefill, *inputs->cache, inputs->q.data(), tables);
    const size_t units = PrefillUnits(call), step = static_cast<size_t>(self.threads);
    const size_t first = static_cast<size_t>(state.thread_index());
    TimeCalls(state, self, [&] {
      for (size_t unit = first; unit < units; unit += step) {
        AttendPrefillUnit(call, unit, inputs->out.data());
      }
    });
  };
  rows->push_back(std::move(row));
}

}  // namespace

void AddAttentionRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  const Decode llama{0, 24, 8, 128};  // Llama 3.2 3B
  const auto with = [](Decode decode, size_t n, Extra extra = {}) {
    decode.n = n;
    decode.extra = extra;
    return decode;
  };
  const std::vector<KvFormat> common = {KvFormat::kF16, KvFormat::kQ80, KvFormat::kQ40};
  const std::vector<KvFormat> all(kAllKvFormats.begin(), kAllKvFormats.end());
  for (const int threads : plan.threads) {
    for (const KvFormat format : plan.quick ? common : all) {
      for (const size_t n : {1024, 4096, 32768}) {
        if (n == 1024 && (plan.quick || std::find(common.begin(), common.end(), format) == common.end()))
          continue;
        AddDecode(plan, format, with(llama, n), threads, rows, skipped);
      }
    }
    // Other groups and heads: 1, 4 with short heads, 4, 7 (Qwen 2.5 7B), 8 of long heads (Gemma).
    for (const KvFormat format : common) {
      for (const Decode& decode :
           {Decode{4096, 32, 32, 128}, Decode{4096, 32, 8, 64}, Decode{4096, 32, 8, 128},
            Decode{4096, 28, 4, 128}, Decode{4096, 16, 2, 256}}) {
        if (plan.quick && (decode.n_kv_heads != 8 || format != KvFormat::kF16)) continue;
        AddDecode(plan, format, decode, threads, rows, skipped);
      }
    }
    if (plan.peers) {
      for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kQ80, KvFormat::kQ40}) {
        for (const Decode& decode : {Decode{4096, 32, 32, 128}, Decode{4096, 32, 8, 64}}) {
          if (format == KvFormat::kF32) AddDecode(plan, format, decode, threads, rows, skipped);
          AddDecode(plan, format, with(decode, 32768), threads, rows, skipped);
        }
      }
    }
    AddDecode(plan, KvFormat::kF16, with(llama, 32768, {BiasKind::kNone, 4096, 4}), threads, rows, skipped);
    if (plan.quick) continue;
    if (threads == plan.threads.back()) {
      AddDecode(plan, KvFormat::kQ80, with(llama, 131072), threads, rows, skipped);
    }
    for (const BiasKind kind : {BiasKind::kSlope, BiasKind::kByDistance, BiasKind::kSoftCap}) {
      AddDecode(plan, KvFormat::kF16, with(llama, 4096, {kind}), threads, rows, skipped);
    }
    Decode batch = with(llama, 4096);
    batch.batch = 4;
    AddDecode(plan, KvFormat::kF16, batch, threads, rows, skipped);
    if (threads > 1) AddSplitDecode(plan, KvFormat::kF16, {32768, 8, 1, 256}, threads, rows);
  }
  if (!plan.quick) {
    for (const KvFormat format : kAllKvFormats) {
      AddDecode(plan, format, {512, 12, 4, 128, Cache::kHot}, 1, rows, skipped);
    }
  }
  for (const int threads : plan.threads) {
    const auto prefill = [&](KvFormat format, const Prefill& shape) {
      AddPrefill(plan, format, shape, threads, rows);
    };
    if (plan.peers) {  // a chunk of a prompt, as engines take it, against what came before
      for (const size_t n : {size_t{1024}, size_t{4096}, size_t{16384}}) {
        prefill(KvFormat::kF32, {n, 512, 3, 1, 128, 128});
        if (n != 16384 || plan.quick) prefill(KvFormat::kF16, {n, 512, 3, 1, 128, 128});
        if (n == 4096) prefill(KvFormat::kF16, {n, 512, 3, 1, 128, 128, true, {BiasKind::kSlope}});
      }
    }
    // The long ones without extras; extras and formats, each beside the same without, where a call is short.
    const size_t n = plan.quick ? 1024 : 4096, shorter = plan.quick ? 1024 : 2048;
    prefill(KvFormat::kF32, {n, n, 3, 1, 128, 128});
    prefill(KvFormat::kF32, {n, n, 4, 1, 64, 64});
    if (!plan.quick) {
      prefill(KvFormat::kF32, {n, n, 3, 1, 128, 128, false});
      prefill(KvFormat::kF16, {n, n, 3, 1, 128, 128});
      prefill(KvFormat::kF32, {shorter, shorter, 3, 1, 128, 128});
    }
    prefill(KvFormat::kF32, {shorter, shorter, 3, 1, 128, 128, true, {BiasKind::kSlope}});
    for (const KvFormat format : common) prefill(format, {shorter, shorter, 3, 1, 128, 128});
    if (plan.quick) continue;
    for (const BiasKind kind : {BiasKind::kByDistance, BiasKind::kSoftCap}) {
      prefill(KvFormat::kF32, {shorter, shorter, 3, 1, 128, 128, true, {kind}});
    }
    prefill(KvFormat::kF32, {shorter, shorter, 3, 1, 128, 128, true, {BiasKind::kNone, 512, 4}});
    prefill(KvFormat::kBf16, {shorter, shorter, 3, 1, 128, 128});
    prefill(KvFormat::kF16, {1024, 1024, 4, 1, 64, 64});
    prefill(KvFormat::kF16, {16384, 512, 3, 1, 128, 128});  // a chunk against a longer cache
  }
  if (plan.quick) return;
  // DeepSeek V2 and V3: 128 heads read one latent of 512 and its 64 rotated dimensions.
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBf16, KvFormat::kQ80}) {
    AddPrefill(plan, format, {4096, 1, 128, 1, 576, 0, true, {}, 512}, 1, rows);
  }
}

}  // namespace ropeline
