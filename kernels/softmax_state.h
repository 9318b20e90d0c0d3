// A softmax that is not finished: of the scores seen so far.
#ifndef ROPELINE_KERNELS_SOFTMAX_STATE_H_
#define ROPELINE_KERNELS_SOFTMAX_STATE_H_

#include <cstddef>
#include <limits>

namespace ropeline {

// Not above any score; −infinity, a hidden one, lies below it.
inline constexpr float kLowestScore = std::numeric_limits<float>::lowest();

// Which of a chunk's scores count: [0, sinks) and [low, high).
struct Seen {
  size_t low, high;
  size_t sinks = 0;
};

struct SoftmaxState {
  float largest = kLowestScore;  // score
  float weights = 0;             // Σ exp(score − largest)
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_SOFTMAX_STATE_H_
