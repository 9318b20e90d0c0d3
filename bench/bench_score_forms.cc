// A score bias paid for in other ways than the encodings' own: read from a tensor that holds it, looked up by
// bucket for each score, or added where the scores are in registers.
#include <memory>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/registry.h"
#include "kernels/score_bias.h"
#include "kernels/score_tile.h"

namespace ropeline {

namespace {

Shape ScoresOf(size_t n, size_t n_heads, Dtype dtype) {
  Shape shape;
  shape.n = shape.n_k = n;
  shape.n_heads = shape.total_heads = n_heads;
  shape.dtype = dtype;
  return shape;
}

RowName NameOf(const char* encoding, const Shape& shape, const std::string& target, size_t d_head,
               const char* form, const char* bias, Cache cache) {
  RowName name{"score_bias", encoding, DtypeName(shape.dtype), target, {}};
  name.With("n", shape.n).With("h", shape.n_heads);
  if (d_head != 0) name.With("d", d_head);
  name.With("causal", shape.causal ? 1 : 0).With("form", form);
  if (bias != nullptr) name.With("bias", bias);
  name.With("cache", cache == Cache::kHot ? "hot" : "cold").With("threads", size_t{1});
  return name;
}

// ------------------------------------------------------------------------------------- the bias is a tensor

void TensorBody(benchmark::State& state, const Row& row, const Topology& topology, const Shape& shape,
                Dtype bias_dtype, size_t slots) {
  BeginRow(state, row, topology);
  const size_t elements = TensorElements(Placement::kScoreBias, shape);
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(slots * (Arena::Room(elements, shape.dtype) + Arena::Room(elements, bias_dtype)), shape.dtype);
  std::vector<void*> scores;
  for (size_t slot = 0; slot < slots; ++slot) scores.push_back(arena.Elements(elements, slots > 1));
  // The bias has a dtype of its own; zeros are zeros in each.
  std::vector<TableMemory> biases;
  for (size_t slot = 0; slot < slots; ++slot) {
    biases.emplace_back(elements, DtypeBytes(bias_dtype));
    std::fill_n(static_cast<char*>(biases.back().Data()), elements * DtypeBytes(bias_dtype), char{0});
  }
  size_t next = 0;
  TimeCalls(state, row, [&] {
    AddBiasTensor(biases[next].Data(), bias_dtype, shape, scores[next]);
    next = next + 1 == slots ? 0 : next + 1;
  });
}

void AddTensorRows(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  struct Pair {
    Dtype scores, bias;
    bool causal = true;
  };
  std::vector<Pair> pairs = {{Dtype::kF32, Dtype::kF32},
                             {Dtype::kF32, Dtype::kF16},
                             {Dtype::kF16, Dtype::kF16},
                             {Dtype::kBf16, Dtype::kBf16}};
  if (plan.peers) pairs.push_back({Dtype::kF32, Dtype::kF32, false});
  for (const Pair& pair : pairs) {
    for (const Cache cache : {Cache::kHot, Cache::kCold}) {
      Shape shape = cache == Cache::kHot ? ScoresOf(256, 8, pair.scores) : ScoresOf(1024, 32, pair.scores);
      shape.causal = pair.causal;
      Row row;
      row.name = NameOf("t5_bias", shape, target, 0, "materialised", DtypeName(pair.bias), cache);
      row.cost = BiasTensorCost(shape, pair.bias);
      row.items = BiasedScores(shape);
      row.counters["bias_bytes"] = BiasTensorBytes(shape, pair.bias);
      row.traffic = Traffic::kAdd;
      row.cold = cache == Cache::kCold;
      row.working_set_bytes = BiasTensorBytes(shape, pair.scores) + BiasTensorBytes(shape, pair.bias);
      const size_t slots = RingSlots(plan, row.working_set_bytes, cache);
      row.working_set_bytes *= static_cast<double>(slots);
      row.body = [=, bias_dtype = pair.bias, topology = plan.topology](benchmark::State& state,
                                                                       const Row& self) {
        TensorBody(state, self, topology, shape, bias_dtype, slots);
      };
      rows->push_back(std::move(row));
    }
  }
}

// -------------------------------------------------------------------------------- a bucket for each score

void AddGatherRows(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  for (const Cache cache : {Cache::kHot, Cache::kCold}) {
    const Shape shape =
        cache == Cache::kHot ? ScoresOf(256, 8, Dtype::kF32) : ScoresOf(1024, 32, Dtype::kF32);
    Row row;
    row.name = NameOf("t5_bias", shape, target, 0, "bucket_gather", nullptr, cache);
    row.cost = T5GatherCost(shape);
    row.items = BiasedScores(shape);
    row.traffic = Traffic::kUpdate;
    row.cold = cache == Cache::kCold;
    row.working_set_bytes = BiasTensorBytes(shape, shape.dtype);
    const size_t slots = RingSlots(plan, row.working_set_bytes, cache);
    row.working_set_bytes *= static_cast<double>(slots);
    row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
      BeginRow(state, self, topology);
      const size_t elements = TensorElements(Placement::kScoreBias, shape);
      const T5Gather gather(shape);
      Arena& arena = ThreadArena(state.thread_index());
      arena.Reset(slots * Arena::Room(elements));
      std::vector<float*> ring;
      for (size_t slot = 0; slot < slots; ++slot) ring.push_back(arena.Floats(elements, slots > 1));
      size_t next = 0;
      TimeCalls(state, self, [&] {
        AddT5ByGather(gather, shape, ring[next]);
        next = next + 1 == slots ? 0 : next + 1;
      });
    };
    rows->push_back(std::move(row));
  }
}

// ------------------------------------------------------------------------- scores that stay in registers

struct Tile {
  const char* encoding;
  TileBias bias;
};

void TileBody(benchmark::State& state, const Row& row, const Topology& topology, ScoreTiles tiles,
              const Shape& shape) {
  BeginRow(state, row, topology);
  const size_t d = tiles.d_head;
  const size_t q_elements = tiles.n * tiles.n_heads * d;
  const size_t k_elements = TiledKeysElements(tiles.n, tiles.n_kv_heads, d);
  const size_t largest_elements = tiles.n_heads * tiles.n;
  const bool tensor = tiles.bias == TileBias::kTensor;
  const size_t tensor_elements = tensor ? tiles.n_heads * tiles.n * tiles.n + 64 : 16;
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(Arena::Room(q_elements) + Arena::Room(k_elements) + Arena::Room(largest_elements) +
              Arena::Room(tensor_elements));
  tiles.q = arena.Floats(q_elements);
  tiles.tiled_keys = arena.Floats(k_elements);
  float* largest = arena.Floats(largest_elements);
  tiles.tensor = arena.Floats(tensor_elements);
  std::vector<float> slopes;
  for (const double slope : AlibiSlopes(tiles.n_heads)) slopes.push_back(static_cast<float>(slope));
  tiles.slopes = slopes.data();
  const auto tables = FindEncoding("t5_bias")->setup(shape);
  tiles.rows = T5DistanceRows(*tables);
  const T5Gather gather(shape);
  tiles.gather = &gather;
  TimeCalls(state, row, [&] { LargestScores(tiles, largest); });
}

void AddTileRows(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  constexpr size_t kN = 1536, kHeads = 6, kKvHeads = 2, kD = 128;
  for (const Tile& tile : {Tile{"none", TileBias::kNone},
                           {"alibi", TileBias::kSlope},
                           {"t5_bias", TileBias::kRow},
                           {"t5_bias", TileBias::kGather},
                           {"t5_bias", TileBias::kTensor}}) {
    const Shape shape = ScoresOf(kN, kHeads, Dtype::kF32);
    ScoreTiles tiles{kN, kHeads, kKvHeads, kD, nullptr, nullptr, 0.088f};
    tiles.bias = tile.bias;
    Row row;
    row.name = NameOf(tile.encoding, shape, target, kD, "tile", TileBiasName(tile.bias), Cache::kHot);
    row.cost = ScoreTilesCost(tiles);
    row.items = BiasedScores(shape);
    if (tile.bias == TileBias::kTensor) row.counters["bias_bytes"] = BiasTensorBytes(shape, shape.dtype);
    row.traffic = Traffic::kRead;
    row.working_set_bytes = row.cost.bytes_read + row.cost.bytes_written;
    row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
      TileBody(state, self, topology, tiles, shape);
    };
    rows->push_back(std::move(row));
  }
}

}  // namespace

void AddScoreForms(const Plan& plan, std::vector<Row>* rows) {
  for (const std::string& target : plan.targets) {
    AddTileRows(plan, target, rows);
    AddGatherRows(plan, target, rows);
    AddTensorRows(plan, target, rows);
  }
}

}  // namespace ropeline
