#include "bench/harness.h"

#include <pthread.h>
#include <sched.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bench/core_probe.h"
#include "kernels/targets.h"

namespace ropeline {

namespace {

// A tensor that is changed again and again may shrink (xPos) until its numbers are denormal, which costs a
// hundred times as much and has nothing to do with the kernel.
void FlushDenormals() {
#if defined(__SSE__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

// Of the core that the first row runs on, with nothing beside it.
double CalibratedFlops() {
  static const double flops = CalibrateProbe();
  return flops;
}

}  // namespace

void CalibrateCores(const Topology& topology) {
  PinThread(topology, 0);
  CalibratedFlops();
}

namespace {

void KeepThreadOn(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  const int most = *std::max_element(cpus.begin(), cpus.end());
  const int room = most + 1 > CPU_SETSIZE ? most + 1 : CPU_SETSIZE;
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(room));
  const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(room));
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  // Where the system refuses, the thread stays within the affinity it has.
  (void)pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
}

}  // namespace

void PinThread(const Topology& topology, int thread) {
  const std::vector<int> cores = topology.UsableCores();
  if (!cores.empty()) KeepThreadOn({cores[static_cast<size_t>(thread) % cores.size()]});
}

void UnpinThread(const Topology& topology) { KeepThreadOn(topology.UsableCores()); }

size_t RingSlots(const Plan& plan, double working_set_bytes, Cache cache) {
  if (cache == Cache::kHot) return 1;
  return static_cast<size_t>(std::max(1.0, static_cast<double>(plan.cold_bytes) / working_set_bytes)) + 1;
}

namespace {

struct Kept {
  std::string family;
  std::shared_ptr<void> shared;
};
Kept& KeptByFamily() {
  static auto* const kept = new Kept;
  return *kept;
}

}  // namespace

void KeepForFamily(const Row& row, std::shared_ptr<void> shared) {
  KeptByFamily() = {row.Family(), std::move(shared)};
}

void BeginRow(benchmark::State& state, const Row& row, const Topology& topology) {
  if (state.thread_index() == 0 && KeptByFamily().family != row.Family()) KeptByFamily() = {};
  PinThread(topology, state.thread_index());
  FlushDenormals();
  if (row.name.target == "any" || !UseTarget(row.name.target)) UseBestTarget();
}

ThreadReport& ReportOf(int thread) {
  constexpr int kMostThreads = 4096;
  static auto* const reports = new std::vector<ThreadReport>(kMostThreads);
  return reports->at(static_cast<size_t>(thread));
}

void ProbeCores(int thread, int threads) {
  if (threads < 2) return;
  static std::mutex mutex;
  static auto* const barriers = new std::map<int, SpinBarrier>;
  SpinBarrier* barrier;
  {
    const std::lock_guard lock(mutex);
    barrier = &barriers->try_emplace(threads, threads).first->second;
  }
  barrier->Wait();
  WarmUp();
  barrier->Wait();
  // The best of three: a short interruption is the watch's business.
  const double flops = std::max({ProbeFlops(), ProbeFlops(), ProbeFlops()});
  barrier->Wait();
  double& probed = ReportOf(thread).probed_flops;
  probed = probed == 0 ? flops : std::min(probed, flops);
}

void SetCounters(benchmark::State& state, const Row& row) {
  const double calls = static_cast<double>(state.iterations()) * row.operations;
  double wall_seconds = 0;
  double stolen_seconds = 0;
  int64_t switches = 0;
  bool tainted = false;
  bool shared_core = false;
  for (int thread = 0; thread < row.TimedThreads(); ++thread) {
    const ThreadReport& report = ReportOf(thread);
    wall_seconds = std::max(wall_seconds, report.watch.WallSeconds());
    stolen_seconds = std::max(stolen_seconds, report.watch.StolenSeconds());
    switches += report.watch.InvoluntarySwitches();
    tainted = tainted || report.watch.Tainted();
    shared_core =
        shared_core || (row.TimedThreads() > 1 && IsSharedCore(report.probed_flops, CalibratedFlops()));
  }
  if (calls == 0 || wall_seconds <= 0) return;
  const double call_seconds = wall_seconds / calls;
  state.counters["call_ns"] = 1e9 * call_seconds;
  if (row.cost.Bytes() > 0) state.counters["bytes_per_second"] = row.cost.Bytes() / call_seconds;
  if (row.cost.flops > 0) state.counters["flops"] = row.cost.flops / call_seconds;
  if (row.items > 0) state.counters["items_per_second"] = row.items / call_seconds;
  if (row.working_set_bytes > 0) state.counters["working_set"] = row.working_set_bytes;
  for (const auto& [key, value] : row.counters) state.counters[key] = value;
  state.counters["tainted"] = tainted || shared_core ? 1 : 0;
  state.counters["shared_core"] = shared_core ? 1 : 0;
  state.counters["involuntary_switches"] = static_cast<double>(switches);
  state.counters["steal_ms"] = 1e3 * stolen_seconds;
}

}  // namespace ropeline
