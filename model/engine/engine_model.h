// The preset with the geometry of the model that an engine's benchmark names.
#ifndef ROPELINE_MODEL_ENGINE_ENGINE_MODEL_H_
#define ROPELINE_MODEL_ENGINE_ENGINE_MODEL_H_

#include <optional>
#include <string>

#include "model/engine/engine_run.h"

namespace ropeline {

// By llama.cpp's description and the parameter count ("llama 1B Q4_0", 1.24e9), or by the name that people
// write ("LLaMA-3.1-8B", "Qwen3-30B-A3B-Thinking-2507"), in `model` or else in `title`. Fine-tunes have the
// preset of their base. Nothing where the name fits none or two, or the parameters are another model's.
std::optional<std::string> PresetForEngineModel(const EngineRun& run);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ENGINE_MODEL_H_
