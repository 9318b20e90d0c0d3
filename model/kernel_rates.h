// What this suite's attention and cache kernels take on a model's shape, worked out from the rows that
// bench_all measured. Rows of another format, thread count or Highway target are never used.
//
//   attention/decode/<format>/<target>/n:N/h:H/hkv:K/d:D/cache:cold/threads:T
//       one token of one layer over n cached ones. Cold only: a step of a model reads gigabytes, so that its
//       cache is in memory when a layer's turn comes
//   attention/prefill/<format>/<target>/n:N/m:N/h:H/hkv:K/d:D/causal:C/cache:…/threads:T
//       all n tokens of one layer; m < n: the last m of them, a chunk of a prompt against what came before
//   kv_cache/append/<format>/<target>/n:N/hkv:K/d:D/cache:…/threads:T
//       K and V of n tokens of one layer, f32 into the cache's format
// bias:none, and causal:1 of a decode row, change nothing. Any other argument makes a row one of something
// else; of those only bias:<encoding> is read, see BiasOnAttention.
//
// Which row: the nearest group (heads ÷ KV heads), of those the nearest d_head, of those the nearest count of
// KV heads, each by ratio; prefill first of all the layer's own causal. Of equals a cold one, then the one
// measured at most n.
//
// To another n:
//   decode, append  time is a + b·n, a call's fixed part and so much for each token's bytes: linear between
//                   the measured n. Beyond the last one at its rate, time ÷ n. Below the first on the line of
//                   the first two, but at no better rate than the first and for no more than its time.
//   prefill         tiles fill up and edges lose weight as n grows, so that the rate rises by ever less:
//   flops
//                   per second, linear in log n, the ends kept. A window layer: the rate at its window. A
//                   chunk: the rate of rows of the nearest m, else of whole prompts of as many keys.
// To another shape: by the bytes of a token (decode, append) or by flops (prefill). Flops are counted by
// Attention::Pairs on both sides, so that at a row's own shape its own call_ns comes back.
#ifndef ROPELINE_MODEL_KERNEL_RATES_H_
#define ROPELINE_MODEL_KERNEL_RATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/block_format.h"
#include "model/llm.h"
#include "model/machine.h"
#include "model/position_work.h"

namespace ropeline {

struct KernelTime {
  double ns = 0;
  std::string row;   // the benchmark row's name; of several n, the nearest by ratio
  std::string note;  // how the time follows from it; "" where it is the row's own
};

enum class KernelOperation { kDecode, kPrefill, kChunk, kAppend };

// Rows that differ in n only.
struct KernelSeries {
  struct Point {
    double n = 0;
    double ns = 0;  // of one call
    std::string row;
    bool tainted = false;
  };

  KernelOperation operation = KernelOperation::kDecode;
  std::string format;
  double queries = 0;  // kChunk: m
  Attention shape;     // kFull; of an append, as many heads as KV heads
  std::string bias = "none";
  bool cold = false;
  std::vector<Point> points;  // ascending n
};

class KernelRates {
 public:
  KernelRates(const Machine& machine, int threads);

  // One layer, one sequence. Nothing where no row of that format was measured at these threads.
  std::optional<KernelTime> DecodeAttention(const BlockFormat& format, const Attention& attention,
                                            double keys) const;
  std::optional<KernelTime> PrefillAttention(const BlockFormat& format, const Attention& attention,
                                             double n) const;
  // The last `queries` of n tokens, causal.
  std::optional<KernelTime> ChunkAttention(const BlockFormat& format, const Attention& attention,
                                           double queries, double n) const;
  std::optional<KernelTime> Append(const BlockFormat& format, const Attention& attention, double n) const;

  // What a score bias adds to an attention of `attention_ns` over `n` keys: that time × the excess of a row
  // with bias:<encoding> over the same row without it; 0 where it is the faster one. bias:t5 stands for
  // t5_bias. The row is the nearest as above, then the nearest n. Nothing where there is no such pair.
  std::optional<KernelTime> BiasOnAttention(Phase phase, const BlockFormat& format,
                                            const Attention& attention, double n, std::string_view encoding,
                                            double attention_ns) const;

 private:
  const KernelSeries* Nearest(KernelOperation operation, const BlockFormat& format,
                              const Attention& attention, double queries = 0) const;

  std::vector<KernelSeries> series_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_KERNEL_RATES_H_
