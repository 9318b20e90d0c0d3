// The JSON of a comparison. Keys are stable: add, never rename.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/compare.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

const char* PhaseName(Phase phase) { return phase == Phase::kPrefill ? "prefill" : "decode"; }

bool IsBias(const Encoding& encoding) { return encoding.placement == Placement::kScoreBias; }

Json EncodingJson(const Encoding& encoding) {
  return {{"encoding", encoding.name},
          {"placement", PlacementName(encoding.placement)},
          {"cost_class", CostClass(encoding.placement)}};
}

Json ShapeJson(Placement placement, const Shape& shape) {
  switch (placement) {
    case Placement::kInputAdd:
      return {{"n", shape.n}, {"d_model", shape.d_model}};
    case Placement::kScoreBias:
      return {{"n", shape.n}, {"n_k", shape.n_k}, {"n_heads", shape.n_heads}, {"causal", shape.causal}};
    case Placement::kQkRotation:
      return {{"n", shape.n},
              {"heads", shape.n_heads + shape.n_kv_heads},
              {"d_head", shape.d_head},
              {"d_rot", shape.Rotated()}};
  }
  return nullptr;
}

Json RowJson(const MeasuredEncoding& row) {
  const bool known = row.bound != Bound::kUnknown;
  Json json = EncodingJson(*row.encoding);
  json.update({{"shape", ShapeJson(row.encoding->placement, row.shape)},
               {"dtype", DtypeName(row.shape.dtype)},
               {"variant", OrNull(row.variant)},
               {"cache", row.cold ? "cold" : "hot"},
               {"bytes", row.cost.Bytes()},
               {"flops", row.cost.flops},
               {"working_set_bytes", row.working_set_bytes},
               {"limit_ns", known ? Json(row.limit_ns) : Json(nullptr)},
               {"bound", BoundName(row.bound)},
               {"measured_ns", row.measured_ns},
               {"ratio", OrNull(row.Ratio())},
               {"tainted", row.tainted},
               {"row", row.row}});
  return json;
}

Json IfKnown(const EncodingShare& share, double value) { return share.known() ? Json(value) : Json(nullptr); }

Json ShareJson(const EncodingShare& share) {
  Json json = EncodingJson(*share.encoding);
  json.update({{"phase", PhaseName(share.phase)},
               {"n", share.n},
               {"applications", share.applications},
               {"bytes", share.cost.Bytes()},
               {"flops", share.cost.flops},
               {"score_bytes", IsBias(*share.encoding) ? Json(share.score_bytes) : Json(nullptr)},
               {"limit_ms", IfKnown(share, share.limit_ms)},
               {"ratio", OrNull(share.ratio)},
               {"ratio_row", OrNull(share.ratio_row)},
               {"source", TimeSourceName(share.source)},
               {"expected_ms", IfKnown(share, share.expected_ms)},
               {"beside", share.whole_pass ? "whole pass" : "one layer"},
               {"beside_ms", share.beside_ms},
               {"share", IfKnown(share, share.Share())}});
  return json;
}

// One entry for each encoding: its class, what it leaves in the cache, its times and shares by context.
Json GlanceJson(const CompareRequest& request, const std::vector<EncodingShare>& shares) {
  Json glance = Json::array();
  for (const Encoding* encoding : request.Encodings()) {
    Json entry = EncodingJson(*encoding);
    entry.update({{"about", encoding->about}, {"cached_key", encoding->cached_key}});
    entry["bias_bytes"] = nullptr;
    entry["prefill"] = entry["decode"] = Json::array();
    for (const EncodingShare& share : shares) {
      if (share.encoding != encoding) continue;
      if (share.phase == Phase::kPrefill && share.score_bytes > 0) entry["bias_bytes"] = share.score_bytes;
      entry[PhaseName(share.phase)].push_back({{"n", share.n},
                                               {"time_ms", IfKnown(share, share.expected_ms)},
                                               {"share", IfKnown(share, share.Share())},
                                               {"source", TimeSourceName(share.source)}});
    }
    if (!entry["prefill"].empty() || !entry["decode"].empty()) glance.push_back(std::move(entry));
  }
  return glance;
}

Json LawJson(const EncodingLaw& fit) {
  Json json = EncodingJson(*fit.encoding);
  json.update({{"cache", fit.cold ? "cold" : "hot"},
               {"law", fit.Proportional() ? "c·h·N²" : "a + b·N·d"},
               {"rows", fit.rows},
               {"n_min", fit.n_min},
               {"n_max", fit.n_max},
               {"fitted", fit.law.has_value()}});
  const auto number = [&](double value) { return fit.law ? Json(value) : Json(nullptr); };
  const Law law = fit.law.value_or(Law{});
  json["a_ns"] = fit.Proportional() ? Json(nullptr) : number(law.a_ns);
  json["b_ns_per_element"] = fit.Proportional() ? Json(nullptr) : number(law.per_size_ns);
  json["c_ns_per_score"] = fit.Proportional() ? number(law.per_size_ns) : Json(nullptr);
  json["gelem_per_s"] = law.per_size_ns > 0 ? Json(1 / law.per_size_ns) : Json(nullptr);
  json["residual_rms"] = number(law.residual_rms);
  json["worst_error"] = number(law.worst_error);
  json["worst_row"] = OrNull(fit.worst_row);
  return json;
}

Json WayJson(const WayToPay& way) {
  const MeasuredRow& row = *way.row;
  return {{"group", way.group},
          {"encoding", row.name.variant},
          {"placement", row.name.family},
          {"way", way.way},
          {"shape", way.shape},
          {"cache", row.name.Arg("cache") != nullptr ? Json(*row.name.Arg("cache")) : Json(nullptr)},
          {"base", way.base},
          {"measured_ns", row.call_ns},
          {"bytes", OrNull(way.bytes)},
          {"roof", OrNull(row.roof)},
          {"ratio_to_base", way.ratio},
          {"counters", row.counters},
          {"tainted", row.tainted},
          {"row", row.name.Text()}};
}

Json CurveJson(const CompareRequest& request, const CostCurve& curve) {
  Json list = Json::array();
  for (const Encoding* encoding : request.Encodings()) {
    Json entry = EncodingJson(*encoding);
    entry["whole_pass"] = encoding->placement == Placement::kInputAdd;
    entry["points"] = Json::array();
    for (const EncodingShare& point : curve.points) {
      if (point.encoding != encoding) continue;
      const bool beyond =
          point.source == TimeSource::kExtrapolated || point.source == TimeSource::kLimit || !point.known();
      entry["points"].push_back(
          {{"n", point.n},
           {"prefill_ms", IfKnown(point, point.expected_ms)},
           {"share", IfKnown(point, point.Share())},
           {"measured", point.source == TimeSource::kMeasured},
           {"extrapolated", beyond},
           {"row_n", point.ratio_row.empty() ? Json(nullptr) : Json(point.ratio_row_n)},
           {"row_cache",
            point.ratio_row.empty() ? Json(nullptr) : Json(point.ratio_row_cold ? "cold" : "hot")}});
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json BesideJson(const CostCurve& curve) {
  Json list = Json::array();
  for (size_t i = 0; i < curve.n.size(); ++i) {
    list.push_back(
        {{"n", curve.n[i]}, {"layer_ms", curve.beside[i].layer_ms}, {"pass_ms", curve.beside[i].pass_ms}});
  }
  return list;
}

Json InputsJson(const CompareRequest& request, const Machine& machine) {
  const auto bandwidth = [&](Traffic traffic) {
    return OrNull(machine.roofline.MemoryBandwidth(traffic, request.threads));
  };
  Json inputs = {{"model", request.llm.name},      {"weights_format", request.weights.name},
                 {"kv_format", request.kv.Name()}, {"contexts", request.contexts},
                 {"threads", request.threads},     {"dtype", DtypeName(request.dtype)},
                 {"encodings", Json::array()},     {"shape", nullptr}};
  for (const Encoding* encoding : request.Encodings()) inputs["encodings"].push_back(encoding->name);
  if (const Attention* attention = request.PrefillAttention()) {
    inputs["shape"] = {
        {"n_heads", attention->n_heads}, {"n_kv_heads", attention->n_kv_heads},
        {"d_head", attention->d_head_k}, {"d_model", request.llm.d_model},
        {"causal", attention->causal},   {"of_the_model", !request.given_heads && !request.given_d_head}};
  }
  inputs["bandwidth_bytes_per_second"] = bandwidth(Traffic::kRead);
  inputs["update_bandwidth_bytes_per_second"] = bandwidth(Traffic::kUpdate);
  inputs["add_bandwidth_bytes_per_second"] = bandwidth(Traffic::kAdd);
  inputs["peak_flops_per_second"] = OrNull(machine.roofline.PeakFlops(request.threads));
  inputs["machine"] = {{"source", machine.file},
                       {"cpu_model", OrNull(machine.cpu_model)},
                       {"target", OrNull(machine.target)},
                       {"measured", OrNull(machine.date)},
                       {"quick", machine.quick}};
  return inputs;
}

}  // namespace

Json CompareJson(const CompareRequest& request, const Machine& machine, const Comparison& comparison) {
  Json json;
  json["glance"] = GlanceJson(request, comparison.shares);
  json["laws"] = json["rows"] = json["forms"] = json["shares"] = json["rejected"] = Json::array();
  for (const EncodingLaw& law : comparison.laws) json["laws"].push_back(LawJson(law));
  for (const MeasuredEncoding& row : comparison.rows) json["rows"].push_back(RowJson(row));
  for (const WayToPay& way : comparison.ways) json["forms"].push_back(WayJson(way));
  for (const EncodingShare& share : comparison.shares) json["shares"].push_back(ShareJson(share));
  for (const Rejection& rejection : comparison.rejected) {
    json["rejected"].push_back({{"encoding", rejection.encoding->name},
                                {"phase", PhaseName(rejection.phase)},
                                {"n", rejection.n},
                                {"reason", rejection.reason}});
  }
  json["curve"] = CurveJson(request, comparison.curve);
  json["beside"] = BesideJson(comparison.curve);
  json["inputs"] = InputsJson(request, machine);
  return json;
}

}  // namespace ropeline
