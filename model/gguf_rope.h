// Rotary parameters of a GGUF file: rope.* keys, and the tables rope_freqs, rope_factors_long and _short.
#ifndef ROPELINE_MODEL_GGUF_ROPE_H_
#define ROPELINE_MODEL_GGUF_ROPE_H_

#include <cstdint>
#include <optional>

#include "model/gguf_arch.h"
#include "model/gguf_keys.h"
#include "model/llm.h"

namespace ropeline {

// Of a layer that sees a window, or of one that does not. `d_head` is the width that may be rotated, of which
// rope.dimension_count is. `latent`: that key is the rotated part's whole width.
Position ReadGgufRope(const GgufKeys& keys, const GgufArch& arch, bool window_layer, uint64_t d_head,
                      bool latent, std::optional<uint64_t> max_context);

// Gives the layers the divisors of their frequencies (Llama 3's schedule, LongRoPE's two lists), which a file
// holds as small tensors; where their values are not in the file, a warning.
void TakeFrequencyFactors(const GgufKeys& keys, Llm* llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_ROPE_H_
