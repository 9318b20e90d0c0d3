// The limits that one run measured on one machine, and the time an operation takes at them:
//   time = max(bytes / bandwidth, flops / peak)
// (S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009). Bandwidth depends on the kind of
// traffic, on the working set and on the number of threads, so it is a curve and not a number. Pure
// functions, no I/O.
#ifndef ROPELINE_KERNELS_ROOFLINE_H_
#define ROPELINE_KERNELS_ROOFLINE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cost.h"

namespace ropeline {

// Kinds of traffic that the stream rows measure; bytes counted as in Cost.
enum class Traffic {
  kRead,    // s += a[i]           one read
  kCopy,    // b[i] = a[i]         one read, one write
  kUpdate,  // a[i] = f(a[i])      one read, one write, in place
  kAdd,     // a[i] += b[i]        two reads, one write
  kSum,     // c[i] = a[i] + b[i]  two reads, one write elsewhere
};

// "read", "copy", "update", "add", "sum": the variant in the stream row's name.
const char* TrafficName(Traffic traffic);

struct BandwidthPoint {
  double working_set_bytes;  // of all threads together
  double bytes_per_second;   // of all threads together
};

// A plateau of the bandwidth curve ends at a cache's capacity.
struct CacheKnee {
  double
      capacity_bytes;  // largest working set that still runs at the plateau's bandwidth (to the curve's grid)
  double bytes_per_second;  // of the plateau
};

// The plateaus of a curve for one thread, inner caches first; memory (the last plateau) is not in the list.
// Points in any order. Fewer than four points give an empty list.
std::vector<CacheKnee> FindKnees(std::vector<BandwidthPoint> curve);

enum class Bound { kMemory, kCompute, kUnknown };
const char* BoundName(Bound bound);  // "memory", "compute", "unknown"

struct LimitTime {
  double seconds = 0;
  Bound bound =
      Bound::kUnknown;  // kUnknown: a bandwidth or peak that is needed was not measured; seconds is 0
};

class Roofline {
 public:
  // Takes a row if it is one of stream/<traffic>/f32/<target>/ws:B/threads:T or
  // peak/fma/f32/<target>/threads:T; other rows are ignored. Repetitions of a row are kept; their median
  // counts, of the untainted ones where there are any. Where rows of several targets exist, the fastest
  // counts.
  void AddRow(std::string_view name, double bytes_per_second, double flops_per_second, bool tainted = false);

  // A machine known by two figures only: the same bandwidth for every kind, size and number of threads.
  void SetFlat(double bytes_per_second, double flops_per_second);

  // Interpolated in log(working set); clamped to the ends of the curve. Nothing where no such row was
  // measured.
  std::optional<double> Bandwidth(Traffic traffic, int threads, double working_set_bytes) const;
  // At the largest working set measured: main memory.
  std::optional<double> MemoryBandwidth(Traffic traffic, int threads) const;
  std::optional<double> PeakFlops(int threads) const;  // flops per second, f32
  // Sorted by working set. Made when first asked for, so that one Roofline serves one thread at a time; it
  // stands until the next AddRow.
  const std::vector<BandwidthPoint>& Curve(Traffic traffic, int threads) const;
  std::vector<int> Threads() const;  // counts with a read curve, ascending

  LimitTime TimeAtLimit(const Cost& cost, Traffic traffic, int threads, double working_set_bytes) const;

 private:
  struct Samples {
    std::vector<double> clean;
    std::vector<double> tainted;
    void Add(double value, bool is_tainted) { (is_tainted ? tainted : clean).push_back(value); }
    double Typical() const;
  };
  // (traffic, threads) → (working set, target) → samples
  std::map<std::pair<Traffic, int>, std::map<std::pair<double, std::string>, Samples>> streams_;
  std::map<int, std::map<std::string, Samples>> peaks_;
  mutable std::map<std::pair<Traffic, int>, std::vector<BandwidthPoint>> curves_;
  std::optional<std::pair<double, double>> flat_;  // bytes/s, flops/s
};

// Median of the values; 0 for none.
double Median(std::vector<double> values);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ROOFLINE_H_
