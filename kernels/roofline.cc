#include "kernels/roofline.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/row_name.h"

namespace ropeline {

namespace {

constexpr Traffic kAllTraffic[] = {Traffic::kRead, Traffic::kCopy, Traffic::kUpdate, Traffic::kAdd,
                                   Traffic::kSum};

}  // namespace

const char* TrafficName(Traffic traffic) {
  switch (traffic) {
    case Traffic::kRead:
      return "read";
    case Traffic::kCopy:
      return "copy";
    case Traffic::kUpdate:
      return "update";
    case Traffic::kAdd:
      return "add";
    case Traffic::kSum:
      return "sum";
  }
  return "";
}

const char* BoundName(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kCompute:
      return "compute";
    case Bound::kUnknown:
      return "unknown";
  }
  return "";
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A knee is where log(bandwidth) falls between two plateaus. Each octave of working set is classed as flat or
// falling by its own drop; a run of falling steps, together more than a sixth, parts two plateaus. The
// capacity is the last working set of the upper plateau that keeps at least 85 % of it. Two falls that follow
// each other without a flat step between are parted where the drop pauses; where it does not, they are one
// knee.
std::vector<CacheKnee> FindKnees(std::vector<BandwidthPoint> curve) {
  std::vector<CacheKnee> knees;
  if (curve.size() < 4) return knees;
  std::sort(curve.begin(), curve.end(),
            [](const auto& a, const auto& b) { return a.working_set_bytes < b.working_set_bytes; });
  constexpr double kFlatDrop = 0.92;  // a step that keeps 92 % is flat
  constexpr double kKneeDrop = 0.82;  // a fall to under 82 % of the plateau is a knee
  constexpr double kOnPlateau = 0.85;
  constexpr double kOctave = 1.9;
  size_t begin = 0;
  while (begin + 1 < curve.size()) {
    // The plateau: points from `begin` while each step is flat.
    std::vector<double> level = {curve[begin].bytes_per_second};
    size_t end = begin;
    while (end + 1 < curve.size() && curve[end + 1].bytes_per_second >= kOnPlateau * Median(level)) {
      ++end;
      level.push_back(curve[end].bytes_per_second);
    }
    if (end + 1 >= curve.size()) break;
    const double plateau = Median(level);
    // The fall: steps that lose more than a flat step does.
    size_t bottom = end + 1;
    while (bottom + 1 < curve.size() &&
           curve[bottom + 1].bytes_per_second < kFlatDrop * curve[bottom].bytes_per_second) {
      ++bottom;
    }
    // A step less than an octave long within a fall is no plateau.
    const bool on_the_way =
        !knees.empty() && curve[end].working_set_bytes < kOctave * curve[begin].working_set_bytes;
    if (curve[bottom].bytes_per_second < kKneeDrop * plateau && !on_the_way) {
      knees.push_back({curve[end].working_set_bytes, plateau});
    }
    begin = bottom;
  }
  return knees;
}

double Roofline::Samples::Typical() const { return Median(clean.empty() ? tainted : clean); }

void Roofline::AddRow(std::string_view name, double bytes_per_second, double flops_per_second, bool tainted) {
  const auto row = ParseRowName(name);
  if (!row || row->dtype != "f32") return;
  const auto threads = row->Count("threads");
  if (!threads) return;
  curves_.clear();
  if (row->family == "peak" && row->variant == "fma") {
    if (flops_per_second > 0) peaks_[static_cast<int>(*threads)][row->target].Add(flops_per_second, tainted);
    return;
  }
  const auto working_set = row->Count("ws");
  if (row->family != "stream" || !working_set || row->Arg("pages") != nullptr || !(bytes_per_second > 0))
    return;
  for (Traffic traffic : kAllTraffic) {
    if (row->variant != TrafficName(traffic)) continue;
    const std::pair point{static_cast<double>(*working_set), row->target};
    streams_[{traffic, static_cast<int>(*threads)}][point].Add(bytes_per_second, tainted);
  }
}

void Roofline::SetFlat(double bytes_per_second, double flops_per_second) {
  flat_ = {bytes_per_second, flops_per_second};
}

const std::vector<BandwidthPoint>& Roofline::Curve(Traffic traffic, int threads) const {
  const auto known = curves_.find({traffic, threads});
  if (known != curves_.end()) return known->second;
  std::vector<BandwidthPoint>& curve = curves_[{traffic, threads}];
  const auto it = streams_.find({traffic, threads});
  if (it == streams_.end()) return curve;
  for (const auto& [point, samples] : it->second) {
    const double bandwidth = samples.Typical();
    if (!curve.empty() && curve.back().working_set_bytes == point.first) {
      curve.back().bytes_per_second = std::max(curve.back().bytes_per_second, bandwidth);
    } else {
      curve.push_back({point.first, bandwidth});
    }
  }
  return curve;
}

std::optional<double> Roofline::Bandwidth(Traffic traffic, int threads, double working_set_bytes) const {
  if (flat_) return flat_->first;
  const std::vector<BandwidthPoint>& curve = Curve(traffic, threads);
  if (curve.empty()) return std::nullopt;
  const auto above = std::find_if(curve.begin(), curve.end(), [&](const BandwidthPoint& point) {
    return point.working_set_bytes >= working_set_bytes;
  });
  if (above == curve.end()) return curve.back().bytes_per_second;
  if (above == curve.begin()) return above->bytes_per_second;
  const auto below = above - 1;
  const double along = std::log(working_set_bytes / below->working_set_bytes) /
                       std::log(above->working_set_bytes / below->working_set_bytes);
  return below->bytes_per_second + along * (above->bytes_per_second - below->bytes_per_second);
}

std::optional<double> Roofline::MemoryBandwidth(Traffic traffic, int threads) const {
  if (flat_) return flat_->first;
  const std::vector<BandwidthPoint>& curve = Curve(traffic, threads);
  if (curve.empty()) return std::nullopt;
  return curve.back().bytes_per_second;
}

std::optional<double> Roofline::PeakFlops(int threads) const {
  if (flat_) return flat_->second;
  const auto it = peaks_.find(threads);
  if (it == peaks_.end()) return std::nullopt;
  double best = 0;
  for (const auto& [target, samples] : it->second) best = std::max(best, samples.Typical());
  return best;
}

std::vector<int> Roofline::Threads() const {
  std::set<int> threads;
  for (const auto& [key, points] : streams_) {
    if (key.first == Traffic::kRead) threads.insert(key.second);
  }
  return {threads.begin(), threads.end()};
}

LimitTime Roofline::TimeAtLimit(const Cost& cost, Traffic traffic, int threads,
                                double working_set_bytes) const {
  LimitTime limit;
  double memory_seconds = 0;
  double compute_seconds = 0;
  if (cost.Bytes() > 0) {
    const auto bandwidth = Bandwidth(traffic, threads, working_set_bytes);
    if (!bandwidth) return limit;
    memory_seconds = cost.Bytes() / *bandwidth;
  }
  if (cost.flops > 0) {
    const auto peak = PeakFlops(threads);
    if (!peak) return limit;
    compute_seconds = cost.flops / *peak;
  }
  limit.seconds = std::max(memory_seconds, compute_seconds);
  limit.bound = memory_seconds >= compute_seconds ? Bound::kMemory : Bound::kCompute;
  return limit;
}

}  // namespace ropeline
