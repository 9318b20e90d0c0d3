// RoPE schedules: the inverse frequencies of a rotary encoding, in double, without SIMD.
#ifndef ROPELINE_KERNELS_ROPE_SCHEDULE_H_
#define ROPELINE_KERNELS_ROPE_SCHEDULE_H_

#include <cstddef>
#include <vector>

namespace ropeline {

// inv_freq[i] = base^(−2i/d_rot), i = 0 … d_rot/2 − 1, in radians per token.
// Su et al., "RoFormer", section 3.2.2; the same ladder as Vaswani et al., "Attention is all you need",
// section 3.5. d_rot even.
std::vector<double> DefaultInvFreq(size_t d_rot, double base);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ROPE_SCHEDULE_H_
