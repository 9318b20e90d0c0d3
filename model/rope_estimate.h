// The frequencies that turned a set of keys, measured from the keys.
#ifndef ROPELINE_MODEL_ROPE_ESTIMATE_H_
#define ROPELINE_MODEL_ROPE_ESTIMATE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ropeline {

// Keys of one head, [n, d_rot], all of one token before rotation, or, with `shifted`, n tokens each seen
// twice.
struct KeyDump {
  size_t d_rot = 0;
  std::vector<double> keys;        // [n][d_rot]
  std::vector<int64_t> positions;  // [n]
  std::vector<double> shifted;     // [n][d_rot]: the same tokens at other positions; empty: none
  std::vector<int64_t> shifted_positions;
};

struct MeasuredBand {
  size_t i = 0;
  double theta = 0;      // radians per token
  double sigma = 0;      // standard error
  double coherence = 0;  // 0 … 1: how far the keys are one vector turned; near 1 for a clean dump
};

struct MeasuredRotation {
  std::string pairing;  // "half" or "interleaved", whichever is the more coherent
  std::vector<MeasuredBand> bands;
  double noise = 0;  // of a key's pair against its length, median over the bands
};

// A band's pair (x, y) is the number z = x + iy, turned by position·θ. Phases of z_b·conj(z_a), summed over
// the pairs of keys that lie equally far apart, give θ from neighbours first and from ever longer distances
// then; each time the turns in between are those of the estimate before. The last step is the least-squares
// line through the phases. Distances that are all above 1 leave θ open by turns: the slowest band is taken
// without, and each next one is expected as much faster as the last was. `positions` must hold two different
// ones; distances beyond 2^24 are not used.
MeasuredRotation MeasureRotation(const KeyDump& dump);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROPE_ESTIMATE_H_
