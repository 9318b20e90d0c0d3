// linear: products of weight matrices with the tokens of a prefill chunk, and the small operations between
// them.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/buffer.h"
#include "bench/core_probe.h"
#include "bench/harness.h"
#include "bench/linear_shapes.h"
#include "bench/weight_ring.h"
#include "kernels/hash.h"
#include "kernels/mat_mul.h"
#include "kernels/residual.h"
#include "kernels/rms_norm.h"
#include "kernels/sampling.h"
#include "kernels/swiglu.h"

namespace ropeline {

namespace {

// What thread `thread` of `threads` does of `count` things.
struct Share {
  Share(size_t count, int thread, int threads)
      : first(count * static_cast<size_t>(thread) / static_cast<size_t>(threads)),
        end(count * static_cast<size_t>(thread + 1) / static_cast<size_t>(threads)) {}
  size_t Count() const { return end - first; }
  size_t first, end;
};

// ----------------------------------------------------------------------------------------------- products

// The chunk that the threads of a row share, kept for rows of the same shape.
struct Chunk {
  std::mutex mutex;
  size_t n = 0, cols = 0;
  std::vector<float> x;  // [n, cols]
  TokenPanels panels;
};

Chunk& ChunkOf(const LinearShape& shape) {
  static auto* const chunk = new Chunk;
  const std::lock_guard lock(chunk->mutex);
  if (chunk->n != shape.n || chunk->cols != shape.cols) {
    chunk->n = shape.n;
    chunk->cols = shape.cols;
    chunk->x.resize(shape.n * shape.cols);
    for (size_t i = 0; i < chunk->x.size(); ++i) chunk->x[i] = HashToFloat(i, 3);
    chunk->panels.Resize(shape.n, shape.cols);
  }
  return *chunk;
}

// A call packs the tokens, which all threads then read, and multiplies: each thread its rows, which are a
// matrix of its own.
void MatMulBody(benchmark::State& state, const Row& row, const Topology& topology, WeightDtype dtype,
                const LinearShape& shape, size_t slots, SpinBarrier* barrier) {
  BeginRow(state, row, topology);
  const int thread = state.thread_index();
  Chunk& chunk = ChunkOf(shape);
  const Share rows(shape.rows, thread, row.threads), panels(chunk.panels.Panels(), thread, row.threads);
  WeightRing& weights = ThreadWeights(thread);
  weights.Reset(dtype, rows.Count(), shape.cols, slots);
  Arena& arena = ThreadArena(thread);
  arena.Reset(Arena::Room(shape.n * rows.Count()));
  float* y = arena.Floats(shape.n * rows.Count(), /*keep=*/true);
  TimeCalls(state, row, [&] {
    chunk.panels.Pack(chunk.x.data(), panels.first, panels.end);
    barrier->Wait();
    MatMul(weights.Next(), chunk.panels, 0, rows.Count(), y);
    barrier->Wait();
  });
}

void AddMatMul(const Plan& plan, WeightDtype dtype, const LinearShape& shape, Cache cache,
               std::vector<Row>* rows) {
  for (const int threads : plan.threads) {
    Row row;
    row.name = {"linear", "matmul", WeightDtypeName(dtype), plan.targets.front(), {}};
    row.name.With("n", shape.n).With("rows", shape.rows).With("cols", shape.cols);
    row.name.With("cache", cache == Cache::kHot ? "hot" : "cold");
    row.name.With("threads", static_cast<size_t>(threads));
    row.threads = threads;
    row.cost = MatMulCost(dtype, shape.rows, shape.cols, shape.n);
    row.items = static_cast<double>(shape.rows * shape.cols);
    row.traffic = Traffic::kRead;
    row.cold = cache == Cache::kCold;
    const double matrix_bytes = static_cast<double>(shape.rows * WeightRowBytes(dtype, shape.cols));
    const size_t slots = RingSlots(plan, matrix_bytes, cache);
    row.working_set_bytes = row.cost.Bytes() + static_cast<double>(slots - 1) * matrix_bytes;
    const auto barrier = std::make_shared<SpinBarrier>(threads);
    row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
      MatMulBody(state, self, topology, dtype, shape, slots, barrier.get());
    };
    rows->push_back(std::move(row));
  }
}

// Dtype by dtype, because a ring is made up anew for another one. A rate depends on the dtype by what
// unpacking takes, and hardly on the shape: all dtypes in one, some in all.
void AddMatMuls(const Plan& plan, std::vector<Row>* rows) {
  for (const WeightDtype dtype : kAllWeightDtypes) {
    const bool common = dtype == WeightDtype::kF16 || dtype == WeightDtype::kQ40;
    const bool beside = plan.peers && (dtype == WeightDtype::kF32 || dtype == WeightDtype::kBf16);
    if (plan.quick) {
      if (common) AddMatMul(plan, dtype, kFeedForward[1], Cache::kCold, rows);
      if (plan.peers) AddMatMul(plan, dtype, kHotLinear, Cache::kHot, rows);
      continue;
    }
    for (const LinearShape& shape : kFeedForward) {
      if (shape.n <= 512 || common || beside) AddMatMul(plan, dtype, shape, Cache::kCold, rows);
    }
    for (const LinearShape& shape : kOtherLinear) {
      if (common || beside || dtype == WeightDtype::kQ4K) AddMatMul(plan, dtype, shape, Cache::kCold, rows);
    }
    if (plan.peers) AddMatMul(plan, dtype, kHotLinear, Cache::kHot, rows);
  }
}

// ----------------------------------------------------------------------------------------- small operations

// One on tensors a, b and a result, each of `units` that are shared out over the threads.
struct Small {
  RowName name;
  size_t units, unit_elements;
  Cost cost;
  Traffic traffic;
  std::function<void(const float* a, const float* b, float* out, size_t units)> call;
};

void AddSmall(const Plan& plan, const Small& small, int threads, std::vector<Row>* rows) {
  Row row;
  row.name = small.name;
  row.name.With("cache", "hot").With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.cost = small.cost;
  row.items = static_cast<double>(small.units * small.unit_elements);
  row.traffic = small.traffic;
  row.working_set_bytes = small.cost.Bytes();
  row.body = [small, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    const size_t units = Share(small.units, state.thread_index(), self.threads).Count();
    const size_t elements = units * small.unit_elements;
    Arena& arena = ThreadArena(state.thread_index());
    arena.Reset(3 * Arena::Room(elements));
    float* a = arena.Floats(elements);
    for (size_t i = 0; i < elements; ++i) a[i] = 8 * HashToFloat(i, 1);
    const float* b = arena.Floats(elements);
    float* out = arena.Floats(elements);
    TimeCalls(state, self, [&] { small.call(a, b, out, units); });
    benchmark::DoNotOptimize(out);
  };
  rows->push_back(std::move(row));
}

RowName SmallName(const Plan& plan, const char* variant) {
  return {"linear", variant, "f32", plan.targets.front(), {}};
}

// Of a decode step (n 1) or a chunk. One vector is normalised by one thread: its sum is over all of it.
void AddOfTokens(const Plan& plan, size_t n, int threads, std::vector<Row>* rows) {
  constexpr size_t kModel = 2048, kGated = 8192;  // Llama 3.2 1B
  constexpr float kEpsilon = 1e-5f;
  const auto named = [&](const char* variant, size_t d) {
    RowName name = SmallName(plan, variant);
    name.With("n", n).With("d", d);
    return name;
  };
  if (n > 1 || threads == 1) {
    const auto call = [](const float* x, const float* weight, float* y, size_t tokens) {
      RmsNorm(x, weight, kEpsilon, tokens, kModel, y);
    };
    AddSmall(plan, {named("rms_norm", kModel), n, kModel, RmsNormCost(n, kModel), Traffic::kCopy, call},
             threads, rows);
  }
  // Sums elsewhere are measured for one thread only; in place they move as many bytes.
  const Traffic gated = threads == 1 ? Traffic::kSum : Traffic::kAdd;
  const auto gate = [](const float* a, const float* up, float* out, size_t elements) {
    SwiGlu(a, up, elements, out);
  };
  AddSmall(plan, {named("swiglu", kGated), n * kGated, 1, SwiGluCost(n * kGated), gated, gate}, threads,
           rows);
  const auto add = [](const float* x, const float*, float* acc, size_t elements) {
    AddResidual(x, elements, acc);
  };
  AddSmall(plan, {named("residual", kModel), n * kModel, 1, ResidualCost(n * kModel), Traffic::kAdd, add},
           threads, rows);
}

void AddSampling(const Plan& plan, std::vector<Row>* rows) {
  constexpr size_t kVocabulary = 128256;  // Llama 3's
  const auto named = [&](const char* variant) {
    RowName name = SmallName(plan, variant);
    name.With("vocab", kVocabulary);
    return name;
  };
  const auto largest = [](const float* logits, const float*, float*, size_t) {
    benchmark::DoNotOptimize(ArgMax(logits, kVocabulary));
  };
  const auto sample = [](const float* logits, const float*, float*, size_t) {
    benchmark::DoNotOptimize(SampleToken(logits, kVocabulary, 0.8f, 0.5f));
  };
  AddSmall(plan, {named("argmax"), 1, kVocabulary, ArgMaxCost(kVocabulary), Traffic::kRead, largest}, 1,
           rows);
  AddSmall(plan, {named("sample"), 1, kVocabulary, SampleTokenCost(kVocabulary), Traffic::kRead, sample}, 1,
           rows);
}

}  // namespace

void AddLinearRows(const Plan& plan, std::vector<Row>* rows) {
  AddMatMuls(plan, rows);
  for (const size_t n : {size_t{1}, size_t{512}}) {
    for (const int threads : plan.threads) AddOfTokens(plan, n, threads, rows);
  }
  AddSampling(plan, rows);
}

}  // namespace ropeline
