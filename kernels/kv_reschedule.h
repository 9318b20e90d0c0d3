// Turning a whole cache from one RoPE schedule to another, as when a scaling factor grows with the context
// (dynamic NTK, YaRN): token t's keys, rotated by t·old[i] and scaled by the old attention factor, become
// rotated by t·new[i] and scaled by the new one:
//   turned by t·(new[i] − old[i]), times new factor / old factor
//
// What it costs against computing the keys again (prefill), per token and layer: it reads and writes the
// token's rotated keys, 2·n_kv_heads·d_rot·(bytes of an element), with 3 flops an element and 3·d_rot for the
// angles. Prefill is 2 flops for each of the model's parameters, and attention's. Llama 3.2 3B (28 layers, 8
// KV heads of 128) in f16: 115 kB and 97 kflop a token against 6.4 Gflop. At 32,768 tokens 3.76 GB, 0.11 s
// at 33 GB/s, against 4,200 s at 50 GFLOP/s for the parameters alone. The result is the exact one in the
// first layer only: deeper layers' keys and values were computed from what attention gave under the old
// schedule, which only prefill can undo.
#ifndef ROPELINE_KERNELS_KV_RESCHEDULE_H_
#define ROPELINE_KERNELS_KV_RESCHEDULE_H_

#include <cstddef>
#include <vector>

#include "kernels/cost.h"
#include "kernels/kv_cache.h"
#include "kernels/qk_rotation.h"

namespace ropeline {

struct KeySchedule {
  std::vector<double> inv_freq;  // [d_rot/2], radians per token
  double factor = 1;             // on what turns: YaRN's and longrope's attention factor, of the keys' half
};

// cos and sin, times `factor`, of t · turn[i], for one block of 32 tokens after the other.
// The angle at a block's start is kept in double, advanced by complex products and computed anew every 256
// blocks; the 32 steps inside are f32 products with a fixed table. Error of each value below
// 3e-7 · factor at any position below 2^24.
class SteppedAngles {
 public:
  SteppedAngles(const std::vector<double>& turn, double factor);
  // The next block's, starting with tokens 0 … 31: [bands][32] each, 64-byte aligned.
  void Next(float* cosines, float* sines);

 private:
  std::vector<double> turn_;
  double factor_;
  size_t block_ = 0;
  std::vector<double> cos_, sin_;              // [bands], at the block's start
  std::vector<double> cos_block_, sin_block_;  // [bands], of 32 tokens
  std::vector<float> cos_start_, sin_start_;   // cos_ and sin_ times the factor
  std::vector<float> cos_step_, sin_step_;     // [bands][32]
};

// Token t of the cache is at position t. Both schedules have the same number of bands; aborts otherwise, or
// for more than d_head_k dimensions.
void RescheduleKeys(Pairing pairing, const KeySchedule& from, const KeySchedule& to, KvCache* cache);

// TurnKeysCost, and three flops for each cosine and sine, which all heads share and which stay in a cache.
Cost RescheduleKeysCost(const KvShape& shape, size_t n, size_t d_rot);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_RESCHEDULE_H_
