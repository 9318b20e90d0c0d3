// Two schedules for the same bands: where they part, by how many radians, and what that does to keys that
// were cached under the first.
#ifndef ROPELINE_MODEL_ROPE_DIFFERENCE_H_
#define ROPELINE_MODEL_ROPE_DIFFERENCE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/rope_frequencies.h"

namespace ropeline {

struct BandDifference {
  size_t i = 0;
  double before = 0, after = 0;  // radians per token
  double angle = 0;              // |after − before| · (tokens − 1), unwrapped
};

struct RopeDifference {
  bool comparable = true;  // as many bands on both sides
  size_t bands = 0;        // compared
  std::vector<BandDifference> bands_that_differ;
  double tokens = 0;
  double factor = 1;  // attention factor after / before: a cached key is too small by it

  bool Same() const { return comparable && bands_that_differ.empty() && factor == 1; }
  const BandDifference* Worst() const;       // largest angle; nullptr where no band differs
  const BandDifference* WorstRatio() const;  // largest of before/after and after/before
};

// Frequencies within `tolerance` of one another, relatively, count as equal: GGUF keeps them in f32.
inline constexpr double kSameFrequency = 2e-5;
RopeDifference Differ(const RopeFrequencies& before, const RopeFrequencies& after, double tokens,
                      double tolerance = kSameFrequency);

// "61 of 64 bands differ; band 63 is 46.96 times as fast; at 8,192 tokens band 41 is off by 20.3 rad".
// `tolerance` as given to Differ.
std::string DifferenceText(const RopeDifference& difference);

// Keys of positions 0 … cached − 1, rotated under `before`, read by queries rotated under `after`: position p
// is off by p·(after − before) in each band.
struct Invalidation {
  double cached = 0;
  double first_wrong = 0;  // lowest position with a band off by more than kWrongAngle; `cached` where none is
  // Share of the logit that a query keeps of a key that matches it equally in all bands, mean over the cached
  // keys: of cos(error), times the attention factor's ratio. 1: nothing is lost.
  double logit_kept = 1;

  double Wrong() const { return cached - first_wrong; }  // keys
};
inline constexpr double kWrongAngle = 0.1;  // radians: cos falls by half a percent
// Largest angle error of a band over `cached` keys: of the last one, but π once it has gone past that.
double LargestError(const BandDifference& band, double cached);
Invalidation InvalidationOf(const RopeDifference& difference, double cached);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_DIFFERENCE_H_
