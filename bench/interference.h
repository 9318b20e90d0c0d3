// Did another process take the CPU while a row ran? Wall time that the thread did not get as CPU time, and
// time that the hypervisor stole, are the two traces left.
#ifndef ROPELINE_BENCH_INTERFERENCE_H_
#define ROPELINE_BENCH_INTERFERENCE_H_

#include <cstdint>
#include <string>

namespace ropeline {

// Of one thread, between Start and Stop, both called on that thread.
class ThreadWatch {
 public:
  void Start();
  void Stop();

  double WallSeconds() const { return wall_seconds_; }
  double LostSeconds() const { return wall_seconds_ > cpu_seconds_ ? wall_seconds_ - cpu_seconds_ : 0; }
  int64_t InvoluntarySwitches() const { return switches_; }
  double StolenSeconds() const { return stolen_seconds_; }  // of the whole machine
  // More than 3 % of the time was lost or stolen.
  bool Tainted() const;

 private:
  double wall_seconds_ = 0;
  double cpu_seconds_ = 0;
  double stolen_seconds_ = 0;
  int64_t switches_ = 0;
};

// The "steal" time in the text of /proc/stat, in ticks; 0 where there is none.
int64_t StealTicks(const std::string& proc_stat);

// First number of /proc/loadavg; negative where unknown.
double LoadAverage();

}  // namespace ropeline

#endif  // ROPELINE_BENCH_INTERFERENCE_H_
