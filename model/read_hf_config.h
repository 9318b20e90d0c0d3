// Reads a Hugging Face config.json (transformers 4 and 5) into an Llm. What the file leaves to its family's
// defaults is filled in and said in `warnings`; an unknown model_type is read as a llama where its keys allow
// and refused by name of the missing key where not.
#ifndef ROPELINE_MODEL_READ_HF_CONFIG_H_
#define ROPELINE_MODEL_READ_HF_CONFIG_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/llm.h"

namespace ropeline {

// Both throw BadInput "file: key: what is wrong, what was expected".
Llm ReadHfConfig(const std::string& path);
// `file` names the source in messages; `name` the model.
Llm HfConfigToLlm(const nlohmann::json& root, const std::string& file, const std::string& name);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_READ_HF_CONFIG_H_
