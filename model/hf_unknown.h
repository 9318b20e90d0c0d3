// A config.json of a model_type that no family has: what tells that it is no llama.
#ifndef ROPELINE_MODEL_HF_UNKNOWN_H_
#define ROPELINE_MODEL_HF_UNKNOWN_H_

#include "model/hf_config.h"

namespace ropeline {

// Throws BadInput that names the key where a llama's rules would give a wrong cache or position: states
// instead of keys, layers that share them, windows by an unknown pattern, an encoder, ALiBi.
void RefuseUnlikeLlama(const HfConfig& config);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_UNKNOWN_H_
