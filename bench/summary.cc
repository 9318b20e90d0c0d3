#include "bench/summary.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

namespace ropeline {

namespace {

// Medians of one row over its repetitions; untainted ones where there are any.
struct RowMedian {
  std::map<std::string, std::vector<double>> clean, all;
  double Of(const std::string& counter) const {
    const auto it = clean.find(counter);
    if (it != clean.end()) return Median(it->second);
    const auto any = all.find(counter);
    return any == all.end() ? 0 : Median(any->second);
  }
  bool Has(const std::string& counter) const { return all.count(counter) != 0; }
};

std::vector<std::pair<RowName, RowMedian>> Medians(const Json& benchmarks) {
  std::map<std::string, size_t> index;
  std::vector<std::pair<RowName, RowMedian>> rows;
  for (const Json& row : benchmarks) {
    const std::string text = row["name"].get<std::string>();
    const auto name = ParseRowName(text);
    if (!name) continue;
    const auto [it, fresh] = index.emplace(text, rows.size());
    if (fresh) rows.push_back({*name, {}});
    RowMedian& medians = rows[it->second].second;
    const bool tainted = row.value("tainted", 0.0) > 0;
    for (const char* counter : {"call_ns", "bytes_per_second", "flops", "items_per_second", "roof"}) {
      if (!row.contains(counter)) continue;
      medians.all[counter].push_back(row[counter].get<double>());
      if (!tainted) medians.clean[counter].push_back(row[counter].get<double>());
    }
  }
  return rows;
}

std::string Bytes(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.4g} MiB", bytes / (1 << 20));
  return fmt::format("{:.4g} KiB", bytes / 1024);
}

void PrintBandwidth(const Roofline& limits) {
  fmt::print(
      "\nBandwidth, GB/s (all threads together)\n\n| threads | working set | read | copy | update | add |\n");
  fmt::print("|---:|---:|---:|---:|---:|---:|\n");
  for (int threads : limits.Threads()) {
    std::vector<double> sets = {16 << 10, 256 << 10, 8 << 20};
    const auto curve = limits.Curve(Traffic::kRead, threads);
    sets.push_back(curve.back().working_set_bytes);
    for (double set : sets) {
      fmt::print("| {:>7} | {:>11} |", threads, Bytes(set));
      for (Traffic traffic : {Traffic::kRead, Traffic::kCopy, Traffic::kUpdate, Traffic::kAdd}) {
        const auto bandwidth = limits.Bandwidth(traffic, threads, set);
        fmt::print(" {:>6} |", bandwidth ? fmt::format("{:.1f}", *bandwidth * 1e-9) : "-");
      }
      fmt::print("\n");
    }
  }
}

void PrintPlacements(const std::vector<std::pair<RowName, RowMedian>>& rows) {
  fmt::print("\nPlacements, against the limit of the same run (roof 1 = at the limit)\n\n");
  fmt::print("| {:<60} | {:>9} | {:>7} | {:>5} |\n", "row", "Gelem/s", "GB/s", "roof");
  fmt::print("|:{}|{}:|{}:|{}:|\n", std::string(61, '-'), std::string(10, '-'), std::string(8, '-'),
             std::string(6, '-'));
  for (const auto& [name, median] : rows) {
    if (!median.Has("roof")) continue;
    std::string text = name.variant + "/" + name.target;
    for (const auto& [key, value] : name.args) text += " " + key + ":" + value;
    fmt::print("| {:<60} | {:>9.2f} | {:>7.1f} | {:>5.2f} |\n", text, 1e-9 * median.Of("items_per_second"),
               1e-9 * median.Of("bytes_per_second"), median.Of("roof"));
  }
}

}  // namespace

void PrintSummary(const ResultsFile& results) {
  const auto rows = Medians(results.Benchmarks());
  const Roofline& limits = results.Limits();
  PrintBandwidth(limits);
  for (const CacheKnee& knee : FindKnees(limits.Curve(Traffic::kRead, 1))) {
    fmt::print("\nMeasured: a cache of {} that reads at {:.0f} GB/s", Bytes(knee.capacity_bytes),
               1e-9 * knee.bytes_per_second);
  }
  fmt::print("\n\n");
  double table = 0, scalar = 0;
  for (const auto& [name, median] : rows) {
    if (name.family == "peak") {
      fmt::print("Peak f32 multiply-add, {:<8} {} thread(s): {:>7.1f} GFLOP/s\n", name.target,
                 *name.Arg("threads"), 1e-9 * median.Of("flops"));
    } else if (name.variant == "latency") {
      fmt::print("Latency, {:>11}{}: {:.1f} ns\n", Bytes(static_cast<double>(name.Count("ws").value_or(0))),
                 name.Arg("pages") != nullptr ? " (4 KiB pages)" : "", 1e9 / median.Of("items_per_second"));
    } else if (name.variant == "barrier") {
      fmt::print("Barrier, {} thread(s): {:.0f} ns\n", *name.Arg("threads"), median.Of("call_ns"));
    } else if (name.variant == "empty_loop") {
      fmt::print(
          "Empty timed loop: {:.2f} ns (a benchmark library that announces a debug build, as Debian's does,\n"
          "times no slower: the loop is in its header)\n",
          median.Of("call_ns"));
    } else if (name.variant == "angles_scalar") {
      scalar = median.Of("items_per_second");
    } else if (name.variant == "angles_table") {
      table = median.Of("items_per_second");
    }
  }
  PrintPlacements(rows);
  if (table > 0 && scalar > 0) {
    fmt::print("\nAngle table: {:.1f} times as fast as a loop of std::cos and std::sin in double\n",
               table / scalar);
  }
}

}  // namespace ropeline
