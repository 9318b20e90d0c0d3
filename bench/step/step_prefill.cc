#include "bench/step/step_worker.h"
#include "kernels/residual.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace ropeline {

void StepRun::Prefill(size_t thread, const int32_t* tokens, size_t count, size_t first) {
  Worker* worker = workers_[thread].get();
  worker->times.Start();
  if (thread == 0) {
    caches_->SetTokens(first + count);
    normed_panels_.Resize(count, plan_.d_model);
  }
  Meet(worker);
  const Range own = Part(thread, count, TokenPanels::kTokens);
  for (size_t t = own.first; t < own.end; ++t) {
    Embed(tokens[t], first + t, x_.get() + t * plan_.d_model, worker);
  }
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    PrefillAttentionOf(thread, i, count, first, worker);
    PrefillFeedForward(thread, i, count, worker);
  }
  Head(thread, x_.get() + (count - 1) * plan_.d_model, worker);
}

// Tokens of this thread; the products wait for all of them.
void StepRun::NormAndPack(size_t thread, const float* norm, size_t count, Worker* worker) {
  const Range own = Part(thread, count, TokenPanels::kTokens);
  const size_t at = own.first * plan_.d_model;
  if (own.size() > 0) {
    RmsNorm(x_.get() + at, norm, kStepEpsilon, own.size(), plan_.d_model, normed_.get() + at);
  }
  worker->times.Charge(StepTerm::kSmallOperations);
  PackPart(thread, normed_.get(), &normed_panels_, worker);
}

void StepRun::PackPart(size_t thread, const float* x, TokenPanels* panels, Worker* worker) {
  const Range own = Part(thread, panels->Panels(), 1);
  panels->Pack(x, own.first, own.end);
  worker->times.Charge(StepTerm::kWeights);
  Meet(worker);
}

// A part of the residual stream's dimensions, all tokens.
void StepRun::AddProduct(const WeightMatrix& matrix, const TokenPanels& panels, const float* bias,
                         size_t count, Range rows, Worker* worker) {
  if (rows.size() > 0) MatMul(matrix, panels, rows.first, rows.end, projected_.get());
  worker->times.Charge(StepTerm::kWeights);
  for (size_t t = 0; t < count; ++t) {
    const size_t at = t * plan_.d_model + rows.first;
    AddResidual(projected_.get() + at, rows.size(), x_.get() + at);
    if (bias != nullptr) AddResidual(bias + rows.first, rows.size(), x_.get() + at);
  }
  worker->times.Charge(StepTerm::kSmallOperations);
  Meet(worker);
}

void StepRun::PrefillAttentionOf(size_t thread, size_t i, size_t count, size_t first, Worker* worker) {
  const StepLayer& layer = plan_.layers[i];
  const LayerWeights& weights = weights_.layers[i];
  const size_t group = layer.n_heads / layer.n_kv_heads, d_k = layer.d_head_k, d_v = layer.d_head_v;
  NormAndPack(thread, weights.attention_norm, count, worker);
  const bool own_heads = HeadsShareOut(layer);
  const Range heads = Part(thread, layer.n_kv_heads, 1);
  const auto multiply = [&](const WeightMatrix& matrix, size_t per_head, float* y) {
    const Range rows =
        own_heads ? Range{heads.first * per_head, heads.end * per_head} : Part(thread, matrix.rows, 16);
    if (rows.size() > 0) MatMul(matrix, normed_panels_, rows.first, rows.end, y);
  };
  multiply(weights.q, group * d_k, q_.get());
  multiply(weights.k, d_k, k_.get());
  multiply(weights.v, d_v, v_.get());
  worker->times.Charge(StepTerm::kWeights);
  if (!own_heads) Meet(worker);
  FinishHeads(i, heads, count, first, worker);
  if (!own_heads) Meet(worker);
  const DecodeAttention one = CallOf(i, first);
  const PrefillAttention call{.cache = one.cache,
                              .n_heads = one.n_heads,
                              .n_q = count,
                              .q = one.q,
                              .first_position = first,
                              .scale = one.scale,
                              .bias = one.bias};
  const size_t units = PrefillUnits(call);
  if (own_heads) {
    // Units go round the KV heads.
    for (size_t round = 0; round < units; round += layer.n_kv_heads) {
      for (size_t h = heads.first; h < heads.end; ++h) AttendPrefillUnit(call, round + h, attended_.get());
    }
  } else {
    for (size_t unit = thread; unit < units; unit += threads_) {
      AttendPrefillUnit(call, unit, attended_.get());
    }
  }
  worker->times.Charge(StepTerm::kAttention);
  if (thread == 0) attended_panels_.Resize(count, layer.OutputWidth());
  Meet(worker);
  PackPart(thread, attended_.get(), &attended_panels_, worker);
  AddProduct(weights.o, attended_panels_, weights.o_bias, count, Part(thread, plan_.d_model, 16), worker);
}

void StepRun::PrefillFeedForward(size_t thread, size_t i, size_t count, Worker* worker) {
  const StepLayer& layer = plan_.layers[i];
  const LayerWeights& weights = weights_.layers[i];
  NormAndPack(thread, weights.ffn_norm, count, worker);
  const Range wide = Part(thread, layer.d_ffn, 16);
  if (wide.size() > 0) {
    MatMul(weights.gate, normed_panels_, wide.first, wide.end, gate_.get());
    MatMul(weights.up, normed_panels_, wide.first, wide.end, up_.get());
  }
  worker->times.Charge(StepTerm::kWeights);
  for (size_t t = 0; t < count; ++t) {
    float* gate = gate_.get() + t * layer.d_ffn + wide.first;
    SwiGlu(gate, up_.get() + t * layer.d_ffn + wide.first, wide.size(), gate);
  }
  if (thread == 0) ffn_panels_.Resize(count, layer.d_ffn);
  worker->times.Charge(StepTerm::kSmallOperations);
  Meet(worker);
  PackPart(thread, gate_.get(), &ffn_panels_, worker);
  AddProduct(weights.down, ffn_panels_, nullptr, count, Part(thread, plan_.d_model, 16), worker);
}

}  // namespace ropeline
