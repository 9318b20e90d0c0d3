// Rotary parameters of a config.json: transformers 4 (rope_theta and rope_scaling, `type` or `rope_type`) and
// 5 (rope_parameters, flat or keyed by layer type). huggingface/transformers, modeling_rope_utils.py.
#ifndef ROPELINE_MODEL_HF_ROPE_H_
#define ROPELINE_MODEL_HF_ROPE_H_

#include <string_view>

#include "model/hf_config.h"
#include "model/llm.h"

namespace ropeline {

// What a family takes for keys that are absent.
struct RopeDefaults {
  const char* encoding = "rope_half";
  double theta = 10000;
  double rotary_share = 1;
};

// Of layers of that type ("full_attention", "sliding_attention" …); `d_head` is the width that may be
// rotated. A schedule that is not known is taken as default, and *warning says so.
Position ReadRope(const HfConfig& config, const RopeDefaults& defaults, std::string_view layer_type,
                  uint64_t d_head, std::optional<uint64_t> max_context, std::string* warning);

// True where the file gives each layer type a schedule of its own.
bool HasRopeByLayerType(const HfConfig& config);

// The same without any extension of the context, at another base.
Position PlainRope(const Position& position, double theta);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_ROPE_H_
