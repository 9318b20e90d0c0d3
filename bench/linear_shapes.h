// Shapes of linear layers that rows of ours and of peers have in common.
#ifndef ROPELINE_BENCH_LINEAR_SHAPES_H_
#define ROPELINE_BENCH_LINEAR_SHAPES_H_

#include <cstddef>
#include <vector>

namespace ropeline {

struct LinearShape {
  size_t n, rows, cols;  // tokens, outputs, inputs
};

// A chunk through the feed-forward layer of Llama 3.2 1B, in three lengths.
inline constexpr LinearShape kFeedForward[] = {{128, 8192, 2048}, {512, 8192, 2048}, {2048, 8192, 2048}};
// Its other matrices (down, query and output, key and value), and 3B's feed-forward layer.
inline constexpr LinearShape kOtherLinear[] = {
    {512, 2048, 8192}, {512, 2048, 2048}, {512, 512, 2048}, {512, 8192, 3072}};
// Beside which ggml's products stand: Llama 3.2 3B's attention output, hot.
inline constexpr LinearShape kHotLinear = {512, 3072, 3072};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_LINEAR_SHAPES_H_
