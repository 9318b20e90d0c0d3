// What each way of keeping the past costs a model at a context: all of it in fewer bits, a window with sinks,
// or all of it and a look at the chunks that matter. One decode step of the request's sequences, for its
// weights, context and threads; the request's own cache format has no say.
//
//   full       attention/decode/<format>/…                      every token
//   window     attention/decode/<format>/…/window:W/sinks:S/…   the cache holds W + S tokens, no more
//   retrieval  attention/retrieval/<format>/…/summary:…/chunk:C/best:B/sinks:S/window:W/…
//              the cache holds all tokens, and a summary in f32 of each chunk; a step reads the summaries and
//              the best chunks, first and recent tokens (kernels/chunk_select.h, ChunkChoice). Keeping the
//              summaries up to date is not counted: no row measures it
// A layer that sees no more tokens than a way attends to is read in full, as attention/decode.
//
// `limit`: bytes read ÷ bandwidth or flops ÷ peak, as in limit_terms.h. `kernels`: the way's own row, cold,
// of the nearest group, d_head, KV heads and n, scaled by the bytes that a step reads; nothing without a row.
// A whole step adds the other terms of the same level: at `kernels` the weights stand at their limit.
#ifndef ROPELINE_MODEL_CONTEXT_WAYS_H_
#define ROPELINE_MODEL_CONTEXT_WAYS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/chunk_select.h"
#include "model/block_format.h"
#include "model/predict.h"

namespace ropeline {

enum class KeepKind { kFull, kWindow, kRetrieval };
const char* KeepKindName(KeepKind kind);  // "full", "window", "retrieval"

struct StepTime {
  double attention_ms = 0;  // all layers and sequences, choosing chunks included
  double ms = 0;            // the whole step: a token of each sequence
  double tok_per_s = 0;     // all sequences
};

struct ContextWay {
  std::string name;  // "full f16", "window of 4096 + 4 sinks, f16", "16 chunks of 256 by mean, f16"
  KeepKind kind = KeepKind::kFull;
  BlockFormat format = kBlockF16;
  ChunkSummary summary = ChunkSummary::kMean;  // of kRetrieval
  uint64_t attended_tokens = 0;                // most that a layer attends to; kFull: the context
  uint64_t cache_bytes = 0;                    // in memory, all sequences; retrieval: summaries included
  double read_bytes = 0;                       // of self attention in one step: cache and summaries
  StepTime limit;
  std::optional<StepTime> kernels;
  std::string row;   // that kernels.attention_ms follows from
  std::string note;  // how; "" where it is the row's own time at each layer
  // What it costs in accuracy, as the row's counters say; nothing where they do not.
  //   output_error  full: relative error of attention's output over that format, keys with outlier channels,
  //                 against f32 (kernels/kv_format_error.h). A figure of the format, from any of its rows
  //   recall        window, retrieval: share of the softmax that the attended tokens hold, on the synthetic
  //                 cache of kernels/synthetic_kv.h; 1 where every layer is read in full
  std::string figure;  // which of the two is meant
  std::optional<double> accuracy;
};

// Retrieval over q8_0 is in the list only where it was measured.
std::vector<ContextWay> ContextWays(const PredictRequest& request);

nlohmann::ordered_json ContextWaysJson(const std::vector<ContextWay>& ways);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CONTEXT_WAYS_H_
