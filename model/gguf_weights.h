// The matrices of a model as its GGUF file's table of tensors has them: roles by name, exact shapes, formats
// and bytes.
#ifndef ROPELINE_MODEL_GGUF_WEIGHTS_H_
#define ROPELINE_MODEL_GGUF_WEIGHTS_H_

#include <cstdint>

#include "model/gguf_file.h"
#include "model/llm.h"

namespace ropeline {

// Replaces llm's matrices and vectors by the file's tensors, sets `stored`, and ties the embeddings where
// there is no output matrix. Layers must be filled: a tensor of a block beyond them (multi-token prediction),
// of a vision or audio tower, or a table of frequencies is counted in stored.other_bytes only. Throws
// BadInput where a tensor of experts does not fit the layer's number of them.
void TakeTensors(const GgufFile& file, Llm* llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_WEIGHTS_H_
