// The placements: every encoding of the registry, over shapes, hot and cold, by threads.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/placement.h"
#include "kernels/registry.h"

namespace ropeline {

namespace {

enum class Cache { kHot, kCold };

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

// Shapes as data. Hot sizes reach from the first-level to beyond the second-level cache; cold ones leave
// every cache. Heads, d_head and d_model are those of models around 1B (64), 3B and 8B (128).
std::vector<Sample> Samples(Placement placement, bool quick) {
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
      for (size_t d : {768, 2048}) cold(TokensOf(4096, d));
      cold(TokensOf(16384, 4096));
      break;
    case Placement::kScoreBias:
      for (size_t n : {128, 256, 512}) hot(ScoresOf(n, 8, true));
      hot(ScoresOf(256, 8, false));
      cold(ScoresOf(512, 32, true));
      cold(ScoresOf(2048, 32, true));
      if (quick) break;
      for (size_t n : {64, 128, 512}) hot(ScoresOf(n, 8, false));
      hot(ScoresOf(512, 12, true));
      cold(ScoresOf(2048, 32, false));
      cold(ScoresOf(4096, 32, true));
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

RowName NameOf(const Encoding& encoding, const std::string& target, const Sample& sample, int threads) {
  RowName name{PlacementName(encoding.placement), encoding.name, "f32", target, {}};
  const Shape& shape = sample.shape;
  name.With("n", shape.n);
  switch (encoding.placement) {
    case Placement::kInputAdd:
      name.With("d", shape.d_model);
      break;
    case Placement::kScoreBias:
      name.With("h", shape.n_heads).With("causal", shape.causal ? 1 : 0);
      break;
    case Placement::kQkRotation:
      name.With("h", shape.n_heads + shape.n_kv_heads).With("d", shape.d_head);
      break;
  }
  name.With("cache", sample.cache == Cache::kHot ? "hot" : "cold");
  name.With("threads", static_cast<size_t>(threads));
  return name;
}

// The memory that one call spans: the tensor whole, and the tables (what is read and not written). Causal
// rows leave the same columns of every row alone; the cache sets of the other columns must then hold as many
// lines as they would for the whole tensor.
double WorkingSet(const Encoding& encoding, const Shape& shape, const Cost& cost) {
  return 4.0 * static_cast<double>(TensorElements(encoding.placement, shape)) + cost.bytes_read -
         cost.bytes_written;
}

// Tensors that one thread goes round, so that each is cold when its turn comes again.
size_t RingSlots(const Plan& plan, const Row& row, Cache cache) {
  if (cache == Cache::kHot) return 1;
  const double one = row.working_set_bytes;
  return static_cast<size_t>(std::max(1.0, static_cast<double>(plan.cold_bytes) / one)) + 1;
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
                   const Encoding& encoding, const Shape& whole, size_t slots) {
  BeginRow(state, row, topology);
  const size_t thread = static_cast<size_t>(state.thread_index());
  const Shape shape = SliceShape(encoding, whole, thread, static_cast<size_t>(state.threads()));
  const TableRing& tables = TablesFor(row, thread, encoding, shape, slots);
  const size_t elements = TensorElements(encoding.placement, shape);
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(slots * Arena::Room(elements));
  std::vector<float*> ring;
  for (size_t slot = 0; slot < slots; ++slot) ring.push_back(arena.Floats(elements, /*keep=*/slots > 1));
  if (slots == 1) {
    float* x = ring[0];
    const EncodingTables& table = *tables[0];
    TimeCalls(state, row, [&] { encoding.apply(table, shape, x); });
    return;
  }
  size_t next = 0;
  TimeCalls(state, row, [&] {
    encoding.apply(*tables[next], shape, ring[next]);
    next = next + 1 == slots ? 0 : next + 1;
  });
}

}  // namespace

void AddPlacementRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  for (const Encoding* encoding : AllEncodings()) {
    for (const std::string& target : plan.targets) {
      for (int threads : plan.threads) {
        for (const Sample& sample : Samples(encoding->placement, plan.quick)) {
          const Shape last = SliceShape(*encoding, sample.shape, 0, static_cast<size_t>(threads));
          const char* reason = encoding->reject(sample.shape);
          if (reason == nullptr && TensorElements(encoding->placement, last) == 0) {
            reason = "too small a shape for so many threads";
          }
          if (reason != nullptr) {
            skipped->push_back({NameOf(*encoding, target, sample, threads), reason});
            continue;
          }
          Row row;
          row.name = NameOf(*encoding, target, sample, threads);
          row.threads = threads;
          row.cost = encoding->cost(sample.shape);
          row.items = row.cost.bytes_written / 4;
          row.working_set_bytes = WorkingSet(*encoding, sample.shape, row.cost);
          row.traffic = TrafficOf(encoding->placement);
          row.cold = sample.cache == Cache::kCold;
          const size_t slots = RingSlots(plan, row, sample.cache);
          if (row.cold) row.working_set_bytes *= static_cast<double>(slots);
          row.body = [=, topology = plan.topology, shape = sample.shape](benchmark::State& state,
                                                                         const Row& self) {
            PlacementBody(state, self, topology, *encoding, shape, slots);
          };
          rows->push_back(std::move(row));
        }
      }
    }
  }
}

}  // namespace ropeline
