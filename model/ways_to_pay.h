// Other ways to pay for the same encoding that a run measured: a bias that stands in memory, angles that are
// computed, a rotation that writes the cache. Rows whose names carry form: or angles:, each beside the base
// of its group.
#ifndef ROPELINE_MODEL_WAYS_TO_PAY_H_
#define ROPELINE_MODEL_WAYS_TO_PAY_H_

#include <optional>
#include <string>
#include <vector>

#include "model/encoding_share.h"
#include "model/machine.h"

namespace ropeline {

struct WayToPay {
  size_t group = 0;                  // rows of one group do the same work
  bool base = false;                 // the first of its group, which the others' times are divided by
  const MeasuredRow* row = nullptr;  // in the machine, which must outlive this
  std::string way;                   // "plain", "materialised, bias f16", "per_head"
  std::string shape;                 // "n:512 h:32 d:128"
  std::optional<double> bytes;       // moved by one call, as its kernel counts them
  double ratio = 1;                  // time ÷ the base's
};

// Rows at the request's threads, dtype and encodings, group by group, the base first. The base is the plain
// row of the same encoding and shape. Ways that replace each other rather than the plain row (writing the
// cache, rotating within attention) are compared with the one that does the steps apart, and a tile of biased
// scores with a tile without bias. Where the base is not in the results, the group's first row stands for it.
std::vector<WayToPay> WaysToPay(const CompareRequest& request, const Machine& machine);

// Counters that any of the ways has and whose keys begin with `prefix`, short contexts before long ones.
std::vector<std::string> CounterKeys(const std::vector<WayToPay>& ways, const std::string& prefix);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WAYS_TO_PAY_H_
