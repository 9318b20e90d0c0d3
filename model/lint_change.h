// One model under two schedules: two files, or a file and what a run is told. Which bands part, and what that
// does to keys that are cached already.
#ifndef ROPELINE_MODEL_LINT_CHANGE_H_
#define ROPELINE_MODEL_LINT_CHANGE_H_

#include <optional>
#include <string>
#include <vector>

#include "model/lint.h"
#include "model/rope_difference.h"

namespace ropeline {

struct RopeChange {
  std::string layer_type;
  std::string before, after;  // names of the two sides
  RopeDifference difference;
  std::optional<Invalidation> invalidation;  // where keys are cached
  bool layout_differs = false;               // pairs, or the number of rotated dimensions
};

struct LintReport {
  std::vector<Finding> findings;
  std::vector<RopeChange> changes;  // of every pair of layers that was compared, alike or not
};

// `other` may be nothing. With `cached` > 0 keys are in a cache, rotated as `source` says (or as it is
// published, where the run is told something else).
LintReport Lint(const LintSource& source, const LintSource* other, const LintRuntime& runtime, double cached);

// Keys are stable: add, never rename.
nlohmann::ordered_json LintJson(const LintReport& report);

// 0 nothing above a note, 1 warnings, 2 errors.
int LintExitCode(const std::vector<Finding>& findings);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LINT_CHANGE_H_
