// A comparison for people: why rotary won at a glance, the law of each encoding, every measured row, other
// ways to pay, then the shares of a model's layer in detail and the inputs.
#ifndef ROPELINE_MODEL_CLI_COMPARE_TEXT_H_
#define ROPELINE_MODEL_CLI_COMPARE_TEXT_H_

#include <string>

#include "model/compare.h"

namespace ropeline {

std::string CompareText(const CompareRequest& request, const Machine& machine, const Comparison& comparison);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMPARE_TEXT_H_
