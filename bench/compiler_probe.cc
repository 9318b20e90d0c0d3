// Times the hot kernels for a moment, without any library but Highway, so that scripts/choose_compiler.sh can
// build it with each compiler at hand and keep the fastest. One line per kernel: name and GB/s (or GFLOP/s),
// then the score, a geometric mean.
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/registry.h"
#include "kernels/stream.h"
#include "kernels/targets.h"

namespace {

using ropeline::Cost;

// Median bytes (or flops) per second of calls that each take about a millisecond.
double Rate(double amount, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [&](size_t calls) {
    const auto start = Clock::now();
    for (size_t i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  size_t calls = 1;
  while (seconds(calls) < 1e-3) calls *= 2;
  std::vector<double> rates;
  for (int pass = 0; pass < 41; ++pass) rates.push_back(amount * static_cast<double>(calls) / seconds(calls));
  return ropeline::Median(rates);
}

}  // namespace

int main() {
  ropeline::UseBestTarget();
  double log_sum = 0;
  int rows = 0;
  const auto report = [&](const char* name, size_t n, double rate) {
    std::printf("%-18s n %-5zu %8.1f\n", name, n, rate * 1e-9);
    log_sum += std::log(rate * 1e-9);
    ++rows;
  };
  for (size_t kib : {16, 128}) {
    const size_t elements = kib * 256;
    const auto a = hwy::AllocateAligned<float>(elements);
    std::fill_n(a.get(), elements, 0.5f);
    report("update", kib,
           Rate(8.0 * static_cast<double>(elements), [&] { ropeline::StreamUpdate(a.get(), elements); }));
  }
  float sink[2] = {0.5f, 0};
  double flops = 0;
  const double calls_per_second = Rate(1, [&] { flops = ropeline::PeakFma(1000, sink); });
  report("fma", 0, flops * calls_per_second);
  // One encoding for each loop; others share theirs.
  for (const char* name : {"learned", "t5_bias", "alibi", "rope_half", "rope_interleaved"}) {
    const ropeline::Encoding* encoding = ropeline::FindEncoding(name);
    for (size_t n : {size_t{1}, size_t{4}}) {
      ropeline::Shape shape;
      shape.n = shape.n_k = encoding->placement == ropeline::Placement::kScoreBias ? 256 * n : n;
      shape.n_heads = encoding->placement == ropeline::Placement::kScoreBias ? 4 : 32;
      shape.d_head = 128;
      shape.d_model = 4096;
      const size_t elements = TensorElements(encoding->placement, shape);
      const auto x = hwy::AllocateAligned<float>(elements);
      std::fill_n(x.get(), elements, 0.5f);
      const auto tables = encoding->setup(shape);
      report(encoding->name, n,
             Rate(encoding->cost(shape).Bytes(), [&] { encoding->apply(*tables, shape, x.get()); }));
    }
  }
  std::printf("score %.1f\n", std::exp(log_sum / rows));
  return 0;
}
