// The JSON of the ways of keeping the past. Keys are stable: add, never rename.
#include <nlohmann/json.hpp>

#include "model/context_ways.h"
#include "model/rotation_upkeep.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json TimeJson(const StepTime& step) {
  return {{"attention_ms", step.attention_ms}, {"ms_per_token", step.ms}, {"tok_per_s", step.tok_per_s}};
}

}  // namespace

Json ContextWaysJson(const std::vector<ContextWay>& ways) {
  Json json = Json::array();
  for (const ContextWay& way : ways) {
    const bool retrieval = way.kind == KeepKind::kRetrieval;
    json.push_back({{"name", way.name},
                    {"kind", KeepKindName(way.kind)},
                    {"kv_format", way.format.name},
                    {"summary", retrieval ? Json(ChunkSummaryName(way.summary)) : Json(nullptr)},
                    {"attended_tokens", way.attended_tokens},
                    {"cache_bytes", way.cache_bytes},
                    {"read_bytes_per_step", way.read_bytes},
                    {"limit", TimeJson(way.limit)},
                    {"kernels", way.kernels ? TimeJson(*way.kernels) : Json(nullptr)},
                    {"row", TextOrNull(way.row)},
                    {"note", TextOrNull(way.note)},
                    {"accuracy", {{"figure", way.figure}, {"value", OrNull(way.accuracy)}}}});
  }
  return json;
}

Json RotationUpkeepJson(const RotationUpkeep& upkeep) {
  Json turns = Json::array(), reschedules = Json::array();
  for (const TurnBreakEven& turn : upkeep.turns) {
    turns.push_back({{"kv_format", turn.format},
                     {"turning_ms_per_step", turn.turning_ms},
                     {"evicting_ms", turn.evicting_ms},
                     {"moving_ms", OrNull(turn.moving_ms)},
                     {"break_even_steps", OrNull(turn.steps)},
                     {"rows", turn.rows}});
  }
  for (const Reschedule& reschedule : upkeep.reschedules) {
    reschedules.push_back({{"kv_format", reschedule.format},
                           {"ms", reschedule.ms},
                           {"row", reschedule.row},
                           {"prefill_limit_seconds", reschedule.prefill_limit_seconds},
                           {"prefill_kernels_seconds", OrNull(reschedule.prefill_kernels_seconds)}});
  }
  return {{"turning_points", turns}, {"reschedule", reschedules}};
}

}  // namespace ropeline
