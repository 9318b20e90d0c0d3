#include "bench/interference.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace ropeline {

namespace {

constexpr double kTaintedShare = 0.03;

double Seconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t Switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

double StolenSecondsNow() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return static_cast<double>(StealTicks(line)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

int64_t StealTicks(const std::string& proc_stat) {
  // cpu  user nice system idle iowait irq softirq steal guest guest_nice
  std::istringstream text(proc_stat);
  std::string label;
  text >> label;
  if (label != "cpu") return 0;
  int64_t value = 0;
  for (int field = 0; field < 8; ++field) {
    if (!(text >> value)) return 0;
  }
  return value;
}

double LoadAverage() {
  std::ifstream file("/proc/loadavg");
  double load = -1;
  file >> load;
  return file ? load : -1;
}

void ThreadWatch::Start() {
  stolen_seconds_ = -StolenSecondsNow();
  switches_ = -Switches();
  cpu_seconds_ = -Seconds(CLOCK_THREAD_CPUTIME_ID);
  wall_seconds_ = -Seconds(CLOCK_MONOTONIC);
}

void ThreadWatch::Stop() {
  wall_seconds_ += Seconds(CLOCK_MONOTONIC);
  cpu_seconds_ += Seconds(CLOCK_THREAD_CPUTIME_ID);
  switches_ += Switches();
  stolen_seconds_ += StolenSecondsNow();
}

bool ThreadWatch::Tainted() const {
  return LostSeconds() > kTaintedShare * wall_seconds_ || stolen_seconds_ > kTaintedShare * wall_seconds_;
}

}  // namespace ropeline
