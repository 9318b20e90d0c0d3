// A benchmark row: its name, what it costs, which limit it is held against, and the loop that is timed.
#ifndef ROPELINE_BENCH_HARNESS_H_
#define ROPELINE_BENCH_HARNESS_H_

#include <benchmark/benchmark.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/interference.h"
#include "bench/topology.h"
#include "kernels/cost.h"
#include "kernels/roofline.h"
#include "kernels/row_name.h"

namespace ropeline {

struct Row {
  RowName name;  // with threads
  int threads = 1;
  Cost cost;         // of one call over the whole shape, all threads together
  double items = 0;  // elements of one call, all threads together
  double working_set_bytes =
      0;  // distinct memory one call touches, all threads together; cold: the whole ring
  std::optional<Traffic> traffic;  // of the stream row that is the limit; nothing: the row is itself a limit
  bool cold = false;               // the limit is main memory, whatever the working set
  std::function<void(benchmark::State&, const Row&)> body;
};

// What the rows are made for.
struct Plan {
  Topology topology;
  std::vector<int> threads;          // counts to measure, ascending
  std::vector<std::string> targets;  // best first; the first is the run's main target
  bool quick = false;
  size_t largest_stream_bytes = 0;  // working set of the largest stream row
  size_t cold_bytes = 0;            // size of a cold ring, all threads together
};

// Each family's rows, in the order they run.
void AddMachineRows(const Plan& plan, std::vector<Row>* rows);     // stream, peak, sync
void AddPlacementRows(const Plan& plan, std::vector<Row>* rows);   // input_add, score_bias, qk_rotation
void AddAngleTableRows(const Plan& plan, std::vector<Row>* rows);  // qk_rotation: making the angles

// Keeps the calling thread on the core that benchmark thread `thread` belongs to (Topology::UsableCores).
void PinThread(const Topology& topology, int thread);

// Chooses the row's target, if it names one, and pins the thread. Call at the start of each body.
void BeginRow(benchmark::State& state, const Row& row, const Topology& topology);

// Sets the row's counters from one thread's watch: bytes_per_second, flops, items_per_second, call_ns,
// working_set, tainted.
void SetCounters(benchmark::State& state, const Row& row, const ThreadWatch& watch);

// The timed loop: `call` does this thread's share of one call.
template <class Call>
void TimeCalls(benchmark::State& state, const Row& row, const Call& call) {
  call();  // first touch of code and tables
  ThreadWatch watch;
  bool started = false;
  for (auto _ : state) {
    if (!started) {  // after the barrier at which all threads start
      watch.Start();
      started = true;
    }
    call();
  }
  watch.Stop();
  SetCounters(state, row, watch);
}

}  // namespace ropeline

#endif  // ROPELINE_BENCH_HARNESS_H_
