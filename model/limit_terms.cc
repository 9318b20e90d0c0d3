#include "model/limit_terms.h"

#include <algorithm>
#include <cmath>

#include "model/small_operations.h"

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

// Tokens that cross attention keeps of the encoder.
double SourceTokens(const Llm& llm, double n) {
  for (const Layer& layer : llm.layers) {
    if (layer.cross.kind == AttentionKind::kCross) return layer.cross.Keys(n);
  }
  return n;
}

// Elements that a token adds to the cache.
double NewElements(const Attention& attention) {
  return attention.caches() || attention.kind == AttentionKind::kCross
             ? static_cast<double>(attention.KElements() + attention.VElements())
             : 0;
}

template <class Of>
double SumLayers(const Llm& llm, Stack stack, const Of& of) {
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
    term.bytes += part.work.cost.Bytes() * part.work.calls * part.layers;
    term.flops += part.work.cost.flops * part.work.calls * part.layers;
    term.ms += time.seconds * part.layers * 1e3;
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

// The encoding has the same to do in both.
bool SameWork(const Attention& a, const Attention& b) {
  return a.kind == b.kind && a.n_heads == b.n_heads && a.n_kv_heads == b.n_kv_heads &&
         a.d_head_k == b.d_head_k && a.window == b.window && a.causal == b.causal &&
         a.latent.d_rope == b.latent.d_rope && a.position.d_rot() == b.position.d_rot() &&
         a.position.encoding == b.position.encoding;
}

// Nothing to do is no term.
std::vector<Term> WithoutEmpty(std::vector<Term> terms) {
  std::erase_if(terms, [](const Term& term) { return term.bytes == 0 && term.flops == 0 && term.ms == 0; });
  return terms;
}

// Tokens whose K and V a prefill in chunks reads of one layer: each chunk those before it that it may see,
// and its own.
double PrefillKeysRead(const Attention& attention, double n, double chunk) {
  const double window = attention.limited() ? static_cast<double>(attention.window) : n;
  const double most = std::min(n, window + chunk);
  const double chunks = std::floor(n / chunk), whole = std::min(chunks, std::floor(most / chunk));
  const double rest = n - chunks * chunk, last = rest > 0 ? std::min(n, window + rest) : 0;
  return chunk * whole * (whole + 1) / 2 + (chunks - whole) * most + last;
}

// One product after another: the threads of an engine wait for each other before what needs its result.
double BarriersOf(const Layer& layer) {
  const bool attends = layer.self.kind != AttentionKind::kNone;
  const bool crosses = layer.cross.kind != AttentionKind::kNone;
  double barriers = attends ? 3 : 0;  // Q, K, V; attention; output
  barriers += crosses ? 3 : 0;
  barriers += layer.recurrent.empty() ? 0 : 3;  // in; scan; out
  if (layer.ffn.kind != FfnKind::kNone) barriers += layer.ffn.kind == FfnKind::kMoe ? 3 : 2;
  return barriers;
}

Term SynchronisationTerm(const Llm& llm, Stack stack, double passes, const Limits& limits) {
  Term term{.name = "synchronisation"};
  if (limits.threads < 2) return term;
  const auto barrier = limits.machine.barrier_ns.find(limits.threads);
  if (barrier == limits.machine.barrier_ns.end()) return term;
  const double barriers = (SumLayers(llm, stack, BarriersOf) + 1) * passes;
  term.ms = barriers * barrier->second / 1e6;
  term.source = TermSource::kMeasured;
  term.row = "sync/barrier/none/any/threads:" + std::to_string(limits.threads);
  term.note = std::to_string(static_cast<uint64_t>(barriers)) + " barriers";
  return term;
}

// `chunk` tokens at a time. One operation's activations are what a chunk goes over: they may fit in a cache.
Term SmallOperationsTerm(const Llm& llm, Stack stack, double tokens, double chunk, const Limits& limits) {
  Term term{.name = "small_operations"};
  if (!limits.machine.has_small_operations) return term;
  Cost cost = SmallCost(SmallElementsOf(llm, stack), tokens);
  term.bytes = cost.Bytes();
  term.flops = cost.flops;
  const LimitTime time = limits.machine.roofline.TimeAtLimit(cost, Traffic::kAdd, limits.threads,
                                                             12 * static_cast<double>(llm.d_model) * chunk);
  term.ms = time.seconds * 1e3;
  term.bound = time.bound;
  return term;
}

// Reads and writes every state; about 6 flops per element (decay, outer product, read-out).
Cost StatesCost(const KvLayer& kv, double passes, double tokens) {
  const auto bytes = static_cast<double>(kv.state_bytes);
  return {.bytes_read = bytes * passes,
          .bytes_written = bytes * passes,
          .flops = 6 * static_cast<double>(kv.state_elements) * tokens};
}

Cost LinearCost(const WeightSum& sum, double passes, double tokens) {
  return {.bytes_read = sum.bytes * passes, .flops = 2 * sum.elements * tokens};
}

Cost GatherCost(const Llm& llm, const WeightSums& sums, double tokens) {
  if (sums.gathered_bytes == 0) return {};
  return {.bytes_read = sums.gathered_bytes * tokens,
          .bytes_written = 4 * static_cast<double>(llm.d_model) * tokens};
}

}  // namespace

const char* TermSourceName(TermSource source) {
  switch (source) {
    case TermSource::kLimit:
      return "limit";
    case TermSource::kMeasured:
      return "measured";
    case TermSource::kEngine:
      return "engine";
  }
  return "";
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
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const PositionPart& part) {
      return part.attention != nullptr && SameWork(*part.attention, layer.self);
    });
    if (same != parts.end()) {
      ++same->layers;
      continue;
    }
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

Stack PrefillStack(const Llm& llm) {
  return llm.NumLayers(Stack::kEncoder) > 0 ? Stack::kEncoder : Stack::kDecoder;
}

std::vector<Term> DecodeTermsAtLimit(const Workload& work, const Machine& machine, int threads) {
  const Llm& llm = *work.llm;
  const Limits limits{machine, threads};
  const KvLayer kv = LayOutKv(llm, *work.kv_formats, work.context).total;
  const auto n = static_cast<double>(work.context);
  const auto batch = static_cast<double>(work.batch);
  const auto flops = [&](Attention Layer::*which) {
    return SumLayers(llm, Stack::kDecoder, [&](const Layer& layer) {
      return (layer.*which).Keys(n) * (layer.*which).FlopsPerPair();
    });
  };
  const double new_elements =
      SumLayers(llm, Stack::kDecoder, [](const Layer& layer) { return NewElements(layer.self); });
  const WeightSums& weights = work.weights->sums;
  const Cost self{.bytes_read = static_cast<double>(kv.read_bytes_per_step - kv.constant_bytes) * batch,
                  .flops = flops(&Layer::self) * batch};
  const Cost cross{.bytes_read = static_cast<double>(kv.cross_bytes) * batch,
                   .flops = flops(&Layer::cross) * batch};
  const Cost append{.bytes_read = 4 * new_elements * batch,
                    .bytes_written = static_cast<double>(kv.bytes_per_token) * batch};
  const auto at = [&](const char* name, const Cost& cost, Traffic traffic) {
    return limits.At(Phase::kDecode, name, cost, traffic);
  };
  return WithoutEmpty({at("embedding", GatherCost(llm, weights, batch), Traffic::kRead),
                       at("weights", LinearCost(weights.decode_layers, 1, batch), Traffic::kRead),
                       at("experts", weights.Experts(batch), Traffic::kRead),
                       at("attention", self, Traffic::kRead), at("cross_attention", cross, Traffic::kRead),
                       at("states", StatesCost(kv, batch, batch), Traffic::kUpdate),
                       at("cache_append", append, Traffic::kCopy), PositionTerm(work, Phase::kDecode, limits),
                       at("lm_head", LinearCost(weights.decode_head, 1, batch), Traffic::kRead),
                       SmallOperationsTerm(llm, Stack::kDecoder, batch, batch, limits),
                       SynchronisationTerm(llm, Stack::kDecoder, 1, limits)});
}

std::vector<Term> PrefillTermsAtLimit(const Workload& work, const Machine& machine, int threads) {
  const Llm& llm = *work.llm;
  const Limits limits{machine, threads};
  const KvLayer kv = LayOutKv(llm, *work.kv_formats, work.context).total;
  const auto n = static_cast<double>(work.context);
  const Stack stack = PrefillStack(llm);
  const bool encoder = stack == Stack::kEncoder;
  const bool whole = encoder || work.prefill_chunk == 0 || work.prefill_chunk >= work.context;
  const double chunk = whole ? n : static_cast<double>(work.prefill_chunk);
  const double chunks = std::floor(n / chunk), rest = n - chunks * chunk,
               passes = chunks + (rest > 0 ? 1 : 0);
  const double kept_elements = SumLayers(llm, Stack::kDecoder, [&](const Layer& layer) {
    return NewElements(encoder ? layer.cross : layer.self);
  });
  // An encoder keeps no cache: its K and V are f32 activations.
  const double read_bytes = SumLayers(llm, stack, [&](const Layer& layer) {
    const Attention& self = layer.self;
    if (self.kind == AttentionKind::kNone) return 0.0;
    const double per_token = encoder ? 4 * static_cast<double>(self.KElements() + self.VElements())
                                     : static_cast<double>(KvBytesPerToken(self, *work.kv_formats));
    return per_token * PrefillKeysRead(self, n, chunk);
  });
  const Cost attention{.bytes_read = read_bytes, .flops = SumLayers(llm, stack, [&](const Layer& layer) {
                                                   return layer.self.Pairs(n) *
                                                          layer.self.ExpandedFlopsPerPair();
                                                 })};
  const double written =
      encoder ? static_cast<double>(kv.cross_bytes) : static_cast<double>(kv.bytes_per_token) * n;
  const double source = llm.EncoderDecoder() ? SourceTokens(llm, n) : n;
  const Cost append{.bytes_read = 4 * kept_elements * source, .bytes_written = written};
  const WeightSums& weights = work.weights->sums;
  const Cost experts = weights.Experts(chunk) * chunks + (rest > 0 ? weights.Experts(rest) : Cost{});
  const auto at = [&](const char* name, const Cost& cost, Traffic traffic) {
    return limits.At(Phase::kPrefill, name, cost, traffic);
  };
  return WithoutEmpty(
      {at("embedding", GatherCost(llm, weights, n), Traffic::kRead),
       at("linear", LinearCost(weights.prefill_layers, passes, n), Traffic::kRead),
       at("experts", experts, Traffic::kRead), at("attention", attention, Traffic::kRead),
       at("states", encoder ? Cost{} : StatesCost(kv, passes, n), Traffic::kUpdate),
       at("cache_append", append, Traffic::kCopy), PositionTerm(work, Phase::kPrefill, limits),
       at("lm_head", LinearCost(weights.prefill_head, 1, 1), Traffic::kRead),
       SmallOperationsTerm(llm, stack, n, chunk, limits), SynchronisationTerm(llm, stack, passes, limits)});
}

double ActivationBytes(const Llm& llm, double tokens, double batch) {
  double widest = 0;
  for (const Layer& layer : llm.layers) {
    for (const Attention* of : {&layer.self, &layer.cross}) {
      const auto attention = static_cast<double>(of->n_heads * (of->d_head_k + of->d_head_v) +
                                                 of->KElements() + of->VElements());
      widest = std::max(widest, attention);
    }
    const FeedForward& ffn = layer.ffn;
    const double ups = ffn.kind == FfnKind::kMlp ? 1 : 2;
    widest = std::max(
        widest, ups * static_cast<double>(ffn.width + ffn.n_active * ffn.expert_width + ffn.shared_width));
  }
  const double logits = static_cast<double>(llm.vocabulary) * batch;
  return 4 * (tokens * (2 * static_cast<double>(llm.d_model) + widest) + logits);
}

}  // namespace ropeline
