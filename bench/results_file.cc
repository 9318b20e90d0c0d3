#include "bench/results_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/options.h"

namespace ropeline {

namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "bench.json";

// Nothing where the file is absent or not JSON.
Json ReadJson(const fs::path& path) {
  std::ifstream file(path);
  return file ? Json::parse(file, nullptr, /*allow_exceptions=*/false) : Json(Json::value_t::discarded);
}

// What keeps a row from being taken over; "" where nothing does.
std::string WrongIn(const Json& row) {
  if (!row.is_object() || !row.contains("name") || !row["name"].is_string()) return "a row has no name";
  const std::string name = row["name"].get<std::string>();
  if (!row.contains("repetition_index") || !row["repetition_index"].is_number_integer() ||
      row["repetition_index"].get<int64_t>() < 0 || row["repetition_index"].get<int64_t>() > 1000) {
    return name + " has no repetition_index of 0 or more";
  }
  for (const char* key : {"threads", "iterations", "real_time", "cpu_time", "call_ns", "bytes_per_second",
                          "flops", "items_per_second", "working_set", "roof", "tainted", "shared_core",
                          "involuntary_switches", "steal_ms"}) {
    if (row.contains(key) && !row[key].is_number()) return name + ": " + key + " is no number";
  }
  return "";
}

bool IsComplete(const Json& document) {
  if (!document.is_object() || !document.contains("context")) return false;
  const Json& context = document["context"];
  if (!context.is_object() || !context.contains("ropeline")) return false;
  const Json& ours = context["ropeline"];
  return ours.is_object() && ours.contains("complete") && ours["complete"] == true;
}

}  // namespace

ResultsFile::ResultsFile(std::string folder, bool resume) : folder_(std::move(folder)) {
  std::error_code error;
  if (resume && !fs::exists(Path(), error)) {
    throw BadUsage(
        fmt::format("{}: --resume: no run to go on with, expected a bench.json of bench_all", Path()));
  }
  fs::create_directories(folder_, error);
  const fs::path probe = fs::path(folder_) / ".bench.json.probe";
  std::ofstream file(probe);
  file << "{}\n";
  file.close();
  if (error || !fs::is_directory(folder_) || !file) {
    throw BadUsage(fmt::format("{}: --out: cannot write there ({}), expected a folder that can be written to",
                               folder_, error ? error.message() : std::strerror(errno)));
  }
  fs::remove(probe, error);
  if (fs::is_directory(Path(), error)) {
    throw BadUsage(fmt::format("{}: --out: is a folder, expected a plain file or nothing there", Path()));
  }
  // Two runs would replace each other's rows, and disturb each other's timing. The lock ends with the
  // process.
  lock_ = open(folder_.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock_);
    throw BadUsage(
        fmt::format("{}: --out: another bench_all writes there, expected a folder of its own", folder_));
  }
}

ResultsFile::~ResultsFile() {
  if (lock_ >= 0) close(lock_);
}

std::string ResultsFile::Path() const { return (fs::path(folder_) / kName).string(); }

void ResultsFile::SetRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) rows_.emplace(row.name.Text(), row);
}

void ResultsFile::Resume(const Json& context, const std::vector<std::string>& identity) {
  const Json document = ReadJson(Path());
  if (document.is_discarded() || !document.is_object() || !document.contains("context") ||
      !document["context"].contains("ropeline") || !document.contains("benchmarks") ||
      !document["benchmarks"].is_array()) {
    throw BadUsage(
        fmt::format("{}: --resume: no run to go on with, expected a bench.json of bench_all", Path()));
  }
  const Json& ours = document["context"]["ropeline"];
  const Json& now = context["ropeline"];
  for (const std::string& key : identity) {
    const auto text = [&key](const Json& from) { return from.contains(key) ? from[key].dump() : "none"; };
    if (text(ours) != text(now)) {
      throw BadUsage(
          fmt::format("{}: {}: the interrupted run had {} and this one has {}, expected the same (start anew "
                      "without --resume)",
                      Path(), key, text(ours), text(now)));
    }
  }
  previous_moved_ = true;  // it is this very run
  for (const Json& row : document["benchmarks"]) {
    const std::string wrong = WrongIn(row);
    if (!wrong.empty()) {
      throw BadUsage(fmt::format("{}: benchmarks: {}, expected rows of bench_all", Path(), wrong));
    }
    if (rows_.count(row["name"].get<std::string>()) == 0) continue;
    benchmarks_.push_back(row);
    done_.insert({row["name"].get<std::string>(), row["repetition_index"].get<int>()});
    AddLimit(row);
  }
}

void ResultsFile::AddLimit(const Json& row) {
  limits_.AddRow(row["name"].get<std::string>(), row.value("bytes_per_second", 0.0), row.value("flops", 0.0),
                 row.value("tainted", 0.0) > 0);
}

void ResultsFile::SetRoof(Json* row) const {
  const auto it = rows_.find((*row)["name"].get<std::string>());
  if (it == rows_.end() || !it->second.traffic || !row->contains("call_ns")) return;
  const Row& spec = it->second;
  const double far_beyond_caches = 1e18;
  const LimitTime limit = limits_.TimeAtLimit(spec.cost, *spec.traffic, spec.threads,
                                              spec.cold ? far_beyond_caches : spec.working_set_bytes);
  if (limit.bound == Bound::kUnknown) return;
  (*row)["roof"] = 1e9 * limit.seconds / (*row)["call_ns"].get<double>();
}

void ResultsFile::AddRow(Json row, int round) {
  done_.insert({row["name"].get<std::string>(), round});
  AddLimit(row);
  SetRoof(&row);
  benchmarks_.push_back(std::move(row));
  if (!previous_moved_) {
    previous_moved_ = true;
    std::error_code error;
    if (IsComplete(ReadJson(Path()))) fs::rename(Path(), fs::path(folder_) / "bench.previous.json", error);
  }
  Write();
}

void ResultsFile::Finish(bool complete) {
  for (Json& row : benchmarks_) SetRoof(&row);
  // Repetitions of a row stand together, rows in the order they ran first.
  std::vector<std::string> order;
  std::map<std::string, std::vector<Json>> by_name;
  for (Json& row : benchmarks_) {
    auto& repetitions = by_name[row["name"].get<std::string>()];
    if (repetitions.empty()) order.push_back(row["name"].get<std::string>());
    repetitions.push_back(std::move(row));
  }
  benchmarks_ = Json::array();
  for (const std::string& name : order) {
    for (Json& row : by_name[name]) benchmarks_.push_back(std::move(row));
  }
  context_["ropeline"]["complete"] = complete;
  Write();
}

void ResultsFile::Write() const {
  Json document;
  document["context"] = context_;
  document["benchmarks"] = benchmarks_;
  const std::string temporary = fmt::format("{}.{}.tmp", Path(), getpid());
  {
    std::ofstream file(temporary);
    file << document.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
    file.close();
    if (!file) {
      std::error_code ignored;
      fs::remove(temporary, ignored);
      throw BadUsage(fmt::format("{}: writing failed ({}), expected room for the results", Path(),
                                 std::strerror(errno)));
    }
  }
  std::error_code error;
  fs::rename(temporary, Path(), error);
  if (error)
    throw BadUsage(fmt::format("{}: cannot be replaced: {}, expected a plain file", Path(), error.message()));
}

}  // namespace ropeline
