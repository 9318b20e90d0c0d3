// What `ropeline rope` prints without --json.
#ifndef ROPELINE_MODEL_CLI_ROPE_TEXT_H_
#define ROPELINE_MODEL_CLI_ROPE_TEXT_H_

#include <string>

#include "model/rope_check.h"

namespace ropeline {

// `all_bands`: every band of every table, instead of a dozen that show where things change.
std::string RopeText(const RopeAnswer& answer, bool all_bands);

std::string AngleText(double radians);  // "0.473 rad (27.1°)", beyond a turn "652 turns"
std::string StepText(double theta);     // "1.1548e-4", "0.8660"

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_ROPE_TEXT_H_
