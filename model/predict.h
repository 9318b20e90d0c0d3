// What a model costs on a machine at a context: memory, decode speed, prefill time. A pure function of plain
// structs; nothing here is measured, nothing is defaulted in silence.
//
// Three levels stand side by side (../shared/DESIGN.md, section 3): `limit`, what the measured bandwidth and
// peak allow; `kernels`, from this suite's own kernels (kernel_terms.h); `engine`, calibrated from a real
// one. A level whose inputs are missing says which.
#ifndef ROPELINE_MODEL_PREDICT_H_
#define ROPELINE_MODEL_PREDICT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/crossover.h"
#include "model/engine/engine.h"
#include "model/kernel_terms.h"
#include "model/kv_layout.h"
#include "model/limit_terms.h"
#include "model/llm.h"
#include "model/machine.h"
#include "model/weight_format.h"

namespace ropeline {

struct PredictRequest {
  Llm llm;
  uint64_t context = 0;  // tokens in the cache; tokens of the prompt
  WeightMix weights;
  KvFormats kv;
  const Machine* machine = nullptr;
  int threads = 1;                       // of the machine's rows; of no account for two figures
  uint64_t batch = 1;                    // sequences decoded together; prefill is of one
  uint64_t prefill_chunk = 0;            // tokens that prefill takes at a time; 0: the whole prompt
  std::optional<uint64_t> memory_bytes;  // of the machine; nothing where unknown
  KvAllocation allocation{};             // what an engine sets aside
  const Engine* engine = nullptr;        // nullptr: level engine has no value
};

struct DecodeLevel {
  double ms_per_token = 0;  // of one step: one token for every sequence; the sum of the terms
  double tok_per_s = 0;     // all sequences together
  double tok_per_s_per_sequence = 0;
  std::string binding_term;       // the largest
  Bound bound = Bound::kUnknown;  // of the largest
  std::vector<Term> terms;
  std::optional<Estimate> range_ms{};  // level engine: of ms_per_token, 90 % between low and high
};

struct PrefillLevel {
  double seconds = 0;
  double tok_per_s = 0;
  double flops_linear = 0;
  double flops_attention = 0;
  std::string binding_term;
  Bound bound = Bound::kUnknown;
  std::vector<Term> terms;
  std::optional<Estimate> range_s{};  // level engine: of seconds
};

template <class Value>
struct Level {
  std::optional<Value> value;
  std::vector<std::string> missing;  // inputs that the level lacks
};

template <class Value>
struct Levels {
  Level<Value> limit, kernels, engine;
};

struct Memory {
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;          // `batch` caches at the context, constant bytes included
  uint64_t activation_bytes = 0;  // of the larger of a decode step and a prefill chunk, and the logits
  uint64_t total_bytes = 0;
  std::optional<uint64_t> available_bytes;
  std::optional<bool> fits;  // nothing where the memory is unknown
};

// The article's arithmetic ("What long context actually costs on a CPU"), for one sequence: every layer full,
// weights not read, attention not counted.
struct RuleOfThumb {
  double decode_ms_kv_only = 0;  // bytes per token · context ÷ read bandwidth
  double prefill_flops_2np = 0;  // 2 · context · parameters
  double prefill_seconds = 0;    // that ÷ peak
};

struct Prediction {
  WeightLayout weights;
  KvLayout kv;
  Memory memory;
  Levels<DecodeLevel> decode;
  Levels<PrefillLevel> prefill;
  RuleOfThumb rule_of_thumb;
  Crossovers crossovers;
  double bandwidth_bytes_per_second = 0;  // read, main memory, at the request's threads
  double peak_flops_per_second = 0;
  std::vector<std::string> warnings;
};

Prediction Predict(const PredictRequest& request);

struct CurvePoint {
  uint64_t context = 0;
  uint64_t kv_bytes = 0;  // one sequence, constant bytes included
  double ms_per_token = 0;
  double tok_per_s = 0;
  std::string binding_term;
  double prefill_seconds = 0;
  // At level kernels; nothing where it lacks rows.
  std::optional<double> kernels_ms_per_token, kernels_tok_per_s, kernels_prefill_seconds;
  // At level engine, with their ranges; nothing without a profile, or where it lacks rates.
  std::optional<Estimate> engine_ms_per_token, engine_prefill_seconds;
};

// 512, 1k, 2k … up to the model's published context (128k where there is none) or the request's, which is in
// the list.
std::vector<uint64_t> CurveContexts(const PredictRequest& request);
std::vector<CurvePoint> PredictCurve(const PredictRequest& request, const std::vector<uint64_t>& contexts);

// Keys as in DESIGN section 3, "predict --json". An empty curve is left out.
nlohmann::ordered_json PredictionJson(const PredictRequest& request, const Prediction& prediction,
                                      const std::vector<CurvePoint>& curve);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_PREDICT_H_
