#include "model/predict.h"

#include <algorithm>
#include <set>

#include "model/engine/engine_predict.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr uint64_t kCurveStart = 512;
constexpr uint64_t kCurveEnd = 131072;  // where the model has no published limit

Workload WorkloadOf(const PredictRequest& request, const WeightLayout& weights, uint64_t context) {
  return {&request.llm, &weights, &request.kv, context, request.batch, request.prefill_chunk};
}

const Term& Largest(const std::vector<Term>& terms) {
  return *std::max_element(terms.begin(), terms.end(),
                           [](const Term& a, const Term& b) { return a.ms < b.ms; });
}

double SumMs(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) sum += term.ms;
  return sum;
}

DecodeLevel DecodeFrom(std::vector<Term> terms, uint64_t batch) {
  DecodeLevel level;
  level.terms = std::move(terms);
  level.ms_per_token = SumMs(level.terms);
  level.tok_per_s_per_sequence = 1e3 / level.ms_per_token;
  level.tok_per_s = level.tok_per_s_per_sequence * static_cast<double>(batch);
  level.binding_term = Largest(level.terms).name;
  level.bound = Largest(level.terms).bound;
  return level;
}

PrefillLevel PrefillFrom(std::vector<Term> terms, uint64_t context) {
  PrefillLevel level;
  level.terms = std::move(terms);
  level.seconds = SumMs(level.terms) / 1e3;
  level.tok_per_s = static_cast<double>(context) / level.seconds;
  for (const Term& term : level.terms) {
    if (term.name == "linear" || term.name == "experts" || term.name == "lm_head") {
      level.flops_linear += term.flops;
    }
    if (term.name == "attention") level.flops_attention = term.flops;
  }
  level.binding_term = Largest(level.terms).name;
  level.bound = Largest(level.terms).bound;
  return level;
}

Levels<DecodeLevel> DecodeLevels(const PredictRequest& request, const WeightLayout& weights,
                                 const KernelSources& sources, uint64_t context) {
  const Workload work = WorkloadOf(request, weights, context);
  Levels<DecodeLevel> levels;
  std::vector<Term> limit = DecodeTermsAtLimit(work, *request.machine, request.threads);
  KernelTerms kernels = DecodeTermsFromKernels(work, *request.machine, request.threads, sources, limit);
  levels.limit.value = DecodeFrom(std::move(limit), request.batch);
  levels.kernels.missing = std::move(kernels.missing);
  if (levels.kernels.missing.empty()) {
    levels.kernels.value = DecodeFrom(std::move(kernels.terms), request.batch);
  }
  levels.engine = EngineDecode(request, weights, context);
  return levels;
}

Levels<PrefillLevel> PrefillLevels(const PredictRequest& request, const WeightLayout& weights,
                                   const KernelSources& sources, uint64_t context) {
  const Workload work = WorkloadOf(request, weights, context);
  Levels<PrefillLevel> levels;
  std::vector<Term> limit = PrefillTermsAtLimit(work, *request.machine, request.threads);
  KernelTerms kernels = PrefillTermsFromKernels(work, *request.machine, request.threads, sources, limit);
  levels.limit.value = PrefillFrom(std::move(limit), context);
  levels.kernels.missing = std::move(kernels.missing);
  if (levels.kernels.missing.empty()) {
    levels.kernels.value = PrefillFrom(std::move(kernels.terms), context);
  }
  levels.engine = EnginePrefill(request, weights, context);
  return levels;
}

std::vector<std::string> ModelWarnings(const PredictRequest& request, const KvLayer& kv) {
  const Llm& llm = request.llm;
  std::vector<std::string> warnings = llm.warnings;
  const std::string context = FormatCount(request.context) + " tokens";
  if (llm.max_context && request.context > *llm.max_context) {
    warnings.push_back(llm.hard_context_limit
                           ? llm.name + " has a table of " + FormatCount(*llm.max_context) +
                                 " positions and cannot run at " + context +
                                 ": these figures are the formula only"
                           : context + " is beyond the published context of " + llm.name + ", " +
                                 FormatCount(*llm.max_context) + ": it will run, but was not trained there");
  }
  if (llm.EncoderDecoder()) {
    warnings.push_back(
        "encoder-decoder: a context of " + context +
        " means that many in the encoder and in the decoder; prefill is the encoder's pass and the "
        "decoder's cross-attention keys and values");
  }
  const uint64_t needed = kv.bytes_at_context + kv.constant_bytes;
  if (kv.allocated_bytes > needed + needed / 4) {
    warnings.push_back("an engine that keeps all tokens of window layers, or pads the context to " +
                       std::to_string(request.allocation.pad_tokens) + " tokens, allocates " +
                       FormatBytes(static_cast<double>(kv.allocated_bytes)) + " for the cache instead of " +
                       FormatBytes(static_cast<double>(needed)));
  }
  for (const Layer& layer : llm.layers) {
    if (layer.stack != PrefillStack(llm) || layer.self.position.empty()) continue;
    const PositionWork work =
        WorkOf(llm, layer.self.position, &layer.self, Phase::kPrefill, request.context, 1);
    if (work.encoding->placement != Placement::kScoreBias) break;
    const double elements = static_cast<double>(TensorElements(Placement::kScoreBias, work.shape));
    warnings.push_back(
        std::string(work.encoding->name) + " is counted on materialised scores, " +
        FormatBytes(4 * elements) +
        " in f32 per layer at this prefill; an attention kernel that adds the bias itself avoids them");
    break;
  }
  return warnings;
}

// A measured term well below its limit: one of the two is wrong, or the kernel does not multiply in f32.
template <class Value>
void WarnOfTooFast(const Levels<Value>& levels, const char* phase, std::vector<std::string>* warnings) {
  constexpr double kBelievedRoof = 1.05;  // as of a row, DESIGN section 3
  if (!levels.kernels.value) return;
  const std::vector<Term>&limit = levels.limit.value->terms, &kernels = levels.kernels.value->terms;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].source != TermSource::kMeasured || limit[i].ms <= kBelievedRoof * kernels[i].ms) continue;
    // A bias inside attention does not do what its limit counts.
    if (kernels[i].bytes != limit[i].bytes) continue;
    warnings->push_back(std::string(phase) + "'s " + kernels[i].name + " was measured at " +
                        FormatMilliseconds(kernels[i].ms) + ", below its limit of " +
                        FormatMilliseconds(limit[i].ms) +
                        ": the limit's rows were measured too low, or the kernel does not multiply in f32");
  }
}

std::vector<std::string> MachineWarnings(const PredictRequest& request, const Prediction& prediction) {
  const Machine& machine = *request.machine;
  std::vector<std::string> warnings;
  if (machine.quick) warnings.emplace_back("the machine was measured by a quick run: figures are rougher");
  if (!machine.complete)
    warnings.emplace_back("the machine's run was stopped before its end: rows may be missing");
  const auto is_limit = [](const MeasuredRow& row) {
    return row.name.family == "stream" || row.name.family == "peak";
  };
  const auto limits = std::count_if(machine.rows.begin(), machine.rows.end(), is_limit);
  const auto tainted = std::count_if(machine.rows.begin(), machine.rows.end(),
                                     [&](const MeasuredRow& row) { return row.tainted && is_limit(row); });
  if (tainted > 0) {
    warnings.push_back(std::to_string(tainted) + " of " + std::to_string(limits) +
                       " stream and peak rows were disturbed in every repetition: the limits may be higher");
  }
  if (machine.peak_is_measured()) {
    warnings.emplace_back(
        "the peak is that of f32 multiply-adds: an engine that multiplies in int8 or bf16 may prefill "
        "faster");
  }
  for (const int fewer : machine.Threads()) {
    if (fewer >= request.threads) break;
    const auto less = machine.roofline.MemoryBandwidth(Traffic::kRead, fewer);
    if (less && *less > 1.03 * prediction.bandwidth_bytes_per_second) {
      warnings.push_back(std::to_string(fewer) + " threads read memory faster (" +
                         FormatBytesPerSecond(*less) + ") than the " + std::to_string(request.threads) +
                         " taken here: see --threads");
    }
  }
  const DecodeLevel& decode = *prediction.decode.limit.value;
  double flops = 0;
  for (const Term& term : decode.terms) flops += term.flops;
  const double needed = flops / decode.ms_per_token * 1e3;
  if (!machine.peak_is_measured() && needed > prediction.peak_flops_per_second) {
    warnings.push_back(
        "decode at this speed computes " + FormatFlopsPerSecond(needed) + ", above the " +
        FormatFlopsPerSecond(prediction.peak_flops_per_second) +
        " given for prefill: it holds only where decode's kernels are faster than that; at that rate a "
        "token takes " +
        FormatMilliseconds(flops / prediction.peak_flops_per_second * 1e3));
  }
  WarnOfTooFast(prediction.decode, "decode", &warnings);
  WarnOfTooFast(prediction.prefill, "prefill", &warnings);
  std::set<std::string> unknown;
  for (const auto* terms : {&decode.terms, &prediction.prefill.limit.value->terms}) {
    for (const Term& term : *terms) {
      if (term.bound == Bound::kUnknown && term.source == TermSource::kLimit) unknown.insert(term.name);
    }
  }
  for (const std::string& name : unknown) {
    warnings.push_back(
        name + " is left out of the sums: the machine has no stream rows for its kind of traffic at " +
        std::to_string(request.threads) + " threads");
  }
  return warnings;
}

}  // namespace

Prediction Predict(const PredictRequest& request) {
  const Llm& llm = request.llm;
  const auto context = static_cast<double>(request.context);
  Prediction p;
  p.weights = LayOutWeights(llm, request.weights);
  p.kv = LayOutKv(llm, request.kv, request.context, request.allocation);
  p.memory.weights_bytes = p.weights.total_bytes;
  p.memory.kv_bytes = (p.kv.total.bytes_at_context + p.kv.total.constant_bytes) * request.batch;
  const uint64_t chunk =
      request.prefill_chunk > 0 ? std::min(request.prefill_chunk, request.context) : request.context;
  const auto tokens = static_cast<double>(std::max(request.batch, chunk));
  p.memory.activation_bytes =
      static_cast<uint64_t>(ActivationBytes(llm, tokens, static_cast<double>(request.batch)));
  p.memory.total_bytes = p.memory.weights_bytes + p.memory.kv_bytes + p.memory.activation_bytes;
  p.memory.available_bytes = request.memory_bytes;
  if (request.memory_bytes) p.memory.fits = p.memory.total_bytes <= *request.memory_bytes;

  const Roofline& roofline = request.machine->roofline;
  p.bandwidth_bytes_per_second = roofline.MemoryBandwidth(Traffic::kRead, request.threads).value();
  p.peak_flops_per_second = roofline.PeakFlops(request.threads).value();
  const KernelSources sources(*request.machine, request.threads);
  p.decode = DecodeLevels(request, p.weights, sources, request.context);
  p.prefill = PrefillLevels(request, p.weights, sources, request.context);

  p.rule_of_thumb.decode_ms_kv_only =
      static_cast<double>(p.kv.total.bytes_per_token) * context / p.bandwidth_bytes_per_second * 1e3;
  p.rule_of_thumb.prefill_flops_2np = 2 * context * static_cast<double>(llm.ParamsTotal());
  p.rule_of_thumb.prefill_seconds = p.rule_of_thumb.prefill_flops_2np / p.peak_flops_per_second;
  p.crossovers = FindCrossovers(llm, request.kv, p.weights.total_bytes, request.batch);

  p.warnings = ModelWarnings(request, p.kv.total);
  const std::vector<std::string> machine_warnings = MachineWarnings(request, p);
  p.warnings.insert(p.warnings.end(), machine_warnings.begin(), machine_warnings.end());
  const std::vector<std::string> engine_warnings = EngineWarnings(request);
  p.warnings.insert(p.warnings.end(), engine_warnings.begin(), engine_warnings.end());
  return p;
}

std::vector<uint64_t> CurveContexts(const PredictRequest& request) {
  const uint64_t end = std::max(request.context, request.llm.max_context.value_or(kCurveEnd));
  std::set<uint64_t> contexts = {request.context};
  for (uint64_t n = kCurveStart; n <= end; n *= 2) contexts.insert(n);
  return {contexts.begin(), contexts.end()};
}

std::vector<CurvePoint> PredictCurve(const PredictRequest& request, const std::vector<uint64_t>& contexts) {
  const WeightLayout weights = LayOutWeights(request.llm, request.weights);
  const KernelSources sources(*request.machine, request.threads);
  std::vector<CurvePoint> curve;
  for (const uint64_t context : contexts) {
    const KvLayer kv = LayOutKv(request.llm, request.kv, context).total;
    const Levels<DecodeLevel> decode = DecodeLevels(request, weights, sources, context);
    const Levels<PrefillLevel> prefill = PrefillLevels(request, weights, sources, context);
    CurvePoint point{.context = context,
                     .kv_bytes = kv.bytes_at_context + kv.constant_bytes,
                     .ms_per_token = decode.limit.value->ms_per_token,
                     .tok_per_s = decode.limit.value->tok_per_s,
                     .binding_term = decode.limit.value->binding_term,
                     .prefill_seconds = prefill.limit.value->seconds,
                     .kernels_ms_per_token = {},
                     .kernels_tok_per_s = {},
                     .kernels_prefill_seconds = {},
                     .engine_ms_per_token = {},
                     .engine_prefill_seconds = {}};
    if (decode.kernels.value) {
      point.kernels_ms_per_token = decode.kernels.value->ms_per_token;
      point.kernels_tok_per_s = decode.kernels.value->tok_per_s;
    }
    if (prefill.kernels.value) point.kernels_prefill_seconds = prefill.kernels.value->seconds;
    if (decode.engine.value) point.engine_ms_per_token = decode.engine.value->range_ms;
    if (prefill.engine.value) point.engine_prefill_seconds = prefill.engine.value->range_s;
    curve.push_back(std::move(point));
  }
  return curve;
}

}  // namespace ropeline
