// A model's layer in another shape, so that encodings can be compared for heads and widths that no model of
// ours has.
#ifndef ROPELINE_MODEL_RESHAPE_H_
#define ROPELINE_MODEL_RESHAPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/bad_input.h"
#include "model/llm.h"

namespace ropeline {

struct HeadCounts {
  uint64_t n_heads = 0;
  uint64_t n_kv_heads = 0;
};

// "24/8": 24 query heads and 8 KV heads; "24": as many of each.
HeadCounts ParseHeads(std::string_view text, const Where& where);

// Every attention with these heads and this width of a head, its own where absent; d_model becomes heads ×
// width. Matrices follow; the feed-forward keeps its proportion to d_model; layers, vocabulary and context
// stay. Throws BadInput for a model without matrices (known by its parameter count only).
Llm Reshaped(const Llm& llm, const std::optional<HeadCounts>& heads, const std::optional<uint64_t>& d_head,
             const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_RESHAPE_H_
