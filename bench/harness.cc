#include "bench/harness.h"

#include <pthread.h>
#include <sched.h>

#include <vector>

#include "kernels/targets.h"

namespace ropeline {

void PinThread(const Topology& topology, int thread) {
  const std::vector<int> cores = topology.UsableCores();
  if (cores.empty()) return;
  const int cpu = cores[static_cast<size_t>(thread) % cores.size()];
  const int room = cpu + 1 > CPU_SETSIZE ? cpu + 1 : CPU_SETSIZE;
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(room));
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(room));
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  // Where the system refuses, the thread stays within the affinity it has.
  (void)pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
}

void BeginRow(benchmark::State& state, const Row& row, const Topology& topology) {
  PinThread(topology, state.thread_index());
  if (row.name.target == "any" || !UseTarget(row.name.target)) UseBestTarget();
}

void SetCounters(benchmark::State& state, const Row& row, const ThreadWatch& watch) {
  using benchmark::Counter;
  const double calls = static_cast<double>(state.iterations());
  if (calls == 0 || watch.WallSeconds() <= 0) return;
  const double call_seconds = watch.WallSeconds() / calls;
  // Every thread reports the whole call; the mean over threads is the call's.
  const auto average = [](double value) { return Counter(value, Counter::kAvgThreads); };
  state.counters["call_ns"] = average(1e9 * call_seconds);
  if (row.cost.Bytes() > 0) state.counters["bytes_per_second"] = average(row.cost.Bytes() / call_seconds);
  if (row.cost.flops > 0) state.counters["flops"] = average(row.cost.flops / call_seconds);
  if (row.items > 0) state.counters["items_per_second"] = average(row.items / call_seconds);
  if (row.working_set_bytes > 0) state.counters["working_set"] = average(row.working_set_bytes);
  state.counters["tainted"] = watch.Tainted() ? 1 : 0;
  state.counters["involuntary_switches"] = static_cast<double>(watch.InvoluntarySwitches());
  if (state.thread_index() == 0) state.counters["steal_ms"] = 1e3 * watch.StolenSeconds();
}

}  // namespace ropeline
