// What a position encoding has to do for a model: the shape of one call on the model's tensors, from which
// the registry's cost function gives bytes and flops. predict uses it for the model's own encoding, compare
// for all.
#ifndef ROPELINE_MODEL_POSITION_WORK_H_
#define ROPELINE_MODEL_POSITION_WORK_H_

#include <cstdint>
#include <optional>

#include "kernels/placement.h"
#include "model/llm.h"

namespace ropeline {

enum class Phase { kPrefill, kDecode };

struct PositionWork {
  const Encoding* encoding = nullptr;
  Shape shape;       // of one call
  Cost cost;         // of one call
  double calls = 1;  // calls of that shape: sequences, where each has its own scores
  double working_set_bytes =
      0;  // distinct memory of one call: it changes its tensor in place, so what it reads
};

// The encoding applied once: to the input (d_model) or to one layer's attention, tensors stored as `dtype`.
// Prefill: n tokens from position 0. Decode: one token for each of `sequences`, the n-th, with n keys. A
// window limits the scores. Throws BadInput where the registry has no such encoding or the encoding cannot
// take the shape; `llm` is named in the message.
PositionWork WorkOf(const Llm& llm, const Position& position, const Attention* attention, Phase phase,
                    uint64_t n, uint64_t sequences, Dtype dtype = Dtype::kF32);

// The same of one of the registry's encodings; nothing, and *reason says why, where it cannot take the shape.
std::optional<PositionWork> TryWorkOf(const Llm& llm, const Encoding& encoding, const Position& position,
                                      const Attention* attention, Phase phase, uint64_t n, uint64_t sequences,
                                      Dtype dtype, const char** reason);

// The position of `encoding` as this attention would use it: a rotation turns as many dimensions as the
// attention's own does, all of a head where it has none.
Position PositionFor(const Encoding& encoding, const Attention& attention);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_POSITION_WORK_H_
