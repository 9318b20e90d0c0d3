// How long a position encoding takes on a model's tensors, worked out from the rows in which it was measured.
// The rule is one for compare and for predict's level `kernels`.
#ifndef ROPELINE_MODEL_ENCODING_TIME_H_
#define ROPELINE_MODEL_ENCODING_TIME_H_

#include <vector>

#include "model/machine.h"
#include "model/measured_encoding.h"
#include "model/position_work.h"

namespace ropeline {

// Where a time comes from.
enum class TimeSource {
  kMeasured,      // a row of exactly this shape
  kScaled,        // the limit × the ratio of the row nearest in size, within the sizes measured
  kExtrapolated,  // the same, beyond them
  kLimit,         // the limit itself: the encoding has no row
  kNothing,       // there is nothing to do, which takes no time
  kUnknown,       // neither row nor limit
};
const char* TimeSourceName(TimeSource source);  // "measured", "scaled", …

struct EncodingTime {
  TimeSource source = TimeSource::kUnknown;
  double limit_ms = 0;                    // all calls; from main memory where the row is cold
  double expected_ms = 0;                 // the row's own time where it is of this shape, else limit · ratio
  const MeasuredEncoding* row = nullptr;  // in `measured`; nullptr where the encoding has no row
};

// The row is one of the same shape, else the one nearest in size; its time ÷ its limit is then the ratio by
// which the limit of `work` is multiplied, 1 at least: faster than its limit means a limit measured too low.
EncodingTime TimeFromRows(const PositionWork& work, Phase phase,
                          const std::vector<MeasuredEncoding>& measured, const Machine& machine, int threads);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENCODING_TIME_H_
