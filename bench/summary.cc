#include "bench/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace ropeline {

namespace {

// Medians of one row over its repetitions; untainted ones where there are any.
struct RowMedian {
  std::map<std::string, std::vector<double>> clean, all;
  int samples = 0;
  int tainted = 0;
  double Of(const std::string& counter) const {
    const auto it = clean.find(counter);
    if (it != clean.end()) return Median(it->second);
    const auto any = all.find(counter);
    return any == all.end() ? 0 : Median(any->second);
  }
  bool AllTainted() const { return tainted == samples; }
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
    ++medians.samples;
    medians.tainted += tainted ? 1 : 0;
    for (const char* counter :
         {"call_ns", "bytes_per_second", "flops", "items_per_second", "roof", "tok_per_s", "term_weights_ms",
          "term_linear_ms", "term_attention_ms", "term_lm_head_ms", "term_synchronisation_ms"}) {
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

// An aligned Markdown table: the first `left` columns to the left, the others to the right.
void PrintTable(const std::vector<std::vector<std::string>>& lines, size_t left) {
  std::vector<size_t> widths(lines[0].size(), 3);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (size_t row = 0; row < lines.size(); ++row) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string pad(widths[i] - lines[row][i].size(), ' ');
      fmt::print("| {}{}{} ", i < left ? "" : pad, lines[row][i], i < left ? pad : "");
    }
    fmt::print("|\n");
    if (row != 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      fmt::print("|{}{}{}", i < left ? ":" : "-", std::string(widths[i], '-'), i < left ? "-" : ":");
    }
    fmt::print("|\n");
  }
}

std::string Rate(double per_second, const char* format) {
  return fmt::format(fmt::runtime(format), 1e-9 * per_second);
}

void PrintBandwidth(const Roofline& limits) {
  std::vector<std::vector<std::string>> lines = {
      {"threads", "working set", "read", "copy", "update", "add", "sum"}};
  for (int threads : limits.Threads()) {
    std::vector<double> sets = {16 << 10, 256 << 10, 8 << 20};
    sets.push_back(limits.Curve(Traffic::kRead, threads).back().working_set_bytes);
    for (double set : sets) {
      std::vector<std::string> line = {fmt::format("{}", threads), Bytes(set)};
      for (Traffic traffic :
           {Traffic::kRead, Traffic::kCopy, Traffic::kUpdate, Traffic::kAdd, Traffic::kSum}) {
        const auto bandwidth = limits.Bandwidth(traffic, threads, set);
        line.push_back(bandwidth ? Rate(*bandwidth, "{:.1f}") : "-");
      }
      lines.push_back(std::move(line));
    }
  }
  fmt::print("\nBandwidth, GB/s, of all threads together\n\n");
  PrintTable(lines, 0);
}

void PrintMachine(const std::vector<std::pair<RowName, RowMedian>>& rows) {
  std::vector<std::vector<std::string>> lines = {{"row", "value"}};
  for (const auto& [name, median] : rows) {
    if (name.family == "peak") {
      lines.push_back({name.Text(), Rate(median.Of("flops"), "{:.1f} GFLOP/s")});
    } else if (name.variant == "latency") {
      lines.push_back({name.Text(), fmt::format("{:.1f} ns a load", 1e9 / median.Of("items_per_second"))});
    } else if (name.family == "sync") {
      lines.push_back({name.Text(), fmt::format("{:.2f} ns", median.Of("call_ns"))});
    }
  }
  fmt::print("\nPeaks, latency, synchronisation (empty_loop is what timing itself costs)\n\n");
  PrintTable(lines, 1);
}

void PrintPlacements(const std::vector<std::pair<RowName, RowMedian>>& rows) {
  std::vector<std::vector<std::string>> lines = {{"row", "Gelem/s", "GB/s", "roof", "tainted"}};
  double table = 0, scalar = 0;
  for (const auto& [name, median] : rows) {
    if (name.variant == "angles_scalar") scalar = median.Of("items_per_second");
    if (name.variant == "angles_table") table = median.Of("items_per_second");
    if (!median.Has("roof") || name.family == "step") continue;
    lines.push_back({name.Text(), Rate(median.Of("items_per_second"), "{:.2f}"),
                     Rate(median.Of("bytes_per_second"), "{:.1f}"), fmt::format("{:.2f}", median.Of("roof")),
                     median.AllTainted() ? "all" : fmt::format("{}/{}", median.tainted, median.samples)});
  }
  if (lines.size() == 1) return;
  fmt::print(
      "\nPlacements. roof: time at this run's own limits / time; 1 is the limit. Medians of untainted "
      "samples.\n\n");
  PrintTable(lines, 1);
  if (table > 0 && scalar > 0) {
    fmt::print("\nAngle table: {:.1f} times as fast as a loop of std::cos and std::sin in double\n",
               table / scalar);
  }
}

void PrintSteps(const std::vector<std::pair<RowName, RowMedian>>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {"step", "tok/s", "ms", "products", "attention", "LM head", "waiting", "other", "roof", "tainted"}};
  for (const auto& [name, median] : rows) {
    if (name.family != "step") continue;
    const double ms = median.Of("call_ns") / 1e6;
    const double parts[] = {median.Of(name.variant == "prefill" ? "term_linear_ms" : "term_weights_ms"),
                            median.Of("term_attention_ms"), median.Of("term_lm_head_ms"),
                            median.Of("term_synchronisation_ms")};
    lines.push_back({name.Text(), fmt::format("{:.2f}", median.Of("tok_per_s")), fmt::format("{:.2f}", ms)});
    double rest = ms;
    for (const double part : parts) {
      lines.back().push_back(fmt::format("{:.2f}", part));
      rest -= part;
    }
    lines.back().push_back(fmt::format("{:.2f}", rest));
    lines.back().push_back(fmt::format("{:.2f}", median.Of("roof")));
    lines.back().push_back(median.AllTainted() ? "all"
                                               : fmt::format("{}/{}", median.tainted, median.samples));
  }
  if (lines.size() == 1) return;
  fmt::print("\nExecuted steps: a token's decode, a chunk's prefill; ms of each term on thread 0\n\n");
  PrintTable(lines, 1);
}

}  // namespace

void PrintSummary(const ResultsFile& results) {
  const auto rows = Medians(results.Benchmarks());
  PrintBandwidth(results.Limits());
  PrintMachine(rows);
  PrintPlacements(rows);
  PrintSteps(rows);
  const Json& ours = results.Context().at("ropeline");
  fmt::print("\n");
  for (const Json& cache : ours.at("measured_caches_bytes")) {
    fmt::print("Measured cache: {}\n", Bytes(cache.get<double>()));
  }
  const Json& interference = ours.at("interference");
  fmt::print("Tainted samples: {} of {}\n", interference.at("tainted_rows").dump(),
             interference.at("rows").dump());
  for (const char* key : {"oddities", "measured_oddities"}) {
    for (const Json& sentence : ours.at(key)) fmt::print("Odd: {}\n", sentence.get<std::string>());
  }
}

}  // namespace ropeline
