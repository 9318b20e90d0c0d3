// What a pass reads and computes of the weights, summed over tensors once, so that a curve over contexts does
// not walk them again.
#ifndef ROPELINE_MODEL_WEIGHT_SUMS_H_
#define ROPELINE_MODEL_WEIGHT_SUMS_H_

#include <cstdint>
#include <vector>

#include "kernels/cost.h"
#include "model/block_format.h"
#include "model/llm.h"

namespace ropeline {

struct WeightTensor;

// `count` matrices [rows, cols] of one format. `inputs` of them take an input that no matrix before them
// took: k and v take q's, up takes gate's.
struct ProductShape {
  const BlockFormat* format = nullptr;  // nullptr: stored in several
  uint64_t rows = 0, cols = 0;
  double count = 0, inputs = 0;
};

struct WeightSum {
  double bytes = 0;
  double elements = 0;                   // of matrices: 2 flops for each and token
  std::vector<ProductShape> products{};  // those matrices, each shape once
};

// All layers whose mixtures have these counts; sums over all experts.
struct ExpertSum {
  uint64_t n_experts = 0, n_active = 0;
  WeightSum sum{};

  // Distinct experts that `tokens` tokens take together, each n_active of n_experts at random:
  // E·(1 − (1 − k/E)^tokens). At one token exactly k.
  double Distinct(double tokens) const;
};

struct WeightSums {
  WeightSum decode_layers, decode_head;  // matrices of layers, norms and biases; LM head
  WeightSum prefill_layers, prefill_head;
  std::vector<ExpertSum> experts{};
  double gathered_bytes = 0;  // rows of embedding tables that one token reads

  // `tokens` go through together.
  Cost Experts(double tokens) const;
};

// `decode_vector_bytes`, `prefill_vector_bytes`: norms and biases of the pass.
WeightSums SumWeights(const Llm& llm, const std::vector<WeightTensor>& tensors, double decode_vector_bytes,
                      double prefill_vector_bytes);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WEIGHT_SUMS_H_
