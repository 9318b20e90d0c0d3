// The model proved on the machine: steps that were executed (rows of family step) against what the model says
// of them from rows of single kernels, at the level `kernels`. No step row is read to predict any.
//
//   step/decode/<weights>/<target>/model:M/context:N/kv:K/threads:T            one token after N cached ones
//   step/prefill/<weights>/<target>/model:M/context:N/kv:K/chunk:C/threads:T   C tokens after N cached ones
// Their counters term_<name>_ms are the measured terms, by the names of limit_terms.h. weights_read_gb_s is
// what the step's own weights were read at right before and after it. On a virtual machine that is not what
// the stream rows were read at minutes earlier; by how much is told apart from the model's own error: a
// decode step's error once more, with bytes ÷ (speed then) − bytes ÷ (speed of the stream rows) added to what
// is read from memory.
#ifndef ROPELINE_MODEL_STEP_VALIDATION_H_
#define ROPELINE_MODEL_STEP_VALIDATION_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/kernel_terms.h"
#include "model/machine.h"
#include "model/weight_format.h"

namespace ropeline {

struct StepTermError {
  std::string name;
  double measured_ms = 0;
  double predicted_ms = 0;
  std::string row, note;  // what it was predicted from
};

struct StepPoint {
  std::string row;
  Phase phase = Phase::kDecode;
  std::string model, weights, kv;
  uint64_t context = 0, chunk = 0;
  int threads = 1;
  double measured_ms = 0;
  double predicted_ms = 0;
  double limit_ms = 0;  // of the level limit
  double error = 0;     // predicted ÷ measured − 1
  bool tainted = false;
  std::optional<double> memory_gb_s;    // beside the step
  std::optional<double> error_at_that;  // with memory so fast; decode only
  std::vector<StepTermError> terms;
  std::string blame;  // the term that is furthest off
};

struct StepErrors {
  size_t points = 0;
  double median = 0, worst = 0;  // of |error|; tainted points are left out where there are others
  std::string worst_row;
  std::optional<double> median_at_that, worst_at_that;  // of |error_at_that|, where every point has it
  std::string blame;  // the term that is to blame most often; "" without points
};

struct StepValidation {
  std::vector<StepPoint> points;  // in the order of the file
  StepErrors decode, prefill;
  std::vector<std::string> warnings;  // rows left out, and why
};

// Throws BadInput where the machine has no step row.
StepValidation ValidateSteps(const Machine& machine);

// A prefill of `chunk` tokens after `cached` ones, at the level kernels and at the limit.
KernelTerms ChunkTermsFromKernels(const Llm& llm, const WeightLayout& weights, const KvFormats& kv,
                                  uint64_t cached, uint64_t chunk, const Machine& machine, int threads,
                                  const KernelSources& sources);

nlohmann::ordered_json StepValidationJson(const Machine& machine, const StepValidation& validation);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_STEP_VALIDATION_H_
