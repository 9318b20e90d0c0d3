// The layers of a GGUF file's model, from its keys and, where it has tensors, which of them a layer has.
#ifndef ROPELINE_MODEL_GGUF_LAYERS_H_
#define ROPELINE_MODEL_GGUF_LAYERS_H_

#include "model/blueprint.h"
#include "model/gguf_arch.h"
#include "model/gguf_keys.h"
#include "model/hf_family.h"

namespace ropeline {

// `recipe` has the norms and biases of the family, for a file without tensors. Throws BadInput that names a
// key which is missing or does not fit.
Blueprint FillGgufBlueprint(const GgufKeys& keys, const GgufArch& arch, const Recipe& recipe);

// Makes layer i a layer with a state, as the architecture's form has it.
void AddGgufState(const GgufKeys& keys, StateForm form, uint64_t d_model, LayerPlan* layer);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_LAYERS_H_
