// Rotary parameters by name, as config files, engines' flags and people give them: "beta_fast=32".
#ifndef ROPELINE_MODEL_ROPE_SETTINGS_H_
#define ROPELINE_MODEL_ROPE_SETTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernels/rope_schedule.h"
#include "model/bad_input.h"

namespace ropeline {

struct RopeSetting {
  std::string key;    // canonical: a member of RopeParameters, with rope_type for `type`
  std::string value;  // as given
};

// "key=value". Keys and their other names: rope_type (rope_scaling, type), base (rope_theta, rope_freq_base),
// factor (rope_scale), freq_scale (rope_freq_scale: 1/factor), d_head (head_dim), d_rot (rope_dim),
// original_context (original_max_position_embeddings, yarn_orig_ctx), max_context (max_position_embeddings),
// attention_factor (yarn_attn_factor), beta_fast, beta_slow (yarn_…), mscale, mscale_all_dim, truncate,
// low_freq_factor, high_freq_factor, short_mscale, long_mscale, short_factor and long_factor (numbers
// separated by commas). Dashes stand for underscores. Throws BadInput.
RopeSetting ParseRopeSetting(std::string_view text, const Where& where);
std::vector<std::string> RopeSettingKeys();

// Writes one setting into the parameters. Throws BadInput where the value does not fit the key.
void ApplyRopeSetting(const RopeSetting& setting, const Where& where, RopeParameters* parameters);

// A number of any sign; throws BadInput where it is none or not finite.
double ParseRealNumber(std::string_view text, const Where& where);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_SETTINGS_H_
