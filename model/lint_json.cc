#include <nlohmann/json.hpp>

#include "model/lint_change.h"

namespace ropeline {

nlohmann::ordered_json LintJson(const LintReport& report) {
  using Json = nlohmann::ordered_json;
  Json json = {{"findings", Json::array()}, {"changes", Json::array()}};
  for (const Finding& finding : report.findings) {
    json["findings"].push_back({{"severity", SeverityName(finding.severity)},
                                {"check", finding.check},
                                {"source", finding.source},
                                {"evidence", finding.evidence},
                                {"consequence", finding.consequence},
                                {"remedy", finding.remedy}});
  }
  for (const RopeChange& change : report.changes) {
    Json bands = Json::array();
    for (const BandDifference& band : change.difference.bands_that_differ) {
      Json entry = {
          {"i", band.i}, {"before", band.before}, {"after", band.after}, {"radians_at_context", band.angle}};
      if (change.invalidation) entry["largest_error"] = LargestError(band, change.invalidation->cached);
      bands.push_back(entry);
    }
    Json entry = {{"layer_type", change.layer_type},
                  {"before", change.before},
                  {"after", change.after},
                  {"context", change.difference.tokens},
                  {"attention_factor_ratio", change.difference.factor},
                  {"layout_differs", change.layout_differs},
                  {"bands", bands}};
    if (change.invalidation) {
      entry["invalidation"] = {{"cached", change.invalidation->cached},
                               {"wrong_keys", change.invalidation->Wrong()},
                               {"first_wrong_position", change.invalidation->first_wrong},
                               {"logit_kept", change.invalidation->logit_kept}};
    }
    json["changes"].push_back(entry);
  }
  json["summary"] = {{"errors", Count(report.findings, Severity::kError)},
                     {"warnings", Count(report.findings, Severity::kWarning)},
                     {"notes", Count(report.findings, Severity::kNote)}};
  return json;
}

}  // namespace ropeline
