#include <chrono>
#include <map>
#include <thread>

#include "bench/linear_shapes.h"
#include "bench/peer/blas.h"
#include "bench/peer/peer_row.h"

namespace ropeline {

namespace {

double BytesPerWeight(const std::string& dtype) { return dtype == "f32" ? 4 : dtype == "bf16" ? 2 : 1; }

// The call of the row that ran last.
const std::function<void()>& CallFor(const Row& row, const BlasLibrary& library, const BlasProduct& shape) {
  static auto* const kept = new std::pair<std::string, std::function<void()>>;
  const std::string name = row.name.Text();
  if (kept->first != name) {
    kept->second = nullptr;  // before the next one takes memory
    kept->second = library.make(row.name.dtype, shape);
    kept->first = name;
  }
  return kept->second;
}

// Both libraries keep idle threads spinning for a while; what runs next is to have the cores.
void LetThreadsSleep() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

}  // namespace

Row ProductRow(const Plan& plan, const std::string& dtype, double bytes_per_weight, size_t rows, size_t cols,
               size_t n, Cache cache, int threads) {
  Row row;
  row.name =
      n == 1 ? RowName{"weights", "matvec", dtype, "any", {}} : RowName{"linear", "matmul", dtype, "any", {}};
  row.name.With("n", n).With("rows", rows).With("cols", cols);
  row.name.With("cache", cache == Cache::kCold ? "cold" : "hot");
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  const double vectors = static_cast<double>(n), matrix_bytes = elements * bytes_per_weight;
  row.cost.bytes_read = matrix_bytes + 4 * vectors * static_cast<double>(cols);
  row.cost.bytes_written = 4 * vectors * static_cast<double>(rows);
  row.cost.flops = 2 * elements * vectors;
  row.items = elements;
  row.traffic = Traffic::kRead;
  row.cold = cache == Cache::kCold;
  row.working_set_bytes = row.cost.Bytes();
  if (n == 1 && row.cold) {  // ggml's: each product of a graph has its vectors to itself
    row.working_set_bytes *= static_cast<double>(RingSlots(plan, row.working_set_bytes, Cache::kCold));
  } else if (row.cold) {
    row.working_set_bytes += static_cast<double>(RingSlots(plan, matrix_bytes, cache) - 1) * matrix_bytes;
  }
  return row;
}

void AddBlasRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  for (const char* name : {"openblas", "onednn"}) {
    const std::string missing = BlasMissing(name);
    if (missing.empty()) continue;
    RowName row{"linear", "matmul", "f32", "any", {}};
    row.peer = name;
    skipped->push_back({row, missing});
  }
  const auto add = [&](const BlasLibrary& library, const std::string& dtype, const LinearShape& linear,
                       Cache cache, int threads) {
    const double bytes = BytesPerWeight(dtype);
    Row row = ProductRow(plan, dtype, bytes, linear.rows, linear.cols, linear.n, cache, threads);
    const double matrix_bytes = static_cast<double>(linear.rows * linear.cols) * bytes;
    const BlasProduct shape{linear.rows, linear.cols, linear.n, threads,
                            RingSlots(plan, matrix_bytes, cache)};
    row.name.peer = library.PeerName();
    if (!library.kernels.empty()) row.name.target = library.kernels;
    row.library_threads = true;
    row.body = [&library, shape, topology = plan.topology](benchmark::State& state, const Row& self) {
      BeginRow(state, self, topology);
      if (shape.threads > 1) UnpinThread(topology);
      const std::function<void()>& call = CallFor(self, library, shape);
      TimeCalls(state, self, [&] { call(); });
      if (shape.threads > 1) LetThreadsSleep();
    };
    rows->push_back(std::move(row));
  };
  for (const BlasLibrary& library : BlasLibraries()) {
    for (const int threads : plan.threads) {
      for (const std::string& dtype : library.dtypes) {
        add(library, dtype, kHotLinear, Cache::kHot, threads);
        if (plan.quick) continue;
        for (const LinearShape& shape : kFeedForward) add(library, dtype, shape, Cache::kCold, threads);
        for (const LinearShape& shape : kOtherLinear) add(library, dtype, shape, Cache::kCold, threads);
      }
    }
  }
}

}  // namespace ropeline
