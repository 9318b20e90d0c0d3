// Ways to come by the angles of a rotation, other than the table that qk_rotation.h takes: what each costs
// and how exact it is. f32, pairs (i, i + d_head/2), Q alone, in place.
#ifndef ROPELINE_KERNELS_ANGLE_WAYS_H_
#define ROPELINE_KERNELS_ANGLE_WAYS_H_

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/cost.h"

namespace ropeline {

enum class AngleWay {
  kTable,        // read from a table that was made in double (angle_table.h)
  kShared,       // made anew for each token in SIMD, angle in double; all heads of the token use it
  kSharedF32,    // the same with position · inv_freq rounded to f32, as Hugging Face and ggml have it
  kPerHead,      // as kShared, but made anew for each head
  kPerHeadLibm,  // for each head by the library's cosf and sinf of the f32 angle, one value at a time
  kRecurrence,   // each token's angles from the last one's by one complex product; exact every 64 tokens
};
inline constexpr std::array kAllAngleWays = {AngleWay::kTable,       AngleWay::kShared,
                                             AngleWay::kSharedF32,   AngleWay::kPerHead,
                                             AngleWay::kPerHeadLibm, AngleWay::kRecurrence};
// The row's argument "angles": "table", "shared", "shared_f32", "per_head", "per_head_libm", "recurrence".
const char* AngleWayName(AngleWay way);

inline constexpr size_t kResynchronise = 64;  // tokens between exact angles of kRecurrence

// x[n, n_heads, d_head] at positions first_position + t, d_head = 2 · inv_freq.size() ≤ 1024. Not kTable.
// Aborts otherwise.
void RotateMakingAngles(AngleWay way, const std::vector<double>& inv_freq, size_t first_position, size_t n,
                        size_t n_heads, float* x);

// The angles themselves, as that way makes them: rows[n, d_head], cosines, then sines.
void MakeAngles(AngleWay way, const std::vector<double>& inv_freq, size_t first_position, size_t n,
                float* rows);

// Largest difference, in radians, over the bands of base 10000 and d_head 128 and the 64 positions up to
// `position`: from the exact position · inv_freq (long double), and from what a checkpoint was trained with,
// the product of the position and the f32 inv_freq rounded to f32 (Hugging Face, modeling_rope_utils).
struct AngleError {
  double exact = 0;
  double trained = 0;
};
AngleError WorstAngleError(AngleWay way, size_t position);

// Reads and writes x; three flops per element and, for each angle that is made, a product, a cosine and a
// sine of one flop each (kRecurrence: three per value).
Cost MakingAnglesCost(AngleWay way, size_t n, size_t n_heads, size_t d_head);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ANGLE_WAYS_H_
