// Reads params.json, which Meta and Mistral publish beside their own weights.
#ifndef ROPELINE_MODEL_READ_PARAMS_JSON_H_
#define ROPELINE_MODEL_READ_PARAMS_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/llm.h"

namespace ropeline {

// True where the keys are a params.json's: a `dim` and `n_layers`, and no model_type.
bool IsParamsJson(const nlohmann::json& root);

// Throws BadInput "file: key: what is wrong, what was expected".
Llm ParamsJsonToLlm(const nlohmann::json& root, const std::string& file, const std::string& name);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_READ_PARAMS_JSON_H_
