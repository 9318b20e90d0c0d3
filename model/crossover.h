// Contexts at which what grows with the context overtakes what does not. Closed form between the windows'
// edges, where every sum over layers is a polynomial in n.
#ifndef ROPELINE_MODEL_CROSSOVER_H_
#define ROPELINE_MODEL_CROSSOVER_H_

#include <cstdint>
#include <optional>

#include "model/block_format.h"
#include "model/kv_layout.h"
#include "model/llm.h"

namespace ropeline {

// In tokens, fractional; nothing where it never happens (all layers have windows, or there is no attention).
struct Crossovers {
  std::optional<double> kv_equals_weights;                // `batch` caches take as many bytes as the weights
  std::optional<double> decode_attention_equals_linear;   // flops of one step
  std::optional<double> prefill_attention_equals_linear;  // flops of the whole prompt
};

Crossovers FindCrossovers(const Llm& llm, const KvFormats& kv_formats, uint64_t weight_bytes, uint64_t batch);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CROSSOVER_H_
