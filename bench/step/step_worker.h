// What one thread of a step has to itself.
#ifndef ROPELINE_BENCH_STEP_STEP_WORKER_H_
#define ROPELINE_BENCH_STEP_STEP_WORKER_H_

#include <cstddef>

#include "bench/step/step_run.h"

namespace ropeline {

struct alignas(64) StepRun::Worker {
  Worker(size_t d_model, size_t widest_output) : normed(d_model), merged(widest_output) {}

  // The vector that the next products are of; made ready for a format when a matrix of it comes.
  void Take(const float* x, size_t elements) {
    input = x;
    width = elements;
    ready = false;
  }
  void Multiply(const WeightMatrix& matrix, size_t first, size_t end, float* y) {
    if (first == end) return;
    if (!ready || activations.dtype() != matrix.dtype) {
      activations.Prepare(matrix.dtype, input, 1, width);
      ready = true;
    }
    MatVec(matrix, activations, first, end, y);
  }

  StepTimes times;
  TableMemory normed;  // [d_model]
  TableMemory merged;  // attention of all heads, where threads share their tokens
  Activations activations;
  const float* input = nullptr;
  size_t width = 0;
  bool ready = false;
  float sum = 0;  // of what ReadBandwidth read, so that it is read
  // The largest of the thread's logits, the first of several.
  size_t best = 0;
  float largest = 0;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_WORKER_H_
