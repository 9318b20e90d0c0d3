#include "kernels/rope_schedule.h"

#include <cmath>

namespace ropeline {

std::vector<double> DefaultInvFreq(size_t d_rot, double base) {
  std::vector<double> inv_freq(d_rot / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d_rot));
  }
  return inv_freq;
}

}  // namespace ropeline
