// Models by name, with their geometry as published. For a model that is not here, see the readers of
// config.json.
#ifndef ROPELINE_MODEL_PRESETS_H_
#define ROPELINE_MODEL_PRESETS_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/llm.h"

namespace ropeline {

std::vector<std::string> PresetNames();

// Throws BadInput, which lists the presets, where there is none of that name.
Llm Preset(std::string_view name, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_PRESETS_H_
