// Numbers for ggml's tensors.
#ifndef ROPELINE_BENCH_PEER_GGML_FILL_H_
#define ROPELINE_BENCH_PEER_GGML_FILL_H_

#include <cstddef>

#include "bench/peer/ggml_library.h"

namespace ropeline {

// `rows` rows of numbers in [−1, 1), stored as `type`: row r's element c is HashToFloat(r · columns + c,
// seed). Rows beyond the first `distinct` repeat them: quantising takes longer than timing.
void FillRows(const GgmlLibrary& library, ggml::Type type, size_t columns, size_t rows, size_t seed,
              void* out, size_t distinct = 256);

// Of f32 rows, by ggml's own quantiser or conversion.
void EncodeRows(const GgmlLibrary& library, ggml::Type type, const float* in, size_t columns, size_t rows,
                void* out);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_GGML_FILL_H_
