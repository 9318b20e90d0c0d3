// Tables of cos and sin of position · inv_freq, f32, correctly rounded to within one ulp.
#ifndef ROPELINE_KERNELS_ANGLE_TABLE_H_
#define ROPELINE_KERNELS_ANGLE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"

namespace ropeline {

// How a row of 2·bands floats holds the pairs of one position.
enum class AngleLayout {
  kSplit,   // cos of every band, then sin of every band: rotation of halves
  kCosSin,  // cos, sin, cos, sin …: rotation of neighbours
  kSinCos,  // sin, cos, sin, cos …: the sinusoidal encoding
};

// table[t][2·bands] for positions first_position + t, t < n, where bands = inv_freq.size().
// Each value is within one ulp (f32) of the long double cosine or sine of the exact product position ·
// inv_freq[i], for positions below 2^24 where the value's magnitude is above 1e-7.
//
// Method: exact cos and sin in double for one position in 1024, for 16 steps of 64 and for 64 steps of 1,
// joined by complex products, cos(a+b) = cos a·cos b − sin a·sin b. So the library computes (n/1024 + 80)
// sines per band, and the rest is four multiplications in double per pair.
void BuildAngleTable(const std::vector<double>& inv_freq, size_t first_position, size_t n, AngleLayout layout,
                     float* table);

// The plain loop, one std::cos and one std::sin in double per value: what the table is measured against.
void BuildAngleTableScalar(const std::vector<double>& inv_freq, size_t first_position, size_t n,
                           AngleLayout layout, float* table);

// One row for bands that stand at positions of their own: band i at positions[i], both of its values times
// factors[i]. cos and sin in double.
void BuildAngleRow(const std::vector<double>& inv_freq, const std::vector<int32_t>& positions,
                   const std::vector<double>& factors, AngleLayout layout, float* row);

// Either way: reads inv_freq, writes the table; one multiplication per angle, the cos and sin as one flop
// each.
Cost AngleTableCost(size_t bands, size_t n);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ANGLE_TABLE_H_
