#include "model/rope_coverage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace ropeline {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kRounding = 1e-9;  // far above it, and far below a step
constexpr double kManyTurns = 32;   // YaRN's beta_fast: bands that need no interpolation

double Beyond(double trained, double used) { return used > 0 ? std::max(0.0, 1 - trained / used) : 0; }

}  // namespace

std::vector<RopeBand> RopeBands(const std::vector<double>& trained_inv_freq,
                                const std::vector<double>& inv_freq, double trained_tokens,
                                double context_tokens) {
  std::vector<RopeBand> bands;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    RopeBand band;
    band.i = i;
    band.theta = inv_freq[i];
    band.trained_theta = trained_inv_freq[i];
    band.wavelength = band.theta > 0 ? kTurn / band.theta : std::numeric_limits<double>::infinity();
    band.turns_train = trained_tokens * band.trained_theta / kTurn;
    band.arc_train = std::max(0.0, trained_tokens - 1) * band.trained_theta;
    band.arc_context = std::max(0.0, context_tokens - 1) * band.theta;
    band.unseen = Beyond(std::min(band.arc_train, kTurn), std::min(band.arc_context, kTurn));
    band.unseen_travel = band.arc_train >= kTurn ? 0 : Beyond(band.arc_train, band.arc_context);
    if (band.theta > 0) band.squeeze = band.trained_theta / band.theta;
    band.out_of_distribution =
        band.arc_train < kTurn && band.arc_context > band.arc_train + band.trained_theta * (1 + kRounding);
    bands.push_back(band);
  }
  return bands;
}

double RopeCoverage::ShareOut() const {
  return bands == 0 ? 0 : static_cast<double>(out_of_distribution) / static_cast<double>(bands);
}

RopeCoverage Summarise(const std::vector<RopeBand>& bands) {
  RopeCoverage coverage;
  for (const RopeBand& band : bands) {
    if (band.theta == 0 && band.trained_theta == 0) continue;
    ++coverage.bands;
    coverage.out_of_distribution += band.out_of_distribution ? 1 : 0;
    if (band.unseen > coverage.worst_unseen - kRounding) {  // of equals the slowest
      coverage.worst_band = band.i;
      coverage.worst_unseen = std::max(coverage.worst_unseen, band.unseen);
    }
    if (band.i == 0 || band.turns_train >= kManyTurns) {
      coverage.local_resolution = std::min(coverage.local_resolution, band.theta / band.trained_theta);
    }
  }
  return coverage;
}

}  // namespace ropeline
