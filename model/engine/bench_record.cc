#include "model/engine/bench_record.h"

#include <algorithm>

#include "model/engine/run_words.h"

namespace ropeline {
namespace {

struct Alias {
  std::string_view heading, name;
};

// Headings of the Markdown printers of llama.cpp and ik_llama.cpp; those that are names already are not here.
constexpr Alias kAliases[] = {
    {"model", "model_type"},
    {"size", "model_size"},
    {"params", "model_n_params"},
    {"backend", "backends"},
    {"threads", "n_threads"},
    {"ngl", "n_gpu_layers"},
    {"fa", "flash_attn"},
    {"mla", "mla_attn"},
    {"t/s", "avg_ts"},
    {"nopo", "no_op_offload"},
    {"dev", "devices"},
    {"b", "pl"},
    {"t_pp s", "t_pp"},
    {"t_tg s", "t_tg"},
    {"s_pp t/s", "speed_pp"},
    {"s_tg t/s", "speed_tg"},
    {"t s", "t"},
    {"s t/s", "speed"},
    {"attn_max_batch", "amb"},
    {"fused_moe", "fmoe"},
    {"repack", "rtr"},
    {"no_kv_offload", "nkvo"},
    {"use_mmap", "mmap"},
    {"embeddings", "embd"},
    {"split_mode", "sm"},
    {"tensor_split", "ts"},
    {"tensor_buft_overrides", "ot"},
    {"override_tensor", "ot"},
};

}  // namespace

std::string_view BenchRecord::Get(std::string_view name) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

bool BenchRecord::Has(std::string_view name) const {
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
}

void BenchRecord::SetDefault(std::string_view name, std::string_view value) {
  if (!Has(name)) fields.emplace_back(name, value);
}

std::string FieldName(std::string_view heading) {
  std::string plain;  // without Markdown's emphasis
  for (const char c : heading) {
    if (c != '*' && c != '`' && c != '"') plain += c;
  }
  const std::string lower = LowerCase(Trim(plain));
  for (const Alias& alias : kAliases) {
    if (lower == alias.heading) return std::string(alias.name);
  }
  return lower;
}

RecordKind KindOf(const BenchRecord& record) {
  if (record.fields.size() > kMaxColumns) return RecordKind::kNone;
  if (record.Has("avg_ts") && (record.Has("test") || record.Has("n_prompt") || record.Has("n_gen")))
    return RecordKind::kLlamaBench;
  const bool speeds = record.Has("speed_pp") || record.Has("speed_tg") || record.Has("t_tg");
  if (!speeds || !record.Has("n_kv") || !(record.Has("pp") || record.Has("tg"))) return RecordKind::kNone;
  return record.Has("pl") ? RecordKind::kBatchedBench : RecordKind::kSweepBench;
}

}  // namespace ropeline
