// A benchmark row: its name, what it costs, which limit it is held against, and the loop that is timed.
#ifndef ROPELINE_BENCH_HARNESS_H_
#define ROPELINE_BENCH_HARNESS_H_

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/interference.h"
#include "bench/topology.h"
#include "kernels/angle_ways.h"
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
  double operations =
      1;                // done by one iteration of the timed loop; cost, items and call_ns are of one of them
  int most_rounds = 0;  // repetitions of a row that takes seconds, where fewer than the run's; 0: as many
  bool library_threads = false;            // a library runs its own threads: the body is called on one
  std::map<std::string, double> counters;  // further ones, as they are: "bias_bytes", "angle_error_32k" …
  std::function<void(benchmark::State&, const Row&)> body;

  int TimedThreads() const { return library_threads ? 1 : threads; }
  const char* Family() const { return name.peer.empty() ? name.family.c_str() : "peer"; }  // as in --families
};

class GgmlLibrary;

// A row that was left out, and why.
struct SkippedRow {
  RowName name;
  std::string reason;

  const char* Family() const { return name.peer.empty() ? name.family.c_str() : "peer"; }
};

// What the rows are made for.
struct Plan {
  Topology topology;
  std::vector<int> threads;          // counts to measure, ascending
  std::vector<std::string> targets;  // best first; the first is the run's main target
  bool quick = false;
  size_t largest_stream_bytes = 0;          // working set of the largest stream row
  size_t cold_bytes = 0;                    // size of a cold ring, all threads together
  bool peers = false;                       // add rows of ours that only stand beside a peer's
  std::shared_ptr<const GgmlLibrary> ggml;  // nullptr: no such peer
};

// How a row's tensors lie when it is timed: hot ones stay where the last call left them, cold ones go round a
// ring that no cache holds.
enum class Cache { kHot, kCold };

// Tensors of working_set_bytes each (all threads together) that a ring needs for that.
size_t RingSlots(const Plan& plan, double working_set_bytes, Cache cache);

// Each family's rows, in the order they run.
void AddMachineRows(const Plan& plan, std::vector<Row>* rows);  // stream, peak, sync
// input_add, score_bias, qk_rotation; shapes too small for a number of threads go to `skipped`.
void AddPlacementRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);
void AddAngleTableRows(const Plan& plan, std::vector<Row>* rows);  // qk_rotation: making a table of angles
// The same placements paid for in other ways: rows with an argument "form" or "angles".
void AddInputForms(const Plan& plan, std::vector<Row>* rows);
void AddScoreForms(const Plan& plan, std::vector<Row>* rows);
void AddRotationForms(const Plan& plan, std::vector<Row>* rows);
// qk_rotation/rope_half_<schedule>: the same call with every schedule's angles.
void AddScheduleRows(const Plan& plan, std::vector<Row>* rows);

// attention: decode and prefill, and decode that reads less; kv_cache: what is done to the cache.
void AddAttentionRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);
void AddRetrievalRows(const Plan& plan, std::vector<Row>* rows);
void AddKvCacheRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);

// weights: stored matrices times a few vectors.
void AddWeightRows(const Plan& plan, std::vector<Row>* rows);
// linear: products of weight matrices with a prefill chunk, and the small operations between them.
void AddLinearRows(const Plan& plan, std::vector<Row>* rows);
// step: a model's whole decode step and prefill chunk (bench/step).
struct StepChoice;
void AddStepRows(const Plan& plan, const StepChoice& choice, std::vector<Row>* rows);

// Other libraries beside rows of ours that are in `rows` already (bench/peer).
void AddPeerRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped);

// Sets counters angle_error_32k, _131k, _1m (radians, from the exact angle) and angle_error_vs_f32_… (from
// the f32 angle that checkpoints were trained with).
void AddAngleErrors(AngleWay way, Row* row);

// Learns how fast one core is with nothing beside it, to tell later whether threads share one. Call before
// any row.
void CalibrateCores(const Topology& topology);

// Keeps the calling thread on the core that benchmark thread `thread` belongs to (Topology::UsableCores).
void PinThread(const Topology& topology, int thread);

// Lets the calling thread run on all of them, and so the threads that a library makes from it.
void UnpinThread(const Topology& topology);

// Holds what rows of one family share and is too large to stay for others: let go when a row of another
// family begins. By benchmark thread 0.
void KeepForFamily(const Row& row, std::shared_ptr<void> shared);

// Chooses the row's target, if it names one, and pins the thread. Call at the start of each body.
void BeginRow(benchmark::State& state, const Row& row, const Topology& topology);

// What one thread saw of a row. Threads leave theirs in ReportOf; thread 0 makes the row's counters of them
// all.
struct ThreadReport {
  ThreadWatch watch;
  double probed_flops = 0;  // the lower of the rates before and after the loop; 0 where not probed
};

ThreadReport& ReportOf(int thread);

// Before and after the loop of a row with several threads: do they have a core each? All threads must call
// it.
void ProbeCores(int thread, int threads);

// Sets the row's counters: bytes_per_second, flops, items_per_second, call_ns (of the slowest thread),
// working_set, tainted, shared_core. Call on thread 0 once all threads have left the loop.
void SetCounters(benchmark::State& state, const Row& row);

// The timed loop: `call` does this thread's share of one call. The clock runs from the first call to the end
// of the last, without Google Benchmark's barriers around the loop. `warm_up` comes before it: the first
// touch of code and tables.
template <class Call, class WarmUp>
void TimeCalls(benchmark::State& state, const Row& row, const Call& call, const WarmUp& warm_up) {
  const int thread = state.thread_index();
  ThreadReport& report = ReportOf(thread);
  report = {};
  warm_up();
  ProbeCores(thread, row.TimedThreads());
  const auto most = state.max_iterations;
  auto left = most;
  for (auto _ : state) {
    if (left == most) report.watch.Start();
    call();
    if (--left == 0) report.watch.Stop();
  }
  ProbeCores(thread, row.TimedThreads());
  if (thread == 0) SetCounters(state, row);
}

template <class Call>
void TimeCalls(benchmark::State& state, const Row& row, const Call& call) {
  TimeCalls(state, row, call, call);
}

}  // namespace ropeline

#endif  // ROPELINE_BENCH_HARNESS_H_
