// What each position encoding would cost a model: the time of one application, worked out from this machine's
// measured rows, beside the layer in which it stands.
#ifndef ROPELINE_MODEL_ENCODING_SHARE_H_
#define ROPELINE_MODEL_ENCODING_SHARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/encoding_time.h"
#include "model/kv_layout.h"
#include "model/llm.h"
#include "model/machine.h"
#include "model/measured_encoding.h"
#include "model/position_work.h"
#include "model/weight_format.h"

namespace ropeline {

struct CompareRequest {
  Llm llm;
  WeightMix weights;
  KvFormats kv;
  std::vector<uint64_t> contexts;  // N: tokens of a prefill, or in the cache of a decode step
  int threads = 1;
  Dtype dtype = Dtype::kF32;                 // of activations and scores
  std::vector<const Encoding*> encodings{};  // empty: all of the registry
  bool given_heads = false;                  // the shape is not the model's own
  bool given_d_head = false;

  const std::vector<const Encoding*>& Encodings() const;
  const Attention* PrefillAttention() const;  // whose tensors a prefill has; nullptr where there is none
};

// An encoding on a model's own shape, in one phase at one context.
struct EncodingShare {
  const Encoding* encoding = nullptr;
  Phase phase = Phase::kPrefill;
  uint64_t n = 0;
  double applications = 1;  // in the whole pass: layers, or 1 for an input add
  Cost cost;                // of one application
  double score_bytes = 0;   // score bias: scores that must exist in memory, per layer; 0 for others. A bias
                            // that stands in memory as a tensor of its own takes as much again.
  double limit_ms = 0;      // of one application; from main memory where the ratio's row is cold
  // The measured ratio of the nearest row of this encoding (by working set), and that row; nothing where
  // there is none.
  std::optional<double> ratio;
  std::string ratio_row;
  uint64_t ratio_row_n = 0;  // tokens of that row
  bool ratio_row_cold = false;
  TimeSource source = TimeSource::kUnknown;
  double expected_ms = 0;  // that row's own time where it was measured at this shape, else limit_ms · ratio
  // What one application stands beside: one layer's matrices and attention at the limit, without any position
  // encoding; for an input add the whole pass.
  double beside_ms = 0;
  bool whole_pass = false;

  bool known() const { return source != TimeSource::kUnknown; }
  double Share() const { return expected_ms > 0 ? expected_ms / (expected_ms + beside_ms) : 0; }
};

// One sequence, at each context of the request, for every encoding asked for that can take the shape; first
// the prefill, then the decode step.
std::vector<EncodingShare> EncodingShares(const CompareRequest& request, const Machine& machine,
                                          const std::vector<MeasuredEncoding>& measured);

// The encodings that cannot take the shape, each with its contexts and reason.
struct Rejection {
  const Encoding* encoding = nullptr;
  Phase phase = Phase::kPrefill;
  uint64_t n = 0;
  std::string reason;
};
std::vector<Rejection> Rejections(const CompareRequest& request);

// Matrices and attention at the limit, without any position encoding.
struct PassTime {
  double layer_ms = 0;
  double pass_ms = 0;
};

// Prefill time of each encoding against N, for a picture.
struct CostCurve {
  std::vector<uint64_t> n;            // 128, 256 … 131072
  std::vector<PassTime> beside;       // at each n
  std::vector<EncodingShare> points;  // by n, then by encoding; a shape that is refused has no point
};
CostCurve PrefillCurve(const CompareRequest& request, const Machine& machine,
                       const std::vector<MeasuredEncoding>& measured);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENCODING_SHARE_H_
