#include "kernels/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hwy/base.h"

namespace ropeline {
namespace {

constexpr double kBetaFast = 32, kBetaSlow = 1;    // YaRN 3.2
constexpr double kLowFactor = 1, kHighFactor = 4;  // Llama 3.1
constexpr double kLeastRamp = 0.001;
constexpr double kTurn = 2 * std::numbers::pi;

double Number(uint64_t count) { return static_cast<double>(count); }

// base^(−2i/width), i < bands.
std::vector<double> Ladder(double base, uint64_t width, uint64_t bands) {
  std::vector<double> inv_freq(bands);
  for (uint64_t i = 0; i < bands; ++i) inv_freq[i] = std::pow(base, -2.0 * Number(i) / Number(width));
  return inv_freq;
}

// The base whose last band is 1/alpha as fast, and whose first is as it was.
double StretchedBase(const RopeParameters& p, double alpha) {
  return p.base * std::pow(alpha, Number(p.d_rot) / (Number(p.d_rot) - 2));
}

std::vector<double> StretchedLadder(const RopeParameters& p, double alpha) {
  return Ladder(StretchedBase(p, alpha), p.d_rot, (p.d_rot + 1) / 2);
}

double OriginalContext(const RopeParameters& p) {
  return p.original_context > 0 ? p.original_context : p.max_context;
}

double DynamicAlpha(const RopeParameters& p, double tokens) {
  const double trained = p.max_context > 0 ? p.max_context : p.original_context;
  return p.factor * std::max(tokens, trained) / trained - (p.factor - 1);
}

double QwenAlpha(const RopeParameters& p, double tokens) {
  return std::max(1.0, std::exp2(std::ceil(std::log2(tokens / OriginalContext(p)) + 1)) - 1);
}

// θ·k + θ/s·(1 − k): k is the share that is kept as it was.
double Mixed(double theta, double keep, double s) { return theta / s * (1 - keep) + theta * keep; }

// The band, as a real number, that turns `turns` times in the original context.
double BandOfTurns(const RopeParameters& p, double turns) {
  return Number(p.d_rot) * std::log(OriginalContext(p) / (turns * kTurn)) / (2 * std::log(p.base));
}

double GivenOr(const std::optional<double>& value, double otherwise) {
  return value && *value != 0 ? *value : otherwise;  // HF's `or`: 0 is as good as absent
}

double LowFactor(const RopeParameters& p) { return p.low_freq_factor > 0 ? p.low_freq_factor : kLowFactor; }

double HighFactor(const RopeParameters& p) {
  return p.high_freq_factor > 0 ? p.high_freq_factor : kHighFactor;
}

bool RatioKnown(const RopeParameters& p) { return p.max_context > 0 && p.original_context > 0; }

std::vector<double> RampByIndex(const RopeParameters& p, RopeSemantics semantics) {
  std::vector<double> inv_freq = UnscaledInvFreq(p);
  double low = BandOfTurns(p, GivenOr(p.beta_fast, kBetaFast));
  double high = BandOfTurns(p, GivenOr(p.beta_slow, kBetaSlow));
  if (p.truncate || semantics == RopeSemantics::kGgml) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, Number(p.d_rot) - 1);
  double width = high - low;
  if (semantics == RopeSemantics::kGgml) width = std::max(width, kLeastRamp);
  if (width == 0) width = kLeastRamp;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((Number(i) - low) / width, 0.0, 1.0);
    inv_freq[i] = Mixed(inv_freq[i], 1 - ramp, ExtensionFactor(p));
  }
  return inv_freq;
}

// YaRN's "NTK-by-parts": kept above `fast` turns in the original context, divided by s below `slow`.
std::vector<double> RampByTurns(const RopeParameters& p, double slow, double fast) {
  std::vector<double> inv_freq = UnscaledInvFreq(p);
  for (double& theta : inv_freq) {
    const double turns = OriginalContext(p) * theta / kTurn;
    theta = Mixed(theta, std::clamp((turns - slow) / (fast - slow), 0.0, 1.0), ExtensionFactor(p));
  }
  return inv_freq;
}

double Temperature(double s, double mscale = 1) { return s <= 1 ? 1 : 0.1 * mscale * std::log(s) + 1; }

double YarnAttentionFactor(const RopeParameters& p, RopeSemantics semantics) {
  const double s = ExtensionFactor(p);
  const bool both = GivenOr(p.mscale, 0) != 0 && GivenOr(p.mscale_all_dim, 0) != 0;
  if (semantics == RopeSemantics::kGgml) {
    const double kernel = GivenOr(p.mscale_all_dim, 0) != 0 ? 1 : 0.1 * std::log(s) + 1;
    return kernel * p.attention_factor.value_or(1);
  }
  if (p.attention_factor) return *p.attention_factor;
  if (semantics == RopeSemantics::kPaper || !both) return Temperature(s);
  return Temperature(s, *p.mscale) / Temperature(s, *p.mscale_all_dim);
}

bool LongList(const RopeParameters& p, const RopeLength& length, RopeSemantics semantics) {
  const bool by_capacity = semantics == RopeSemantics::kGgml && length.capacity > 0;
  return Number(by_capacity ? length.capacity : length.tokens) > OriginalContext(p);
}

double LongropeAttentionFactor(const RopeParameters& p, bool long_list, RopeSemantics semantics) {
  if (p.attention_factor) return *p.attention_factor;
  const std::optional<double>& mscale = long_list ? p.long_mscale : p.short_mscale;
  if (mscale && semantics != RopeSemantics::kGgml) return *mscale;
  const double s = ExtensionFactor(p);
  return s <= 1 ? 1 : std::sqrt(1 + std::log(s) / std::log(OriginalContext(p)));
}

std::vector<double> Divided(std::vector<double> inv_freq, const std::vector<double>& divisors) {
  for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] /= divisors[i];
  return inv_freq;
}

std::vector<double> Divided(std::vector<double> inv_freq, double divisor) {
  for (double& theta : inv_freq) theta /= divisor;
  return inv_freq;
}

std::vector<double> Scheduled(const RopeParameters& p, const RopeLength& length, RopeSemantics semantics) {
  const double tokens = Number(length.tokens);
  switch (p.type) {
    case RopeType::kDefault:
      return UnscaledInvFreq(p);
    case RopeType::kLinear:
    case RopeType::kProportional:
      return Divided(UnscaledInvFreq(p), ExtensionFactor(p));
    case RopeType::kNtk:
      return StretchedLadder(p, ExtensionFactor(p));
    case RopeType::kDynamic:
      return StretchedLadder(p, semantics == RopeSemantics::kGgml ? 1 : DynamicAlpha(p, tokens));
    case RopeType::kQwenDynamic:
      return StretchedLadder(p, semantics == RopeSemantics::kGgml ? 1 : QwenAlpha(p, tokens));
    case RopeType::kYarn:
      if (semantics == RopeSemantics::kPaper) {
        return RampByTurns(p, GivenOr(p.beta_slow, kBetaSlow), GivenOr(p.beta_fast, kBetaFast));
      }
      return RampByIndex(p, semantics);
    case RopeType::kLlama3:
      return RampByTurns(p, LowFactor(p), HighFactor(p));
    case RopeType::kLongrope:
      return Divided(UnscaledInvFreq(p), LongList(p, length, semantics) ? p.long_factor : p.short_factor);
  }
  return {};
}

// ---------------------------------------------------------------------------------------------- problems

using Problem = std::optional<RopeProblem>;

Problem ListProblem(const char* key, const std::vector<double>& list, size_t bands, bool needed) {
  if (list.empty() && !needed) return {};
  if (list.size() != bands) {
    return RopeProblem{key, "has " + std::to_string(list.size()) + " numbers",
                       "one per band: " + std::to_string(bands)};
  }
  if (!std::all_of(list.begin(), list.end(), [](double x) { return std::isfinite(x) && x > 0; })) {
    return RopeProblem{key, "holds a number that is not above 0", "divisors above 0"};
  }
  return {};
}

Problem ShapeProblem(const RopeParameters& p) {
  if (p.d_rot < 2 || p.d_rot > p.d_head) {
    return RopeProblem{"d_rot", "is " + std::to_string(p.d_rot), "2 to d_head, " + std::to_string(p.d_head)};
  }
  if (!(p.base > 1) || !std::isfinite(p.base)) {
    return RopeProblem{"base", "is " + std::to_string(p.base), "a finite number above 1"};
  }
  return {};
}

Problem NumberProblem(const RopeParameters& p) {
  const struct {
    const char* key;
    double value;
  } kPositive[] = {{"factor", p.factor},
                   {"attention_factor", p.attention_factor.value_or(1)},
                   {"short_mscale", p.short_mscale.value_or(1)},
                   {"long_mscale", p.long_mscale.value_or(1)}};
  for (const auto& [key, value] : kPositive) {
    if (value > 0 && std::isfinite(value)) continue;
    return RopeProblem{key, "is " + std::to_string(value), "a finite number above 0"};
  }
  const struct {
    const char* key;
    double value;
  } kNotNegative[] = {
      {"original_context", p.original_context}, {"max_context", p.max_context},
      {"beta_fast", p.beta_fast.value_or(0)},   {"beta_slow", p.beta_slow.value_or(0)},
      {"mscale", p.mscale.value_or(0)},         {"mscale_all_dim", p.mscale_all_dim.value_or(0)},
      {"low_freq_factor", p.low_freq_factor},   {"high_freq_factor", p.high_freq_factor}};
  for (const auto& [key, value] : kNotNegative) {
    if (value >= 0 && std::isfinite(value)) continue;
    return RopeProblem{key, "is " + std::to_string(value), "a finite number of at least 0"};
  }
  return {};
}

bool NeedsContext(RopeType type) {
  return type == RopeType::kDynamic || type == RopeType::kQwenDynamic || type == RopeType::kYarn ||
         type == RopeType::kLlama3 || type == RopeType::kLongrope;
}

Problem ScheduleProblem(const RopeParameters& p) {
  if (NeedsContext(p.type) && !(OriginalContext(p) > 0)) {
    return RopeProblem{"original_context", "is missing", "tokens that the model was trained on"};
  }
  const bool needs_factor = p.type == RopeType::kLinear || p.type == RopeType::kNtk ||
                            p.type == RopeType::kYarn || p.type == RopeType::kLlama3;
  if (needs_factor && !p.factor_given && !RatioKnown(p)) {
    return RopeProblem{"factor", "is missing", "how many times further the context reaches"};
  }
  const bool stretched =
      p.type == RopeType::kNtk || p.type == RopeType::kDynamic || p.type == RopeType::kQwenDynamic;
  if (stretched && p.d_rot < 4)
    return RopeProblem{"d_rot", "is 2", "at least 4: the base alone cannot stretch one band"};
  if (p.type == RopeType::kLlama3 && !(HighFactor(p) > LowFactor(p))) {
    return RopeProblem{"high_freq_factor", "is not above low_freq_factor", "low < high"};
  }
  return {};
}

}  // namespace

const char* RopeSemanticsName(RopeSemantics semantics) {
  switch (semantics) {
    case RopeSemantics::kHf:
      return "hf";
    case RopeSemantics::kGgml:
      return "ggml";
    case RopeSemantics::kPaper:
      return "paper";
  }
  return "";
}

std::optional<RopeSemantics> ParseRopeSemantics(std::string_view name) {
  for (const RopeSemantics semantics : kAllRopeSemantics) {
    if (name == RopeSemanticsName(semantics)) return semantics;
  }
  return std::nullopt;
}

std::optional<RopeProblem> FindRopeProblem(const RopeParameters& p) {
  if (auto problem = ShapeProblem(p)) return problem;
  if (auto problem = NumberProblem(p)) return problem;
  if (auto problem = ScheduleProblem(p)) return problem;
  const size_t bands = UnscaledInvFreq(p).size();
  const bool longrope = p.type == RopeType::kLongrope;
  if (auto problem = ListProblem("short_factor", p.short_factor, bands, longrope)) return problem;
  if (auto problem = ListProblem("long_factor", p.long_factor, bands, longrope)) return problem;
  return ListProblem("freq_factors", p.freq_factors, bands, false);
}

RopeFrequencies FrequenciesOf(const RopeParameters& p, const RopeLength& length, RopeSemantics semantics) {
  if (const auto problem = FindRopeProblem(p)) {
    HWY_ABORT("%s %s, expected %s", problem->key.c_str(), problem->wrong.c_str(), problem->expected.c_str());
  }
  RopeFrequencies frequencies;
  frequencies.inv_freq = Scheduled(p, length, semantics);
  if (!p.freq_factors.empty()) frequencies.inv_freq = Divided(frequencies.inv_freq, p.freq_factors);
  if (p.type == RopeType::kYarn) {
    frequencies.attention_factor = YarnAttentionFactor(p, semantics);
    const double all_dim = Temperature(ExtensionFactor(p), p.mscale_all_dim.value_or(0));
    frequencies.softmax_scale_multiplier = all_dim * all_dim;
  } else if (p.type == RopeType::kLongrope) {
    frequencies.attention_factor = LongropeAttentionFactor(p, LongList(p, length, semantics), semantics);
  }
  return frequencies;
}

std::vector<double> UnscaledInvFreq(const RopeParameters& p) {
  if (p.type != RopeType::kProportional) return Ladder(p.base, p.d_rot, (p.d_rot + 1) / 2);
  std::vector<double> inv_freq = Ladder(p.base, p.d_head, p.d_rot / 2);
  inv_freq.resize((p.d_head + 1) / 2, 0.0);
  return inv_freq;
}

double TrainedContext(const RopeParameters& p) {
  if (p.original_context > 0) return p.original_context;
  return p.type == RopeType::kLinear ? std::round(p.max_context / ExtensionFactor(p)) : p.max_context;
}

double ExtensionFactor(const RopeParameters& p) {
  if (p.factor_given) return p.factor;
  return RatioKnown(p) ? p.max_context / p.original_context : 1;
}

bool DependsOnLength(const RopeParameters& p, RopeSemantics semantics) {
  if (semantics == RopeSemantics::kGgml) return false;  // longrope's list is that of the cache's capacity
  return p.type == RopeType::kDynamic || p.type == RopeType::kQwenDynamic || p.type == RopeType::kLongrope;
}

}  // namespace ropeline
