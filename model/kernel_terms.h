// The terms of limit_terms.h at what this suite's own kernels were measured to take on the machine. Bytes,
// flops and bound stay those of the limit; ms, source, row and note say what was measured.
//
//   attention, cross_attention  rows of family attention (kernel_rates.h), a sum over the layers; a window
//                               layer with its window's keys; decode × sequences. Without them no terms.
//   cache_append                rows kv_cache/append; decode × sequences
//   position_encoding           rows of the encoding (encoding_time.h). A score bias: inside attention, where
//                               attention has rows with and without it; it then moves no bytes of its own
//   weights, lm_head            rows weights/matvec and weights/prepare (weight_rates.h), a sum over matrices
//   linear                      rows linear/matmul, the chunk's tokens at a time
//   small_operations            rows linear/rms_norm, swiglu and residual (small_operations.h)
//   experts                     as weights or linear: the distinct experts, each with its share of the tokens
// A term, or one format of its matrices, without rows: it stands at its limit and its note says what it
// lacks.
#ifndef ROPELINE_MODEL_KERNEL_TERMS_H_
#define ROPELINE_MODEL_KERNEL_TERMS_H_

#include <string>
#include <vector>

#include "model/kernel_rates.h"
#include "model/limit_terms.h"
#include "model/measured_encoding.h"
#include "model/small_operations.h"
#include "model/weight_rates.h"

namespace ropeline {

struct KernelTerms {
  std::vector<Term> terms;           // those of the limit, in its order; empty where something is missing
  std::vector<std::string> missing;  // rows without which there is no value
};

// What a machine's rows say of this suite's kernels, sorted out once for many predictions.
struct KernelSources {
  KernelSources(const Machine& machine, int threads)
      : rates(machine, threads),
        weights(machine, threads),
        small(machine, threads),
        encodings(MeasuredEncodings(machine, threads)) {}

  KernelRates rates;
  WeightRates weights;
  SmallRates small;
  std::vector<MeasuredEncoding> encodings;
};

// `sources` are of that machine at those threads; `limit` are the terms at the limit of the same work, which
// are worked out where they are not given.
KernelTerms DecodeTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                   const KernelSources& sources);
KernelTerms PrefillTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                    const KernelSources& sources);
KernelTerms DecodeTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                   const KernelSources& sources, std::vector<Term> limit);
KernelTerms PrefillTermsFromKernels(const Workload& work, const Machine& machine, int threads,
                                    const KernelSources& sources, std::vector<Term> limit);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_KERNEL_TERMS_H_
