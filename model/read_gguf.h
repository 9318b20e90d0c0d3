// Reads a GGUF file (llama.cpp's format; gguf_file.h) into an Llm. What its architecture leaves unsaid is
// taken as llama.cpp takes it and said in `warnings`. With tensors in the file, matrices, parameters and
// bytes are exactly the file's; without (a vocabulary, a header alone) they are those of the family's usual
// shape.
#ifndef ROPELINE_MODEL_READ_GGUF_H_
#define ROPELINE_MODEL_READ_GGUF_H_

#include <string>

#include "model/gguf_file.h"
#include "model/llm.h"

namespace ropeline {

// Both throw BadInput "file: key: what is wrong, what was expected". An unknown architecture is read as a
// llama where its keys allow, and refused where its layers may be no plain attention.
Llm ReadGguf(const std::string& path);
Llm GgufToLlm(const GgufFile& file, const std::string& path);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_READ_GGUF_H_
