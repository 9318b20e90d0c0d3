// How much of each rotary band a context uses, against what training showed: the article's "why naive
// extrapolation breaks rotary", band by band.
#ifndef ROPELINE_MODEL_ROPE_COVERAGE_H_
#define ROPELINE_MODEL_ROPE_COVERAGE_H_

#include <cstddef>
#include <vector>

namespace ropeline {

// Angles in radians. Positions are 0 … tokens − 1, so that n tokens reach an angle of (n − 1)·θ.
struct RopeBand {
  size_t i = 0;
  double theta = 0;          // per token, as scheduled; 0: the band stands still
  double trained_theta = 0;  // per token, as first trained
  double wavelength = 0;     // tokens of one turn, 2π/θ as scheduled; infinite where it stands still
  double turns_train = 0;    // trained tokens · trained θ / 2π
  double arc_train = 0;      // (trained tokens − 1) · trained θ, unwrapped
  double arc_context = 0;    // (context − 1) · θ, unwrapped
  // Share of the arc [0, arc_context), at most one turn, that training never visited: 0 for a band that
  // turned once.
  double unseen = 0;
  // The same without capping arc_context at one turn: share of the context's positions whose angle is beyond
  // the trained one.
  double unseen_travel = 0;
  double squeeze = 1;  // trained θ / θ: how many times closer neighbours are; 1 where it stands still
  // Reaches angles more than one trained step beyond the trained arc. (Position interpolation leaves
  // (n − 1)/s, which is up to one step beyond; that is no extrapolation.)
  bool out_of_distribution = false;
};

// Of equally many frequencies. A trained or used context of 0 tokens counts as one.
std::vector<RopeBand> RopeBands(const std::vector<double>& trained_inv_freq,
                                const std::vector<double>& inv_freq, double trained_tokens,
                                double context_tokens);

struct RopeCoverage {
  size_t bands = 0;                // that rotate
  size_t out_of_distribution = 0;  // of these
  size_t worst_band = 0;           // largest unseen; of equals the slowest
  double worst_unseen = 0;
  // Smallest θ against the trained one, over bands that turned 32 times in training (all of the first band,
  // if none did): what remains of the angle between neighbouring tokens where it is told apart best.
  double local_resolution = 1;

  double ShareOut() const;  // out_of_distribution / bands; 0 without bands
};
RopeCoverage Summarise(const std::vector<RopeBand>& bands);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_COVERAGE_H_
