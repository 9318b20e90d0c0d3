// The weights of an executed step, random, in one piece of memory.
#ifndef ROPELINE_BENCH_STEP_STEP_WEIGHTS_H_
#define ROPELINE_BENCH_STEP_STEP_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/step/step_plan.h"
#include "kernels/memory.h"
#include "kernels/weight_dtype.h"

namespace ropeline {

struct LayerWeights {
  WeightMatrix q, k, v;  // one after the other in memory where the plan has them in one matrix
  WeightMatrix o, gate, up, down;
  const float* attention_norm = nullptr;  // [d_model]
  const float* ffn_norm = nullptr;        // [d_model]
  // nullptr where the model has none.
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* o_bias = nullptr;
  const float* q_norm = nullptr;  // [d_head_k]
  const float* k_norm = nullptr;
};

class StepWeights {
 public:
  // Takes the memory and touches none of it. Throws std::bad_alloc.
  explicit StepWeights(const StepPlan& plan);
  StepWeights(const StepWeights&) = delete;
  StepWeights& operator=(const StepWeights&) = delete;

  // Rows of each matrix that belong to part `part` of `parts`, and the vectors with part 0: the same numbers
  // whatever the parts. Embeddings have deviation 1, other matrices 1/√cols, so that products of normed
  // vectors have it too; norm weights are 0.9 to 1.1, biases within ±0.1.
  void Fill(size_t part, size_t parts, uint64_t seed);

  // All of it, as it lies in memory; whole floats, whatever they mean.
  std::span<const float> Memory() const { return {static_cast<const float*>(memory_.Data()), used_ / 4}; }

  WeightMatrix embedding, head;  // one matrix where tied
  std::optional<WeightMatrix> learned_positions, relative_biases;
  std::vector<LayerWeights> layers;
  const float* final_norm = nullptr;  // [d_model]

 private:
  WeightMatrix Place(const MatrixShape& shape, float deviation);
  const float* PlaceVector(size_t elements, bool norm);

  struct Matrix {
    WeightMatrix matrix;
    float deviation;
  };
  struct Values {
    float* data;
    size_t elements;
    bool norm;
  };
  Mapping memory_;
  size_t used_ = 0;
  std::vector<Matrix> matrices_;
  std::vector<Values> vectors_;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_WEIGHTS_H_
