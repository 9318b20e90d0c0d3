#include "model/encoding_time.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/limit_terms.h"

namespace ropeline {
namespace {

bool SameShape(Placement placement, const Shape& a, const Shape& b) {
  if (a.n != b.n) return false;
  switch (placement) {
    case Placement::kInputAdd:
      return a.d_model == b.d_model;
    case Placement::kScoreBias:
      return a.n_k == b.n_k && a.n_heads == b.n_heads && a.causal == b.causal;
    case Placement::kQkRotation:
      return a.n_heads + a.n_kv_heads == b.n_heads + b.n_kv_heads && a.d_head == b.d_head &&
             a.Rotated() == b.Rotated();
  }
  return false;
}

bool PartOfHead(const Shape& shape) { return shape.Rotated() < shape.d_head; }

// The rows from which the time of `work` may follow, and the one that is nearest: one of the same shape, else
// the nearest working set. Of equals, a cold one in prefill (its tensor was just written by a matrix product
// over all tokens) and a hot one in decode.
struct Found {
  const MeasuredEncoding* row = nullptr;
  bool exact = false;
  bool beyond = false;  // smaller or larger than every row
};

Found FindRow(const std::vector<MeasuredEncoding>& rows, const PositionWork& work, Phase phase) {
  Found found;
  std::tuple<bool, bool, double, bool> best;
  double least = 0, most = 0;
  for (const MeasuredEncoding& row : rows) {
    if (row.encoding != work.encoding || !row.plain() || row.shape.causal != work.shape.causal) continue;
    if (!(row.cost.bytes_read > 0)) continue;
    // A window leaves a part of the scores: then the same shape is not the same work.
    const bool exact =
        SameShape(work.encoding->placement, row.shape, work.shape) && row.cost.Bytes() == work.cost.Bytes();
    if (!exact && !row.Ratio()) continue;
    const double size = row.cost.bytes_read;
    least = found.row == nullptr ? size : std::min(least, size);
    most = std::max(most, size);
    // Rotating a part of each head walks through memory in another way than rotating all of it.
    const auto distance = std::make_tuple(!exact, PartOfHead(row.shape) != PartOfHead(work.shape),
                                          std::abs(std::log(size / work.cost.bytes_read)),
                                          row.cold != (phase == Phase::kPrefill));
    if (found.row != nullptr && !(distance < best)) continue;
    best = distance;
    found = {&row, exact, false};
  }
  found.beyond = found.row != nullptr && (work.cost.bytes_read < least || work.cost.bytes_read > most);
  return found;
}

}  // namespace

const char* TimeSourceName(TimeSource source) {
  switch (source) {
    case TimeSource::kMeasured:
      return "measured";
    case TimeSource::kScaled:
      return "scaled";
    case TimeSource::kExtrapolated:
      return "extrapolated";
    case TimeSource::kLimit:
      return "limit";
    case TimeSource::kNothing:
      return "nothing";
    case TimeSource::kUnknown:
      return "unknown";
  }
  return "";
}

EncodingTime TimeFromRows(const PositionWork& work, Phase phase,
                          const std::vector<MeasuredEncoding>& measured, const Machine& machine,
                          int threads) {
  EncodingTime time;
  if (work.cost.Bytes() == 0 && work.cost.flops == 0) {
    time.source = TimeSource::kNothing;
    return time;
  }
  const Found found = FindRow(measured, work, phase);
  PositionWork from = work;
  if (found.row != nullptr && found.row->cold) from.working_set_bytes = kMainMemoryBytes;
  const LimitTime limit = TimeOf(from, machine, threads);
  time.limit_ms = limit.seconds * 1e3;
  time.row = found.row;
  if (found.exact) {
    time.source = TimeSource::kMeasured;
    time.expected_ms = found.row->measured_ns / 1e6 * work.calls;
  } else if (limit.bound != Bound::kUnknown) {
    time.source = found.row == nullptr ? TimeSource::kLimit
                  : found.beyond       ? TimeSource::kExtrapolated
                                       : TimeSource::kScaled;
    const double ratio = found.row != nullptr ? found.row->Ratio().value_or(1) : 1;
    time.expected_ms = time.limit_ms * std::max(1.0, ratio);
  }
  return time;
}

}  // namespace ropeline
