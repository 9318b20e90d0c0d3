#include "bench/crew.h"

#include <gtest/gtest.h>

#include <thread>

namespace ropeline {
namespace {

struct Tally {
  std::vector<int> by_thread, arguments;
  int operation = 0;
};

// Every thread does every operation once, with what was handed out, and all of it is there afterwards.
TEST(Crew, EveryThreadDoesEveryOperationOnce) {
  constexpr int kOperations = 10;  // threads that spin on a busy machine wait for their turn
  for (const int threads : {1, 2, 3}) {
    Crew crew(threads);
    Tally tally;
    tally.by_thread.resize(static_cast<size_t>(threads));
    tally.arguments.resize(static_cast<size_t>(threads));
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) {
      others.emplace_back([&crew, thread] {
        for (int i = 0; i < kOperations; ++i) crew.Follow(thread);
      });
    }
    for (int i = 0; i < kOperations; ++i) {
      tally.operation = i;
      crew.HandOut(
          [](void* argument, int thread) {
            auto& of = *static_cast<Tally*>(argument);
            ++of.by_thread[static_cast<size_t>(thread)];
            of.arguments[static_cast<size_t>(thread)] = of.operation;
          },
          &tally);
      for (const int count : tally.by_thread) ASSERT_EQ(count, i + 1) << threads << " threads";
      for (const int argument : tally.arguments) ASSERT_EQ(argument, i) << threads << " threads";
    }
    for (std::thread& other : others) other.join();
  }
}

}  // namespace
}  // namespace ropeline
