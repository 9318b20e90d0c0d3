// The tokens that a decode step's query sees.
#ifndef ROPELINE_KERNELS_DECODE_VISIBLE_H_
#define ROPELINE_KERNELS_DECODE_VISIBLE_H_

#include <algorithm>
#include <cstddef>

#include "kernels/decode_attention.h"

namespace ropeline {

// Tokens [0, sinks) and [first, end).
struct Visible {
  size_t sinks, first, end;
};

// n: the cache's tokens.
inline Visible VisibleOf(const DecodeAttention& call, size_t n) {
  const size_t end = call.position < n ? call.position + 1 : n;
  const AttentionBias& bias = call.bias;
  size_t first = 0;
  if (bias.window != 0 && call.position >= bias.window) first = call.position - bias.window + 1;
  const size_t sinks = std::min(bias.sinks, end);
  if (first <= sinks) return {0, 0, end};
  return {sinks, std::min(first, end), end};
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_DECODE_VISIBLE_H_
