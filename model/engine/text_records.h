// Finds the rows of benchmarks in a text: tables, CSV, SQL and JSON, with whatever else around them.
#ifndef ROPELINE_MODEL_ENGINE_TEXT_RECORDS_H_
#define ROPELINE_MODEL_ENGINE_TEXT_RECORDS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/engine/bench_record.h"

namespace ropeline {

struct TextRecords {
  std::vector<BenchRecord> records;    // in the order of the text; "table" numbers what they stand in
  std::vector<nlohmann::json> sweeps;  // objects of ../shared/sweeps
  size_t rows_without_header = 0;      // look like a table's, under no heading
  size_t damaged_objects = 0;          // JSON rows that end early or cannot be read
};

// Throws BadInput where the text holds more than kMaxRecords rows.
TextRecords FindRecords(std::string_view text, const std::string& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_TEXT_RECORDS_H_
