// Checks of the base: whether there is one, where it stands, and whether the family was trained with it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/lint.h"
#include "model/rope_difference.h"
#include "model/rope_keys.h"

namespace ropeline {
namespace {

constexpr double kSilentTheta = 10000;  // what a reader takes that finds none

std::string ThetaList(const std::vector<double>& thetas) {
  std::string list;
  for (const double theta : thetas) list += fmt::format("{}{:.12g}", list.empty() ? "" : ", ", theta);
  return list;
}

bool Among(double theta, const std::vector<double>& thetas) {
  return std::any_of(thetas.begin(), thetas.end(),
                     [&](double known) { return std::abs(theta / known - 1) < 1e-4; });
}

// What the model's schedule becomes where its base is taken for another.
std::string WithAnotherBase(const LintSource& source, double theta) {
  if (source.layers.empty()) return "";
  const RopeLayers* reach = &source.layers.back();
  for (const RopeLayers& layers : source.layers) {
    if (layers.layer_type != "sliding_attention") reach = &layers;
  }
  RopeParameters other = reach->rope;
  other.base = theta;
  if (FindRopeProblem(reach->rope) || FindRopeProblem(other)) return "";
  const double tokens = reach->rope.max_context > 0 ? reach->rope.max_context : 4096;
  const RopeLength length{static_cast<uint64_t>(tokens), 0};
  return DifferenceText(Differ(FrequenciesOf(reach->rope, length, RopeSemantics::kHf),
                               FrequenciesOf(other, length, RopeSemantics::kHf), tokens));
}

std::string Family(const RopeFamily& family) {
  return fmt::format("{} ({}) is published with rope_theta {}", family.name, family.model_type,
                     ThetaList(family.thetas));
}

void CheckMissing(const LintSource& source, std::vector<Finding>* findings) {
  const double taken = source.layers.empty() ? kSilentTheta : source.layers.front().rope.base;
  const RopeFamily* family = source.family;
  Finding finding{Severity::kWarning, "theta_missing", source.name, "", "", ""};
  finding.evidence = "no rope_theta, neither at the top nor in rope_parameters";
  finding.remedy = fmt::format("write the base that the model was trained with as rope_theta");
  if (family == nullptr) {
    finding.consequence =
        fmt::format("readers take {:.12g}; whether it was trained with that is not known here", taken);
  } else if (Among(family->class_default, family->thetas)) {
    finding.severity = Severity::kNote;
    finding.evidence += "; " + Family(*family);
    finding.consequence = fmt::format(
        "the family's own class fills in {:.12g}, which is right; a reader that takes {:.0f} for "
        "every model is {}",
        family->class_default, kSilentTheta, family->class_default == kSilentTheta ? "right too" : "wrong");
    finding.remedy =
        fmt::format("write rope_theta {:.12g}, so that no reader has to know", family->class_default);
  } else {
    finding.severity = Severity::kError;
    finding.evidence += "; " + Family(*family);
    const std::string difference = WithAnotherBase(source, family->thetas.front());
    finding.consequence = fmt::format("readers take {:.12g}: fluent, wrong text{}", family->class_default,
                                      difference.empty() ? "" : "; " + difference);
    finding.remedy = fmt::format("write rope_theta {}", ThetaList(family->thetas));
  }
  findings->push_back(finding);
}

void CheckFamily(const LintSource& source, double theta, const std::string& path,
                 std::vector<Finding>* findings) {
  const RopeFamily* family = source.family;
  if (family == nullptr || Among(theta, family->thetas)) return;
  const bool silent = theta == kSilentTheta;
  Finding finding{family->certain && silent ? Severity::kError : Severity::kWarning,
                  "theta_family",
                  source.name,
                  "",
                  "",
                  ""};
  finding.evidence = fmt::format("{} is {:.12g}; {}", path, theta, Family(*family));
  const std::string difference = WithAnotherBase(source, family->thetas.front());
  finding.consequence = silent
                            ? "10000 is what a reader writes that did not find the base: fluent, wrong text"
                            : "right only if this copy was trained on with that base";
  if (!difference.empty()) finding.consequence += "; against the published base " + difference;
  finding.remedy =
      fmt::format("compare with the publisher's config.json; rope_theta {}", ThetaList(family->thetas));
  findings->push_back(finding);
}

void CheckValues(const LintSource& source, const RopeKeys& keys, std::vector<Finding>* findings) {
  for (const RopeTheta& theta : keys.thetas) {
    const std::string shown = theta.value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const bool number = theta.value->is_number();
    if (number && theta.value->get<double>() > 1) continue;
    findings->push_back({Severity::kError, "theta_value", source.name,
                         fmt::format("{} is {}", theta.path, shown.substr(0, 60)),
                         number ? "frequencies do not fall from band to band"
                                : "readers fail, or pass it over and take 10000",
                         "a number above 1, without quotes"});
  }
}

// A file may say it twice, each read by other programs.
void CheckAgreement(const LintSource& source, const RopeKeys& keys, std::vector<Finding>* findings) {
  for (const RopeTheta& top : keys.thetas) {
    if (!top.top_level || !top.value->is_number()) continue;
    for (const RopeTheta& other : keys.thetas) {
      if (&other <= &top || !other.value->is_number() || !other.layer_type.empty()) continue;
      const double a = top.value->get<double>(), b = other.value->get<double>();
      if (a == b) continue;
      findings->push_back({Severity::kError, "theta_twice", source.name,
                           fmt::format("{} is {:.12g} and {} is {:.12g}", top.path, a, other.path, b),
                           "which of the two is used depends on the reader",
                           "one value, the one it was trained with"});
    }
  }
}

void CheckNesting(const LintSource& source, const RopeKeys& keys, const LintRuntime& runtime,
                  std::vector<Finding>* findings) {
  const bool v5 =
      std::any_of(keys.places.begin(), keys.places.end(), [](const RopePlace& p) { return p.v5; });
  const bool v4 =
      std::any_of(keys.places.begin(), keys.places.end(), [](const RopePlace& p) { return !p.v5; });
  const bool top =
      std::any_of(keys.thetas.begin(), keys.thetas.end(), [](const RopeTheta& t) { return t.top_level; });
  const bool old_reader = runtime.reader == "v4", new_reader = runtime.reader == "v5";
  if (v5 && !top) {
    std::string unread;
    double worst = 1;
    for (const RopeTheta& theta : keys.thetas) {
      if (!theta.value->is_number()) continue;
      unread +=
          fmt::format("{}{} {:.12g}", unread.empty() ? "" : ", ", theta.path, theta.value->get<double>());
      worst = std::max(worst, theta.value->get<double>() / kSilentTheta);
    }
    if (worst > 1) {
      const std::string difference = WithAnotherBase(source, kSilentTheta);
      findings->push_back(
          {old_reader ? Severity::kError : Severity::kWarning, "v5_nesting", source.name,
           fmt::format("the base stands in rope_parameters alone ({})", unread),
           fmt::format("readers of transformers 4 files look for rope_theta at the top and take {:.0f}{}",
                       kSilentTheta, difference.empty() ? "" : ": " + difference),
           "serve with a reader that knows rope_parameters, or write rope_theta at the top as well"});
    }
  }
  if (v4 && new_reader && !v5) {
    findings->push_back({Severity::kError, "v4_scaling", source.name,
                         "rope_scaling stands at the top, and there are no rope_parameters",
                         "a reader that looks into rope_parameters alone applies no scaling",
                         "write rope_parameters with rope_theta, rope_type and the same keys"});
  }
  if (!v4 || !v5) return;
  for (const RopePlace& a : keys.places) {
    for (const RopePlace& b : keys.places) {
      if (a.v5 || !b.v5 || !b.layer_type.empty()) continue;
      const bool same = a.Type() == b.Type() && a.Number("factor") == b.Number("factor");
      if (same) continue;
      findings->push_back(
          {Severity::kError, "scaling_twice", source.name,
           fmt::format("{} says {} with factor {:g}, {} says {} with factor {:g}", a.path, a.Type(),
                       a.Number("factor").value_or(1), b.path, b.Type(), b.Number("factor").value_or(1)),
           "transformers 4 reads the one, transformers 5 the other",
           "the same in both, or one of them alone"});
    }
  }
}

}  // namespace

void LintThetas(const LintSource& source, const LintRuntime& runtime, std::vector<Finding>* findings) {
  if (!source.config.is_object()) return;
  const RopeKeys keys = FindRopeKeys(source.config);
  const bool rotates = !source.layers.empty() || (!source.refusal.empty() && !keys.places.empty());
  if (!rotates && keys.thetas.empty()) return;
  CheckValues(source, keys, findings);
  CheckAgreement(source, keys, findings);
  CheckNesting(source, keys, runtime, findings);
  if (keys.thetas.empty() && rotates) CheckMissing(source, findings);
  for (const RopeTheta& theta : keys.thetas) {
    if (!theta.value->is_number() || theta.layer_type == "sliding_attention" || !rotates) continue;
    CheckFamily(source, theta.value->get<double>(), theta.path, findings);
  }
}

}  // namespace ropeline
