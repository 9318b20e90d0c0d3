#include "bench/step/step_worker.h"
#include "kernels/residual.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace ropeline {

DecodeAttention StepRun::CallOf(size_t i, size_t position) const {
  const StepLayer& layer = plan_.layers[i];
  DecodeAttention call;
  call.cache = &caches_->Layer(i);
  call.n_heads = layer.n_heads;
  call.q = q_.get();
  call.scale = static_cast<float>(layer.scale);
  call.position = position;
  call.bias = position_.Bias(layer);
  return call;
}

void StepRun::Decode(size_t thread, int32_t token, size_t position) {
  Worker* worker = workers_[thread].get();
  worker->times.Start();
  if (thread == 0) {
    // Nobody reads a layer's newest token before it is written.
    caches_->SetTokens(position + 1);
    Embed(token, position, x_.get(), worker);
  }
  Meet(worker);
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    DecodeAttentionOf(thread, i, position, worker);
    DecodeFeedForward(thread, i, worker);
  }
  Head(thread, x_.get(), worker);
}

void StepRun::DecodeAttentionOf(size_t thread, size_t i, size_t position, Worker* worker) {
  const StepLayer& layer = plan_.layers[i];
  const LayerWeights& weights = weights_.layers[i];
  const size_t group = layer.n_heads / layer.n_kv_heads, d_k = layer.d_head_k, d_v = layer.d_head_v;
  RmsNorm(x_.get(), weights.attention_norm, kStepEpsilon, 1, plan_.d_model, worker->normed.get());
  worker->times.Charge(StepTerm::kSmallOperations);
  worker->Take(worker->normed.get(), plan_.d_model);
  const DecodeAttention call = CallOf(i, position);
  const float* attended = attended_.get();
  const Range heads = Part(thread, layer.n_kv_heads, 1);
  if (HeadsShareOut(layer)) {
    worker->Multiply(weights.q, heads.first * group * d_k, heads.end * group * d_k, q_.get());
    worker->Multiply(weights.k, heads.first * d_k, heads.end * d_k, k_.get());
    worker->Multiply(weights.v, heads.first * d_v, heads.end * d_v, v_.get());
    worker->times.Charge(StepTerm::kWeights);
    FinishHeads(i, heads, 1, position, worker);
    for (size_t h = heads.first; h < heads.end; ++h) {
      AttendUnit(call, h, 1, partials_.get() + h * PartialFloats(call));
    }
    MergeUnits(call, heads.first, heads.size(), 1, partials_.get(), attended_.get());
    worker->times.Charge(StepTerm::kAttention);
    Meet(worker);
  } else {
    const auto multiply = [&](const WeightMatrix& matrix, float* y) {
      const Range rows = Part(thread, matrix.rows, 16);
      worker->Multiply(matrix, rows.first, rows.end, y);
    };
    multiply(weights.q, q_.get());
    multiply(weights.k, k_.get());
    multiply(weights.v, v_.get());
    worker->times.Charge(StepTerm::kWeights);
    Meet(worker);
    FinishHeads(i, heads, 1, position, worker);
    Meet(worker);
    const size_t slices = DecodeSlices(call, threads_);
    const Range units = Part(thread, layer.n_kv_heads * slices, 1);
    for (size_t unit = units.first; unit < units.end; ++unit) {
      AttendUnit(call, unit, slices, partials_.get() + unit * PartialFloats(call));
    }
    worker->times.Charge(StepTerm::kAttention);
    Meet(worker);
    MergeUnits(call, 0, layer.n_kv_heads, slices, partials_.get(), worker->merged.get());
    worker->times.Charge(StepTerm::kAttention);
    attended = worker->merged.get();
  }
  worker->Take(attended, layer.OutputWidth());
  const Range rows = Part(thread, plan_.d_model, 16);
  worker->Multiply(weights.o, rows.first, rows.end, projected_.get());
  worker->times.Charge(StepTerm::kWeights);
  AddResidual(projected_.get() + rows.first, rows.size(), x_.get() + rows.first);
  if (layer.o_bias) AddResidual(weights.o_bias + rows.first, rows.size(), x_.get() + rows.first);
  worker->times.Charge(StepTerm::kSmallOperations);
  Meet(worker);
}

void StepRun::DecodeFeedForward(size_t thread, size_t i, Worker* worker) {
  const StepLayer& layer = plan_.layers[i];
  const LayerWeights& weights = weights_.layers[i];
  RmsNorm(x_.get(), weights.ffn_norm, kStepEpsilon, 1, plan_.d_model, worker->normed.get());
  worker->times.Charge(StepTerm::kSmallOperations);
  worker->Take(worker->normed.get(), plan_.d_model);
  const Range wide = Part(thread, layer.d_ffn, 16);
  worker->Multiply(weights.gate, wide.first, wide.end, gate_.get());
  worker->Multiply(weights.up, wide.first, wide.end, up_.get());
  worker->times.Charge(StepTerm::kWeights);
  float* gate = gate_.get() + wide.first;
  SwiGlu(gate, up_.get() + wide.first, wide.size(), gate);
  worker->times.Charge(StepTerm::kSmallOperations);
  Meet(worker);
  worker->Take(gate_.get(), layer.d_ffn);
  const Range rows = Part(thread, plan_.d_model, 16);
  worker->Multiply(weights.down, rows.first, rows.end, projected_.get());
  worker->times.Charge(StepTerm::kWeights);
  AddResidual(projected_.get() + rows.first, rows.size(), x_.get() + rows.first);
  worker->times.Charge(StepTerm::kSmallOperations);
  Meet(worker);
}

}  // namespace ropeline
