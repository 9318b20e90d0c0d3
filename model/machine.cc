#include "model/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/json_view.h"
#include "model/results_rows.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr const char* kExpected = "a bench.json written by bench_all";

std::optional<double> MedianOf(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return Median(values);
}

std::map<std::string, double> MediansOf(const std::map<std::string, std::vector<double>>& counters) {
  std::map<std::string, double> medians;
  for (const auto& [key, values] : counters) {
    if (const auto median = MedianOf(values)) medians[key] = *median;
  }
  return medians;
}

void AddToRoofline(const RowName& name, const RowSamples::Samples& samples, Roofline* roofline) {
  const std::string text = name.Text();
  for (const double rate : samples.bytes_per_second) roofline->AddRow(text, rate, 0);
  for (const double rate : samples.flops_per_second) roofline->AddRow(text, 0, rate);
}

void ReadContext(const JsonView& context, Machine* machine) {
  const JsonView schema = context.At("schema");
  if (schema.Count() != kResultsSchema) {
    throw BadInput(schema.where(), "is " + std::to_string(schema.Count()),
                   std::to_string(kResultsSchema) + ", the only schema this version reads");
  }
  machine->version = context.FindString("version").value_or("");
  machine->host_id = context.FindString("host_id").value_or("");
  machine->date = context.FindString("date").value_or("");
  machine->quick = context.FindBool("quick").value_or(false);
  machine->complete = context.FindBool("complete").value_or(true);
  if (const auto threads = context.Find("threads_default")) {
    const uint64_t count = threads->Count();
    if (count < 1 || count > 65536)
      throw BadInput(threads->where(), "is " + std::to_string(count), "1 to 65536");
    machine->threads_default = static_cast<int>(count);
  }
  // The run's own first target; where a result does not list them, the best one there.
  if (const auto highway = context.Find("highway")) {
    machine->target = highway->FindString("target_best").value_or("");
  }
  if (const auto targets = context.Find("targets")) {
    const auto names = targets->Items();
    if (!names.empty()) machine->target = names.front().String();
  }
  if (const auto odd = context.Find("measured_oddities")) {
    for (const JsonView& sentence : odd->Items()) machine->measured_oddities.push_back(sentence.String());
  }
  if (const auto topology = context.Find("topology")) {
    machine->cpu_model = topology->FindString("cpu_model").value_or("");
    machine->memory_bytes = topology->FindCount("memory_bytes");
  }
  if (const auto cgroup = context.Find("cgroup")) {
    const auto limit = cgroup->FindCount("memory_bytes");
    if (limit && (!machine->memory_bytes || *limit < *machine->memory_bytes)) machine->memory_bytes = limit;
  }
  if (const auto caches = context.Find("measured_caches_bytes")) {
    for (const JsonView& cache : caches->Items()) machine->cache_bytes.push_back(cache.Number());
  }
}

void ReadPeers(const JsonView& context, Machine* machine) {
  if (const auto peers = context.Find("peers")) {
    for (const JsonView& peer : peers->Items()) {
      machine->peers.push_back({.name = peer.At("name").String(),
                                .library = peer.FindString("library").value_or(""),
                                .version = peer.FindString("version").value_or(""),
                                .commit = peer.FindString("commit").value_or(""),
                                .variant = peer.FindString("variant").value_or("")});
    }
  }
  if (const auto skipped = context.Find("skipped")) {
    for (const JsonView& item : skipped->Items()) {
      const std::string row = item.FindString("row").value_or("");
      if (!ParsePeerRowName(row)) continue;
      machine->skipped_peer_rows.push_back({row, item.FindString("reason").value_or("")});
    }
  }
}

}  // namespace

std::vector<int> Machine::Threads() const {
  std::vector<int> threads;
  for (const int count : roofline.Threads()) {
    if (roofline.PeakFlops(count)) threads.push_back(count);
  }
  return threads;
}

Machine ReadMachine(const std::string& path) {
  ResultsFileText file = ReadResultsText(path, kExpected);
  const nlohmann::json& json = file.json;
  const JsonView root(json, {path, ""});
  if (!json.is_object()) throw BadInput({path, ""}, std::string("is a JSON ") + json.type_name(), kExpected);
  const auto context = root.Find("context");
  const auto ours = context ? context->Find("ropeline") : std::nullopt;
  if (!ours)
    throw BadInput({path, "context.ropeline"}, "is missing: another tool wrote this file", kExpected);
  Machine machine;
  machine.file = path;
  ReadContext(*ours, &machine);
  ReadPeers(*ours, &machine);
  if (!root.At("benchmarks").is_array()) root.At("benchmarks").Items();  // refuses
  if (!file.rows) file.rows = ReadRowsWithCare(json["benchmarks"], path);
  for (const RowSamples& row : *file.rows) {
    const bool tainted = row.clean.rows == 0;
    const RowSamples::Samples& samples = tainted ? row.tainted : row.clean;
    const bool of_ours = row.name.peer.empty();
    if (of_ours) AddToRoofline(row.name, samples, &machine.roofline);
    const double call_ns = Median(samples.call_ns);
    const auto threads = row.name.Count("threads");
    if (of_ours && row.name.family == "sync" && row.name.variant == "barrier" && threads && call_ns > 0) {
      machine.barrier_ns[static_cast<int>(*threads)] = call_ns;
    }
    if (of_ours && row.name.family == "linear" && row.name.variant == "rms_norm") {
      machine.has_small_operations = true;
    }
    (of_ours ? machine.rows : machine.peer_rows)
        .push_back({.name = row.name,
                    .call_ns = call_ns,
                    .bytes_per_second = MedianOf(samples.bytes_per_second),
                    .flops_per_second = MedianOf(samples.flops_per_second),
                    .items_per_second = MedianOf(samples.items_per_second),
                    .roof = MedianOf(samples.roof),
                    .limit_ns = MedianOf(samples.limit_ns),
                    .working_set_bytes = MedianOf(samples.working_set_bytes),
                    .counters = MediansOf(samples.counters),
                    .samples = samples.rows,
                    .tainted = tainted});
  }
  if (machine.roofline.Threads().empty()) {
    throw BadInput({path, "benchmarks"}, "has no stream/read rows",
                   "rows of bench_all's families stream and peak");
  }
  if (machine.Threads().empty()) {
    throw BadInput({path, "benchmarks"}, "has no peak/fma row for the threads of its stream rows",
                   "rows of bench_all's families stream and peak");
  }
  return machine;
}

Machine MachineFromFigures(double bytes_per_second, double flops_per_second) {
  Machine machine;
  machine.roofline.SetFlat(bytes_per_second, flops_per_second);
  return machine;
}

void RequireThreads(const Machine& machine, int threads, const Where& where) {
  if (!machine.measured()) return;
  const std::vector<int> measured = machine.Threads();
  if (std::find(measured.begin(), measured.end(), threads) != measured.end()) return;
  std::string list;
  for (const int count : measured) list += (list.empty() ? "" : ", ") + std::to_string(count);
  throw BadInput(where, std::to_string(threads) + " threads were not measured in " + machine.file,
                 "one of " + list);
}

}  // namespace ropeline
