// The same rotation with the angles of every schedule: a schedule is paid for when the table is made, never
// in the call.
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/harness.h"
#include "kernels/angle_table.h"
#include "kernels/memory.h"
#include "kernels/qk_rotation.h"
#include "kernels/rope_frequencies.h"

namespace ropeline {

namespace {

constexpr size_t kN = 4, kHeads = 32, kD = 128;
constexpr size_t kContext = 32768;  // eight times the trained one

RopeParameters Extended(RopeType type) {
  RopeParameters rope;
  rope.type = type;
  rope.d_head = rope.d_rot = kD;
  rope.base = 10000;
  rope.original_context = 4096;
  if (type == RopeType::kDynamic || type == RopeType::kQwenDynamic) return rope;  // by the tokens
  rope.factor = 8;
  rope.factor_given = true;
  rope.short_factor.assign(kD / 2, 1);
  rope.long_factor.assign(kD / 2, 8);
  return rope;
}

// The last tokens of the context, cos and sin times the attention factor.
TableMemory Angles(RopeType type) {
  const RopeFrequencies frequencies = FrequenciesOf(Extended(type), {kContext, kContext}, RopeSemantics::kHf);
  TableMemory table(kN * kD);
  BuildAngleTable(frequencies.inv_freq, kContext - kN, kN, AngleLayout::kSplit, table.get());
  for (size_t i = 0; i < kN * kD; ++i) table[i] *= static_cast<float>(frequencies.attention_factor);
  return table;
}

Row ScheduleRow(const Plan& plan, const std::string& target, RopeType type) {
  Row row;
  row.name = {"qk_rotation", std::string("rope_half_") + RopeTypeName(type), "f32", target, {}};
  row.name.With("n", kN)
      .With("h", kHeads)
      .With("d", kD)
      .With("form", "out_of_place")
      .With("cache", "hot")
      .With("threads", size_t{1});
  // Out of place: in place, a factor above 1 makes values grow from call to call.
  float in[1], out[1];
  const HeadsView from{in, Dtype::kF32, kHeads * kD, kD}, to{out, Dtype::kF32, kHeads * kD, kD};
  const Rotation call{Pairing::kHalf, kN, kHeads, kD, kD, from, to, nullptr, nullptr, false};
  row.cost = RotationCost(call);
  row.items = static_cast<double>(kN * kHeads * kD);
  row.working_set_bytes = row.cost.Bytes();
  row.traffic = Traffic::kCopy;
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const TableMemory table = Angles(type);
    Arena& arena = ThreadArena(state.thread_index());
    arena.Reset(2 * Arena::Room(kN * kHeads * kD));
    Rotation timed = call;
    timed.table = table.get();
    timed.in.data = arena.Floats(kN * kHeads * kD);
    timed.out.data = arena.Floats(kN * kHeads * kD);
    TimeCalls(state, self, [&] { Rotate(timed); });
  };
  return row;
}

}  // namespace

void AddScheduleRows(const Plan& plan, std::vector<Row>* rows) {
  std::vector<RopeType> types = {RopeType::kDefault, RopeType::kYarn, RopeType::kLongrope};
  if (!plan.quick) {
    types = {RopeType::kDefault, RopeType::kLinear, RopeType::kNtk,     RopeType::kDynamic,
             RopeType::kYarn,    RopeType::kLlama3, RopeType::kLongrope};
  }
  for (const RopeType type : types) rows->push_back(ScheduleRow(plan, plan.targets.front(), type));
}

}  // namespace ropeline
