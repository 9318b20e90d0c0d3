// Do the threads of a row have a core each? A virtual machine's CPUs may be two threads of one core, or be
// moved onto one while the guest runs; nothing in the guest says so, except that both compute at half speed
// together.
#ifndef ROPELINE_BENCH_CORE_PROBE_H_
#define ROPELINE_BENCH_CORE_PROBE_H_

#include <atomic>

namespace ropeline {

// What a loop that waits for another thread's store does between two looks.
void SpinPause();

// A centralised sense-reversing barrier that spins (Mellor-Crummey and Scott, "Algorithms for scalable
// synchronization", 1991): what an engine pays between two operations.
class SpinBarrier {
 public:
  explicit SpinBarrier(int threads) : threads_(threads) {}
  void Wait();

 private:
  const int threads_;
  alignas(64) std::atomic<int> waiting_{0};
  alignas(64) std::atomic<int> phase_{0};
};

// Computes for 600 µs. A core that has not used its widest vectors for a while starts them at a quarter of
// their speed (Intel, until its voltage has settled).
void WarmUp();

// f32 flops per second of the calling thread, over some 20 µs of multiply-adds, with the current target.
double ProbeFlops();

// The rate of one thread with nothing beside it: the best of some tries. Call once, before any row, on a
// pinned thread.
double CalibrateProbe();

// True where a rate measured while other threads were computing too says that the core is shared: under 0.62
// of the calibrated rate. Two threads of one core get 0.5 each; a core of its own gets about 1, or 0.7 next
// to a busy neighbour of another tenant.
bool IsSharedCore(double probed_flops, double calibrated_flops);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_CORE_PROBE_H_
