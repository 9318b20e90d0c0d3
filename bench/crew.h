// Threads that do operations together, one after another: thread 0 hands each out and the next one comes when
// all have done their share. What a step of an engine pays per operation.
#ifndef ROPELINE_BENCH_CREW_H_
#define ROPELINE_BENCH_CREW_H_

#include <atomic>
#include <vector>

#include "bench/core_probe.h"

namespace ropeline {

class Crew {
 public:
  using Operation = void (*)(void* argument, int thread);

  explicit Crew(int threads) : seen_(static_cast<size_t>(threads)), done_(threads) {}

  // On thread 0. Returns when every thread has done its share.
  void HandOut(Operation operation, void* argument);
  // On each of the other threads: waits for the next operation, does its share, and for the others.
  void Follow(int thread);

 private:
  struct alignas(64) Count {
    int value = 0;
  };
  std::vector<Count> seen_;  // operations, by thread
  alignas(64) std::atomic<int> handed_out_{0};
  Operation operation_ = nullptr;
  void* argument_ = nullptr;
  SpinBarrier done_;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_CREW_H_
