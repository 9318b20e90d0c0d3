// The input add beside the embedding look-up that comes before it: one after the other, or in one pass.
#include <memory>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/hash.h"
#include "kernels/input_add.h"

namespace ropeline {

namespace {

enum class Form { kGatherThenAdd, kFusedGather };

// Tokens of a prompt come from anywhere in the vocabulary, positions one after the other.
void GatherBody(benchmark::State& state, const Row& row, const Topology& topology, const Shape& shape,
                Form form, size_t slots) {
  BeginRow(state, row, topology);
  const size_t elements = shape.n * shape.d_model;
  const size_t table_rows = slots * shape.n;  // of the embedding and of the positions: larger than any cache
  Arena& arena = ThreadArena(state.thread_index());
  arena.Reset(
      2 * Arena::Room(table_rows * shape.d_model, shape.dtype) + slots * Arena::Room(elements, shape.dtype),
      shape.dtype);
  const void* embedding = arena.Elements(table_rows * shape.d_model, /*keep=*/true);
  const void* positions = arena.Elements(table_rows * shape.d_model, /*keep=*/true);
  std::vector<void*> ring;
  for (size_t slot = 0; slot < slots; ++slot) ring.push_back(arena.Elements(elements, /*keep=*/true));
  std::vector<int32_t> token(table_rows), position(table_rows);
  for (size_t t = 0; t < table_rows; ++t) {
    token[t] = static_cast<int32_t>(Hash64(t) % table_rows);
    position[t] = static_cast<int32_t>(t);
  }
  size_t next = 0;
  TimeCalls(state, row, [&] {
    const TableRows tokens{embedding, token.data() + next * shape.n};
    const TableRows places{positions, position.data() + next * shape.n};
    if (form == Form::kFusedGather) {
      GatherAndAddTableRows(shape.dtype, tokens, places, shape.n, shape.d_model, ring[next]);
    } else {
      GatherTableRows(shape.dtype, tokens, shape.n, shape.d_model, ring[next]);
      AddTableRows(shape.dtype, places, shape.n, shape.d_model, ring[next]);
    }
    next = next + 1 == slots ? 0 : next + 1;
  });
}

}  // namespace

void AddInputForms(const Plan& plan, std::vector<Row>* rows) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16}) {
    for (const std::string& target : plan.targets) {
      // A prompt's chunk, whose X stays in a cache between the two passes, and one that does not.
      for (const size_t n : {size_t{16}, size_t{512}, size_t{4096}}) {
        if (plan.quick && n == 4096) continue;
        for (const Form form : {Form::kGatherThenAdd, Form::kFusedGather}) {
          Shape shape;
          shape.n = n;
          shape.d_model = 4096;
          shape.dtype = dtype;
          const bool fused = form == Form::kFusedGather;
          Row row;
          row.name = {"input_add", "learned", DtypeName(dtype), target, {}};
          row.name.With("n", n).With("d", shape.d_model);
          row.name.With("form", fused ? "fused_gather" : "gather_then_add");
          row.name.With("cache", "cold").With("threads", size_t{1});
          row.cost = fused ? GatherAndAddCost(shape) : GatherCost(shape) + InputAddCost(shape);
          row.items = static_cast<double>(n * shape.d_model);
          row.traffic = fused ? Traffic::kSum : Traffic::kAdd;
          row.cold = true;
          const double one = GatherAndAddCost(shape).Bytes();
          const size_t slots = RingSlots(plan, one, Cache::kCold);
          row.working_set_bytes = one * static_cast<double>(slots);
          row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
            GatherBody(state, self, topology, shape, form, slots);
          };
          rows->push_back(std::move(row));
        }
      }
    }
  }
}

}  // namespace ropeline
