#include "bench/interference.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace ropeline {
namespace {

TEST(StealTicks, ReadsTheEighthNumber) {
  EXPECT_EQ(StealTicks("cpu  10 20 30 40 50 60 70 80 90 100\n"), 80);
  EXPECT_EQ(StealTicks("cpu  10 20 30\n"), 0) << "an old kernel";
  EXPECT_EQ(StealTicks(""), 0);
  EXPECT_EQ(StealTicks("intr 1 2 3 4 5 6 7 8 9"), 0);
  EXPECT_EQ(StealTicks("cpu x"), 0);
}

TEST(ThreadWatch, TimeOffTheCpuTaints) {
  ThreadWatch watch;
  watch.Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  watch.Stop();
  EXPECT_GE(watch.WallSeconds(), 0.03);
  EXPECT_GT(watch.LostSeconds(), 0.02);
  EXPECT_TRUE(watch.Tainted());
}

}  // namespace
}  // namespace ropeline
