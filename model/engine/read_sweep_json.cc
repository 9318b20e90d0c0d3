#include "model/engine/read_sweep_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/engine/row_check.h"
#include "model/engine/run_words.h"

namespace ropeline {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr size_t kMaxQuants = 100;

// A speed that may be absent, or a word such as "NaN": that one is for RowCheck to leave out.
std::optional<double> Speed(const JsonView& row, std::string_view key) {
  const std::optional<JsonView> value = row.Find(key);
  if (!value) return std::nullopt;
  return value->is_string() || value->is_negative() ? std::nan("") : value->Number();
}

void AddRows(const JsonView& row, RowCheck* check) {
  if (row.FindBool("inconsistent").value_or(false)) {
    return check->LeaveOut("marked as inconsistent with itself by the source", 0);
  }
  RunRow at;
  at.n_kv = row.FindCount("n_kv").value_or(0);
  const uint64_t n_prompt = row.FindCount("pp_tokens").value_or(0);
  const uint64_t n_generated = row.FindCount("tg_tokens").value_or(0);
  const auto add = [&](RunPhase phase, uint64_t prompt, uint64_t generated, std::optional<double> speed) {
    if (!speed) return;
    at.phase = phase;
    at.n_prompt = prompt;
    at.n_generated = generated;
    at.tok_per_s = *speed;
    check->Add(at);
  };
  add(RunPhase::kPrefill, n_prompt, 0, Speed(row, "s_pp"));
  add(RunPhase::kDecode, 0, n_generated, Speed(row, "s_tg"));
  add(RunPhase::kCombined, n_prompt, n_generated, Speed(row, "s_total"));
}

std::optional<int> FindThreads(const JsonView& root, std::string_view key) {
  const std::optional<uint64_t> count = root.FindCount(key);
  if (!count || *count == 0 || *count > kMaxThreads) return std::nullopt;
  return static_cast<int>(*count);
}

std::string CacheType(const JsonView& root, std::string_view key, EngineRun* run) {
  const std::string written = root.FindString(key).value_or("");
  const std::optional<std::string> type = OneCacheType(written);
  if (!type) {
    run->warnings.push_back(std::string(key) + " " + Quoted(written) +
                            " is more than one type: it counts as unknown");
  }
  return type.value_or("");
}

EngineRun Header(const JsonView& root, const std::string& file) {
  EngineRun run;
  run.file = file;
  run.source = root.FindString("source").value_or("");
  run.tool = "sweep";
  run.engine = root.FindString("engine").value_or("");
  run.version = root.FindString("engine_version_or_date").value_or("");
  run.cpu = root.FindString("cpu").value_or("");
  run.model = root.FindString("model").value_or("");
  const std::string quant = root.FindString("weights_quant").value_or("");
  run.weight_format = WeightFormatWord(quant);
  run.bits_per_weight = BitsPerWeight(quant);
  run.model_bytes = root.FindCount("weights_bytes");
  run.threads = FindThreads(root, "threads");
  run.threads_batch = FindThreads(root, "threads_batch");
  if (run.threads_batch == run.threads) run.threads_batch.reset();
  run.type_k = CacheType(root, "kv_type_k", &run);
  run.type_v = CacheType(root, "kv_type_v", &run);
  run.flash_attention = root.FindBool("flash_attention");
  run.mla = LeadingDigit(root.FindString("mla").value_or(""));
  run.ubatch = root.FindCount("ubatch");
  return run;
}

}  // namespace

bool IsSweepJson(const JsonView& root) {
  return root.is_object() && root.Has("rows") && root.Has("timing_semantics");
}

std::vector<EngineRun> SweepJsonRuns(const JsonView& root, const std::string& file) {
  const EngineRun header = Header(root, file);
  const std::vector<JsonView> rows = root.At("rows").Items();
  const bool on_gpu = root.FindBool("gpu_offload").value_or(false);
  std::vector<std::string> quants;
  for (const JsonView& row : rows) {
    const std::string quant = row.FindString("quant").value_or("");
    if (std::find(quants.begin(), quants.end(), quant) == quants.end()) quants.push_back(quant);
    if (quants.size() > kMaxQuants) {
      throw BadInput({file, "rows"}, "name more than " + std::to_string(kMaxQuants) + " formats", "one run");
    }
  }
  std::vector<EngineRun> runs;
  for (const std::string& quant : quants) {
    EngineRun& run = runs.emplace_back(header);
    if (!quant.empty()) run.weight_format = quant;
    RowCheck check(&run);
    for (const JsonView& row : rows) {
      if (row.FindString("quant").value_or("") != quant) continue;
      if (on_gpu) {
        check.LeaveOut("ran with layers on a GPU (gpu_offload)", 0);
        continue;
      }
      AddRows(row, &check);
      const std::optional<double> gb = row.FindNumber("weights_gb");
      if (gb && kSizeBytes.Has(*gb * kBytesPerGb)) run.model_bytes = static_cast<uint64_t>(*gb * kBytesPerGb);
    }
    check.Finish();
  }
  return runs;
}

}  // namespace ropeline
