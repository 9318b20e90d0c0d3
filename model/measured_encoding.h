// The rows of a machine's results in which an encoding was applied plainly, each beside the machine's limit.
// Rows of other ways to pay for the same encoding are in ways_to_pay.h.
#ifndef ROPELINE_MODEL_MEASURED_ENCODING_H_
#define ROPELINE_MODEL_MEASURED_ENCODING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/placement.h"
#include "model/machine.h"

namespace ropeline {

// One measured row of an encoding. measured_ns ÷ limit_ns is the ratio: 1 is the limit.
struct MeasuredEncoding {
  const Encoding* encoding = nullptr;
  Shape shape;
  // Arguments beyond shape, cache and threads, such as "inverse:1" or "positions:gaps layout:fused_qkv"; ""
  // for a plain application to consecutive tokens, the only kind from which times of other shapes follow.
  std::string variant;
  bool cold = false;  // from main memory; otherwise from whichever cache holds working_set_bytes
  Cost cost;          // the registry's, of one call
  double working_set_bytes = 0;
  double limit_ns = 0;
  Bound bound = Bound::kUnknown;  // kUnknown: its traffic was not measured at these threads, limit_ns is 0
  double measured_ns = 0;
  std::string row;  // the benchmark row's name
  bool tainted = false;

  bool plain() const { return variant.empty(); }
  std::optional<double> Ratio() const;  // nothing where the limit is unknown or nothing is to be done
};

// Every placement row of `machine` at `threads` whose tensor is of `dtype`, in the registry's order. Where
// the run timed several Highway targets, those of its best one. Rows with an argument form: or angles: are
// other ways to pay and left out.
std::vector<MeasuredEncoding> MeasuredEncodings(const Machine& machine, int threads,
                                                Dtype dtype = Dtype::kF32);

// What rows to keep; an empty list or an absent value keeps all.
struct RowFilter {
  std::vector<const Encoding*> encodings{};
  std::optional<uint64_t> d_model{};        // of an input add
  std::optional<uint64_t> score_heads{};    // of a score bias
  std::optional<uint64_t> rotated_heads{};  // of a rotation: those of Q and of K together
  std::optional<uint64_t> d_head{};         // of a rotation
};

std::vector<MeasuredEncoding> Select(const std::vector<MeasuredEncoding>& rows, const RowFilter& filter);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_MEASURED_ENCODING_H_
