// A row of a benchmark's output with its fields by name, whatever the format it was written in. The names are
// llama-bench's own ("n_threads", "avg_ts") and, for sweep-bench and batched-bench, those of their JSONL
// ("pp", "speed_pp").
#ifndef ROPELINE_MODEL_ENGINE_BENCH_RECORD_H_
#define ROPELINE_MODEL_ENGINE_BENCH_RECORD_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ropeline {

struct BenchRecord {
  std::vector<std::pair<std::string, std::string>> fields;
  size_t line = 0;   // of the file, from 1
  bool cut = false;  // fewer or more cells than its header: not to be used

  // "" where absent.
  std::string_view Get(std::string_view name) const;
  bool Has(std::string_view name) const;
  void SetDefault(std::string_view name, std::string_view value);  // where the row says nothing itself
};

// No benchmark has more rows; a file that does is something else.
inline constexpr size_t kMaxRecords = 20000;
inline constexpr size_t kMaxColumns = 100;  // llama-bench has 45

// A column's heading as the printers of all versions write it → the field's name: "S_PP t/s" → "speed_pp",
// "fa" → "flash_attn". Others come back trimmed and in lower case.
std::string FieldName(std::string_view heading);

enum class RecordKind { kNone, kLlamaBench, kSweepBench, kBatchedBench };
// What a row with these fields can be. kNone: nothing of ours, or more than kMaxColumns fields.
RecordKind KindOf(const BenchRecord& record);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_BENCH_RECORD_H_
