// What each position encoding costs: as measured on a machine beside the machine's limit, and as a share of a
// model's layer. Loops over the registry; names no encoding.
#ifndef ROPELINE_MODEL_COMPARE_H_
#define ROPELINE_MODEL_COMPARE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/placement.h"
#include "model/llm.h"
#include "model/machine.h"
#include "model/position_work.h"
#include "model/weight_format.h"

namespace ropeline {

// One measured row of an encoding. measured_ns ÷ limit_ns is the ratio: 1 is the limit.
struct MeasuredEncoding {
  const Encoding* encoding = nullptr;
  Shape shape;
  bool cold = false;  // from main memory; otherwise from whichever cache holds working_set_bytes
  Cost cost;          // the registry's, of one call
  double working_set_bytes = 0;
  double limit_ns = 0;
  Bound bound = Bound::kUnknown;  // kUnknown: its traffic was not measured at these threads, limit_ns is 0
  double measured_ns = 0;
  std::string row;  // the benchmark row's name
  bool tainted = false;

  std::optional<double> Ratio() const;  // nothing where the limit is unknown
};

// Every placement row of `machine` at `threads`, in the registry's order. Where the run timed several Highway
// targets, those of its best one.
std::vector<MeasuredEncoding> MeasuredEncodings(const Machine& machine, int threads);

// Keeps rows whose n is in `n` and whose d (d_model of an input add, d_head of a rotation; a score bias has
// none) is in `d`. An empty list keeps all. Throws BadInput, which lists what was measured, where a value
// matches no row.
std::vector<MeasuredEncoding> Select(const std::vector<MeasuredEncoding>& rows,
                                     const std::vector<uint64_t>& n, const std::vector<uint64_t>& d,
                                     const Where& n_where, const Where& d_where);

// An encoding on a model's own shape, in one phase at one context.
struct EncodingShare {
  const Encoding* encoding = nullptr;
  Phase phase = Phase::kPrefill;
  uint64_t n = 0;
  double applications = 1;  // in the whole pass: layers, or 1 for an input add
  Cost cost;                // of one application
  double score_bytes = 0;   // score bias: f32 scores that must exist in memory, per layer; 0 for others
  double limit_ms = 0;      // of one application; from main memory where the ratio's row is cold
  // The measured ratio of the nearest row of this encoding (by working set), and that row; nothing where
  // there is none.
  std::optional<double> ratio;
  std::string ratio_row;
  double expected_ms = 0;  // limit_ms · ratio, or limit_ms
  // What one application stands beside: one layer's matrices and attention at the limit, without any position
  // encoding; for an input add the whole pass.
  double beside_ms = 0;
  bool whole_pass = false;

  double Share() const { return expected_ms / (expected_ms + beside_ms); }
};

struct ShareRequest {
  Llm llm;
  WeightMix weights;
  BlockFormat kv;
  std::vector<uint64_t> contexts;
  int threads = 1;
};

// Prefill and decode of one sequence, at each context, for every encoding of the registry that can take the
// shape.
std::vector<EncodingShare> EncodingShares(const ShareRequest& request, const Machine& machine,
                                          const std::vector<MeasuredEncoding>& measured);

nlohmann::ordered_json CompareJson(const ShareRequest& request, const Machine& machine,
                                   const std::vector<MeasuredEncoding>& rows,
                                   const std::vector<EncodingShare>& shares);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_COMPARE_H_
