#include "model/limit_terms.h"

#include <functional>

namespace ropeline {
namespace {

struct Limits {
  const Machine& machine;
  int threads;

  Term At(Phase phase, const char* name, const Cost& cost, Traffic traffic) const {
    const LimitTime time = TimeAtLimit(phase, cost, traffic, machine, threads);
    return {.name = name,
            .bytes = cost.Bytes(),
            .flops = cost.flops,
            .ms = time.seconds * 1e3,
            .bound = time.bound};
  }
};

double KvElementsPerToken(const Attention& attention) {
  return static_cast<double>(attention.n_kv_heads * (attention.d_head_k + attention.d_head_v));
}

double SumLayers(const Llm& llm, Stack stack, const std::function<double(const Layer&)>& of) {
  double sum = 0;
  for (const Layer& layer : llm.layers) sum += layer.stack == stack ? of(layer) : 0;
  return sum;
}

// Its bound is that of its largest part.
Term PositionTerm(const Workload& work, Phase phase, const Limits& limits) {
  Term term{.name = "position_encoding"};
  double largest = -1;
  bool unknown = false;
  for (const PositionPart& part : PositionParts(work, phase)) {
    const LimitTime time = TimeOf(part.work, limits.machine, limits.threads);
    term.bytes += part.work.cost.Bytes() * part.work.calls;
    term.flops += part.work.cost.flops * part.work.calls;
    term.ms += time.seconds * 1e3;
    unknown = unknown || time.bound == Bound::kUnknown;
    if (time.seconds <= largest) continue;
    largest = time.seconds;
    term.bound = time.bound;
  }
  if (unknown) {
    term.ms = 0;
    term.bound = Bound::kUnknown;
  }
  return term;
}

// Nothing to do is no term.
std::vector<Term> WithoutEmpty(std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& term) { return term.bytes == 0 && term.flops == 0; });
  return terms;
}

}  // namespace

const char* TermSourceName(TermSource source) {
  return source == TermSource::kMeasured ? "measured" : "limit";
}

std::vector<PositionPart> PositionParts(const Workload& work, Phase phase) {
  const Llm& llm = *work.llm;
  const bool prefill = phase == Phase::kPrefill;
  const uint64_t sequences = prefill ? 1 : work.batch;
  std::vector<PositionPart> parts;
  if (!llm.input_position.empty()) {
    parts.push_back({WorkOf(llm, llm.input_position, nullptr, phase, work.context, sequences), nullptr});
  }
  const Stack stack = prefill ? PrefillStack(llm) : Stack::kDecoder;
  for (const Layer& layer : llm.layers) {
    if (layer.stack != stack || layer.self.position.empty()) continue;
    parts.push_back(
        {WorkOf(llm, layer.self.position, &layer.self, phase, work.context, sequences), &layer.self});
  }
  return parts;
}

LimitTime TimeAtLimit(Phase phase, const Cost& cost, Traffic traffic, const Machine& machine, int threads) {
  Cost bound = cost;
  if (phase == Phase::kDecode && !machine.peak_is_measured()) bound.flops = 0;
  return machine.roofline.TimeAtLimit(bound, traffic, threads, kMainMemoryBytes);
}

LimitTime TimeOf(const PositionWork& work, const Machine& machine, int threads) {
  LimitTime time = machine.roofline.TimeAtLimit(work.cost, TrafficOf(work.encoding->placement), threads,
                                                work.working_set_bytes);
  time.seconds *= work.calls;
  return time;
}

Stack PrefillStack(const Llm& llm) { return llm.EncoderDecoder() ? Stack::kEncoder : Stack::kDecoder; }

std::vector<Term> DecodeTermsAtLimit(const Workload& work, const Machine& machine, int threads) {
  const Llm& llm = *work.llm;
  const Limits limits{machine, threads};
  const KvLayer kv = LayOutKv(llm, *work.kv_format, work.context).total;
  const auto n = static_cast<double>(work.context);
  const auto batch = static_cast<double>(work.batch);
  const auto flops = [&](Attention Layer::*which) {
    return SumLayers(llm, Stack::kDecoder, [&](const Layer& layer) {
      return (layer.*which).Keys(n) * (layer.*which).FlopsPerPair();
    });
  };
  const double new_elements =
      SumLayers(llm, Stack::kDecoder, [](const Layer& layer) { return KvElementsPerToken(layer.self); });
  const Cost weights{.bytes_read = static_cast<double>(work.weights->decode_bytes),
                     .flops = 2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::decode)) * batch};
  const Cost self{.bytes_read = static_cast<double>(kv.bytes_at_context) * batch,
                  .flops = flops(&Layer::self) * batch};
  const Cost cross{.bytes_read = static_cast<double>(kv.constant_bytes) * batch,
                   .flops = flops(&Layer::cross) * batch};
  const Cost append{.bytes_read = 4 * new_elements * batch,
                    .bytes_written = static_cast<double>(kv.bytes_per_token) * batch};
  return WithoutEmpty({limits.At(Phase::kDecode, "weights", weights, Traffic::kRead),
                       limits.At(Phase::kDecode, "attention", self, Traffic::kRead),
                       limits.At(Phase::kDecode, "cross_attention", cross, Traffic::kRead),
                       limits.At(Phase::kDecode, "cache_append", append, Traffic::kCopy),
                       PositionTerm(work, Phase::kDecode, limits)});
}

std::vector<Term> PrefillTermsAtLimit(const Workload& work, const Machine& machine, int threads) {
  const Llm& llm = *work.llm;
  const Limits limits{machine, threads};
  const KvLayer kv = LayOutKv(llm, *work.kv_format, work.context).total;
  const auto n = static_cast<double>(work.context);
  const Stack stack = PrefillStack(llm);
  const bool encoder = stack == Stack::kEncoder;
  const double read_elements =
      SumLayers(llm, stack, [](const Layer& layer) { return KvElementsPerToken(layer.self); });
  const double kept_elements = SumLayers(llm, Stack::kDecoder, [&](const Layer& layer) {
    return KvElementsPerToken(encoder ? layer.cross : layer.self);
  });
  const Cost linear{.bytes_read = static_cast<double>(work.weights->prefill_bytes),
                    .flops = 2 * n * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_each)) +
                             2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_last))};
  // An encoder keeps no cache: its K and V are f32 activations.
  const double kv_bytes = encoder ? 4 * read_elements * n : static_cast<double>(kv.bytes_per_token) * n;
  const Cost attention{.bytes_read = kv_bytes, .flops = SumLayers(llm, stack, [&](const Layer& layer) {
                                                 return layer.self.Pairs(n) * layer.self.FlopsPerPair();
                                               })};
  const double written =
      encoder ? static_cast<double>(kv.constant_bytes) : static_cast<double>(kv.bytes_per_token) * n;
  const Cost append{.bytes_read = 4 * kept_elements * n, .bytes_written = written};
  return WithoutEmpty({limits.At(Phase::kPrefill, "linear", linear, Traffic::kRead),
                       limits.At(Phase::kPrefill, "attention", attention, Traffic::kRead),
                       limits.At(Phase::kPrefill, "cache_append", append, Traffic::kCopy),
                       PositionTerm(work, Phase::kPrefill, limits)});
}

}  // namespace ropeline
