// bench.json: Google Benchmark's JSON with our context, replaced as a whole at each finished row, so that an
// interrupt or a crash keeps every row that was finished. Format: results/README.md.
#ifndef ROPELINE_BENCH_RESULTS_FILE_H_
#define ROPELINE_BENCH_RESULTS_FILE_H_

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness.h"
#include "kernels/roofline.h"

namespace ropeline {

using Json = nlohmann::ordered_json;

class ResultsFile {
 public:
  // Makes the folder and proves that it can be written to. A complete bench.json of an earlier run is kept as
  // bench.previous.json once the first row replaces it. Throws BadUsage.
  // `resume`: there must be a bench.json already, or nothing is made.
  explicit ResultsFile(std::string folder, bool resume = false);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  // Takes over the rows of an interrupted run. Throws BadUsage where there is none, or where it was made by
  // another build, on another machine or with other flags (`identity`: context.ropeline keys that must
  // agree).
  void Resume(const Json& context, const std::vector<std::string>& identity);

  void SetContext(Json context) { context_ = std::move(context); }
  Json& Context() { return context_; }
  const Json& Context() const { return context_; }

  // Rows whose limit is known by name; needed before AddRow.
  void SetRows(const std::vector<Row>& rows);

  bool Has(const std::string& name, int round) const { return done_.count({name, round}) != 0; }
  // One repetition of one row, as Google Benchmark's JSON has it.
  void AddRow(Json row, int round);

  // Computes every roof anew from the whole run's limits and writes the file. `complete`: all rows are there.
  void Finish(bool complete);

  const Roofline& Limits() const { return limits_; }
  const Json& Benchmarks() const { return benchmarks_; }
  std::string Path() const;

 private:
  void SetRoof(Json* row) const;
  void AddLimit(const Json& row);
  void Write() const;

  std::string folder_;
  Json context_ = Json::object();
  Json benchmarks_ = Json::array();
  std::set<std::pair<std::string, int>> done_;
  std::map<std::string, Row> rows_;
  Roofline limits_;
  bool previous_moved_ = false;
  int lock_ = -1;  // the folder, locked
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_RESULTS_FILE_H_
