// Rows of one unit of prefill attention, and which keys they see.
#ifndef ROPELINE_KERNELS_PREFILL_UNIT_H_
#define ROPELINE_KERNELS_PREFILL_UNIT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/prefill_attention.h"
#include "kernels/softmax_state.h"

namespace ropeline {

inline constexpr size_t kPrefillChunk = 128;  // keys of one softmax step

inline constexpr size_t kPanel = 12;  // rows of q side by side

// Row r is query r % queries of head first_head + r / queries. Memory for whole tiles of rows; rows beyond
// `rows` are zero.
struct PrefillUnit {
  size_t rows, queries;
  size_t first_position, first_head;
  size_t d_v;  // rounded up to 32
  size_t sums_stride;
  float* q;     // [rows / 12][d_k][12], times the scale
  float* sums;  // [rows][sums_stride]
  SoftmaxState* states;

  size_t Position(size_t row) const { return first_position + row % queries; }
  size_t Head(size_t row) const { return first_head + row / queries; }
};

// `end`: tokens of the cache.
inline Seen SeenInChunk(const PrefillAttention& call, size_t position, size_t start, size_t columns,
                        size_t end) {
  const auto inside = [&](size_t token) { return token <= start ? 0 : std::min(token - start, columns); };
  const size_t high = call.causal ? std::min(end, position + 1) : end;
  const size_t window = call.bias.window;
  const size_t low = window != 0 && position >= window ? position - window + 1 : 0;
  return {inside(low), inside(high), inside(std::min(call.bias.sinks, high))};
}

// Does any query from first_position on see a token of [start, end)? (As far as windows go.)
inline bool SeenByAny(const PrefillAttention& call, size_t first_position, size_t start, size_t end) {
  if (call.bias.window == 0 || start < call.bias.sinks) return true;
  return first_position < call.bias.window || end > first_position - call.bias.window + 1;
}

// Blocks of keys and values that are read next, as the cache stores them; no bytes where there are none.
struct NextChunk {
  const uint8_t* keys = nullptr;
  size_t key_bytes = 0;
  const uint8_t* values = nullptr;
  size_t value_bytes = 0;
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_PREFILL_UNIT_H_
