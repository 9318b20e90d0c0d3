#include "model/engine/read_engine_run.h"

#include <nlohmann/json.hpp>

#include "model/bad_input.h"
#include "model/config_json.h"
#include "model/engine/read_sweep_json.h"
#include "model/json_view.h"

namespace ropeline {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{64} << 20;  // a long sweep is 10 KiB
constexpr const char* kExpected = "the output of llama-bench, llama-sweep-bench or llama-batched-bench";

// Throws BadInput where nothing is left; the first reason is in the message.
std::vector<EngineRun> WithRows(std::vector<EngineRun> runs, const std::string& file) {
  std::string why = "holds no usable row";
  if (!runs.empty() && !runs[0].warnings.empty()) why += " (" + runs[0].warnings[0] + ")";
  std::erase_if(runs, [](const EngineRun& run) { return run.rows.empty(); });
  if (runs.empty()) throw BadInput({file, ""}, why, kExpected);
  return runs;
}

}  // namespace

std::vector<EngineRun> ParseEngineRuns(std::string_view text, const std::string& file) {
  const nlohmann::json root = ParseConfigJson(text, file, kExpected);
  const JsonView view(root, {file, ""});
  if (!IsSweepJson(view)) throw BadInput({file, ""}, "is no collected run", kExpected);
  return WithRows(SweepJsonRuns(view, file), file);
}

std::vector<EngineRun> ReadEngineRuns(const std::string& path) {
  return ParseEngineRuns(ReadTextFile(path, kMaxBytes, kExpected), path);
}

}  // namespace ropeline
