// The placements: every encoding of the registry, over shapes, hot and cold, by threads.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/hash.h"
#include "kernels/placement.h"
#include "kernels/registry.h"

namespace ropeline {

namespace {

struct Sample {
  Shape shape;
  Cache cache;
};

Shape TokensOf(size_t n, size_t d_model) {
  Shape shape;
  shape.n = n;
  shape.d_model = d_model;
  return shape;
}

Shape ScoresOf(size_t n, size_t n_heads, bool causal) {
  Shape shape;
  shape.n = shape.n_k = n;
  shape.n_heads = shape.total_heads = n_heads;
  shape.causal = causal;
  return shape;
}

Shape HeadsOf(size_t n, size_t n_heads, size_t d_head) {
  Shape shape;
  shape.n = n;
  shape.n_heads = n_heads;
  shape.d_head = d_head;
  return shape;
}

// What a placement's rows are made for: the article's encodings in many shapes, all others in a few.
bool OfTheArticle(const Encoding& encoding) {
  static const std::set<std::string> names = {"learned", "sinusoidal", "t5_bias",
                                              "alibi",   "rope_half",  "rope_interleaved"};
  return names.count(encoding.name) != 0;
}

// Shapes as data. Hot sizes reach from the first-level to beyond the second-level cache; cold ones leave
// every cache. Heads, d_head and d_model are those of models around 1B (64), 3B and 8B (128).
std::vector<Sample> ArticleSamples(Placement placement, bool quick) {
  std::vector<Sample> samples;
  const auto hot = [&](const Shape& shape) { samples.push_back({shape, Cache::kHot}); };
  const auto cold = [&](const Shape& shape) { samples.push_back({shape, Cache::kCold}); };
  switch (placement) {
    case Placement::kInputAdd:
      for (size_t n : {1, 4, 16}) hot(TokensOf(n, 4096));
      for (size_t n : {1, 512}) cold(TokensOf(n, 4096));
      cold(TokensOf(4096, 4096));
      if (quick) break;
      for (size_t n : {64, 256}) hot(TokensOf(n, 4096));
      for (size_t d : {768, 2048}) hot(TokensOf(16, d));
      cold(TokensOf(4096, 2048));
      break;
    case Placement::kScoreBias:
      for (size_t n : {128, 256, 512}) hot(ScoresOf(n, 8, true));
      hot(ScoresOf(256, 8, false));
      cold(ScoresOf(512, 32, true));
      cold(ScoresOf(1024, 32, true));
      cold(ScoresOf(2048, 32, true));
      if (quick) break;
      for (size_t n : {64, 128, 512}) hot(ScoresOf(n, 8, false));
      hot(ScoresOf(512, 12, true));
      cold(ScoresOf(2048, 32, false));
      break;
    case Placement::kQkRotation:
      for (size_t n : {1, 2, 4, 8, 16}) hot(HeadsOf(n, 32, 128));
      cold(HeadsOf(1, 32, 128));
      cold(HeadsOf(512, 32, 128));
      cold(HeadsOf(4096, 32, 128));
      if (quick) break;
      for (size_t n : {64, 256}) hot(HeadsOf(n, 32, 128));
      for (size_t d : {64, 80, 96, 256}) hot(HeadsOf(4, 32, d));
      cold(HeadsOf(4096, 32, 64));
      cold(HeadsOf(16384, 32, 128));
      break;
  }
  return samples;
}

// One cache size and main memory.
std::vector<Sample> FewSamples(Placement placement) {
  switch (placement) {
    case Placement::kInputAdd:
      return {{TokensOf(16, 4096), Cache::kHot}, {TokensOf(4096, 4096), Cache::kCold}};
    case Placement::kScoreBias:
      return {{ScoresOf(256, 8, true), Cache::kHot}, {ScoresOf(2048, 32, true), Cache::kCold}};
    case Placement::kQkRotation:
      return {{HeadsOf(16, 32, 128), Cache::kHot}, {HeadsOf(4096, 32, 128), Cache::kCold}};
  }
  return {};
}

// 16-bit tensors: the elements of the f32 rows, so that a cold one has half of its bytes, and twice as many
// where a row is to stay within a cache level.
std::vector<Sample> HalfSamples(Placement placement, bool quick) {
  std::vector<Sample> samples = FewSamples(placement);
  if (quick) return samples;
  switch (placement) {
    case Placement::kInputAdd:
      samples.push_back({TokensOf(4, 4096), Cache::kHot});
      samples.push_back({TokensOf(32, 4096), Cache::kHot});
      break;
    case Placement::kScoreBias:
      samples.push_back({ScoresOf(512, 8, true), Cache::kHot});
      samples.push_back({ScoresOf(256, 8, false), Cache::kHot});
      break;
    case Placement::kQkRotation:
      for (size_t n : {1, 4, 32, 64}) samples.push_back({HeadsOf(n, 32, 128), Cache::kHot});
      break;
  }
  return samples;
}

// Positions of the tokens that an eviction left: every other one or so of twice as many.
const int32_t* PositionsWithGaps() {
  static const auto* const positions = [] {
    auto* list = new std::vector<int32_t>;
    for (size_t t = 0; t < 4096; ++t) list->push_back(static_cast<int32_t>(2 * t + Hash64(t) % 2));
    return list;
  }();
  return positions->data();
}

// One token of each of many sequences, as in batched decoding: anywhere in 32,768.
const int32_t* ScatteredPositions() {
  static const auto* const positions = [] {
    auto* list = new std::vector<int32_t>;
    for (size_t t = 0; t < 256; ++t) list->push_back(static_cast<int32_t>(Hash64(t) % 32768));
    return list;
  }();
  return positions->data();
}

// How engines meet a rotation, beside whole heads in a tensor of their own: llama-3.2-3b's 24 query and 8 KV
// heads, fused into one row with V or not; partial rotary of phi-2 (32 of 80), 25 % and 50 %; turning back;
// positions from a list.
std::vector<Sample> RotationVariants(bool quick) {
  std::vector<Sample> samples;
  const auto add = [&](size_t hot_n, size_t cold_n, Shape shape) {
    shape.n = hot_n;
    if (hot_n != 0) samples.push_back({shape, Cache::kHot});
    shape.n = cold_n;
    if (cold_n != 0) samples.push_back({shape, Cache::kCold});
  };
  Shape llama = HeadsOf(0, 24, 128);
  llama.n_kv_heads = 8;
  add(4, 4096, llama);
  llama.layout = QkLayout::kFusedQkv;
  add(4, 4096, llama);
  Shape phi = HeadsOf(0, 32, 80);
  phi.d_rot = 32;
  add(16, 4096, phi);
  for (size_t d_rot : {32, 64}) {
    Shape partial = HeadsOf(0, 32, 128);
    partial.d_rot = d_rot;
    add(16, quick ? 0 : 4096, partial);
  }
  Shape gaps = HeadsOf(0, 32, 128);
  gaps.positions = PositionsWithGaps();
  add(0, 4096, gaps);
  Shape scattered = HeadsOf(0, 32, 128);
  scattered.positions = ScatteredPositions();
  add(64, 0, scattered);
  Shape inverse = HeadsOf(0, 8, 128);
  inverse.inverse = true;
  add(16, 4096, inverse);
  return samples;
}

// Which shapes of which dtypes an encoding is timed in. What several threads do, the article's encodings
// show.
std::vector<Sample> Samples(const Encoding& encoding, Dtype dtype, int threads, const Plan& plan) {
  std::vector<Sample> samples;
  if (threads > 1 && (!OfTheArticle(encoding) || dtype != Dtype::kF32)) {
    if (plan.quick) return {};
    samples = FewSamples(encoding.placement);
    for (Sample& sample : samples) sample.shape.dtype = dtype;
    return OfTheArticle(encoding) || dtype == Dtype::kF32 ? samples : std::vector<Sample>();
  }
  if (!OfTheArticle(encoding)) {
    if (dtype == Dtype::kF32) samples = FewSamples(encoding.placement);
  } else if (dtype == Dtype::kF32) {
    samples = ArticleSamples(encoding.placement, plan.quick);
  } else {
    samples = HalfSamples(encoding.placement, plan.quick);
  }
  if (std::string(encoding.name) == "rope_half" && dtype == Dtype::kF32 && threads == 1) {
    for (const Sample& sample : RotationVariants(plan.quick)) samples.push_back(sample);
  }
  for (Sample& sample : samples) sample.shape.dtype = dtype;
  return samples;
}

RowName NameOf(const Encoding& encoding, const std::string& target, const Sample& sample, int threads) {
  const Shape& shape = sample.shape;
  RowName name{PlacementName(encoding.placement), encoding.name, DtypeName(shape.dtype), target, {}};
  name.With("n", shape.n);
  switch (encoding.placement) {
    case Placement::kInputAdd:
      name.With("d", shape.d_model);
      break;
    case Placement::kScoreBias:
      name.With("h", shape.n_heads).With("causal", shape.causal ? 1 : 0);
      break;
    case Placement::kQkRotation:
      name.With("h", shape.n_heads);
      if (shape.n_kv_heads != 0) name.With("kv", shape.n_kv_heads);
      name.With("d", shape.d_head);
      if (shape.d_rot != 0) name.With("rot", shape.d_rot);
      if (shape.layout == QkLayout::kFusedQkv) name.With("layout", "fused_qkv");
      if (shape.positions != nullptr) {
        name.With("positions", shape.positions == PositionsWithGaps() ? "gaps" : "scattered");
      }
      if (shape.inverse) name.With("inverse", 1);
      break;
  }
  name.With("cache", sample.cache == Cache::kHot ? "hot" : "cold");
  name.With("threads", static_cast<size_t>(threads));
  return name;
}

// The memory that one call spans: the tensor whole, and the tables (what is read and not written). Causal
// rows leave the same columns of every row alone, and partial rotary the same dimensions of every head; the
// cache sets of the others must then hold as many lines as they would for the whole tensor.
double WorkingSet(const Encoding& encoding, const Shape& shape, const Cost& cost) {
  const size_t elements = TensorElements(encoding.placement, shape);
  return static_cast<double>(elements * DtypeBytes(shape.dtype)) + cost.bytes_read - cost.bytes_written;
}

using TableRing = std::vector<std::unique_ptr<EncodingTables>>;

// The tables of each tensor of the ring, as for consecutive positions: cold like the tensors. Google
// Benchmark runs a row several times while it looks for the number of iterations: each thread builds them
// once, and keeps them until its next row.
const TableRing& TablesFor(const Row& row, size_t thread, const Encoding& encoding, Shape shape,
                           size_t slots) {
  struct Kept {
    std::string row;
    TableRing tables;
  };
  static std::mutex mutex;
  static auto* const by_thread = new std::map<size_t, Kept>;
  Kept* kept;
  {
    const std::lock_guard lock(mutex);
    kept = &(*by_thread)[thread];  // stays where it is: only this thread changes it
  }
  const std::string name = row.name.Text();
  if (kept->row != name) {
    kept->tables.clear();
    for (size_t slot = 0; slot < slots; ++slot, shape.first_position += shape.n) {
      kept->tables.push_back(encoding.setup(shape));
    }
    kept->row = name;
  }
  return kept->tables;
}

void PlacementBody(benchmark::State& state, const Row& row, const Topology& topology,
                   const Encoding& encoding, const Shape& whole, size_t slots, size_t table_slots) {
  BeginRow(state, row, topology);
  const size_t thread = static_cast<size_t>(state.thread_index());
  const Shape shape = SliceShape(encoding, whole, thread, static_cast<size_t>(state.threads()));
  const TableRing& tables = TablesFor(row, thread, encoding, shape, table_slots);
  const size_t elements = TensorElements(encoding.placement, shape);
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(slots * Arena::Room(elements, shape.dtype), shape.dtype);
  std::vector<void*> ring;
  for (size_t slot = 0; slot < slots; ++slot) {
    ring.push_back(arena.Elements(elements, /*keep=*/slots > 1));
  }
  if (slots == 1) {
    void* x = ring[0];
    const EncodingTables& table = *tables[0];
    TimeCalls(state, row, [&] { encoding.apply(table, shape, x); });
    return;
  }
  size_t next = 0;
  TimeCalls(state, row, [&] {
    encoding.apply(*tables[next % tables.size()], shape, ring[next]);
    next = next + 1 == slots ? 0 : next + 1;
  });
}

// The row of one sample, or nothing and the reason in `skipped`.
void AddRow(const Plan& plan, const Encoding& encoding, const std::string& target, const Sample& sample,
            int threads, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  const Shape first = SliceShape(encoding, sample.shape, 0, static_cast<size_t>(threads));
  const char* reason = encoding.reject(sample.shape);
  const Cost cost = encoding.cost(sample.shape);
  if (reason == nullptr && TensorElements(encoding.placement, first) == 0) {
    reason = "too small a shape for so many threads";
  }
  if (reason == nullptr && cost.Bytes() == 0) reason = "it moves and computes nothing";
  if (reason != nullptr) {
    skipped->push_back({NameOf(encoding, target, sample, threads), reason});
    return;
  }
  Row row;
  row.name = NameOf(encoding, target, sample, threads);
  row.threads = threads;
  row.cost = cost;
  row.items = cost.bytes_written / static_cast<double>(DtypeBytes(sample.shape.dtype));
  row.working_set_bytes = WorkingSet(encoding, sample.shape, cost);
  row.traffic = TrafficOf(encoding.placement);
  row.cold = sample.cache == Cache::kCold;
  const size_t slots = RingSlots(plan, row.working_set_bytes, sample.cache);
  // A call that moves more than any cache holds finds its tables gone by its next turn: one set will do.
  const bool large = row.working_set_bytes >= static_cast<double>(plan.cold_bytes) / 2;
  const size_t table_slots = large ? 1 : slots;
  if (row.cold) row.working_set_bytes *= static_cast<double>(slots);
  // The base that other ways to make the angles are compared with.
  if (std::string(encoding.name) == "rope_half") AddAngleErrors(AngleWay::kTable, &row);
  row.body = [=, &encoding, topology = plan.topology, shape = sample.shape](benchmark::State& state,
                                                                            const Row& self) {
    PlacementBody(state, self, topology, encoding, shape, slots, table_slots);
  };
  rows->push_back(std::move(row));
}

}  // namespace

// By dtype first: memory that changes its dtype is filled anew.
void AddPlacementRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  for (const Dtype dtype : kAllDtypes) {
    for (const Encoding* encoding : AllEncodings()) {
      for (const std::string& target : plan.targets) {
        for (int threads : plan.threads) {
          for (const Sample& sample : Samples(*encoding, dtype, threads, plan)) {
            AddRow(plan, *encoding, target, sample, threads, rows, skipped);
          }
        }
      }
    }
  }
}

}  // namespace ropeline
