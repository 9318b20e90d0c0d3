// Making the angles: the table by SIMD angle addition against the plain loop of std::cos and std::sin in
// double.
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/angle_table.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

namespace {

constexpr double kBase = 10000;

using Builder = void (*)(const std::vector<double>&, size_t, size_t, AngleLayout, float*);

Row TableRow(const Plan& plan, const char* variant, const std::string& target, Builder build, size_t n,
             size_t d_head) {
  Row row;
  row.name = {"qk_rotation", variant, "f32", target, {}};
  row.name.With("n", n).With("d", d_head).With("threads", size_t{1});
  row.cost = AngleTableCost(d_head / 2, n);
  row.items = static_cast<double>(n * d_head);
  row.working_set_bytes = row.cost.bytes_written;
  row.traffic = Traffic::kCopy;  // it only writes; no stream row does, and a copy is the nearest
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const auto inv_freq = DefaultInvFreq(d_head, kBase);
    Arena& arena = ThreadArena(state.thread_index());
    arena.Reset(Arena::Room(n * d_head));
    float* table = arena.Floats(n * d_head);
    TimeCalls(state, self, [&] { build(inv_freq, 0, n, AngleLayout::kSplit, table); });
  };
  return row;
}

}  // namespace

void AddAngleTableRows(const Plan& plan, std::vector<Row>* rows) {
  for (size_t n : {size_t{512}, size_t{32768}}) {
    for (const std::string& target : plan.targets) {
      rows->push_back(TableRow(plan, "angles_table", target, BuildAngleTable, n, 128));
    }
  }
  rows->push_back(TableRow(plan, "angles_scalar", "any", BuildAngleTableScalar, 512, 128));
  if (!plan.quick) rows->push_back(TableRow(plan, "angles_scalar", "any", BuildAngleTableScalar, 32768, 128));
}

}  // namespace ropeline
