// What the machine can do: stream (bandwidth, latency), peak (f32 FMA), sync (barrier, dispatch, empty loop).
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "bench/buffer.h"
#include "bench/core_probe.h"
#include "bench/crew.h"
#include "bench/harness.h"
#include "kernels/stream.h"

namespace ropeline {

namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kSmallest = 16 * kKiB;

// Working sets from 16 KiB on, `per_octave` to a doubling, whole multiples of 4 KiB, the largest included.
std::vector<size_t> WorkingSets(size_t largest, int per_octave) {
  std::vector<size_t> sets;
  for (int step = 0;; ++step) {
    const double bytes = static_cast<double>(kSmallest) * std::exp2(static_cast<double>(step) / per_octave);
    const size_t whole = static_cast<size_t>(bytes / 4096 + 0.5) * 4096;
    if (whole >= largest) break;
    sets.push_back(whole);
  }
  sets.push_back(largest);
  return sets;
}

size_t Arrays(Traffic traffic) {
  switch (traffic) {
    case Traffic::kRead:
    case Traffic::kUpdate:
      return 1;
    case Traffic::kCopy:
    case Traffic::kAdd:
      return 2;
    case Traffic::kSum:
      return 3;
  }
  return 1;
}

// One thread's share of a working set of the whole row, in floats of one array.
size_t ShareElements(Traffic traffic, size_t working_set_bytes, int threads) {
  const size_t arrays = Arrays(traffic);
  return std::max<size_t>(working_set_bytes / (4 * arrays * static_cast<size_t>(threads)) / 16 * 16, 16);
}

void StreamBody(benchmark::State& state, const Row& row, const Topology& topology, Traffic traffic,
                size_t elements, Pages pages) {
  BeginRow(state, row, topology);
  Arena& arena = ThreadArena(state.thread_index(), pages);
  arena.Reset(3 * Arena::Room(elements));
  // Large arrays keep what they hold: filling them takes longer than timing them.
  const bool keep = 4 * elements > 4 * kMiB;
  float* a = arena.Floats(elements, keep);
  float* b = arena.Floats(Arrays(traffic) > 1 ? elements : 16, keep);
  float* c = arena.Floats(Arrays(traffic) > 2 ? elements : 16, keep);
  switch (traffic) {
    case Traffic::kRead:
      TimeCalls(state, row, [&] { benchmark::DoNotOptimize(StreamRead(a, elements)); });
      break;
    case Traffic::kCopy:
      TimeCalls(state, row, [&] { StreamCopy(a, b, elements); });
      break;
    case Traffic::kUpdate:
      TimeCalls(state, row, [&] { StreamUpdate(a, elements); });
      break;
    case Traffic::kAdd:
      TimeCalls(state, row, [&] { StreamAdd(a, b, elements); });
      break;
    case Traffic::kSum:
      TimeCalls(state, row, [&] { StreamSum(a, b, c, elements); });
      break;
  }
}

Row StreamRow(const Plan& plan, Traffic traffic, size_t working_set, int threads, Pages pages) {
  const size_t elements = ShareElements(traffic, working_set, threads);
  Row row;
  row.name = {"stream", TrafficName(traffic), "f32", plan.targets.front(), {}};
  row.name.With("ws", working_set);
  if (pages == Pages::kSmall) row.name.With("pages", "4k");
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.cost = StreamCost(traffic, elements * static_cast<size_t>(threads));
  row.items = static_cast<double>(elements) * threads;
  row.working_set_bytes = static_cast<double>(working_set);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    StreamBody(state, self, topology, traffic, elements, pages);
  };
  return row;
}

// What storing in 16 bits costs beside moving the bytes: converting to f32 and back. Not a limit.
Row StoredUpdateRow(const Plan& plan, Dtype dtype, size_t working_set) {
  const size_t elements = working_set / DtypeBytes(dtype);
  Row row;
  row.name = {"stream", "update", DtypeName(dtype), plan.targets.front(), {}};
  row.name.With("ws", working_set).With("threads", size_t{1});
  row.cost = StreamCost(Traffic::kUpdate, elements, dtype);
  row.items = static_cast<double>(elements);
  row.working_set_bytes = static_cast<double>(working_set);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    Arena& arena = ThreadArena(state.thread_index());
    arena.Reset(Arena::Room(elements, dtype), dtype);
    void* a = arena.Elements(elements);
    TimeCalls(state, self, [&] { StreamUpdateAs(dtype, a, elements); });
  };
  return row;
}

// Chains are slow to build, so that they are kept for the repetitions of a row.
const uint64_t* ChaseSlots(size_t bytes, Pages pages) {
  static auto* const mappings = new std::map<std::pair<size_t, Pages>, Mapping>;
  Mapping& mapping = (*mappings)[{bytes, pages}];
  if (mapping.Bytes() == 0) {
    mapping = Mapping(bytes, pages);
    BuildChase(bytes, /*seed=*/bytes, static_cast<uint64_t*>(mapping.Data()));
  }
  return static_cast<const uint64_t*>(mapping.Data());
}

Row LatencyRow(const Plan& plan, size_t working_set, Pages pages) {
  constexpr size_t kSteps = 4096;
  Row row;
  row.name = {"stream", "latency", "u64", "any", {}};
  row.name.With("ws", working_set);
  if (pages == Pages::kSmall) row.name.With("pages", "4k");
  row.name.With("threads", size_t{1});
  row.items = kSteps;
  row.working_set_bytes = static_cast<double>(working_set);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const uint64_t* slots = ChaseSlots(working_set, pages);
    uint64_t at = 0;
    TimeCalls(state, self, [&] { at = Chase(slots, at, kSteps); });
    benchmark::DoNotOptimize(at);
  };
  return row;
}

Row PeakRow(const Plan& plan, const std::string& target, int threads) {
  constexpr size_t kRounds = 20000;
  Row row;
  row.name = {"peak", "fma", "f32", target, {}};
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.body = [topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    float sink[2] = {0.5f, 0};
    Row with_cost = self;  // the flops of a round depend on the target's lanes
    with_cost.cost.flops = PeakFma(1, sink) * static_cast<double>(kRounds) * self.threads;
    with_cost.items = with_cost.cost.flops;
    TimeCalls(state, with_cost, [&] { PeakFma(kRounds, sink); });
    benchmark::DoNotOptimize(sink[1]);
  };
  return row;
}

Row BarrierRow(const Plan& plan, int threads) {
  Row row;
  row.name = {"sync", "barrier", "none", "any", {}};
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.items = 1;
  const auto barrier = std::make_shared<SpinBarrier>(threads);
  row.body = [barrier, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    TimeCalls(state, self, [&] { barrier->Wait(); });
  };
  return row;
}

// Handing one tiny operation to all threads, and waiting for the last of them: what a step pays for each
// where one thread decides what comes next. A barrier alone is what it pays where all follow the same list.
Row DispatchRow(const Plan& plan, int threads) {
  struct alignas(64) Done {
    int count = 0;
  };
  struct Shared {
    explicit Shared(int threads) : crew(threads), done(static_cast<size_t>(threads)) {}
    Crew crew;
    std::vector<Done> done;
  };
  Row row;
  row.name = {"sync", "dispatch", "none", "any", {}};
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.items = 1;
  const auto shared = std::make_shared<Shared>(threads);
  row.body = [shared, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const int thread = state.thread_index();
    const Crew::Operation count = [](void* argument, int on) {
      ++(*static_cast<std::vector<Done>*>(argument))[static_cast<size_t>(on)].count;
    };
    TimeCalls(state, self, [&] {
      if (thread == 0) {
        shared->crew.HandOut(count, &shared->done);
      } else {
        shared->crew.Follow(thread);
      }
    });
  };
  return row;
}

// What the timed loop itself costs: Debian's benchmark library announces a debug build, but its loop is in
// the header.
Row EmptyLoopRow(const Plan& plan) {
  Row row;
  row.name = {"sync", "empty_loop", "none", "any", {}};
  row.name.With("threads", size_t{1});
  row.items = 1;
  row.body = [topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    int nothing = 0;
    TimeCalls(state, self, [&] { benchmark::DoNotOptimize(nothing); });
  };
  return row;
}

}  // namespace

void AddMachineRows(const Plan& plan, std::vector<Row>* rows) {
  rows->push_back(EmptyLoopRow(plan));
  for (const std::string& target : plan.targets) {
    for (int threads : plan.threads) rows->push_back(PeakRow(plan, target, threads));
  }
  for (int threads : plan.threads) rows->push_back(BarrierRow(plan, threads));
  for (int threads : plan.threads) rows->push_back(DispatchRow(plan, threads));
  for (int threads : plan.threads) {
    for (Traffic traffic : {Traffic::kRead, Traffic::kCopy, Traffic::kUpdate, Traffic::kAdd, Traffic::kSum}) {
      // The limit of rows of one thread alone (bench_input_forms.cc).
      if (traffic == Traffic::kSum && threads > 1) continue;
      // Reads for one thread show the knees: a finer grid.
      const bool often = traffic == Traffic::kRead || traffic == Traffic::kUpdate;
      const bool fine = (!plan.quick && often) || (traffic == Traffic::kRead && threads == 1);
      for (size_t working_set : WorkingSets(plan.largest_stream_bytes, fine ? 2 : 1)) {
        rows->push_back(StreamRow(plan, traffic, working_set, threads, Pages::kHuge));
      }
    }
  }
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    for (size_t working_set : {kSmallest, 256 * kKiB, 256 * kMiB}) {
      rows->push_back(StoredUpdateRow(plan, dtype, std::min(working_set, plan.largest_stream_bytes)));
    }
  }
  for (size_t working_set = kSmallest; working_set <= 256 * kMiB; working_set *= 4) {
    rows->push_back(LatencyRow(plan, working_set, Pages::kHuge));
  }
  // The difference that huge pages make.
  rows->push_back(StreamRow(plan, Traffic::kRead, 256 * kMiB, 1, Pages::kSmall));
  rows->push_back(LatencyRow(plan, 256 * kMiB, Pages::kSmall));
}

}  // namespace ropeline
