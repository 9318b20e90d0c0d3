// A model by what the user has of it.
#ifndef ROPELINE_MODEL_OPEN_MODEL_H_
#define ROPELINE_MODEL_OPEN_MODEL_H_

#include <string>

#include "model/bad_input.h"
#include "model/llm.h"

namespace ropeline {

// `what` is a preset's name, a config.json, a params.json (Meta, Mistral), a .gguf file, or a folder that
// holds one of these; safetensors beside a config.json give its weights. A preset's name goes before a folder
// of that name: write ./name for the folder. Throws BadInput; `where` is the argument, for what is none of
// them.
Llm OpenModel(const std::string& what, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_OPEN_MODEL_H_
