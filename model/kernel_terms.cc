#include "model/kernel_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/encoding_time.h"
#include "model/kernel_rates.h"
#include "model/kv_layout.h"

namespace ropeline {
namespace {

// Times of the layers, added up: the row and note of the largest, the others' in the note.
class LayerSum {
 public:
  void Add(const KernelTime& time, double layers = 1) {
    ns_ += time.ns * layers;
    const bool known = std::any_of(parts_.begin(), parts_.end(), [&](const KernelTime& part) {
      return part.row == time.row && part.note == time.note;
    });
    if (!known) parts_.push_back(time);
  }
  bool empty() const { return parts_.empty(); }

  void Set(double times, Term* term) const {
    const auto largest = std::max_element(
        parts_.begin(), parts_.end(), [](const KernelTime& a, const KernelTime& b) { return a.ns < b.ns; });
    term->ms = ns_ * times / 1e6;
    term->source = TermSource::kMeasured;
    term->row = largest->row;
    term->note = largest->note;
    for (auto part = parts_.begin(); part != parts_.end(); ++part) {
      if (part == largest) continue;
      term->note += fmt::format("{}also {}{}", term->note.empty() ? "" : "; ", part->row,
                                part->note.empty() ? "" : " (" + part->note + ")");
    }
  }

 private:
  double ns_ = 0;
  std::vector<KernelTime> parts_;
};

struct Pass {
  const Workload& work;
  const Machine& machine;
  int threads;
  Phase phase;
  const KernelSources& sources;

  bool decode() const { return phase == Phase::kDecode; }
  double tokens() const { return static_cast<double>(work.context); }
  double sequences() const { return decode() ? static_cast<double>(work.batch) : 1; }
  Stack stack() const { return decode() ? Stack::kDecoder : PrefillStack(*work.llm); }
  // An encoder keeps no cache: its K and V are f32 activations.
  const BlockFormat& attention_format() const {
    return stack() == Stack::kEncoder ? kBlockF32 : work.kv_formats->k;
  }
};

// One layer, one sequence.
std::optional<KernelTime> AttentionTime(const Pass& pass, const Attention& attention) {
  // The kernels store K and V alike, per head.
  if (attention.kind == AttentionKind::kMla || !pass.work.kv_formats->same()) return std::nullopt;
  return pass.decode()
             ? pass.sources.rates.DecodeAttention(pass.attention_format(), attention,
                                                  attention.Keys(pass.tokens()))
             : pass.sources.rates.PrefillAttention(pass.attention_format(), attention, pass.tokens());
}

// True where one pass does the same work in both: the angles of a rotation take no more or less time.
bool SameWork(const Attention& a, const Attention& b) {
  const auto of = [](const Attention& x) {
    return std::tie(x.kind, x.n_heads, x.n_kv_heads, x.d_head_k, x.d_head_v, x.window, x.causal,
                    x.position.encoding, x.position.rope.d_rot, x.latent.q_lora_rank, x.latent.kv_lora_rank,
                    x.latent.d_nope, x.latent.d_rope, x.source_tokens, x.sinks);
  };
  return of(a) == of(b) && a.caches() == b.caches();
}

// Nothing where one of the layers has no rows.
std::optional<LayerSum> SumLayers(const Pass& pass, Stack stack, Attention Layer::*which,
                                  const std::function<std::optional<KernelTime>(const Attention&)>& of) {
  LayerSum sum;
  std::vector<std::pair<const Attention*, KernelTime>> known;  // of layers that are alike, once
  for (const Layer& layer : pass.work.llm->layers) {
    const Attention& attention = layer.*which;
    if (layer.stack != stack || attention.kind == AttentionKind::kNone) continue;
    auto same = std::find_if(known.begin(), known.end(),
                             [&](const auto& other) { return SameWork(*other.first, attention); });
    if (same == known.end()) {
      const auto time = of(attention);
      if (!time) return std::nullopt;
      same = known.emplace(known.end(), &attention, *time);
    }
    sum.Add(same->second);
  }
  if (sum.empty()) return std::nullopt;
  return sum;
}

// What rows of this model's attention would be called.
std::string RowKind(const Pass& pass) {
  const auto& layers = pass.work.llm->layers;
  const bool latent = std::any_of(layers.begin(), layers.end(),
                                  [](const Layer& layer) { return layer.self.kind == AttentionKind::kMla; });
  if (latent) return pass.work.kv_formats->Name() + " of latent attention";
  return pass.stack() == Stack::kEncoder ? kBlockF32.name : pass.work.kv_formats->Name();
}

void SetAttention(const Pass& pass, Attention Layer::*which, Term* term, std::vector<std::string>* missing) {
  const auto sum = SumLayers(pass, pass.stack(), which,
                             [&](const Attention& attention) { return AttentionTime(pass, attention); });
  if (sum) return sum->Set(pass.sequences(), term);
  const std::string rows =
      pass.machine.measured()
          ? fmt::format("measured rows attention/{}/{} at {} thread{}", pass.decode() ? "decode" : "prefill",
                        RowKind(pass), pass.threads, pass.threads == 1 ? "" : "s")
          : "measured rows of family attention";
  if (std::find(missing->begin(), missing->end(), rows) == missing->end()) missing->push_back(rows);
}

void SetAppend(const Pass& pass, Term* term) {
  const bool cross = !pass.decode() && pass.work.llm->EncoderDecoder();
  const double tokens = pass.decode() ? 1 : pass.tokens();
  const auto sum =
      SumLayers(pass, Stack::kDecoder, cross ? &Layer::cross : &Layer::self, [&](const Attention& attention) {
        return pass.sources.rates.Append(pass.work.kv_formats->k, attention, tokens);
      });
  if (sum) return sum->Set(pass.sequences(), term);
  term->note = fmt::format("at its limit: no rows kv_cache/append/{}", pass.work.kv_formats->Name());
}

// All calls of one application; nothing where the encoding has no rows, or neither row nor limit is known.
std::optional<KernelTime> PositionTime(const Pass& pass, const PositionPart& part) {
  const EncodingTime time =
      TimeFromRows(part.work, pass.phase, pass.sources.encodings, pass.machine, pass.threads);
  if (time.row == nullptr || time.source == TimeSource::kUnknown) return std::nullopt;
  std::string note;
  if (time.source != TimeSource::kMeasured) {
    note = fmt::format("scaled by its limit from n {}{}", time.row->shape.n,
                       time.source == TimeSource::kExtrapolated ? ", beyond the sizes measured" : "");
  }
  return KernelTime{time.expected_ms * 1e6, time.row->row, note};
}

// A score bias inside attention, all sequences.
std::optional<KernelTime> FusedBiasTime(const Pass& pass, const PositionPart& part) {
  if (part.work.encoding->placement != Placement::kScoreBias) return std::nullopt;
  const auto attention = AttentionTime(pass, *part.attention);
  if (!attention) return std::nullopt;
  return pass.sources.rates.BiasOnAttention(pass.phase, pass.attention_format(), *part.attention,
                                            part.attention->Keys(pass.tokens()), part.work.encoding->name,
                                            attention->ns * part.work.calls);
}

void SetPosition(const Pass& pass, Term* term) {
  LayerSum sum;
  double fused_bytes = 0;
  for (const PositionPart& part : PositionParts(pass.work, pass.phase)) {
    if (part.work.cost.Bytes() == 0 && part.work.cost.flops == 0) continue;
    auto time = FusedBiasTime(pass, part);
    if (time) {
      fused_bytes += part.work.cost.Bytes() * part.work.calls * part.layers;
    } else {
      time = PositionTime(pass, part);
    }
    if (!time) {
      term->note = fmt::format("at its limit: no rows of {}", part.work.encoding->name);
      return;
    }
    sum.Add(*time, part.layers);
  }
  if (sum.empty()) return;
  sum.Set(1, term);
  term->bytes -= fused_bytes;
  if (fused_bytes > 0) term->bound = Bound::kCompute;
}

// A product's share of a pass: `count` of them, each with so many tokens.
std::optional<KernelTime> ProductTime(const Pass& pass, const ProductShape& product, double tokens) {
  if (product.format == nullptr) return std::nullopt;
  const auto rows = static_cast<double>(product.rows), cols = static_cast<double>(product.cols);
  // A prompt's tokens go through together; a step's are a few vectors.
  return !pass.decode() && tokens > 1 ? pass.sources.weights.MatMul(*product.format, rows, cols, tokens)
                                      : pass.sources.weights.MatVec(*product.format, rows, cols, tokens);
}

std::string NoProductRows(const Pass& pass, const ProductShape& product, double tokens) {
  return fmt::format("at its limit: no rows {}/{}",
                     !pass.decode() && tokens > 1 ? "linear/matmul" : "weights/matvec",
                     product.format == nullptr ? "of matrices in several formats" : product.format->name);
}

// The products of `sum`, `passes` times with `tokens` tokens each; every format's rows, or the limit.
void SetProducts(const Pass& pass, const WeightSum& sum, double passes, double tokens, Term* term) {
  LayerSum times;
  for (const ProductShape& product : sum.products) {
    const auto time = ProductTime(pass, product, tokens);
    if (!time) {
      term->note = NoProductRows(pass, product, tokens);
      return;
    }
    times.Add(*time, product.count * passes);
    if (!pass.decode() && tokens > 1) continue;
    const auto ready =
        pass.sources.weights.Prepare(*product.format, static_cast<double>(product.cols), tokens);
    if (ready) times.Add(*ready, product.inputs * passes);
  }
  if (!times.empty()) times.Set(1, term);
}

// Experts: the distinct ones of a step or a chunk, each with its share of the tokens.
void SetExperts(const Pass& pass, double passes, double tokens, Term* term) {
  LayerSum times;
  for (const ExpertSum& group : pass.work.weights->sums.experts) {
    const double distinct = group.Distinct(tokens);
    const double each = std::max(1.0, static_cast<double>(group.n_active) * tokens / distinct);
    for (const ProductShape& product : group.sum.products) {
      const auto time = ProductTime(pass, product, each);
      if (!time) {
        term->note = NoProductRows(pass, product, each);
        return;
      }
      times.Add(*time, product.count / static_cast<double>(group.n_experts) * distinct * passes);
    }
  }
  if (!times.empty()) times.Set(1, term);
}

void SetSmallOperations(const Pass& pass, double chunk, Term* term) {
  const SmallElements elements = SmallElementsOf(*pass.work.llm, pass.stack());
  const double tokens = pass.decode() ? pass.sequences() : chunk;
  const auto time = pass.sources.small.Time(elements, tokens);
  if (!time) {
    term->note = "at its limit: no rows linear/rms_norm, swiglu and residual";
    return;
  }
  LayerSum sum;
  sum.Add(*time, pass.decode() ? 1 : pass.tokens() / chunk);
  sum.Set(1, term);
}

KernelTerms FromKernels(const Pass& pass, std::vector<Term> terms) {
  KernelTerms result{std::move(terms), {}};
  const double chunk = pass.work.prefill_chunk == 0
                           ? pass.tokens()
                           : std::min(pass.tokens(), static_cast<double>(pass.work.prefill_chunk));
  for (Term& term : result.terms) {
    if (term.name == "attention") {
      SetAttention(pass, &Layer::self, &term, &result.missing);
    } else if (term.name == "cross_attention") {
      SetAttention(pass, &Layer::cross, &term, &result.missing);
    } else if (term.name == "cache_append") {
      SetAppend(pass, &term);
    } else if (term.name == "position_encoding") {
      SetPosition(pass, &term);
    } else if (term.name == "weights") {
      SetProducts(pass, pass.work.weights->sums.decode_layers, 1, pass.sequences(), &term);
    } else if (term.name == "lm_head") {
      const WeightSums& sums = pass.work.weights->sums;
      SetProducts(pass, pass.decode() ? sums.decode_head : sums.prefill_head, 1, pass.sequences(), &term);
    } else if (term.name == "linear") {
      SetProducts(pass, pass.work.weights->sums.prefill_layers, pass.tokens() / chunk, chunk, &term);
    } else if (term.name == "experts") {
      SetExperts(pass, pass.decode() ? 1 : pass.tokens() / chunk, pass.decode() ? pass.sequences() : chunk,
                 &term);
    } else if (term.name == "small_operations") {
      SetSmallOperations(pass, chunk, &term);
    } else if (term.source != TermSource::kMeasured) {
      term.note = "at its limit: this suite has no kernel of its kind";
    }
  }
  if (!result.missing.empty()) result.terms.clear();
  return result;
}

}  // namespace

KernelTerms DecodeTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                   const KernelSources& sources, std::vector<Term> limit) {
  return FromKernels({work, machine, threads, Phase::kDecode, sources}, std::move(limit));
}

KernelTerms PrefillTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                    const KernelSources& sources, std::vector<Term> limit) {
  return FromKernels({work, machine, threads, Phase::kPrefill, sources}, std::move(limit));
}

KernelTerms DecodeTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                   const KernelSources& sources) {
  return DecodeTermsFromKernels(work, machine, threads, sources, DecodeTermsAtLimit(work, machine, threads));
}

KernelTerms PrefillTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                    const KernelSources& sources) {
  return PrefillTermsFromKernels(work, machine, threads, sources,
                                 PrefillTermsAtLimit(work, machine, threads));
}

}  // namespace ropeline
