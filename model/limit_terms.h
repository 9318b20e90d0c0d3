// The terms of a decode step and of a prefill at the machine's limits: what must be read, written and
// computed, and the time that takes with measured bandwidth and peak. No engine can be faster than their
// largest; their sum takes each in turn, as a forward pass does.
//
// Decode, one step of `batch` sequences that hold `context` tokens each:
//   embedding          rows of the embedding tables, one per token: gathered, not streamed
//   weights            every matrix of the layers, norms and biases: read once, whatever the batch. 2 flops a
//                      matrix element and sequence. Experts and LM head are terms of their own.
//   experts            E·(1 − (1 − k/E)^batch) distinct experts of E are read, k of them computed a sequence
//   attention          keys and values of the self attention, per sequence; 2·keys·n_heads·(d_head_k +
//                      d_head_v) flops a layer, keys = min(context, window); MLA from the latent, absorbed
//   cross_attention    the same over the encoder's tokens; encoder-decoders only
//   states             recurrent states, read and written
//   cache_append       the new K and V: read in f32, written in the cache's format
//   position_encoding  the registry's cost: rotation of one token a layer; a bias on n_heads·keys scores a
//                      layer; one row added at the input
//   lm_head            the output matrix, or the tied embedding
//   small_operations   norms, activation, residual adds, at the bandwidth of whatever cache holds one of them
//                      (small_operations.h); nothing where their rows were not measured
//   synchronisation    threads waiting for each other: a barrier after each product that the next one needs,
//                      at the measured time of a barrier; nothing where that was not measured
// The time of a term is max(bytes ÷ bandwidth, flops ÷ peak). Where the machine is two typed figures, the
// flops figure is a rate of prefill's products and no peak (Machine::peak_is_measured), and decode terms are
// bound by memory alone; predict then warns where that rate would not keep up. A measured peak is that of f32
// FMAs.
//
// Weights and cache come from main memory at the read bandwidth: a step reads gigabytes, so that nothing of
// it is in a cache when the next step begins. Logits, and activations between products beside those of
// small_operations, are below 0.1 % of these bytes and are left out.
//
// Prefill, one sequence of `context` tokens, in chunks. An encoder-decoder's prefill is the encoder's pass
// and the decoder's cross K and V of each token; its first token then costs a decode step.
//   linear             2 flops per token and element of the matrices applied to each; the weights are read
//                      once a chunk
//   experts            the distinct experts of each chunk are read, k per token computed
//   attention          pairs·2·n_heads·(d_head_k + d_head_v) flops a layer, see Attention::Pairs for the
//                      pairs (causal ones only); MLA expanded to heads. Each chunk reads the K and V before
//                      it
//   lm_head            for the last token only
//   others             as above, all tokens; for a score bias the scores [n_heads, n, n] in memory, causal
//                      half
#ifndef ROPELINE_MODEL_LIMIT_TERMS_H_
#define ROPELINE_MODEL_LIMIT_TERMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/kv_layout.h"
#include "model/llm.h"
#include "model/machine.h"
#include "model/position_work.h"
#include "model/weight_format.h"

namespace ropeline {

// Where a term's ms comes from: the limit, the measured time of a kernel of this suite (kernel_terms.h), or
// an engine's profile (engine/engine_predict.h).
enum class TermSource { kLimit, kMeasured, kEngine };
const char* TermSourceName(TermSource source);  // "limit", "measured", "engine"

struct Term {
  std::string name{};
  double bytes = 0;
  double flops = 0;
  double ms = 0;
  Bound bound = Bound::kUnknown;  // of the limit; kUnknown: a row that it needs was not measured
  TermSource source = TermSource::kLimit;
  std::string row{};   // kMeasured: name of the row that the time follows from
  std::string note{};  // how it follows from that row; level kernels: why a term stands at its limit
};

struct Workload {
  const Llm* llm = nullptr;
  const WeightLayout* weights = nullptr;
  const KvFormats* kv_formats = nullptr;
  uint64_t context = 0;
  uint64_t batch = 1;          // decode only
  uint64_t prefill_chunk = 0;  // prefill only; 0: the whole prompt at once
};

// Of one cost that comes from main memory, by the rules above.
LimitTime TimeAtLimit(Phase phase, const Cost& cost, Traffic traffic, const Machine& machine, int threads);

std::vector<Term> DecodeTermsAtLimit(const Workload& work, const Machine& machine, int threads);
std::vector<Term> PrefillTermsAtLimit(const Workload& work, const Machine& machine, int threads);

// Applications of a position encoding that are alike: to the input (attention nullptr) or in `layers` layers
// of `work.llm`.
struct PositionPart {
  PositionWork work;
  const Attention* attention = nullptr;
  double layers = 1;
};

// All applications in one pass: of a prefill, or of a decode step of work.batch sequences.
std::vector<PositionPart> PositionParts(const Workload& work, Phase phase);

// Time of one PositionWork at the limit, all its calls.
LimitTime TimeOf(const PositionWork& work, const Machine& machine, int threads);

// Working memory of a pass over `tokens` tokens, an estimate: in f32 two rows of d_model, the widest layer's
// Q, K, V and output or its feed-forward's inner widths, and the logits of `batch` tokens.
double ActivationBytes(const Llm& llm, double tokens, double batch);

// The stack whose self attention runs over the prompt.
Stack PrefillStack(const Llm& llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LIMIT_TERMS_H_
