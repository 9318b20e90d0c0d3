// The rows of a bench.json, a row's repetitions together. Such a file is megabytes of which a tenth is used
// here: simdjson reads what is needed of a sound one in a tenth of the time that a general reader takes, and
// whatever surprises it is read once more with care, for the sake of a complaint that names the key.
#ifndef ROPELINE_MODEL_RESULTS_ROWS_H_
#define ROPELINE_MODEL_RESULTS_ROWS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/row_name.h"

namespace ropeline {

// One repetition: what is read of it; nothing where it does not say.
struct RowValues {
  std::optional<double> call_ns, bytes_per_second, flops, items_per_second, roof, working_set, tainted;
  std::vector<std::pair<std::string, double>> counters;  // MeasuredRow::counters
};

struct RowSamples {
  struct Samples {
    std::vector<double> call_ns, bytes_per_second, flops_per_second, items_per_second, roof, limit_ns;
    std::vector<double> working_set_bytes;
    std::map<std::string, std::vector<double>> counters;
    size_t rows = 0;

    void Add(const RowValues& row);
  };
  RowName name;
  Samples clean, tainted;
};

// A file as far as it has been read.
struct ResultsFileText {
  nlohmann::json json;                          // without rows where `rows` has them
  std::optional<std::vector<RowSamples>> rows;  // in the order of the file; nothing: ask ReadRowsWithCare
};

// Throws BadInput where the file cannot be read or is not JSON.
ResultsFileText ReadResultsText(const std::string& path, std::string_view expected);

// `benchmarks` is an array. Throws BadInput, with the row's place, for values that no row can have.
std::vector<RowSamples> ReadRowsWithCare(const nlohmann::json& benchmarks, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_RESULTS_ROWS_H_
