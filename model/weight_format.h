// Bytes of a model's weights: by tensor, in total, and as read in a decode step and a prefill.
#ifndef ROPELINE_MODEL_WEIGHT_FORMAT_H_
#define ROPELINE_MODEL_WEIGHT_FORMAT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/block_format.h"
#include "model/llm.h"
#include "model/weight_mix.h"
#include "model/weight_sums.h"

namespace ropeline {

struct WeightTensor {
  Matrix matrix;
  const BlockFormat* format;  // nullptr where a file stores it in several
  uint64_t bytes;             // of all `count` matrices
};

struct WeightLayout {
  std::vector<WeightTensor> tensors;  // empty where only a parameter count is known
  uint64_t vector_bytes = 0;          // norms and biases; f32, or as stored
  uint64_t total_bytes = 0;           // in memory; tied embeddings once
  // Read in a decode step of one sequence: all but gathered tables, encoder, cross K and V, and the experts
  // that a token does not take.
  uint64_t decode_bytes = 0;
  uint64_t prefill_bytes = 0;  // read in a prefill, whose many tokens take all experts
  double bits_per_weight = 0;  // 8 · bytes of the parameters / parameters
  WeightSums sums{};           // the same by what a pass does with them
};

// The format of that name; the files' own where the name is empty and they are known, else q4_k_m. Throws
// BadInput where there is none, or "stored" is asked of a model without files.
const WeightMix& ChooseWeightMix(const Llm& llm, std::string_view name, const Where& where);

// `mix` is Mix::kStored only where llm.stored is set.
WeightLayout LayOutWeights(const Llm& llm, const WeightMix& mix);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WEIGHT_FORMAT_H_
