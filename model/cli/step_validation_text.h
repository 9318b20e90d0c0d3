// The answer of `ropeline validate --machine F` as text.
#ifndef ROPELINE_MODEL_CLI_STEP_VALIDATION_TEXT_H_
#define ROPELINE_MODEL_CLI_STEP_VALIDATION_TEXT_H_

#include <string>

#include "model/step_validation.h"

namespace ropeline {

std::string StepValidationText(const Machine& machine, const StepValidation& validation);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_STEP_VALIDATION_TEXT_H_
