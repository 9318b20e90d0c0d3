#include "model/results_rows.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <string_view>
#include <unordered_map>

#include "model/json_view.h"
#include "model/units.h"

namespace ropeline {
namespace {

// A limit that no machine has would turn into infinities further on. Zero means unknown.
struct Field {
  std::string_view key;
  std::optional<double> RowValues::*value;
  Range range;
};
constexpr Field kFields[] = {
    {"call_ns", &RowValues::call_ns, {1e-6, 1e15}},
    {"bytes_per_second", &RowValues::bytes_per_second, {kBytesPerSecond.least / 1e3, kBytesPerSecond.most}},
    {"flops", &RowValues::flops, {kFlopsPerSecond.least / 1e3, kFlopsPerSecond.most}},
    {"items_per_second", &RowValues::items_per_second, {1e-3, 1e18}},
    {"roof", &RowValues::roof, {1e-9, 1e6}},
    {"working_set", &RowValues::working_set, {1, 1e15}},
    {"tainted", &RowValues::tainted, {0, 1e15}},
};

bool IsCounter(std::string_view key) {
  return key == "bias_bytes" || key == "output_error" || key == "recall" || key == "weights_read_gb_s" ||
         (key.starts_with("term_") && key.ends_with("_ms")) || key.starts_with("angle_error");
}

bool Believable(const Field& field, double value) { return value == 0 || field.range.Has(value); }

// Repetitions by row, whatever their order in the file.
class Rows {
 public:
  // Rows that are none of ours are left out.
  void Add(const std::string& text, const RowValues& values) {
    const auto [known, fresh] = by_text_.try_emplace(text);
    if (fresh) {
      auto name = ParseRowName(text);
      if (!name) name = ParsePeerRowName(text);
      if (name) {
        const auto [it, added] = by_name_.try_emplace(name->Text(), rows_.size());
        if (added) rows_.push_back({*name, {}, {}});
        known->second = it->second;
      }
    }
    if (!known->second) return;
    RowSamples& row = rows_[*known->second];
    (values.tainted.value_or(0) != 0 ? row.tainted : row.clean).Add(values);
  }
  std::vector<RowSamples> Take() { return std::move(rows_); }

 private:
  std::vector<RowSamples> rows_;
  std::map<std::string, size_t> by_name_;
  std::unordered_map<std::string, std::optional<size_t>> by_text_;  // nothing: no row of ours
};

// ------------------------------------------------------------------------------------------------- simdjson

namespace sj = simdjson::dom;

std::optional<double> FigureOf(sj::element value) {
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS) return std::nullopt;
  if (!std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

// False where anything is other than bench_all writes it.
bool AddRow(sj::element benchmark, Rows* rows) {
  sj::object object;
  if (benchmark.get_object().get(object) != simdjson::SUCCESS) return false;
  RowValues values;
  std::string_view name;
  bool skipped = false;
  for (const auto& [key, value] : object) {
    if (key == "name") {
      if (value.get_string().get(name) != simdjson::SUCCESS) return false;
    } else if (key == "run_type") {
      std::string_view type;
      if (value.get_string().get(type) != simdjson::SUCCESS) return false;
      skipped = skipped || type != "iteration";  // Google Benchmark's aggregates
    } else if (key == "error_occurred") {
      bool failed = false;
      if (value.get_bool().get(failed) != simdjson::SUCCESS) return false;
      skipped = skipped || failed;
    } else if (IsCounter(key)) {
      const auto figure = FigureOf(value);
      if (!figure) return false;
      values.counters.emplace_back(key, *figure);
    } else {
      for (const Field& field : kFields) {
        if (key != field.key) continue;
        const auto figure = FigureOf(value);
        if (!figure || !Believable(field, *figure) || values.*field.value) return false;
        values.*field.value = figure;
      }
    }
  }
  if (name.empty()) return false;
  if (!skipped) rows->Add(std::string(name), values);
  return true;
}

// Nothing where anything surprises.
std::optional<ResultsFileText> ReadSoundText(const std::string& text) {
  sj::parser parser;
  sj::object root;
  if (parser.parse(text).get_object().get(root) != simdjson::SUCCESS) return std::nullopt;
  ResultsFileText file{.json = nlohmann::json::object(), .rows = {}};
  Rows rows;
  bool found = false;
  for (const auto& [key, value] : root) {
    if (file.json.contains(key)) return std::nullopt;
    if (key != "benchmarks") {
      file.json[std::string(key)] = nlohmann::json::parse(simdjson::minify(value));
      continue;
    }
    sj::array benchmarks;
    if (value.get_array().get(benchmarks) != simdjson::SUCCESS) return std::nullopt;
    for (const sj::element benchmark : benchmarks) {
      if (!AddRow(benchmark, &rows)) return std::nullopt;
    }
    file.json["benchmarks"] = nlohmann::json::array();
    found = true;
  }
  if (!found) return std::nullopt;
  file.rows = rows.Take();
  return file;
}

// ------------------------------------------------------------------------------------------------ with care

// One of thousands: its place in the file is spelled out only for a complaint.
struct Row {
  const nlohmann::json& json;
  const std::string& file;
  size_t index;

  JsonView View() const { return {json, {file, "benchmarks[" + std::to_string(index) + "]"}}; }
  std::optional<double> Number(std::string_view key) const {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return std::nullopt;
    return View().FindNumber(key);
  }
};

RowValues ValuesOf(const Row& row) {
  RowValues values;
  for (const Field& field : kFields) {
    const auto value = row.Number(field.key);
    if (value && !Believable(field, *value)) {
      throw BadInput(row.View().At(field.key).where(), fmt::format("is {:g}", *value),
                     fmt::format("{:g} to {:g}", field.range.least, field.range.most));
    }
    values.*field.value = value;
  }
  for (const auto& item : row.json.items()) {
    if (!IsCounter(item.key())) continue;
    if (const auto value = row.Number(item.key())) values.counters.emplace_back(item.key(), *value);
  }
  return values;
}

}  // namespace

void RowSamples::Samples::Add(const RowValues& row) {
  const auto take = [](const std::optional<double>& value, std::vector<double>* into) {
    if (value) into->push_back(*value);
  };
  take(row.call_ns, &call_ns);
  take(row.bytes_per_second, &bytes_per_second);
  take(row.flops, &flops_per_second);
  take(row.items_per_second, &items_per_second);
  take(row.roof, &roof);
  take(row.working_set, &working_set_bytes);
  if (row.roof && row.call_ns) limit_ns.push_back(*row.roof * *row.call_ns);
  for (const auto& [key, value] : row.counters) counters[key].push_back(value);
  ++rows;
}

ResultsFileText ReadResultsText(const std::string& path, std::string_view expected) {
  std::string text = ReadJsonText(path, expected);
  if (auto sound = ReadSoundText(text)) return *std::move(sound);
  return {.json = ParseJsonText(text, path, expected), .rows = std::nullopt};
}

std::vector<RowSamples> ReadRowsWithCare(const nlohmann::json& benchmarks, const std::string& file) {
  Rows rows;
  for (size_t i = 0; i < benchmarks.size(); ++i) {
    const Row row{benchmarks[i], file, i};
    const JsonView view = row.View();
    const std::string name = view.At("name").String();
    if (view.FindString("run_type").value_or("iteration") != "iteration") continue;
    if (view.FindBool("error_occurred").value_or(false)) continue;
    if (!ParseRowName(name) && !ParsePeerRowName(name)) continue;
    rows.Add(name, ValuesOf(row));
  }
  return rows.Take();
}

}  // namespace ropeline
