// A family's recipe applied to a config: the layers before what only that family knows.
#ifndef ROPELINE_MODEL_HF_LAYERS_H_
#define ROPELINE_MODEL_HF_LAYERS_H_

#include "model/blueprint.h"
#include "model/hf_config.h"
#include "model/hf_family.h"

namespace ropeline {

// A layer whose layer_types entry is no attention; the family's adjust must say what it is.
inline constexpr const char* kUnsaidForm = "unsaid";

// Throws BadInput that names a key which is missing or does not fit.
Blueprint FillBlueprint(const HfConfig& config, const HfFamily& family);

// The layer types of n layers, one name each, from the file's list or the family's rule: "full_attention",
// "sliding_attention", "chunked_attention", or what the file says of layers that have no attention.
std::vector<std::string> LayerTypes(const HfConfig& config, WindowRule rule, size_t n_layers);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_LAYERS_H_
