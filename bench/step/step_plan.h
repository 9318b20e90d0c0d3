// What the executed step runs of a model: each matrix's shape and stored format, where position enters, and
// the memory that all of it takes.
//
// Executed are decoders of layers like Llama's: RMSNorm, attention of whole or grouped heads (full, or the
// last `window` tokens), RMSNorm, a gated feed-forward; Q, K and V apart or in one matrix, with biases
// (Qwen 2.5) or with norms of Q's and K's heads (Qwen 3). The gate's activation is SiLU whatever the model's
// is. Anything else is refused with the reason.
#ifndef ROPELINE_BENCH_STEP_STEP_PLAN_H_
#define ROPELINE_BENCH_STEP_STEP_PLAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention_bias.h"
#include "kernels/kv_cache.h"
#include "kernels/qk_rotation.h"
#include "kernels/weight_dtype.h"
#include "model/bad_input.h"
#include "model/llm.h"
#include "model/weight_format.h"

namespace ropeline {

struct MatrixShape {
  WeightDtype dtype = WeightDtype::kF32;
  size_t rows = 0, cols = 0;

  size_t Bytes() const { return rows * WeightRowBytes(dtype, cols); }
};

struct StepLayer {
  size_t n_heads = 0, n_kv_heads = 0, d_head_k = 0, d_head_v = 0;
  size_t window = 0;                // tokens that a query sees; 0: all
  double scale = 1;                 // on q·k
  bool rotated = false;             // Q and K turn
  BiasKind bias = BiasKind::kNone;  // on the scores: kSlope or kByDistance
  bool qkv_bias = false;
  bool o_bias = false;
  bool qk_norm = false;  // of each head, weights [d_head_k] for Q and for K
  size_t d_ffn = 0;
  std::optional<MatrixShape> qkv{};  // Q's, K's and V's rows in one matrix; then there is no q, k, v
  MatrixShape q{}, k{}, v{};
  MatrixShape o{}, gate{}, up{}, down{};

  size_t QueryWidth() const { return n_heads * d_head_k; }
  size_t KeyWidth() const { return n_kv_heads * d_head_k; }
  size_t ValueWidth() const { return n_kv_heads * d_head_v; }
  size_t OutputWidth() const { return n_heads * d_head_v; }
  // Floats beside the matrices: norms, biases.
  size_t VectorElements(size_t d_model) const;
  KvShape CacheShape(KvFormat format) const { return {format, n_kv_heads, d_head_k, d_head_v}; }
};

struct StepRotation {
  Pairing pairing = Pairing::kHalf;
  RopeParameters parameters{};
};

struct StepPlan {
  std::string name;
  size_t d_model = 0;
  size_t vocabulary = 0;
  bool tied = false;
  MatrixShape embedding{};
  MatrixShape head{};  // of its own only where not tied; otherwise equal to `embedding`
  // Placement 1: rows of a learned table [positions, d_model], or sinusoids.
  std::optional<MatrixShape> learned_positions{};
  bool sinusoidal = false;
  std::optional<StepRotation> rotation{};        // of the layers that are rotated
  std::optional<MatrixShape> relative_biases{};  // T5: [buckets, n_heads], one for all layers
  std::vector<StepLayer> layers{};

  size_t MatrixBytes() const;  // all matrices; tied embeddings once
  size_t VectorBytes() const;  // norms and biases, f32
  // Memory that a step of `threads` threads takes with caches of `capacity` tokens and `chunk` tokens going
  // through together: weights, caches, tables of positions, activations.
  double NeededBytes(KvFormat format, size_t capacity, size_t chunk) const;
};

// Throws BadInput where the model has what is not executed, or `mix` stores a matrix in a format that no
// kernel reads.
StepPlan PlanStep(const Llm& llm, const WeightMix& mix, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_PLAN_H_
