#include "model/engine/model_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/engine/run_words.h"
#include "model/kv_layout.h"
#include "model/units.h"
#include "model/weight_mix.h"

namespace ropeline {
namespace {

constexpr double kUsualBits = 4.8;       // of a file of unknown format: q4_K_M
constexpr double kBeyondDigit = 0.4;     // scales: "IQ3_KT" is 3.1 bits and "Q6_K" 6.6
constexpr double kMismatch = 0.05;       // of the parameters
constexpr double kMismatchByBits = 0.2;  // of the same by size and bits per weight, which mixes blur

// Bits per weight as the name of a format tells: a mix of ours, else its digit.
std::optional<double> BitsOf(const std::string& format) {
  const std::string lower = LowerCase(format);
  for (const std::string& name : WeightMixNames()) {
    if (name == "stored" || lower != LowerCase(name)) continue;
    return FindWeightMix(name, {"", ""}).plain_bits;
  }
  if (lower.find("bf16") != std::string::npos || lower.find("f16") != std::string::npos) return 16;
  if (lower.find("f32") != std::string::npos) return 32;
  const size_t digit =
      lower.find_first_of("123456789", lower.find('q') == std::string::npos ? 0 : lower.find('q'));
  if (digit == std::string::npos) return std::nullopt;
  return lower[digit] - '0' + kBeyondDigit;
}

BlockFormat CacheFormat(const std::string& type, const char* which, std::vector<std::string>* assumed) {
  if (type.empty()) {
    assumed->push_back(
        fmt::format("the run does not say how {} is stored: taken as f16, the engines' default", which));
    return kBlockF16;
  }
  for (const std::string& name : KvFormatNames()) {
    if (name == type) return FindKvFormat(name, {"", ""});
  }
  if (type.starts_with("q8")) return kBlockQ80;
  assumed->push_back(
      fmt::format("{} is stored as {}, which has no size here: taken as f16", which, Quoted(type)));
  return kBlockF16;
}

double BitsPerParameter(const Llm& llm, const EngineRun& run, std::vector<std::string>* assumed) {
  const auto params = static_cast<double>(llm.ParamsTotal());
  if (run.model_bytes) return 8 * static_cast<double>(*run.model_bytes) / params;
  if (run.bits_per_weight) return *run.bits_per_weight;
  if (llm.stored) return 8 * static_cast<double>(llm.stored->tensor_bytes) / params;
  if (const std::optional<double> bits = BitsOf(run.weight_format)) return *bits;
  assumed->push_back(
      fmt::format("the run does not say how weights are stored: taken as {} bits each", kUsualBits));
  return kUsualBits;
}

}  // namespace

ModelFacts FactsOf(const Llm& llm, const EngineRun& run) {
  ModelFacts facts;
  facts.name = llm.name;
  facts.params_total = static_cast<double>(llm.ParamsTotal());
  const Llm kept = run.mla == 0 ? WithExpandedLatent(llm) : llm;
  const KvFormats formats(CacheFormat(run.type_k, "K", &facts.assumed),
                          run.type_v.empty() ? CacheFormat(run.type_k, "V", &facts.assumed)
                                             : CacheFormat(run.type_v, "V", &facts.assumed));
  std::map<uint64_t, double> bytes_under_window;
  for (const Layer& layer : kept.layers) {
    const Attention& attention = layer.self;
    if (layer.stack != Stack::kDecoder || attention.kind == AttentionKind::kNone) continue;
    const auto bytes = static_cast<double>(KvBytesPerToken(attention, formats));
    facts.kv_bytes += bytes;
    facts.decode_attention_flops += attention.FlopsPerPair();
    const bool latent = attention.kind == AttentionKind::kMla;
    facts.latent = facts.latent || latent;
    facts.prefill_attention_flops +=
        latent && run.mla.value_or(1) > 1 ? attention.ExpandedFlopsPerPair() : attention.FlopsPerPair();
    if (attention.limited()) bytes_under_window[attention.window] += bytes;
  }
  const auto most = std::max_element(bytes_under_window.begin(), bytes_under_window.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != bytes_under_window.end()) {
    facts.window = WindowShape{static_cast<double>(most->first), most->second / facts.kv_bytes};
  }
  const double bits = BitsPerParameter(llm, run, &facts.assumed);
  facts.decode_weight_bytes = bits / 8 * static_cast<double>(kept.ElementsUsed(&MatrixUse::decode));
  facts.prefill_linear_flops = 2 * static_cast<double>(kept.ElementsUsed(&MatrixUse::prefill_each));
  return facts;
}

std::vector<std::string> Mismatches(const Llm& llm, const EngineRun& run) {
  const auto params = static_cast<double>(llm.ParamsTotal());
  const auto differs = [&](double of_run, double tolerance) {
    return std::abs(of_run / params - 1) > tolerance;
  };
  const auto billions = [](double count) { return fmt::format("{:.3g} billion", count / 1e9); };
  std::vector<std::string> found;
  if (run.model_params) {
    const auto of_run = static_cast<double>(*run.model_params);
    if (differs(of_run, kMismatch)) {
      found.push_back(fmt::format("{} has {} parameters, the run's model {}: not the model that ran",
                                  llm.name, billions(params), billions(of_run)));
    }
  } else if (run.model_bytes) {
    const std::optional<double> bits = run.bits_per_weight ? run.bits_per_weight : BitsOf(run.weight_format);
    const double of_run = bits ? 8 * static_cast<double>(*run.model_bytes) / *bits : params;
    if (differs(of_run, run.bits_per_weight ? kMismatch : kMismatchByBits)) {
      found.push_back(fmt::format(
          "{} has {} parameters; the run's {} at {:.3g} bits each are {}: not the model that ran", llm.name,
          billions(params), FormatBytes(static_cast<double>(*run.model_bytes)), *bits, billions(of_run)));
    }
  }
  return found;
}

}  // namespace ropeline
