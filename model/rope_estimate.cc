#include "model/rope_estimate.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

namespace ropeline {
namespace {

using Complex = std::complex<double>;
constexpr double kTurn = 2 * std::numbers::pi;
constexpr int64_t kFarthest = int64_t{1} << 24;

// One band's pairs, as numbers x + iy.
std::vector<Complex> BandOf(const std::vector<double>& keys, size_t d_rot, size_t i, bool half) {
  std::vector<Complex> band(keys.size() / d_rot);
  const size_t x = half ? i : 2 * i, y = half ? i + d_rot / 2 : 2 * i + 1;
  for (size_t t = 0; t < band.size(); ++t) band[t] = {keys[t * d_rot + x], keys[t * d_rot + y]};
  return band;
}

// Order of the keys by position.
std::vector<size_t> ByPosition(const std::vector<int64_t>& positions) {
  std::vector<size_t> order(positions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return positions[a] < positions[b]; });
  return order;
}

// Which pairs of keys are compared, by how far they lie apart: neighbours in position, then every 2nd, 4th,
// 8th …
using Links = std::map<int64_t, std::vector<std::pair<size_t, size_t>>>;

Links LinksOf(const KeyDump& dump) {
  Links links;
  const auto add = [&](size_t a, size_t b, int64_t distance) {
    if (distance > 0 && distance <= kFarthest) links[distance].emplace_back(a, b);
  };
  if (!dump.shifted.empty()) {
    for (size_t t = 0; t < dump.positions.size(); ++t)
      add(t, t, dump.shifted_positions[t] - dump.positions[t]);
    return links;
  }
  const std::vector<size_t> order = ByPosition(dump.positions);
  for (size_t step = 1; step < order.size(); step *= 2) {
    for (size_t k = 0; k + step < order.size(); ++k) {
      const size_t a = order[k], b = order[k + step];
      add(a, b, dump.positions[b] - dump.positions[a]);
    }
  }
  return links;
}

struct Sum {
  int64_t distance;
  Complex value;
  double weight;
  size_t count;
};

// Of one band, by ascending distance. `later` is `band` itself, or that of the second dump.
std::vector<Sum> SumsOf(const std::vector<Complex>& band, const std::vector<Complex>& later,
                        const Links& links) {
  std::vector<Sum> sums;
  for (const auto& [distance, pairs] : links) {
    Sum sum{distance, 0, 0, pairs.size()};
    for (const auto& [a, b] : pairs) {
      sum.value += later[b] * std::conj(band[a]);
      sum.weight += std::sqrt(std::norm(band[a]) * std::norm(later[b]));
    }
    sums.push_back(sum);
  }
  return sums;
}

// The angle nearest to `expected` that has this phase.
double Unwrapped(double phase, double expected) {
  return phase + kTurn * std::round((expected - phase) / kTurn);
}

double PhaseSpread(const Sum& sum) {
  const double coherence = sum.weight > 0 ? std::min(1.0, std::abs(sum.value) / sum.weight) : 0;
  return std::sqrt(std::max(2 * (1 - coherence), 1e-14) / static_cast<double>(sum.count));
}

// From the shortest distance to the longest, as long as turns in between can be told.
MeasuredBand Chained(const std::vector<Sum>& sums, double expected) {
  MeasuredBand band;
  band.sigma = INFINITY;
  for (const Sum& sum : sums) {
    const auto reach = static_cast<double>(sum.distance);
    const double guess = std::isfinite(band.sigma) ? band.theta : expected;
    if (std::isfinite(band.sigma) && reach * band.sigma > 0.7) break;
    const double theta = Unwrapped(std::arg(sum.value), guess * reach) / reach;
    const double sigma = PhaseSpread(sum) / reach;
    const double weight = 1 / (sigma * sigma);
    const double before = std::isfinite(band.sigma) ? 1 / (band.sigma * band.sigma) : 0;
    band.theta = (band.theta * before + theta * weight) / (before + weight);
    band.sigma = 1 / std::sqrt(before + weight);
  }
  return band;
}

// The least-squares line through the phases that remain once the keys are turned back by the estimate.
void Refine(const KeyDump& dump, const std::vector<Complex>& keys, MeasuredBand* band, double* noise) {
  const size_t n = dump.positions.size();
  double mean = 0;
  for (const int64_t position : dump.positions)
    mean += static_cast<double>(position) / static_cast<double>(n);
  for (int round = 0; round < 3; ++round) {
    std::vector<Complex> back(n);
    Complex centre = 0;
    for (size_t t = 0; t < n; ++t) {
      const double angle = (static_cast<double>(dump.positions[t]) - mean) * band->theta;
      back[t] = keys[t] * std::polar(1.0, -angle);
      centre += back[t];
    }
    double weight = 0, moment = 0, slope = 0, spread = 0, length = 0;
    for (size_t t = 0; t < n; ++t) {
      const double phase = std::arg(back[t] * std::conj(centre));
      const double offset = static_cast<double>(dump.positions[t]) - mean;
      weight += std::norm(back[t]);
      moment += std::norm(back[t]) * offset * offset;
      slope += std::norm(back[t]) * offset * phase;
      spread += std::norm(back[t]) * phase * phase;
      length += std::abs(back[t]);
    }
    if (!(moment > 0)) return;
    band->theta += slope / moment;
    const double phase_noise = std::sqrt(spread / weight);
    band->sigma = std::max(phase_noise * std::sqrt(weight / static_cast<double>(n) / moment), 1e-15);
    band->coherence = std::abs(centre) / std::max(length, 1e-300);
    *noise = phase_noise;
  }
}

MeasuredRotation MeasureAs(const KeyDump& dump, const Links& links, bool half) {
  MeasuredRotation rotation;
  rotation.pairing = half ? "half" : "interleaved";
  const size_t bands = dump.d_rot / 2;
  rotation.bands.resize(bands);
  std::vector<double> noises(bands);
  double ahead = 0, ratio = 1;  // of the band below
  for (size_t k = bands; k-- > 0;) {
    const std::vector<Complex> keys = BandOf(dump.keys, dump.d_rot, k, half);
    const std::vector<Sum> sums = dump.shifted.empty()
                                      ? SumsOf(keys, keys, links)
                                      : SumsOf(keys, BandOf(dump.shifted, dump.d_rot, k, half), links);
    const double shortest = static_cast<double>(sums.front().distance);
    // Neighbours tell every step below half a turn.
    const double expected = shortest == 1 ? 0 : ahead * ratio;
    MeasuredBand band = Chained(sums, expected);
    band.i = k;
    const Sum& first = sums.front();
    band.coherence = first.weight > 0 ? std::abs(first.value) / first.weight : 0;
    noises[k] = PhaseSpread(first) * std::sqrt(static_cast<double>(first.count) / 2);
    if (dump.shifted.empty()) Refine(dump, keys, &band, &noises[k]);
    if (ahead > 0 && band.theta > ahead) ratio = std::min(band.theta / ahead, 4.0);
    ahead = std::max(band.theta, 0.0);
    rotation.bands[k] = band;
  }
  std::nth_element(noises.begin(), noises.begin() + static_cast<std::ptrdiff_t>(bands / 2), noises.end());
  rotation.noise = noises[bands / 2];
  return rotation;
}

double Coherence(const MeasuredRotation& rotation) {
  double sum = 0;
  for (const MeasuredBand& band : rotation.bands) sum += band.coherence;
  return sum;
}

}  // namespace

MeasuredRotation MeasureRotation(const KeyDump& dump) {
  const Links links = LinksOf(dump);
  MeasuredRotation half = MeasureAs(dump, links, true), interleaved = MeasureAs(dump, links, false);
  return Coherence(half) >= Coherence(interleaved) ? half : interleaved;
}

}  // namespace ropeline
