#include "model/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "model/json_view.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr const char* kExpected = "a bench.json written by bench_all";

// One of thousands: its place in the file is spelled out only for a complaint.
struct Row {
  const nlohmann::json& json;
  const std::string& file;
  size_t index;

  JsonView View() const { return {json, {file, "benchmarks[" + std::to_string(index) + "]"}}; }
  std::optional<double> Number(const char* key) const {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return std::nullopt;
    if (found->is_number()) {
      const auto number = found->get<double>();
      if (std::isfinite(number) && number >= 0) return number;
    }
    return View().FindNumber(key);
  }
};

struct Samples {
  std::vector<double> call_ns, bytes_per_second, flops_per_second, items_per_second, roof, limit_ns;
  std::vector<double> working_set_bytes;
  std::map<std::string, std::vector<double>> counters;
  size_t rows = 0;

  void Add(const Row& row) {
    const auto take = [&](const char* key, std::vector<double>* into) {
      if (const auto value = row.Number(key)) into->push_back(*value);
    };
    take("call_ns", &call_ns);
    take("bytes_per_second", &bytes_per_second);
    take("flops", &flops_per_second);
    take("items_per_second", &items_per_second);
    take("roof", &roof);
    take("working_set", &working_set_bytes);
    for (const auto& item : row.json.items()) {
      const std::string& key = item.key();
      const bool kept = key == "bias_bytes" || key == "output_error" || key == "recall";
      const bool term = key.starts_with("term_") && key.ends_with("_ms");
      if (kept || term || key.starts_with("angle_error")) take(key.c_str(), &counters[key]);
    }
    // A limit that no machine has would turn into infinities further on.
    const auto believe = [&](const char* key, Range range) {
      const auto value = row.Number(key);
      if (!value || *value == 0 || range.Has(*value)) return;
      throw BadInput(row.View().At(key).where(), fmt::format("is {:g}", *value),
                     fmt::format("{:g} to {:g}", range.least, range.most));
    };
    believe("bytes_per_second", {kBytesPerSecond.least / 1e3, kBytesPerSecond.most});
    believe("flops", {kFlopsPerSecond.least / 1e3, kFlopsPerSecond.most});
    believe("call_ns", {1e-6, 1e15});
    believe("items_per_second", {1e-3, 1e18});
    believe("roof", {1e-9, 1e6});
    believe("working_set", {1, 1e15});
    if (row.Number("roof") && row.Number("call_ns")) limit_ns.push_back(roof.back() * call_ns.back());
    ++rows;
  }
};

struct RowSamples {
  RowName name;
  Samples clean, tainted;
};

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

std::optional<RowName> NameOf(const std::string& text) {
  auto name = ParseRowName(text);
  return name ? name : ParsePeerRowName(text);
}

std::vector<RowSamples> ReadRows(const nlohmann::json& benchmarks, const std::string& file) {
  std::vector<RowSamples> rows;
  std::map<std::string, size_t> index;                               // by name
  std::unordered_map<std::string, std::optional<size_t>> by_text{};  // nothing: no row of ours
  for (size_t i = 0; i < benchmarks.size(); ++i) {
    const Row row{benchmarks[i], file, i};
    const JsonView view = row.View();
    const std::string text = view.At("name").String();
    if (view.FindString("run_type").value_or("iteration") != "iteration")
      continue;  // Google Benchmark's aggregates
    if (view.FindBool("error_occurred").value_or(false)) continue;
    const auto [known, fresh] = by_text.try_emplace(text);
    if (fresh) {
      if (const auto name = NameOf(text)) {
        const auto [it, added] = index.try_emplace(name->Text(), rows.size());
        if (added) rows.push_back({*name, {}, {}});
        known->second = it->second;
      }
    }
    if (!known->second) continue;
    RowSamples& samples = rows[*known->second];
    const bool tainted = row.Number("tainted").value_or(0) != 0;
    (tainted ? samples.tainted : samples.clean).Add(row);
  }
  return rows;
}

void AddToRoofline(const RowName& name, const Samples& samples, Roofline* roofline) {
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
  const nlohmann::json json = ReadJsonFile(path, kExpected);
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
  for (const RowSamples& row : ReadRows(json["benchmarks"], path)) {
    const bool tainted = row.clean.rows == 0;
    const Samples& samples = tainted ? row.tainted : row.clean;
    const bool of_ours = row.name.peer.empty();
    if (of_ours) AddToRoofline(row.name, samples, &machine.roofline);
    const double call_ns = Median(samples.call_ns);
    const auto threads = row.name.Count("threads");
    if (of_ours && row.name.family == "sync" && row.name.variant == "barrier" && threads && call_ns > 0) {
      machine.barrier_ns[static_cast<int>(*threads)] = call_ns;
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
