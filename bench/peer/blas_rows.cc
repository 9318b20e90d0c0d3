#include <chrono>
#include <map>
#include <thread>

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
    kept->second = library.make(row.name.dtype, shape);
    kept->first = name;
  }
  return kept->second;
}

// Both libraries keep idle threads spinning for a while; what runs next is to have the cores.
void LetThreadsSleep() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

}  // namespace

Row ProductRow(const Plan& plan, const std::string& dtype, double bytes_per_weight, size_t rows, size_t cols,
               size_t n, int threads) {
  Row row;
  row.name =
      n == 1 ? RowName{"weights", "matvec", dtype, "any", {}} : RowName{"linear", "matmul", dtype, "any", {}};
  row.name.With("n", n).With("rows", rows).With("cols", cols).With("cache", n == 1 ? "cold" : "hot");
  row.name.With("threads", static_cast<size_t>(threads));
  row.threads = threads;
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  const double vectors = static_cast<double>(n);
  row.cost.bytes_read = elements * bytes_per_weight + 4 * vectors * static_cast<double>(cols);
  row.cost.bytes_written = 4 * vectors * static_cast<double>(rows);
  row.cost.flops = 2 * elements * vectors;
  row.items = elements;
  row.traffic = Traffic::kRead;
  row.cold = n == 1;
  row.working_set_bytes = row.cost.Bytes();
  if (row.cold) {
    row.working_set_bytes *= static_cast<double>(RingSlots(plan, row.working_set_bytes, Cache::kCold));
  }
  return row;
}

void AddBlasRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  constexpr size_t kTokens = 512, kWidth = 3072;  // a chunk through Llama 3.2 3B's attention output
  for (const char* name : {"openblas", "onednn"}) {
    const std::string missing = BlasMissing(name);
    if (missing.empty()) continue;
    RowName row{"linear", "matmul", "f32", "any", {}};
    row.peer = name;
    skipped->push_back({row, missing});
  }
  for (const BlasLibrary& library : BlasLibraries()) {
    for (const int threads : plan.threads) {
      for (const std::string& dtype : library.dtypes) {
        const BlasProduct shape{kWidth, kWidth, kTokens, threads};
        Row row = ProductRow(plan, dtype, BytesPerWeight(dtype), kWidth, kWidth, kTokens, threads);
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
      }
    }
  }
}

}  // namespace ropeline
