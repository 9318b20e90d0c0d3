#include "bench/crew.h"

namespace ropeline {

void Crew::HandOut(Operation operation, void* argument) {
  operation_ = operation;
  argument_ = argument;
  handed_out_.fetch_add(1, std::memory_order_release);
  operation(argument, 0);
  done_.Wait();
}

void Crew::Follow(int thread) {
  int& seen = seen_[static_cast<size_t>(thread)].value;
  while (handed_out_.load(std::memory_order_acquire) == seen) SpinPause();
  ++seen;
  operation_(argument_, thread);
  done_.Wait();
}

}  // namespace ropeline
