// The element types of ggml's tensors, by the number a GGUF file gives them (enum ggml_type in ggml.h, 2026).
#ifndef ROPELINE_MODEL_GGML_TYPE_H_
#define ROPELINE_MODEL_GGML_TYPE_H_

#include <cstdint>

#include "model/block_format.h"

namespace ropeline {

// nullptr where ggml has no type of that number. The types that were removed and whose blocks had other
// sizes than today's (4 and 5, before GGUF) are not known; the interleaved ones (31 to 33, 36 to 38) have
// the size of what they interleave.
const BlockFormat* FindGgmlType(uint32_t number);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGML_TYPE_H_
