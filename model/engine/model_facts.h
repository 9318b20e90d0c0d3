// What a model makes an engine do, as far as the run says how it is kept: bytes and flops of a decode step
// and of a prompt's token, and how they grow with depth.
#ifndef ROPELINE_MODEL_ENGINE_MODEL_FACTS_H_
#define ROPELINE_MODEL_ENGINE_MODEL_FACTS_H_

#include <optional>
#include <string>
#include <vector>

#include "model/engine/curve.h"
#include "model/engine/engine_run.h"
#include "model/llm.h"

namespace ropeline {

struct ModelFacts {
  std::string name;
  double params_total = 0;
  double decode_weight_bytes = 0;      // read in a step of one sequence
  double kv_bytes = 0;                 // read in a step, per token of depth, below any window
  double decode_attention_flops = 0;   // of a step, per token of depth
  double prefill_linear_flops = 0;     // of a prompt's token, attention left out
  double prefill_attention_flops = 0;  // of a prompt's token, per token of depth before it
  bool latent = false;                 // kept and read as MLA's latent rows
  std::optional<WindowShape> window;   // the layers with the window that most of the cache is under
  std::vector<std::string> assumed;    // what the run does not say and was taken for it, a sentence each
};

// Latent attention by run.mla: 0 keeps heads; 1 multiplies from the latent in both phases, as llama.cpp does
// and where nothing is said; 2 and 3 expand a prompt's keys and values to heads (ik_llama.cpp, -mla).
// Weights by the run's size, else its format.
ModelFacts FactsOf(const Llm& llm, const EngineRun& run);

// What speaks against this model being the one that ran: parameters that differ by more than 5 %, or bytes
// that no format of the run's explains. A sentence each.
std::vector<std::string> Mismatches(const Llm& llm, const EngineRun& run);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_MODEL_FACTS_H_
