// The angles of ggml_rope_ext, as its CPU code rounds them and as they would be exact. Facts from
// ggml_rope_cache_init, rope_yarn (ggml-cpu/ops.cpp) and ggml_rope_yarn_corr_dims (ggml.c) of llama.cpp.
//
// Include where products are not contracted (-ffp-contract=off): every rounding below is meant.
#ifndef ROPELINE_BENCH_PEER_GGML_ANGLES_H_
#define ROPELINE_BENCH_PEER_GGML_ANGLES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/peer/ggml_session.h"

namespace ropeline {

// A setting of ggml_rope_ext with a name for the log.
struct RopeSchedule {
  std::string name;
  GgmlRope rope;               // mode and d_rot are a test's
  std::vector<float> factors;  // one divisor for each pair; empty: none
};

// Which product of YaRN's a·b + c·d the library's compiler made one with the sum (GCC's default, where the
// CPU can): the library does not tell.
enum class Contraction { kNone, kFirst, kSecond };
inline constexpr std::array kAllContractions = {Contraction::kNone, Contraction::kFirst,
                                                Contraction::kSecond};

inline const char* ContractionName(Contraction contraction) {
  return contraction == Contraction::kNone    ? "none"
         : contraction == Contraction::kFirst ? "the interpolated angle's"
                                              : "the full angle's";
}

inline float SumOfProducts(float a, float b, float c, float d, Contraction contraction) {
  switch (contraction) {
    case Contraction::kFirst:
      return std::fma(a, b, c * d);
    case Contraction::kSecond:
      return std::fma(c, d, a * b);
    case Contraction::kNone:
      break;
  }
  return a * b + c * d;
}

// Bands between which YaRN's ramp goes from 1 to 0. The upper end is d_rot − 1, although bands are half as
// many.
template <class Real>
std::array<Real, 2> CorrectionBands(const GgmlRope& rope) {
  const Real n = static_cast<Real>(rope.d_rot), pi = static_cast<Real>(M_PI);
  const auto band = [&](float turns) {
    return n * std::log(static_cast<Real>(rope.original_context) / (static_cast<Real>(turns) * 2 * pi)) /
           (2 * std::log(static_cast<Real>(rope.base)));
  };
  return {std::max(Real{0}, std::floor(band(rope.beta_fast))),
          std::min(n - 1, std::ceil(band(rope.beta_slow)))};
}

template <class Real>
Real RampAt(const std::array<Real, 2>& bands, size_t i) {
  const Real y = (static_cast<Real>(i) - bands[0]) / std::max(static_cast<Real>(0.001f), bands[1] - bands[0]);
  return 1 - std::min(Real{1}, std::max(Real{0}, y));
}

// Angle of each pair in f32: position, then times theta_scale from one band to the next, rounded each time.
inline std::vector<float> GgmlAngles(const RopeSchedule& schedule, int32_t position,
                                     Contraction contraction) {
  const GgmlRope& rope = schedule.rope;
  const float step = std::pow(rope.base, -2.0f / static_cast<float>(rope.d_rot));
  const auto bands = CorrectionBands<float>(rope);
  std::vector<float> angles(static_cast<size_t>(rope.d_rot) / 2);
  float running = static_cast<float>(position);
  for (size_t i = 0; i < angles.size(); ++i) {
    const float full = running / (schedule.factors.empty() ? 1.0f : schedule.factors[i]);
    angles[i] = rope.freq_scale * full;
    if (rope.ext_factor != 0) {
      const float mix = RampAt(bands, i) * rope.ext_factor;
      angles[i] = SumOfProducts(angles[i], 1 - mix, full, mix, contraction);
    }
    running *= step;
  }
  return angles;
}

// Cosine and sine are multiplied by this.
inline float GgmlMagnitude(const GgmlRope& rope) {
  if (rope.ext_factor == 0) return rope.attn_factor;
  return rope.attn_factor * (1.0f + 0.1f * std::log(1.0f / rope.freq_scale));
}

// The same formula without rounding: radians per token.
inline std::vector<long double> ExactFrequencies(const RopeSchedule& schedule) {
  using Real = long double;
  const GgmlRope& rope = schedule.rope;
  const auto bands = CorrectionBands<Real>(rope);
  std::vector<Real> frequencies(static_cast<size_t>(rope.d_rot) / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const Real full =
        std::pow(static_cast<Real>(rope.base), -2 * static_cast<Real>(i) / static_cast<Real>(rope.d_rot)) /
        (schedule.factors.empty() ? Real{1} : static_cast<Real>(schedule.factors[i]));
    const Real interpolated = static_cast<Real>(rope.freq_scale) * full;
    const Real mix = rope.ext_factor == 0 ? Real{0} : RampAt(bands, i) * static_cast<Real>(rope.ext_factor);
    frequencies[i] = interpolated * (1 - mix) + full * mix;
  }
  return frequencies;
}

// Divisors of Llama 3's rule: 1 above high_frequency turns of the original context, `factor` below
// low_frequency, between them linear in the turns (Hugging Face's rope_type "llama3").
inline std::vector<float> Llama3Factors(int d_rot, double base, double factor, double original_context) {
  constexpr double kLow = 1, kHigh = 4;
  std::vector<float> factors(static_cast<size_t>(d_rot) / 2);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / d_rot);
    const double turns = original_context * frequency / (2 * M_PI);
    const double keep = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    factors[i] = static_cast<float>(1 / ((1 - keep) / factor + keep));
  }
  return factors;
}

// Stands for a trained list as longrope has it: from 1 up to 64, not evenly.
inline std::vector<float> LongropeFactors(int d_rot) {
  const auto last = static_cast<double>(d_rot / 2 - 1);
  std::vector<float> factors(static_cast<size_t>(d_rot) / 2);
  for (size_t i = 0; i < factors.size(); ++i) {
    const double share = static_cast<double>(i) / last;
    factors[i] =
        static_cast<float>(1 + 63 * share * share + 0.3 * std::sin(5.0 * static_cast<double>(i)) * share);
  }
  return factors;
}

// Every kind of scaling, for d_rot rotated dimensions.
inline std::vector<RopeSchedule> RopeSchedules(int d_rot) {
  return {
      {"base 1e4", {.d_rot = d_rot, .base = 1e4f}, {}},
      {"base 5e5", {.d_rot = d_rot, .base = 5e5f}, {}},
      {"linear 8", {.d_rot = d_rot, .base = 1e4f, .freq_scale = 1 / 8.0f}, {}},
      {"linear 3, magnitude 0.7",
       {.d_rot = d_rot, .base = 1e6f, .freq_scale = 1 / 3.0f, .attn_factor = 0.7f},
       {}},
      {"yarn 8",
       {.d_rot = d_rot, .original_context = 4096, .base = 1e4f, .freq_scale = 1 / 8.0f, .ext_factor = 1},
       {}},
      {"yarn 32, base 1.5e5",
       {.d_rot = d_rot, .original_context = 4096, .base = 1.5e5f, .freq_scale = 1 / 32.0f, .ext_factor = 1},
       {}},
      {"yarn 40, betas 16 and 2, attention factor 0.85",
       {.d_rot = d_rot,
        .original_context = 8192,
        .base = 1e4f,
        .freq_scale = 1 / 40.0f,
        .ext_factor = 1,
        .attn_factor = 0.85f,
        .beta_fast = 16,
        .beta_slow = 2},
       {}},
      {"llama3 8", {.d_rot = d_rot, .base = 5e5f}, Llama3Factors(d_rot, 5e5, 8, 8192)},
      {"longrope, attention factor 1.19",
       {.d_rot = d_rot, .base = 1e4f, .attn_factor = 1.19f},
       LongropeFactors(d_rot)},
  };
}

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_GGML_ANGLES_H_
