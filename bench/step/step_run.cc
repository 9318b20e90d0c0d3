#include "bench/step/step_run.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "bench/step/step_worker.h"
#include "kernels/qk_rotation.h"
#include "kernels/residual.h"
#include "kernels/rms_norm.h"
#include "kernels/sampling.h"
#include "kernels/stream.h"

namespace ropeline {

const char* StepTermName(StepTerm term, bool prefill) {
  switch (term) {
    case StepTerm::kEmbedding:
      return "embedding";
    case StepTerm::kWeights:
      return prefill ? "linear" : "weights";
    case StepTerm::kPositionEncoding:
      return "position_encoding";
    case StepTerm::kCacheAppend:
      return "cache_append";
    case StepTerm::kAttention:
      return "attention";
    case StepTerm::kSmallOperations:
      return "small_operations";
    case StepTerm::kLmHead:
      return "lm_head";
    case StepTerm::kSynchronisation:
      return "synchronisation";
  }
  return "";
}

double StepTimes::TotalSeconds() const {
  return std::chrono::duration<double>(std::accumulate(spent_.begin(), spent_.end(), Clock::duration{}))
      .count();
}

StepRun::StepRun(const StepPlan& plan, const StepWeights& weights, const StepPosition& position,
                 StepCaches* caches, size_t threads, size_t most_tokens)
    : plan_(plan),
      weights_(weights),
      position_(position),
      caches_(caches),
      threads_(threads),
      barrier_(static_cast<int>(threads)) {
  size_t d_q = 0, d_k = 0, d_v = 0, d_out = 0, d_ffn = 0, partials = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const StepLayer& layer = plan.layers[i];
    d_q = std::max(d_q, layer.QueryWidth());
    d_k = std::max(d_k, layer.KeyWidth());
    d_v = std::max(d_v, layer.ValueWidth());
    d_out = std::max(d_out, layer.OutputWidth());
    d_ffn = std::max(d_ffn, layer.d_ffn);
    const DecodeAttention call = CallOf(i, 0);
    partials = std::max(partials, layer.n_kv_heads * DecodeSlices(call, threads) * PartialFloats(call));
  }
  x_ = TableMemory(most_tokens * plan.d_model);
  normed_ = TableMemory(most_tokens * plan.d_model);
  projected_ = TableMemory(most_tokens * plan.d_model);
  q_ = TableMemory(most_tokens * d_q);
  k_ = TableMemory(most_tokens * d_k);
  v_ = TableMemory(most_tokens * d_v);
  attended_ = TableMemory(most_tokens * d_out);
  gate_ = TableMemory(most_tokens * d_ffn);
  up_ = TableMemory(most_tokens * d_ffn);
  partials_ = TableMemory(partials);
  logits_ = TableMemory(plan.vocabulary);
  for (size_t thread = 0; thread < threads; ++thread) {
    workers_.push_back(std::make_unique<Worker>(plan.d_model, d_out));
  }
}

StepRun::~StepRun() = default;

const StepTimes& StepRun::Times() const { return workers_[0]->times; }
void StepRun::ResetTimes() { workers_[0]->times = {}; }

// `count` things shared out in multiples of `granule`.
StepRun::Range StepRun::Part(size_t thread, size_t count, size_t granule) const {
  const size_t grains = (count + granule - 1) / granule;
  return {std::min(count, grains * thread / threads_ * granule),
          std::min(count, grains * (thread + 1) / threads_ * granule)};
}

void StepRun::Meet(Worker* worker) {
  if (threads_ > 1) barrier_.Wait();
  worker->times.Charge(StepTerm::kSynchronisation);
}

void StepRun::Embed(int32_t token, size_t position, float* x, Worker* worker) const {
  const WeightMatrix& table = weights_.embedding;
  DecodeWeights(table.dtype, table.Row(static_cast<size_t>(token)), table.cols, x);
  worker->times.Charge(StepTerm::kEmbedding);
  const float* row = position_.InputRow(position);
  if (row == nullptr) return;
  AddResidual(row, plan_.d_model, x);
  worker->times.Charge(StepTerm::kPositionEncoding);
}

// Of heads [first, end) of `count` tokens: what comes between the projections and the cache.
void StepRun::FinishHeads(size_t i, Range heads, size_t count, size_t first, Worker* worker) {
  const StepLayer& layer = plan_.layers[i];
  const LayerWeights& weights = weights_.layers[i];
  const size_t group = layer.n_heads / layer.n_kv_heads, d_k = layer.d_head_k, d_v = layer.d_head_v;
  const size_t q_first = heads.first * group * d_k, k_first = heads.first * d_k, v_first = heads.first * d_v;
  for (size_t t = 0; t < count && (layer.qkv_bias || layer.qk_norm); ++t) {
    float* q = q_.get() + t * layer.QueryWidth() + q_first;
    float* k = k_.get() + t * layer.KeyWidth() + k_first;
    float* v = v_.get() + t * layer.ValueWidth() + v_first;
    if (layer.qkv_bias) {
      AddResidual(weights.q_bias + q_first, heads.size() * group * d_k, q);
      AddResidual(weights.k_bias + k_first, heads.size() * d_k, k);
      AddResidual(weights.v_bias + v_first, heads.size() * d_v, v);
    }
    if (layer.qk_norm) {
      RmsNorm(q, weights.q_norm, kStepEpsilon, heads.size() * group, d_k, q);
      RmsNorm(k, weights.k_norm, kStepEpsilon, heads.size(), d_k, k);
    }
  }
  worker->times.Charge(StepTerm::kSmallOperations);
  if (layer.rotated) {
    Rotate(layer, heads, count, first);
    worker->times.Charge(StepTerm::kPositionEncoding);
  }
  caches_->Layer(i).WriteHeads(heads.first, heads.end, first, k_.get(), v_.get(), nullptr, count);
  worker->times.Charge(StepTerm::kCacheAppend);
}

void StepRun::Rotate(const StepLayer& layer, Range heads, size_t count, size_t first) {
  const size_t group = layer.n_heads / layer.n_kv_heads, d = layer.d_head_k;
  const auto turn = [&](float* data, size_t token_stride, size_t n_heads) {
    const HeadsView view{data, Dtype::kF32, token_stride, d};
    ropeline::Rotate({.pairing = plan_.rotation->pairing,
                      .n = count,
                      .n_heads = n_heads,
                      .d_head = d,
                      .d_rot = position_.d_rot(),
                      .in = view,
                      .out = view,
                      .table = position_.Angles(first),
                      .rows = nullptr,
                      .inverse = false});
  };
  turn(q_.get() + heads.first * group * d, layer.QueryWidth(), heads.size() * group);
  turn(k_.get() + heads.first * d, layer.KeyWidth(), heads.size());
}

// The last token's logits and the largest of them.
void StepRun::Head(size_t thread, const float* x, Worker* worker) {
  RmsNorm(x, weights_.final_norm, kStepEpsilon, 1, plan_.d_model, worker->normed.get());
  worker->times.Charge(StepTerm::kSmallOperations);
  const Range rows = Part(thread, plan_.vocabulary, 16);
  worker->Take(worker->normed.get(), plan_.d_model);
  worker->Multiply(weights_.head, rows.first, rows.end, logits_.get());
  worker->best = rows.first;
  if (rows.size() > 0) worker->best += ArgMax(logits_.get() + rows.first, rows.size());
  worker->largest = worker->best < plan_.vocabulary ? logits_[worker->best] : 0;
  worker->times.Charge(StepTerm::kLmHead);
  Meet(worker);
  if (thread != 0) return;
  next_ = workers_[0]->best;
  float largest = workers_[0]->largest;
  for (size_t t = 1; t < threads_; ++t) {
    if (Part(t, plan_.vocabulary, 16).size() == 0 || !(workers_[t]->largest > largest)) continue;
    next_ = workers_[t]->best;
    largest = workers_[t]->largest;
  }
  worker->times.Charge(StepTerm::kLmHead);
}

double StepRun::ReadBandwidth(size_t thread) {
  constexpr size_t kMost = size_t{1} << 28;  // floats
  const auto memory = weights_.Memory().first(std::min(kMost, weights_.Memory().size()));
  const Range part = Part(thread, memory.size(), 16);
  const auto meet = [&] {
    if (threads_ > 1) barrier_.Wait();
  };
  meet();
  const auto start = std::chrono::steady_clock::now();
  workers_[thread]->sum = StreamRead(memory.data() + part.first, part.size());
  meet();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return thread == 0 ? 4 * static_cast<double>(memory.size()) / seconds.count() : 0;
}

size_t StepRun::DecodeBarriers() const {
  size_t barriers = 2;
  for (const StepLayer& layer : plan_.layers) barriers += HeadsShareOut(layer) ? 4 : 6;
  return barriers;
}

size_t StepRun::PrefillBarriers() const {
  size_t barriers = 3;
  for (const StepLayer& layer : plan_.layers) barriers += HeadsShareOut(layer) ? 8 : 10;
  return barriers;
}

}  // namespace ropeline
