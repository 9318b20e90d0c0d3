#include "model/engine/engine_predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "model/units.h"

namespace ropeline {
namespace {

constexpr double kMsPerS = 1e3;
constexpr double kGiga = 1e9;
constexpr uint64_t kUsualChunk = 512;
constexpr uint64_t kMostChunks = 64;
// By how much the rates of one model miss another's on the same engine and machine, 90 %: formats and head
// shapes meet other kernels. An estimate, not fitted: few published machines ran two models.
constexpr double kOtherWeights = 1.4;
constexpr double kOtherAttention = 2.5;

bool SameModel(const EngineConfig& config, const PredictRequest& request) {
  if (!config.geometry.empty()) return config.geometry == request.llm.name;
  return true;  // calibrated without a model: the user says that it is this one
}

bool SameCache(const EngineConfig& config, const PredictRequest& request) {
  const auto same = [](const std::string& type, const char* name) { return type.empty() || type == name; };
  return same(config.type_k, request.kv.k.name) && same(config.type_v, request.kv.v.name);
}

// Formats of one name; a format that either does not tell is any.
bool SameWeights(const EngineConfig& config, const PredictRequest& request) {
  const std::string_view asked = request.weights.name;
  const std::string& format = config.weight_format;
  if (format.empty() || request.weights.base == nullptr) return true;  // as the model's files hold them
  return std::equal(format.begin(), format.end(), asked.begin(), asked.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

const EngineRate* Determined(const EngineConfig& config, const char* name) {
  for (const EngineRate& rate : config.rates) {
    if (rate.name == name && rate.value) return &rate;
  }
  return nullptr;
}

// amount ÷ rate in seconds, widened by a factor either way.
Estimate SecondsAt(const EngineRate& rate, double amount, double widened) {
  const double giga = amount / kGiga;
  return {giga / rate.value->value, giga / rate.value->high / widened, giga / rate.value->low * widened};
}

Estimate Sum(const Estimate& a, const Estimate& b) {
  return {a.value + b.value, a.low + b.low, a.high + b.high};
}

Estimate Times(const Estimate& estimate, double factor) {
  return {estimate.value * factor, estimate.low * factor, estimate.high * factor};
}

Term EngineTerm(const char* name, double bytes, double flops, double seconds, const char* note) {
  Term term;
  term.name = name;
  term.bytes = bytes;
  term.flops = flops;
  term.ms = seconds * kMsPerS;
  term.source = TermSource::kEngine;
  term.note = note;
  return term;
}

const char* LargerOf(const std::vector<Term>& terms) {
  return terms[1].ms > terms[0].ms ? terms[1].name.c_str() : terms[0].name.c_str();
}

std::vector<std::string> MissingFor(const EngineConfig& config, bool curve, const char* phase,
                                    const char* first, const char* second) {
  std::vector<std::string> missing;
  if (curve) return {fmt::format("{} rows in the engine's run", phase)};
  for (const char* rate : {first, second}) {
    if (Determined(config, rate) == nullptr) missing.push_back(fmt::format("{} in the engine profile", rate));
  }
  return missing;
}

constexpr const char* kByCurve = "from the engine's own curve";
constexpr const char* kByCurveAndRate =
    "from the engine's own curve, weights of another format by their bytes";
constexpr const char* kByRates = "from the rates of another model or cache format";

double AttentionFlops(const Llm& llm, double context) {
  double flops = 0;
  for (const Layer& layer : llm.layers)
    flops += layer.self.Pairs(context) * layer.self.ExpandedFlopsPerPair();
  return flops;
}

}  // namespace

bool OfAnotherMachine(const PredictRequest& request) {
  const std::string &engine = request.engine->cpu, &machine = request.machine->cpu_model;
  return !engine.empty() && !machine.empty() && engine != machine;
}

const EngineConfig& NearestConfig(const Engine& engine, const PredictRequest& request) {
  const auto score = [&](const EngineConfig& config) {
    int points = 0;
    if (config.geometry == request.llm.name) points += 16;
    if (!config.weight_format.empty() && SameWeights(config, request)) points += 8;
    if (config.threads == request.threads) points += 4;
    if (SameCache(config, request)) points += 2;
    return points + (config.tg ? 1 : 0);
  };
  return *std::max_element(engine.configs.begin(), engine.configs.end(),
                           [&](const EngineConfig& a, const EngineConfig& b) { return score(a) < score(b); });
}

Estimate CurveDecodeSeconds(const Curve& curve, uint64_t context) {
  const auto depth = static_cast<double>(context);
  return CurveFit(curve).At(depth, depth);
}

Estimate CurvePrefillSeconds(const Curve& curve, uint64_t context, uint64_t chunk) {
  const CurveFit fit(curve);
  const uint64_t least = (context + kMostChunks - 1) / kMostChunks;
  const uint64_t step = std::max(least, chunk == 0 ? kUsualChunk : chunk);
  Estimate total;
  for (uint64_t from = 0; from < context; from += step) {
    const auto tokens = static_cast<double>(std::min(step, context - from));
    const auto n_kv = static_cast<double>(from);
    total = Sum(total, Times(fit.At(n_kv, n_kv + tokens / 2), tokens));
  }
  return total;
}

Level<DecodeLevel> EngineDecode(const PredictRequest& request, const WeightLayout& weights,
                                uint64_t context) {
  Level<DecodeLevel> level;
  if (request.engine == nullptr) {
    level.missing = {"an engine profile"};
    return level;
  }
  if (request.batch > 1) {
    level.missing = {"a profile of several sequences: the engine's is of one"};
    return level;
  }
  const EngineConfig& config = NearestConfig(*request.engine, request);
  const KvLayer kv = LayOutKv(request.llm, request.kv, context).total;
  const bool full = config.policy.skips_window == false;
  const double kv_bytes = full ? static_cast<double>(kv.bytes_per_token * context + kv.constant_bytes)
                               : static_cast<double>(kv.read_bytes_per_step);
  const auto weight_bytes = static_cast<double>(weights.decode_bytes);
  const bool by_curve = SameModel(config, request) && SameCache(config, request) && config.tg;
  const EngineRate* weight_rate = Determined(config, kRateWeights);
  const EngineRate* kv_rate = Determined(config, kRateKv);
  Estimate seconds;
  double first = 0;
  if (by_curve) {
    seconds = CurveDecodeSeconds(*config.tg, context);
    first = std::min(CurveFit(*config.tg).Intercept().value, seconds.value);
    if (!SameWeights(config, request) && weight_rate != nullptr) {
      // What depth does not change, with other bytes at the same rate.
      const Estimate reading = SecondsAt(*weight_rate, weight_bytes, kOtherWeights);
      seconds = {seconds.value - first + reading.value, seconds.low - first + reading.low,
                 seconds.high - first + reading.high};
      first = reading.value;
    }
  } else if (weight_rate != nullptr && kv_rate != nullptr) {
    const Estimate reading = SecondsAt(*weight_rate, weight_bytes, kOtherWeights);
    seconds = Sum(reading, SecondsAt(*kv_rate, kv_bytes, kOtherAttention));
    first = reading.value;
  } else {
    level.missing =
        MissingFor(config, SameModel(config, request) && !config.tg, "decode", kRateWeights, kRateKv);
    return level;
  }
  const char* note = !by_curve ? kByRates : SameWeights(config, request) ? kByCurve : kByCurveAndRate;
  DecodeLevel value;
  value.terms = {EngineTerm("weights", weight_bytes, 0, first, note),
                 EngineTerm("attention", kv_bytes, 0, seconds.value - first, note)};
  value.ms_per_token = seconds.value * kMsPerS;
  value.tok_per_s = value.tok_per_s_per_sequence = 1 / seconds.value;
  value.binding_term = LargerOf(value.terms);
  value.range_ms = Times(seconds, kMsPerS);
  level.value = std::move(value);
  return level;
}

Level<PrefillLevel> EnginePrefill(const PredictRequest& request, const WeightLayout& weights,
                                  uint64_t context) {
  Level<PrefillLevel> level;
  if (request.engine == nullptr) {
    level.missing = {"an engine profile"};
    return level;
  }
  const EngineConfig& config = NearestConfig(*request.engine, request);
  const auto tokens = static_cast<double>(context);
  PrefillLevel value;
  value.flops_linear = 2 * tokens * static_cast<double>(request.llm.ElementsUsed(&MatrixUse::prefill_each));
  value.flops_attention = AttentionFlops(request.llm, tokens);
  const bool by_curve = SameModel(config, request) && config.pp;
  const EngineRate* linear = Determined(config, kRateLinear);
  const EngineRate* attention = Determined(config, kRateAttention);
  Estimate seconds;
  double first = 0;
  if (by_curve) {
    const uint64_t chunk = config.ubatch.value_or(request.prefill_chunk);
    seconds = CurvePrefillSeconds(*config.pp, context, chunk);
    first = std::min(CurveFit(*config.pp).Intercept().value * tokens, seconds.value);
    if (!SameWeights(config, request)) {
      // The same products, unpacked by another kernel.
      seconds.low -= first * (1 - 1 / kOtherWeights);
      seconds.high += first * (kOtherWeights - 1);
    }
  } else if (linear != nullptr && attention != nullptr) {
    const Estimate products = SecondsAt(*linear, value.flops_linear, kOtherWeights);
    seconds = Sum(products, SecondsAt(*attention, value.flops_attention, kOtherAttention));
    first = products.value;
  } else {
    level.missing =
        MissingFor(config, SameModel(config, request) && !config.pp, "prefill", kRateLinear, kRateAttention);
    return level;
  }
  const char* note = by_curve ? kByCurve : kByRates;
  value.terms = {
      EngineTerm("linear", static_cast<double>(weights.prefill_bytes), value.flops_linear, first, note),
      EngineTerm("attention", 0, value.flops_attention, seconds.value - first, note)};
  value.seconds = seconds.value;
  value.tok_per_s = tokens / seconds.value;
  value.binding_term = LargerOf(value.terms);
  value.range_s = seconds;
  level.value = std::move(value);
  return level;
}

std::vector<std::string> EngineWarnings(const PredictRequest& request) {
  std::vector<std::string> warnings;
  if (request.engine == nullptr) return warnings;
  const EngineConfig& config = NearestConfig(*request.engine, request);
  if (!SameModel(config, request)) {
    warnings.push_back(fmt::format("the engine profile is of {}: {} follows from its rates, roughly",
                                   config.geometry, request.llm.name));
  } else if (config.geometry.empty()) {
    warnings.push_back(
        fmt::format("the engine profile was calibrated without a model: its curve is taken as that "
                    "of {}",
                    request.llm.name));
  }
  if (SameModel(config, request) && !SameCache(config, request)) {
    warnings.push_back(
        fmt::format("the engine profile is of a cache in {}/{}: decode with {} follows from its rates, "
                    "roughly",
                    config.type_k, config.type_v.empty() ? "?" : config.type_v, request.kv.Name()));
  }
  if (!SameWeights(config, request)) {
    warnings.push_back(fmt::format(
        "the engine profile is of weights in {}: {} follows from their bytes at its rate, roughly "
        "(--weights)",
        config.weight_format, request.weights.name));
  }
  if (OfAnotherMachine(request)) {
    warnings.push_back(
        fmt::format("the engine profile is of {}; limit and kernels are of {}: not to be compared",
                    request.engine->cpu, request.machine->cpu_model));
  }
  if (config.threads && request.machine->measured() && *config.threads != request.threads) {
    warnings.push_back(
        fmt::format("the engine profile is of {} threads; limit and kernels are of {} (--threads)",
                    *config.threads, request.threads));
  }
  for (const EngineFlag& flag : config.flags) {
    warnings.push_back(fmt::format("engine profile, {}: {}: {}", flag.phase, flag.name, flag.detail));
  }
  return warnings;
}

}  // namespace ropeline
