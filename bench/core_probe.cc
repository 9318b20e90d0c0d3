#include "bench/core_probe.h"

#include <algorithm>
#include <chrono>

#include "kernels/stream.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace ropeline {

void SpinPause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

void SpinBarrier::Wait() {
  const int phase = phase_.load(std::memory_order_acquire);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    waiting_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  while (phase_.load(std::memory_order_acquire) == phase) SpinPause();
}

double ProbeFlops() {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kRounds = 4000;
  float sink[2] = {0.5f, 0};
  const auto start = Clock::now();
  const double flops = PeakFma(kRounds, sink);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return sink[1] > 0 ? flops / seconds : 0;
}

void WarmUp() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(600);
  while (Clock::now() < end) ProbeFlops();
}

double CalibrateProbe() {
  WarmUp();
  double best = 0;
  for (int i = 0; i < 100; ++i) best = std::max(best, ProbeFlops());
  return best;
}

bool IsSharedCore(double probed_flops, double calibrated_flops) {
  return probed_flops < 0.62 * calibrated_flops;
}

}  // namespace ropeline
