#include <cmath>
#include <nlohmann/json.hpp>

#include "model/rope_check.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

Json BandsJson(const std::vector<RopeBand>& bands) {
  Json list = Json::array();
  for (const RopeBand& band : bands) {
    list.push_back({{"i", band.i},
                    {"wavelength", std::isfinite(band.wavelength) ? Json(band.wavelength) : Json(nullptr)},
                    {"turns_train", band.turns_train},
                    {"arc_train", band.arc_train},
                    {"arc_context", band.arc_context},
                    {"unseen", band.unseen},
                    {"unseen_travel", band.unseen_travel},
                    {"squeeze", band.squeeze},
                    {"out_of_distribution", band.out_of_distribution}});
  }
  return list;
}

Json CoverageJson(const RopeCoverage& coverage) {
  return {{"bands", coverage.bands},
          {"bands_out_of_distribution", coverage.out_of_distribution},
          {"share_out_of_distribution", coverage.ShareOut()},
          {"worst_band", coverage.worst_band},
          {"worst_unseen", coverage.worst_unseen},
          {"local_resolution", coverage.local_resolution}};
}

Json LayersJson(const RopeReport& report) {
  const RopeParameters& p = report.layers.rope;
  return {{"layer_type", report.layers.layer_type},
          {"layers", report.layers.layers},
          {"rope_type", RopeTypeName(p.type)},
          {"base", p.base},
          {"d_head", p.d_head},
          {"d_rot", p.d_rot},
          {"factor", ExtensionFactor(p)},
          {"trained_tokens", report.trained_tokens > 0 ? Json(report.trained_tokens) : Json(nullptr)},
          {"attention_factor", report.frequencies.attention_factor},
          {"softmax_scale_multiplier", report.frequencies.softmax_scale_multiplier},
          {"pairing", report.layers.pairing},
          {"inv_freq", report.frequencies.inv_freq},
          {"coverage", CoverageJson(report.coverage)},
          {"bands", BandsJson(report.bands)}};
}

Json ExtensionJson(const Extension& extension) {
  Json json = {{"method", extension.method->name}, {"rule", extension.method->rule}};
  if (!extension.missing.empty()) {
    json["missing"] = extension.missing;
    return json;
  }
  json["factor"] = extension.rope.factor;
  json["effective_base"] = extension.effective_base ? Json(*extension.effective_base) : Json(nullptr);
  json["attention_factor"] = extension.frequencies.attention_factor;
  json["fine_tuning"] = extension.method->fine_tuning;
  json["note"] = extension.note;
  json["coverage"] = CoverageJson(extension.coverage);
  json["inv_freq"] = extension.frequencies.inv_freq;
  json["bands"] = BandsJson(extension.bands);
  return json;
}

}  // namespace

nlohmann::ordered_json RopeJson(const RopeAnswer& answer) {
  Json json = {{"model", answer.model.empty() ? Json(nullptr) : Json(answer.model)},
               {"context", answer.length.tokens},
               {"capacity", answer.length.capacity > 0 ? answer.length.capacity : answer.length.tokens},
               {"semantics", RopeSemanticsName(answer.semantics)},
               {"layers", Json::array()}};
  for (const RopeReport& report : answer.reports) json["layers"].push_back(LayersJson(report));
  if (!answer.extensions.empty()) {
    Json extend = {{"context", answer.extended_context},
                   {"trained_tokens", FarReaching(answer.reports)->trained_tokens},
                   {"layer_type", FarReaching(answer.reports)->layers.layer_type},
                   {"methods", Json::array()}};
    for (const Extension& extension : answer.extensions)
      extend["methods"].push_back(ExtensionJson(extension));
    json["extend"] = extend;
  }
  return json;
}

}  // namespace ropeline
