// The JSON of a prediction. Keys are stable: add, never rename.
#include <nlohmann/json.hpp>

#include "model/engine/engine_predict.h"
#include "model/model_json.h"
#include "model/predict.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json RangeJson(const std::optional<Estimate>& estimate) {
  if (!estimate) return nullptr;
  return {{"value", estimate->value}, {"low", estimate->low}, {"high", estimate->high}};
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json TermsJson(const std::vector<Term>& terms) {
  Json json = Json::array();
  for (const Term& term : terms) {
    json.push_back({{"name", term.name},
                    {"bytes", term.bytes},
                    {"flops", term.flops},
                    {"ms", term.ms},
                    {"bound", BoundName(term.bound)},
                    {"source", TermSourceName(term.source)},
                    {"row", TextOrNull(term.row)},
                    {"note", TextOrNull(term.note)}});
  }
  return json;
}

Json ValueJson(const DecodeLevel& level) {
  Json json = {{"available", true},
               {"ms_per_token", level.ms_per_token},
               {"tok_per_s", level.tok_per_s},
               {"tok_per_s_per_sequence", level.tok_per_s_per_sequence},
               {"bound", BoundName(level.bound)},
               {"binding_term", level.binding_term},
               {"terms", TermsJson(level.terms)}};
  if (level.range_ms) {
    json["low_ms"] = level.range_ms->low;
    json["high_ms"] = level.range_ms->high;
  }
  return json;
}

Json ValueJson(const PrefillLevel& level) {
  Json json = {{"available", true},
               {"seconds", level.seconds},
               {"tok_per_s", level.tok_per_s},
               {"flops_linear", level.flops_linear},
               {"flops_attention", level.flops_attention},
               {"bound", BoundName(level.bound)},
               {"binding_term", level.binding_term},
               {"terms", TermsJson(level.terms)}};
  if (level.range_s) {
    json["low_seconds"] = level.range_s->low;
    json["high_seconds"] = level.range_s->high;
  }
  return json;
}

template <class Value>
Json LevelJson(const Level<Value>& level) {
  return level.value ? ValueJson(*level.value) : Json{{"available", false}, {"missing", level.missing}};
}

template <class Value>
Json LevelsJson(const Levels<Value>& levels) {
  return {{"limit", LevelJson(levels.limit)},
          {"kernels", LevelJson(levels.kernels)},
          {"engine", LevelJson(levels.engine)}};
}

Json InputsJson(const PredictRequest& request, const Prediction& prediction) {
  const Machine& machine = *request.machine;
  return {{"context", request.context},
          {"batch", request.batch},
          {"threads", machine.measured() ? Json(request.threads) : Json(nullptr)},
          {"weights_format", request.weights.name},
          {"weights_bits_per_weight", prediction.weights.bits_per_weight},
          {"kv_format", request.kv.Name()},
          {"kv_bits_per_element", request.kv.BitsPerElement()},
          {"bandwidth_bytes_per_second", prediction.bandwidth_bytes_per_second},
          {"peak_flops_per_second", prediction.peak_flops_per_second},
          {"flops_bound", machine.peak_is_measured() ? "decode and prefill: a measured f32 FMA peak"
                                                     : "prefill: a rate of matrix products"},
          {"prefill_chunk", request.prefill_chunk > 0 ? Json(request.prefill_chunk) : Json(nullptr)},
          {"memory_bytes", OrNull(request.memory_bytes)},
          {"machine",
           {{"source", machine.measured() ? machine.file : std::string("two figures given by the user")},
            {"cpu_model", TextOrNull(machine.cpu_model)},
            {"host_id", TextOrNull(machine.host_id)},
            {"target", TextOrNull(machine.target)},
            {"measured", TextOrNull(machine.date)},
            {"ropeline_version", TextOrNull(machine.version)},
            {"quick", machine.measured() ? Json(machine.quick) : Json(nullptr)}}}};
}

}  // namespace

Json PredictionJson(const PredictRequest& request, const Prediction& p,
                    const std::vector<CurvePoint>& curve) {
  Json json = {
      {"model", ModelJson(request.llm)},
      {"kv", KvJson(request.kv, p.kv, request.allocation)},
      {"memory",
       {{"weights_bytes", p.memory.weights_bytes},
        {"kv_bytes", p.memory.kv_bytes},
        {"activation_bytes", p.memory.activation_bytes},
        {"total_bytes", p.memory.total_bytes},
        {"available_bytes", OrNull(p.memory.available_bytes)},
        {"fits", OrNull(p.memory.fits)}}},
      {"decode", LevelsJson(p.decode)},
      {"prefill", LevelsJson(p.prefill)},
      {"rule_of_thumb",
       {{"decode_ms_kv_only", p.rule_of_thumb.decode_ms_kv_only},
        {"prefill_flops_2np", p.rule_of_thumb.prefill_flops_2np},
        {"prefill_seconds", p.rule_of_thumb.prefill_seconds}}},
      {"crossovers",
       {{"kv_bytes_equal_weight_bytes", OrNull(p.crossovers.kv_equals_weights)},
        {"decode_attention_flops_equal_linear", OrNull(p.crossovers.decode_attention_equals_linear)},
        {"prefill_attention_flops_equal_linear", OrNull(p.crossovers.prefill_attention_equals_linear)}}}};
  if (!curve.empty()) {
    json["curve"] = Json::array();
    for (const CurvePoint& point : curve) {
      json["curve"].push_back({{"context", point.context},
                               {"kv_bytes", point.kv_bytes},
                               {"ms_per_token", point.ms_per_token},
                               {"tok_per_s", point.tok_per_s},
                               {"binding_term", point.binding_term},
                               {"prefill_seconds", point.prefill_seconds},
                               {"kernels_ms_per_token", OrNull(point.kernels_ms_per_token)},
                               {"kernels_tok_per_s", OrNull(point.kernels_tok_per_s)},
                               {"kernels_prefill_seconds", OrNull(point.kernels_prefill_seconds)},
                               {"engine_ms_per_token", RangeJson(point.engine_ms_per_token)},
                               {"engine_prefill_seconds", RangeJson(point.engine_prefill_seconds)}});
    }
  }
  if (request.engine != nullptr) json["engine_verdict"] = EngineVerdict(request, p);
  json["inputs"] = InputsJson(request, p);
  json["warnings"] = p.warnings;
  return json;
}

}  // namespace ropeline
