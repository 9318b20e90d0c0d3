// How far cached keys, and the logits made of them, are from exact ones: by the format alone, and after they
// were turned and rounded again by many evictions. Deterministic inputs.
#ifndef ROPELINE_KERNELS_KV_ERROR_H_
#define ROPELINE_KERNELS_KV_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kv_format.h"
#include "kernels/qk_rotation.h"

namespace ropeline {

// Un-rotated keys [n, d_head]: normal (sum of three uniform numbers, variance 1), and of every 32 channels
// one is 10 to 20 times larger for all tokens. Keys of real models look like that: a few fixed channels of
// large magnitude (Liu et al. 2024, "KIVI", section 3.1), which make up most of a q8_0 or q4_0 scale. White
// noise would flatter those formats.
std::vector<float> KeysWithOutliers(size_t n, size_t d_head, uint64_t seed);

struct KvErrorCase {
  KvFormat format = KvFormat::kF32;
  size_t evictions = 0;
  Pairing pairing = Pairing::kHalf;
  size_t d_head = 128;  // all of it rotates, base 10000
  size_t n = 64;        // tokens whose error is looked at
  size_t largest_gap = 64;
  uint64_t seed = 1;
};

// Root of the mean square of the error, relative to that of the exact numbers.
struct KvError {
  double key = 0;    // elements of the rotated keys
  double logit = 0;  // q·k for 16 normal queries at the end of the context
};

// Appends rotated keys behind many others, then `evictions` times takes 1 … largest_gap tokens out just
// before them (hash of the seed), so that all n keys turn and are rounded each time. Compared with the
// un-rotated keys rotated in double at their last positions. Uses the current target; takes memory for
// evictions · largest_gap tokens.
KvError RerotationError(const KvErrorCase& c);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_ERROR_H_
