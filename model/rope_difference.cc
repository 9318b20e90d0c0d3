#include "model/rope_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/units.h"

namespace ropeline {
namespace {

double Ratio(const BandDifference& band) {
  const double low = std::min(band.before, band.after), high = std::max(band.before, band.after);
  return low > 0 ? high / low : INFINITY;
}

std::string Radians(double angle) {
  return angle >= 1000 ? FormatTokens(angle) : fmt::format("{:.4g}", angle);
}

// Mean of cos(p·step) over p = 0 … n − 1: the real part of a geometric sum, sin(n·step/2)/(n·sin(step/2)) ·
// cos((n − 1)·step/2).
double MeanCosine(double step, double n) {
  const double half = std::sin(step / 2);
  if (std::abs(half) < 1e-12) return 1;
  return std::sin(n * step / 2) / (n * half) * std::cos((n - 1) * step / 2);
}

}  // namespace

const BandDifference* RopeDifference::Worst() const {
  const auto worst = std::max_element(bands_that_differ.begin(), bands_that_differ.end(),
                                      [](const auto& a, const auto& b) { return a.angle < b.angle; });
  return worst == bands_that_differ.end() ? nullptr : &*worst;
}

const BandDifference* RopeDifference::WorstRatio() const {
  const auto worst = std::max_element(bands_that_differ.begin(), bands_that_differ.end(),
                                      [](const auto& a, const auto& b) { return Ratio(a) < Ratio(b); });
  return worst == bands_that_differ.end() ? nullptr : &*worst;
}

RopeDifference Differ(const RopeFrequencies& before, const RopeFrequencies& after, double tokens,
                      double tolerance) {
  RopeDifference difference;
  difference.tokens = tokens;
  difference.bands = before.inv_freq.size();
  difference.comparable = before.inv_freq.size() == after.inv_freq.size();
  const double factor = after.attention_factor / before.attention_factor;
  if (std::abs(factor - 1) > tolerance) difference.factor = factor;
  if (!difference.comparable) return difference;
  for (size_t i = 0; i < before.inv_freq.size(); ++i) {
    const double a = before.inv_freq[i], b = after.inv_freq[i];
    if (std::abs(a - b) <= tolerance * std::max(a, b)) continue;
    const double angle = std::abs(a - b) * std::max(0.0, tokens - 1);
    difference.bands_that_differ.push_back({i, a, b, angle});
  }
  return difference;
}

std::string DifferenceText(const RopeDifference& difference) {
  if (!difference.comparable) return "they rotate different numbers of dimensions";
  std::string text;
  if (const BandDifference* worst = difference.Worst()) {
    const BandDifference& ratio = *difference.WorstRatio();
    text = fmt::format("{} of {} bands differ; band {} is ", difference.bands_that_differ.size(),
                       difference.bands, ratio.i);
    text += std::isfinite(Ratio(ratio)) ? fmt::format("{:.4g} times as {}", Ratio(ratio),
                                                      ratio.after > ratio.before ? "fast" : "slow")
                                        : "moving in one and still in the other";
    text += fmt::format("; at {} tokens band {} is off by {} rad", FormatTokens(difference.tokens), worst->i,
                        Radians(worst->angle));
  }
  if (difference.factor != 1) {
    text += fmt::format("{}the attention factor is {:.4g} times as large", text.empty() ? "" : "; ",
                        difference.factor);
  }
  return text.empty() ? fmt::format("all {} bands are alike", difference.bands) : text;
}

double LargestError(const BandDifference& band, double cached) {
  return std::min(std::abs(band.after - band.before) * std::max(0.0, cached - 1), std::numbers::pi);
}

Invalidation InvalidationOf(const RopeDifference& difference, double cached) {
  Invalidation invalidation;
  invalidation.cached = invalidation.first_wrong = cached;
  if (!difference.comparable) {
    invalidation.first_wrong = 0;
    invalidation.logit_kept = 0;
    return invalidation;
  }
  double kept = static_cast<double>(difference.bands - difference.bands_that_differ.size());
  for (const BandDifference& band : difference.bands_that_differ) {
    const double step = std::abs(band.after - band.before);
    invalidation.first_wrong = std::min(invalidation.first_wrong, std::floor(kWrongAngle / step) + 1);
    if (cached > 0) kept += MeanCosine(step, cached);
  }
  if (difference.factor != 1) invalidation.first_wrong = 0;
  // The query has the new factor and the key the old one.
  if (cached > 0) invalidation.logit_kept = kept / static_cast<double>(difference.bands) / difference.factor;
  return invalidation;
}

}  // namespace ropeline
