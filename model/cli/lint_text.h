// What `ropeline lint` prints without --json.
#ifndef ROPELINE_MODEL_CLI_LINT_TEXT_H_
#define ROPELINE_MODEL_CLI_LINT_TEXT_H_

#include <string>

#include "model/lint_change.h"
#include "model/rotation_upkeep.h"

namespace ropeline {

// `upkeep`: what turning the cache costs against prefill, from a measured machine; nothing where unknown.
std::string LintText(const LintReport& report, const std::optional<RotationUpkeep>& upkeep);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_LINT_TEXT_H_
