// RoPE schedules: the inverse frequencies of a rotary encoding, in double, without SIMD.
#ifndef ROPELINE_KERNELS_ROPE_SCHEDULE_H_
#define ROPELINE_KERNELS_ROPE_SCHEDULE_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace ropeline {

// How the frequencies are made from the base.
enum class RopeType {
  kDefault,
  kLinear,       // position interpolation: every frequency ÷ factor
  kNtk,          // a larger base, once and for all
  kDynamic,      // NTK whose base grows with the length, beyond max_context (Hugging Face)
  kQwenDynamic,  // NTK whose factor is a power of two of the length (Qwen-7B's use_dynamic_ntk)
  kYarn,
  kLlama3,
  kLongrope,      // a divisor per pair: short_factor up to original_context, long_factor beyond
  kProportional,  // partial rotary whose exponents run over the whole head (Gemma 4)
};
// "default", "linear", "ntk", "dynamic", "qwen_dynamic", "yarn", "llama3", "longrope", "proportional".
const char* RopeTypeName(RopeType type);
// The type of that name; "su" is longrope's older one. Nothing where unknown.
std::optional<RopeType> FindRopeType(std::string_view name);

// All that a schedule is made from. A type reads only what concerns it; what a file does not give stays unset
// and takes the type's own default there.
struct RopeParameters {
  RopeType type = RopeType::kDefault;
  size_t d_head = 0;  // width of the head that is rotated; MLA: of its rotary part
  size_t d_rot = 0;   // rotated dimensions, even, ≤ d_head; 0: no rotation
  double base = 0;    // rope_theta
  double factor = 1;  // scale s of the context
  bool factor_given = false;
  double original_context = 0;  // tokens of the training before extension; 0 not given
  double max_context = 0;       // max_position_embeddings; 0 unknown
  std::optional<double> attention_factor{};
  std::optional<double> beta_fast{}, beta_slow{};
  std::optional<double> mscale{}, mscale_all_dim{};
  bool truncate = true;  // yarn: the ramp's ends are whole band indices
  double low_freq_factor = 0, high_freq_factor = 0;
  std::vector<double> short_factor{}, long_factor{};  // [d_rot/2], divisors
  std::optional<double> short_mscale{}, long_mscale{};
  std::vector<double> freq_factors{};  // [d_rot/2], divisors: a GGUF's rope_freqs.weight; empty none
};

// inv_freq[i] = base^(−2i/d_rot), i = 0 … d_rot/2 − 1, in radians per token.
// Su et al., "RoFormer", section 3.2.2; the same ladder as Vaswani et al., "Attention is all you need",
// section 3.5. d_rot even.
std::vector<double> DefaultInvFreq(size_t d_rot, double base);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ROPE_SCHEDULE_H_
