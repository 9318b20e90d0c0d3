// What a RoPE schedule comes to: one angle step per band, and the factors that go with it. Double, no SIMD.
//
// Sources. RoFormer: Su et al. 2021. PI: Chen et al. 2023, "Extending context window … via positional
// interpolation". YaRN: Peng et al. 2023. LongRoPE: Ding et al. 2024. HF: transformers 5,
// modeling_rope_utils.py. ggml: rope of ggml's CPU backend, with what llama.cpp passes to it.
//
// With d = d_rot, θ_i = base^(−2i/d), L the original context, s the factor:
//   default       θ_i                                                                RoFormer 3.2.2
//   linear (PI)   θ_i / s                                                            PI, eq. 3
//   ntk           base·s^(d/(d−2)) instead of base                                   YaRN 3.1, eq. 14 to 16
//   dynamic       base·α^(d/(d−2)), α = s·max(n, L)/L − (s − 1), n tokens now        YaRN 3.3; HF
//   qwen_dynamic  the same with α = max(1, 2^ceil(log2(n/L) + 1) − 1)                Qwen's modeling_qwen.py
//   yarn          θ_i·(k + (1 − k)/s), k falling from 1 to 0 over the bands that turn beta_fast … beta_slow
//                 times in L; attention factor 0.1·ln s + 1                          YaRN 3.2, 3.4; HF
//   llama3        the same with k linear in turns, between high_freq_factor and low_freq_factor  HF
//   longrope, su  θ_i / short_factor[i] up to L tokens, / long_factor[i] beyond; attention factor
//                 sqrt(1 + ln s / ln L)                                              LongRoPE 3; HF
//   proportional  base^(−2i/d_head) for the first d_rot/2 bands of d_head/2, the others stand still; / s  HF
// freq_factors divide what comes out, band by band: a GGUF's rope_freqs.weight.
//
// Where implementations differ, `RopeSemantics` chooses (the numbers are of the case named):
//   yarn's ramp: hf, ggml linear in the band's index; paper linear in its turns. d 128, base 1e4, L 4096, s
//   8:
//     band 36 is 2.31 times as fast in hf as in paper.
//   yarn's bounds: hf rounds them outwards unless truncate is false; ggml always does (GGUF has no key). d
//   64,
//     base 150000, L 4096, s 32, gpt-oss: band 17 is 1.763 times as fast in ggml. paper has none to round.
//   yarn's ramp of no width or reversed: hf widens a width of 0 to 0.001; ggml everything below 0.001.
//     beta_fast 1, beta_slow 32 (d 128, base 1e4, L 4096, s 8): band 10 keeps 1/8 in hf, 1 in ggml.
//   attention_factor given: hf, paper take it; ggml multiplies 0.1·ln s + 1 by it. s 8, given 1.2079: 1.4591.
//   s < 1: hf, paper have no temperature; ggml's logarithm goes negative. s 0.5: 1 against 0.930685.
//   mscale and mscale_all_dim: hf takes (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1) if both are given
//     and not 0; ggml takes mscale for equal to mscale_all_dim. 0.707 and 1 at s 40: 0.921042 against 1.
//     paper knows neither.
//   longrope's list: hf, paper by the tokens of the pass; ggml by the capacity of the cache.
//     100 tokens in a cache of 131,072, Phi-3-mini-128k: band 32 is 29.96 times as fast in hf.
//   longrope's short_mscale and long_mscale: hf takes them; ggml takes the formula. Phi-3.5-MoE: 1.24316
//     against 1.19024.
//   dynamic, qwen_dynamic: ggml has none and leaves the frequencies alone. InternLM2.5 at 131,072: the last
//     band is 7 times as fast.
#ifndef ROPELINE_KERNELS_ROPE_FREQUENCIES_H_
#define ROPELINE_KERNELS_ROPE_FREQUENCIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rope_schedule.h"

namespace ropeline {

enum class RopeSemantics { kHf, kGgml, kPaper };
inline constexpr RopeSemantics kAllRopeSemantics[] = {RopeSemantics::kHf, RopeSemantics::kGgml,
                                                      RopeSemantics::kPaper};
const char* RopeSemanticsName(RopeSemantics semantics);  // "hf", "ggml", "paper"
std::optional<RopeSemantics> ParseRopeSemantics(std::string_view name);

// Both matter for some schedules only; see SchedulesByLength.
struct RopeLength {
  uint64_t tokens = 0;    // the largest position of the pass, plus one
  uint64_t capacity = 0;  // of the cache that the engine was started with; 0: as many as tokens
};

struct RopeFrequencies {
  std::vector<double> inv_freq;  // radians per token; (d_rot+1)/2, of kProportional d_head/2
  double attention_factor = 1;   // on cos and sin, so that the rotated part of q·k has its square
  // On the softmax scale of the whole head: (0.1·mscale_all_dim·ln s + 1)² (DeepSeek's modeling file, and
  // llama.cpp's deepseek2). 1 without mscale_all_dim.
  double softmax_scale_multiplier = 1;
};

// What keeps these parameters from being a schedule. `key` is a member of RopeParameters.
struct RopeProblem {
  std::string key, wrong, expected;
};
std::optional<RopeProblem> FindRopeProblem(const RopeParameters& parameters);

// Aborts for parameters with a problem.
RopeFrequencies FrequenciesOf(const RopeParameters& parameters, const RopeLength& length,
                              RopeSemantics semantics);

// θ_i of the same bands without any scaling: what the model was first trained with.
std::vector<double> UnscaledInvFreq(const RopeParameters& parameters);

// Tokens that the unscaled frequencies were trained on: original_context; else max_context, for linear
// divided by the factor. 0 where neither is known.
double TrainedContext(const RopeParameters& parameters);

// The factor that was given; else max_context / original_context; without these 1.
double ExtensionFactor(const RopeParameters& parameters);

// Whether another number of tokens can give other frequencies: a cached key then keeps those of its own pass.
bool DependsOnLength(const RopeParameters& parameters, RopeSemantics semantics);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ROPE_FREQUENCIES_H_
