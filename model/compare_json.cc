// The JSON of a comparison. Keys are stable: add, never rename.
#include <nlohmann/json.hpp>

#include "kernels/registry.h"
#include "model/compare.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ShapeJson(Placement placement, const Shape& shape) {
  switch (placement) {
    case Placement::kInputAdd:
      return {{"n", shape.n}, {"d_model", shape.d_model}};
    case Placement::kScoreBias:
      return {{"n", shape.n}, {"n_k", shape.n_k}, {"n_heads", shape.n_heads}, {"causal", shape.causal}};
    case Placement::kQkRotation:
      return {{"n", shape.n}, {"heads", shape.n_heads + shape.n_kv_heads}, {"d_head", shape.d_head}};
  }
  return nullptr;
}

Json RowJson(const MeasuredEncoding& row) {
  const bool known = row.bound != Bound::kUnknown;
  return {{"encoding", row.encoding->name},
          {"placement", PlacementName(row.encoding->placement)},
          {"cost_class", CostClass(row.encoding->placement)},
          {"shape", ShapeJson(row.encoding->placement, row.shape)},
          {"cache", row.cold ? "cold" : "hot"},
          {"bytes", row.cost.Bytes()},
          {"flops", row.cost.flops},
          {"working_set_bytes", row.working_set_bytes},
          {"limit_ns", known ? Json(row.limit_ns) : Json(nullptr)},
          {"bound", BoundName(row.bound)},
          {"measured_ns", row.measured_ns},
          {"ratio", OrNull(row.Ratio())},
          {"tainted", row.tainted},
          {"row", row.row}};
}

Json ShareJson(const EncodingShare& share) {
  const bool bias = share.encoding->placement == Placement::kScoreBias;
  return {{"encoding", share.encoding->name},
          {"placement", PlacementName(share.encoding->placement)},
          {"cost_class", CostClass(share.encoding->placement)},
          {"phase", share.phase == Phase::kPrefill ? "prefill" : "decode"},
          {"n", share.n},
          {"applications", share.applications},
          {"bytes", share.cost.Bytes()},
          {"flops", share.cost.flops},
          {"score_bytes", bias ? Json(share.score_bytes) : Json(nullptr)},
          {"limit_ms", share.limit_ms},
          {"ratio", OrNull(share.ratio)},
          {"ratio_row", share.ratio ? Json(share.ratio_row) : Json(nullptr)},
          {"expected_ms", share.expected_ms},
          {"beside", share.whole_pass ? "whole pass" : "one layer"},
          {"beside_ms", share.beside_ms},
          {"share", share.Share()}};
}

}  // namespace

Json CompareJson(const ShareRequest& request, const Machine& machine,
                 const std::vector<MeasuredEncoding>& rows, const std::vector<EncodingShare>& shares) {
  Json json = {{"rows", Json::array()}, {"shares", Json::array()}};
  for (const MeasuredEncoding& row : rows) json["rows"].push_back(RowJson(row));
  for (const EncodingShare& share : shares) json["shares"].push_back(ShareJson(share));
  json["inputs"] = {{"model", request.llm.name},
                    {"weights_format", request.weights.name},
                    {"kv_format", request.kv.name},
                    {"contexts", request.contexts},
                    {"threads", request.threads},
                    {"bandwidth_bytes_per_second",
                     OrNull(machine.roofline.MemoryBandwidth(Traffic::kRead, request.threads))},
                    {"peak_flops_per_second", OrNull(machine.roofline.PeakFlops(request.threads))},
                    {"machine",
                     {{"source", machine.file},
                      {"cpu_model", machine.cpu_model.empty() ? Json(nullptr) : Json(machine.cpu_model)},
                      {"target", machine.target.empty() ? Json(nullptr) : Json(machine.target)},
                      {"measured", machine.date.empty() ? Json(nullptr) : Json(machine.date)},
                      {"quick", machine.quick}}}};
  return json;
}

}  // namespace ropeline
