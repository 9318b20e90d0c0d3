// An executed step: a model's forward pass over random weights, by a team of threads that meet at spin
// barriers. Every thread of the team calls the same function with the same arguments.
//
// Decode, a layer (all cheap work on one token is done by each thread for itself, which saves a barrier):
//   RMSNorm · Q, K, V of the thread's KV heads · rotation · append · attention of these heads     | barrier
//   rows of the output matrix, added to the thread's part of the residual stream                  | barrier
//   RMSNorm · rows of gate and up · SwiGLU                                                         | barrier
//   rows of down, added                                                                            | barrier
// Where the KV heads do not share out evenly, threads take rows and ranges of tokens instead: 6 barriers.
//
// Prefill, a layer: threads take tokens for norms and packing, rows for products, KV heads for attention: 8
// barriers (9 where heads do not share out).
#ifndef ROPELINE_BENCH_STEP_STEP_RUN_H_
#define ROPELINE_BENCH_STEP_STEP_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/core_probe.h"
#include "bench/step/step_caches.h"
#include "bench/step/step_position.h"
#include "bench/step/step_times.h"
#include "bench/step/step_weights.h"
#include "kernels/decode_attention.h"
#include "kernels/mat_mul.h"
#include "kernels/mat_vec.h"
#include "kernels/memory.h"
#include "kernels/prefill_attention.h"

namespace ropeline {

inline constexpr float kStepEpsilon = 1e-5f;  // of every RMSNorm

class StepRun {
 public:
  // All but `caches` are only read. `most_tokens`: of one prefill chunk. Everything outlives the run.
  StepRun(const StepPlan& plan, const StepWeights& weights, const StepPosition& position, StepCaches* caches,
          size_t threads, size_t most_tokens);
  ~StepRun();

  // One token at `position`, whose caches hold the tokens before it; afterwards they hold this one too.
  void Decode(size_t thread, int32_t token, size_t position);
  // `count` tokens from position `first` on, 1 to most_tokens.
  void Prefill(size_t thread, const int32_t* tokens, size_t count, size_t first);

  // After either, on thread 0: of the last token.
  const float* Logits() const { return logits_.get(); }  // [vocabulary]
  size_t Next() const { return next_; }                  // the largest logit's token
  // What thread 0 spent its time on, added up over all calls since ResetTimes (by thread 0, between calls).
  const StepTimes& Times() const;
  void ResetTimes();

  // Reads the weights once, up to 1 GiB of them, each thread its part, and does nothing with them. On thread
  // 0: bytes per second of all threads; elsewhere 0.
  double ReadBandwidth(size_t thread);

  // Barriers of one call, as the team meets at them.
  size_t DecodeBarriers() const;
  size_t PrefillBarriers() const;

 private:
  struct Range {
    size_t first, end;
    size_t size() const { return end - first; }
  };
  struct Worker;

  Range Part(size_t thread, size_t count, size_t granule) const;
  bool HeadsShareOut(const StepLayer& layer) const { return layer.n_kv_heads % threads_ == 0; }
  void Meet(Worker* worker);
  void Embed(int32_t token, size_t position, float* x, Worker* worker) const;
  void FinishHeads(size_t layer, Range heads, size_t count, size_t first, Worker* worker);
  void Rotate(const StepLayer& layer, Range heads, size_t count, size_t first);
  void Head(size_t thread, const float* x, Worker* worker);

  // step_decode.cc
  void DecodeAttentionOf(size_t thread, size_t layer, size_t position, Worker* worker);
  void DecodeFeedForward(size_t thread, size_t layer, Worker* worker);
  DecodeAttention CallOf(size_t layer, size_t position) const;

  // step_prefill.cc
  void PrefillAttentionOf(size_t thread, size_t layer, size_t count, size_t first, Worker* worker);
  void PrefillFeedForward(size_t thread, size_t layer, size_t count, Worker* worker);
  void NormAndPack(size_t thread, const float* norm, size_t count, Worker* worker);
  void PackPart(size_t thread, const float* x, TokenPanels* panels, Worker* worker);
  void AddProduct(const WeightMatrix& matrix, const TokenPanels& panels, const float* bias, size_t count,
                  Range rows, Worker* worker);

  const StepPlan& plan_;
  const StepWeights& weights_;
  const StepPosition& position_;
  StepCaches* caches_;
  const size_t threads_;
  SpinBarrier barrier_;
  std::vector<std::unique_ptr<Worker>> workers_;

  // Shared; [tokens, width] each, as wide as the widest layer needs.
  TableMemory x_;                   // the residual stream [tokens, d_model]
  TableMemory normed_, projected_;  // [tokens, d_model]
  TableMemory q_, k_, v_, attended_;
  TableMemory gate_, up_;  // [tokens, d_ffn]
  TableMemory partials_, logits_;
  TokenPanels normed_panels_, attended_panels_, ffn_panels_;
  size_t next_ = 0;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_RUN_H_
