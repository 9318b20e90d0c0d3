// What a step needs of positions, made once in double: rows to add at the input, angles, slopes, biases by
// distance.
#ifndef ROPELINE_BENCH_STEP_STEP_POSITION_H_
#define ROPELINE_BENCH_STEP_STEP_POSITION_H_

#include <cstddef>
#include <vector>

#include "bench/step/step_plan.h"
#include "bench/step/step_weights.h"
#include "kernels/memory.h"

namespace ropeline {

class StepPosition {
 public:
  // For positions below `capacity`. `weights` are filled already.
  StepPosition(const StepPlan& plan, const StepWeights& weights, size_t capacity);

  size_t capacity() const { return capacity_; }
  // Row of what is added to the input at a position [d_model]; nullptr where nothing is.
  const float* InputRow(size_t position) const { return Row(input_, d_model_, position); }
  // Angles of a position [d_rot], as Rotation takes them; further positions follow. nullptr: nothing turns.
  const float* Angles(size_t position) const { return Row(angles_, d_rot_, position); }
  size_t d_rot() const { return d_rot_; }
  // Of a layer, its window included.
  AttentionBias Bias(const StepLayer& layer) const;

 private:
  static const float* Row(const TableMemory& table, size_t width, size_t position) {
    return table.get() == nullptr ? nullptr : table.get() + position * width;
  }

  size_t capacity_, d_model_, d_rot_ = 0;
  TableMemory input_, angles_;
  std::vector<float> slopes_;       // [n_heads] of the layers that have them
  std::vector<float> by_distance_;  // [n_heads][stride_]
  size_t stride_ = 0, origin_ = 0;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_POSITION_H_
