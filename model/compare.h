// What each position encoding costs: at a glance on a model, by its law, as measured beside the machine's
// limit, and paid for in other ways. Loops over the registry; names no encoding.
#ifndef ROPELINE_MODEL_COMPARE_H_
#define ROPELINE_MODEL_COMPARE_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "model/encoding_share.h"
#include "model/law.h"
#include "model/machine.h"
#include "model/measured_encoding.h"
#include "model/ways_to_pay.h"

namespace ropeline {

struct Comparison {
  std::vector<MeasuredEncoding> rows;  // of the encodings, and of the shape where one was given
  std::vector<EncodingShare> shares;   // at the request's contexts
  std::vector<Rejection> rejected;
  std::vector<EncodingLaw> laws;
  std::vector<WayToPay> ways;
  CostCurve curve;
};

// Pure; `machine` must outlive the result.
Comparison Compare(const CompareRequest& request, const Machine& machine);

nlohmann::ordered_json CompareJson(const CompareRequest& request, const Machine& machine,
                                   const Comparison& comparison);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_COMPARE_H_
