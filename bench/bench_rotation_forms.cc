// A rotation paid for in other ways: angles made in the call, out of place, while K goes into the cache,
// while Q goes into the attention.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/angle_table.h"
#include "kernels/angle_ways.h"
#include "kernels/memory.h"
#include "kernels/qk_rotation.h"
#include "kernels/rope_schedule.h"
#include "kernels/score_tile.h"

namespace ropeline {

namespace {

constexpr double kBase = 10000;

struct Size {
  size_t n, n_heads, d_head;
  Cache cache;
};

Row RotationRow(const Size& size, Dtype dtype, const std::string& target, const char* key,
                const char* value) {
  Row row;
  row.name = {"qk_rotation", "rope_half", DtypeName(dtype), target, {}};
  row.name.With("n", size.n).With("h", size.n_heads).With("d", size.d_head).With(key, value);
  row.name.With("cache", size.cache == Cache::kHot ? "hot" : "cold").With("threads", size_t{1});
  row.items = static_cast<double>(size.n * size.n_heads * size.d_head);
  row.cold = size.cache == Cache::kCold;
  return row;
}

// Every layer turns by the same angles: one table, whatever the ring.
TableMemory Angles(size_t n, size_t d_head) {
  TableMemory table(n * d_head);
  BuildAngleTable(DefaultInvFreq(d_head, kBase), 0, n, AngleLayout::kSplit, table.get());
  return table;
}

// ------------------------------------------------------------------------------------- how angles are made

void AddAngleWays(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  // A decode step and a chunk of a prompt, both in the second-level cache.
  for (const Size& size : {Size{1, 32, 128, Cache::kHot}, Size{16, 32, 128, Cache::kHot}}) {
    for (const AngleWay way : kAllAngleWays) {
      if (way == AngleWay::kTable) continue;  // the encoding's own row
      Row row = RotationRow(size, Dtype::kF32, target, "angles", AngleWayName(way));
      row.cost = MakingAnglesCost(way, size.n, size.n_heads, size.d_head);
      row.traffic = Traffic::kUpdate;
      row.working_set_bytes = row.cost.bytes_written;
      AddAngleErrors(way, &row);
      row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
        BeginRow(state, self, topology);
        const auto inv_freq = DefaultInvFreq(size.d_head, kBase);
        const size_t elements = size.n * size.n_heads * size.d_head;
        Arena& arena = ThreadArena(state.thread_index());
        arena.Reset(Arena::Room(elements));
        float* x = arena.Floats(elements);
        // Not at the start, where angles are small.
        TimeCalls(state, self, [&] { RotateMakingAngles(way, inv_freq, 30000, size.n, size.n_heads, x); });
      };
      rows->push_back(std::move(row));
    }
  }
}

// -------------------------------------------------------------------------- from one tensor into another

enum class Form { kOutOfPlace, kRotateThenWrite, kCacheWrite, kWriteOnly };

const char* FormName(Form form) {
  switch (form) {
    case Form::kOutOfPlace:
      return "out_of_place";
    case Form::kRotateThenWrite:
      return "rotate_then_write";
    case Form::kCacheWrite:
      return "cache_write";
    case Form::kWriteOnly:
      return "write_only";
  }
  return "";
}

Cost FormCost(Form form, Rotation rotation) {
  float in[1], out[1];
  rotation.in.data = in;
  rotation.out.data = out;
  const Cost write =
      ConvertCost(rotation.in.dtype, rotation.out.dtype, rotation.n * rotation.n_heads * rotation.d_head);
  if (form == Form::kWriteOnly) return write;
  if (form != Form::kRotateThenWrite) return RotationCost(rotation);
  rotation.out = rotation.in;
  return RotationCost(rotation) + write;
}

void CopyBody(benchmark::State& state, const Row& row, const Topology& topology, Form form, Rotation call,
              size_t slots) {
  BeginRow(state, row, topology);
  const size_t elements = call.n * call.n_heads * call.d_head;
  const TableMemory table = Angles(call.n, call.d_head);
  call.table = table.get();
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(slots * 2 * Arena::Room(elements, call.in.dtype), call.in.dtype);
  std::vector<void*> in, out;
  for (size_t slot = 0; slot < slots; ++slot) {
    in.push_back(arena.Elements(elements, slots > 1));
    out.push_back(arena.Elements(elements, slots > 1));
  }
  size_t next = 0;
  TimeCalls(state, row, [&] {
    call.in.data = in[next];
    call.out.data = out[next];
    switch (form) {
      case Form::kRotateThenWrite: {
        Rotation in_place = call;
        in_place.out = in_place.in;
        Rotate(in_place);
        ConvertHeads(call.in, call.out, call.n, call.n_heads, call.d_head);
        break;
      }
      case Form::kWriteOnly:
        ConvertHeads(call.in, call.out, call.n, call.n_heads, call.d_head);
        break;
      case Form::kOutOfPlace:
      case Form::kCacheWrite:
        Rotate(call);
        break;
    }
    next = next + 1 == slots ? 0 : next + 1;
  });
  if (call.in.dtype != call.out.dtype) arena.Spoil();
}

void AddCopyRow(const Plan& plan, const std::string& target, Form form, const Size& size, Dtype in, Dtype out,
                std::vector<Row>* rows) {
  const size_t token = size.n_heads * size.d_head;
  const Rotation call{Pairing::kHalf,
                      size.n,
                      size.n_heads,
                      size.d_head,
                      size.d_head,
                      {nullptr, in, token, size.d_head},
                      {nullptr, out, token, size.d_head},
                      nullptr,
                      nullptr,
                      false};
  Row row = RotationRow(size, out, target, "form", FormName(form));
  row.cost = FormCost(form, call);
  row.traffic = Traffic::kCopy;
  const double one = static_cast<double>(size.n * token * (DtypeBytes(in) + DtypeBytes(out)));
  const size_t slots = RingSlots(plan, one, size.cache);
  row.working_set_bytes = one * static_cast<double>(slots);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    CopyBody(state, self, topology, form, call, slots);
  };
  rows->push_back(std::move(row));
}

void AddCopyRows(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16}) {
    for (const Size& size : {Size{4, 32, 128, Cache::kHot}, Size{4096, 32, 128, Cache::kCold}}) {
      AddCopyRow(plan, target, Form::kOutOfPlace, size, dtype, dtype, rows);
    }
  }
  for (const Dtype cache : {Dtype::kF16, Dtype::kBf16}) {
    for (const Size& size :
         {Size{16, 8, 128, Cache::kHot}, Size{64, 8, 128, Cache::kHot}, Size{16384, 8, 128, Cache::kCold}}) {
      for (const Form form : {Form::kWriteOnly, Form::kCacheWrite, Form::kRotateThenWrite}) {
        AddCopyRow(plan, target, form, size, Dtype::kF32, cache, rows);
      }
    }
  }
}

// ------------------------------------------------------------------------------ Q on its way to the scores

void AddAttentionRows(const Plan& plan, const std::string& target, std::vector<Row>* rows) {
  constexpr size_t kN = 1536, kHeads = 6, kKvHeads = 2, kD = 128;
  for (const bool inside : {false, true}) {
    Row row = RotationRow({kN, kHeads, kD, Cache::kHot}, Dtype::kF32, target, "form",
                          inside ? "q_in_attention" : "q_before_attention");
    Shape q;
    q.n = kN;
    q.n_heads = kHeads;
    q.d_head = kD;
    ScoreTiles tiles{kN, kHeads, kKvHeads, kD, nullptr, nullptr, 0.088f};
    float any[1];
    if (inside) tiles.angles = any;
    row.cost = ScoreTilesCost(tiles);
    if (!inside) row.cost = row.cost + QkRotationCost(q);
    row.traffic = Traffic::kRead;
    row.working_set_bytes = row.cost.Bytes();
    row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
      BeginRow(state, self, topology);
      const size_t q_elements = kN * kHeads * kD;
      const size_t k_elements = TiledKeysElements(kN, kKvHeads, kD);
      Arena& arena = ThreadArena(state.thread_index());
      arena.Reset(Arena::Room(q_elements) + Arena::Room(k_elements) + Arena::Room(kHeads * kN));
      float* heads = arena.Floats(q_elements);
      ScoreTiles call = tiles;
      call.q = heads;
      call.tiled_keys = arena.Floats(k_elements);
      float* largest = arena.Floats(kHeads * kN);
      const TableMemory table = Angles(kN, kD);
      call.angles = inside ? table.get() : nullptr;
      const HeadsView view{heads, Dtype::kF32, kHeads * kD, kD};
      TimeCalls(state, self, [&] {
        if (!inside) {
          Rotate({Pairing::kHalf, kN, kHeads, kD, kD, view, view, table.get(), nullptr, false});
        }
        LargestScores(call, largest);
      });
    };
    rows->push_back(std::move(row));
  }
}

}  // namespace

void AddAngleErrors(AngleWay way, Row* row) {
  constexpr struct {
    size_t position;
    const char* name;
  } kPositions[] = {{32767, "32k"}, {131071, "131k"}, {1048575, "1m"}};
  for (const auto& [position, name] : kPositions) {
    static auto* const known = new std::map<std::pair<AngleWay, size_t>, AngleError>;
    const auto [it, fresh] = known->try_emplace({way, position});
    if (fresh) it->second = WorstAngleError(way, position);
    const AngleError& error = it->second;
    row->counters[std::string("angle_error_") + name] = error.exact;
    row->counters[std::string("angle_error_vs_f32_") + name] = error.trained;
  }
}

void AddRotationForms(const Plan& plan, std::vector<Row>* rows) {
  for (const std::string& target : plan.targets) {
    AddAngleWays(plan, target, rows);
    AddCopyRows(plan, target, rows);
    AddAttentionRows(plan, target, rows);
  }
}

}  // namespace ropeline
