#include "model/engine/read_engine_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/bad_input.h"
#include "model/config_json.h"
#include "model/engine/plain_text.h"
#include "model/engine/read_sweep_json.h"
#include "model/engine/record_runs.h"
#include "model/engine/run_words.h"
#include "model/engine/text_records.h"
#include "model/json_view.h"

namespace ropeline {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{16} << 20;  // a long sweep is 10 KiB
constexpr const char* kExpected = "the output of llama-bench, llama-sweep-bench or llama-batched-bench";

std::string ReadStandardInput() {
  std::string text;
  std::string part(1 << 16, '\0');
  while (text.size() <= kMaxBytes && std::cin) {
    std::cin.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part, 0, static_cast<size_t>(std::cin.gcount()));
  }
  if (text.size() > kMaxBytes) throw BadInput({"standard input", ""}, "is larger than 16 MiB", kExpected);
  return text;
}

// Runs without a row go; what they had to say goes to the first that stays. Throws BadInput where none does.
std::vector<EngineRun> WithRows(std::vector<EngineRun> runs, const std::string& file) {
  std::vector<std::string> words;
  for (const EngineRun& run : runs) {
    if (!run.rows.empty()) continue;
    for (const std::string& word : run.warnings) {
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
  }
  std::erase_if(runs, [](const EngineRun& run) { return run.rows.empty(); });
  if (runs.empty()) {
    std::string why = "holds no usable row";
    for (size_t i = 0; i < std::min<size_t>(words.size(), 3); ++i) why += (i == 0 ? " (" : "; ") + words[i];
    if (!words.empty()) why += ")";
    throw BadInput({file, ""}, why, kExpected + std::string(" on a CPU"));
  }
  runs[0].warnings.insert(runs[0].warnings.end(), words.begin(), words.end());
  return runs;
}

[[noreturn]] void NothingFound(const TextRecords& found, std::string_view text, const std::string& file) {
  if (found.rows_without_header != 0) {
    throw BadInput({file, ""}, "has rows of a table, but no header row that names their columns",
                   "a header such as | PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |");
  }
  if (Trim(text).front() == '{') {
    ParseConfigJson(text, file, kExpected);
    throw BadInput({file, ""}, "is JSON, but not of a benchmark", kExpected);
  }
  throw BadInput({file, ""}, "holds no row of a benchmark", kExpected);
}

}  // namespace

std::vector<EngineRun> ParseEngineRuns(std::string_view raw, const std::string& file) {
  const std::string text = PlainText(raw, {file, ""}, kExpected);
  const TextRecords found = FindRecords(text, file);
  if (found.records.empty() && found.sweeps.empty()) NothingFound(found, text, file);
  std::vector<EngineRun> runs = RunsOf(found.records, file);
  for (const nlohmann::json& sweep : found.sweeps) {
    std::vector<EngineRun> more = SweepJsonRuns(JsonView(sweep, {file, ""}), file);
    std::move(more.begin(), more.end(), std::back_inserter(runs));
  }
  runs = WithRows(std::move(runs), file);
  if (found.damaged_objects != 0) {
    const bool one = found.damaged_objects == 1;
    runs[0].warnings.push_back(fmt::format("{} of JSON {} cut short or damaged: left out",
                                           one ? "a row" : std::to_string(found.damaged_objects) + " rows",
                                           one ? "is" : "are"));
  }
  return runs;
}

std::vector<EngineRun> ReadEngineRuns(const std::string& path) {
  if (path == "-") return ParseEngineRuns(ReadStandardInput(), "standard input");
  return ParseEngineRuns(ReadTextFile(path, kMaxBytes, kExpected), path);
}

}  // namespace ropeline
