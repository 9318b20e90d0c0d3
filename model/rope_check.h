// A model's rotary layers: which schedule each has, what it comes to at a context, and how much of it
// training has shown.
#ifndef ROPELINE_MODEL_ROPE_CHECK_H_
#define ROPELINE_MODEL_ROPE_CHECK_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/rope_frequencies.h"
#include "model/bad_input.h"
#include "model/llm.h"
#include "model/rope_coverage.h"
#include "model/rope_extension.h"

namespace ropeline {

// Decoder layers that turn alike.
struct RopeLayers {
  // "all" where every decoder layer that mixes tokens turns, and alike; else "full_attention" or
  // "sliding_attention" where these are of one kind; else "rope_layers".
  std::string layer_type = "all";
  std::vector<size_t> layers;  // indices into Llm::layers; empty without a model
  std::string pairing;         // "half" (i, i + d_rot/2) or "interleaved" (2i, 2i + 1)
  RopeParameters rope;
};

// In the order of the layers that come first. Empty where nothing turns.
std::vector<RopeLayers> RopeLayersOf(const Llm& llm);

struct RopeReport {
  RopeLayers layers;
  double trained_tokens = 0;  // of the unscaled frequencies; 0 unknown
  RopeFrequencies frequencies;
  std::vector<RopeBand> bands;
  RopeCoverage coverage;
};

// Throws BadInput at `where` for parameters that make no schedule. Without a known trained context the bands
// are measured against the context itself, so that nothing is unseen.
RopeReport CheckRope(const RopeLayers& layers, const RopeLength& length, RopeSemantics semantics,
                     const Where& where);

// What `ropeline rope` answers.
struct RopeAnswer {
  std::string model;  // "" where the parameters were typed
  RopeLength length;
  RopeSemantics semantics = RopeSemantics::kHf;
  std::vector<RopeReport> reports;
  std::vector<Extension> extensions;  // of the layers that see everything; empty where none was asked for
  double extended_context = 0;
};

// The group whose reach is the context: not one of sliding layers, where there is another. nullptr without
// any.
const RopeReport* FarReaching(const std::vector<RopeReport>& reports);

// The JSON of the answer. Keys are stable: add, never rename.
nlohmann::ordered_json RopeJson(const RopeAnswer& answer);

bool SameSchedule(const RopeParameters& a, const RopeParameters& b);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_CHECK_H_
