// The bytes of a model's safetensors files, given to the matrices that its config.json describes.
#ifndef ROPELINE_MODEL_STORED_WEIGHTS_H_
#define ROPELINE_MODEL_STORED_WEIGHTS_H_

#include "model/llm.h"
#include "model/safetensors.h"

namespace ropeline {

// Sets llm->stored, and the stored bytes of matrices and vectors. Totals are the files' exactly. Tensors are
// told apart by their names into embedding, output matrix, tables, experts, towers beside the text model, and
// the rest; within each, bytes go by elements. Warns where the files' parameters are not the config's.
void TakeSafetensors(const SafetensorsFolder& folder, Llm* llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_STORED_WEIGHTS_H_
