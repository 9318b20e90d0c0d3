// weights: a stored matrix times the vectors of a decode step, in shapes of real models.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/core_probe.h"
#include "bench/harness.h"
#include "bench/weight_ring.h"
#include "kernels/hash.h"
#include "kernels/mat_vec.h"

namespace ropeline {

namespace {

struct Product {
  WeightDtype dtype;
  size_t rows, cols, n = 1;  // n vectors
  Cache cache = Cache::kCold;
};

// Rows of thread t of T; the first ones have one more where they do not share out evenly.
size_t RowsOf(size_t rows, size_t thread, size_t threads) {
  return rows / threads + (thread < rows % threads ? 1 : 0);
}

// The vectors are made ready once: an engine does so once for all matrices of a width (prepare rows). Several
// threads wait for each other after each product, as they do in a step, where the next one needs it: a row's
// time is that of its slower thread.
void MatVecBody(benchmark::State& state, const Row& row, const Topology& topology, const Product& product,
                size_t slots, SpinBarrier* barrier) {
  BeginRow(state, row, topology);
  const auto thread = static_cast<size_t>(state.thread_index());
  const size_t rows = RowsOf(product.rows, thread, static_cast<size_t>(row.threads));
  WeightRing& ring = ThreadWeights(state.thread_index());
  ring.Reset(product.dtype, rows, product.cols, slots);
  std::vector<float> x(product.n * product.cols), y(product.n * rows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 3);
  Activations ready;
  ready.Prepare(product.dtype, x.data(), product.n, product.cols);
  TimeCalls(state, row, [&] {
    MatVec(ring.Next(), ready, 0, rows, y.data());
    benchmark::ClobberMemory();
    if (row.threads > 1) barrier->Wait();
  });
}

void AddMatVec(const Plan& plan, const Product& product, int threads, std::vector<Row>* rows) {
  Row row;
  row.name = {"weights", "matvec", WeightDtypeName(product.dtype), plan.targets.front(), {}};
  row.name.With("n", product.n).With("rows", product.rows).With("cols", product.cols);
  row.name.With("cache", product.cache == Cache::kHot ? "hot" : "cold");
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  row.cost = MatVecCost(product.dtype, product.rows, product.cols, product.n);
  row.items = static_cast<double>(product.rows) * static_cast<double>(product.cols);  // weights
  row.traffic = Traffic::kRead;
  row.cold = product.cache == Cache::kCold;
  row.working_set_bytes = row.cost.Bytes();
  const size_t slots = RingSlots(plan, row.working_set_bytes, product.cache);
  row.working_set_bytes *= static_cast<double>(slots);
  const auto barrier = std::make_shared<SpinBarrier>(threads);
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    MatVecBody(state, self, topology, product, slots, barrier.get());
  };
  rows->push_back(std::move(row));
}

// What it takes to make one vector ready, on one thread: each thread of a step does it for itself.
void AddPrepare(const Plan& plan, WeightDtype dtype, size_t cols, std::vector<Row>* rows) {
  Row row;
  row.name = {"weights", "prepare", WeightDtypeName(dtype), plan.targets.front(), {}};
  row.name.With("n", 1).With("cols", cols).With("cache", "hot").With("threads", 1);
  row.cost = PrepareCost(dtype, cols, 1);
  row.items = static_cast<double>(cols);
  row.traffic = Traffic::kCopy;
  row.working_set_bytes = row.cost.Bytes();
  row.body = [=, topology = plan.topology](benchmark::State& state, const Row& self) {
    BeginRow(state, self, topology);
    std::vector<float> x(cols);
    for (size_t i = 0; i < cols; ++i) x[i] = HashToFloat(i, 3);
    Activations ready;
    TimeCalls(state, self, [&] {
      ready.Prepare(dtype, x.data(), 1, cols);
      benchmark::ClobberMemory();
    });
  };
  rows->push_back(std::move(row));
}

}  // namespace

void AddWeightRows(const Plan& plan, std::vector<Row>* rows) {
  std::vector<Product> products;
  const auto add = [&](size_t matrix_rows, size_t cols, size_t n, Cache cache) {
    for (const WeightDtype dtype : kAllWeightDtypes) products.push_back({dtype, matrix_rows, cols, n, cache});
  };
  add(8192, 3072, 1, Cache::kCold);  // Llama 3.2 3B: gate and up
  if (!plan.quick) {
    add(3072, 8192, 1, Cache::kCold);  // its down
    add(2048, 2048, 1, Cache::kCold);  // Llama 3.2 1B: q, o
    add(512, 2048, 1, Cache::kCold);   // its k and v
    add(512, 2048, 1, Cache::kHot);
    for (const size_t n : {2, 4, 8}) add(8192, 3072, n, Cache::kCold);
  }
  for (const Product& product : products) {
    for (const int threads : plan.threads) AddMatVec(plan, product, threads, rows);
  }
  for (const WeightDtype dtype : kAllWeightDtypes) {
    for (const size_t cols : {2048, 8192}) {
      if (IsBlocked(dtype) && !(plan.quick && cols == 8192)) AddPrepare(plan, dtype, cols, rows);
    }
  }
}

}  // namespace ropeline
