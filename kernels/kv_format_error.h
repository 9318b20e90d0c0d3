// What a cache format costs in accuracy: logits, softmax weights and outputs of decode attention over a cache
// of that format, against the same keys and values in f32.
#ifndef ROPELINE_KERNELS_KV_FORMAT_ERROR_H_
#define ROPELINE_KERNELS_KV_FORMAT_ERROR_H_

#include <cstddef>
#include <cstdint>

#include "kernels/kv_format.h"
#include "kernels/synthetic_kv.h"

namespace ropeline {

struct KvFormatCase {
  KvFormat format = KvFormat::kF32;
  KeyStatistics statistics = KeyStatistics::kOutliers;
  size_t n = 1024;      // tokens
  size_t n_heads = 24;  // one query each
  size_t n_kv_heads = 8;
  size_t d_head = 128;
  uint64_t seed = 1;
};

struct KvFormatError {
  double logit = 0;  // root of the mean square of the error of scale·q·k, relative to that of its deviation
                     // from each query's mean, which a softmax takes no notice of
  double weights = 0;  // total variation, ½·Σ |w − w_f32|, the mean over queries; 0 to 1
  double output = 0;   // root of the mean square of the error, relative to that of the f32 outputs
};

// Logits and weights in double from the numbers that the cache stands for; outputs by Attend on the current
// target, the rounding of q and of the weights to 16 bits included, against double over the f32 keys and
// values. Keys are not rotated: a rotation is the same for all formats, and mixes outliers into their pair.
KvFormatError ErrorOfKvFormat(const KvFormatCase& c);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_FORMAT_ERROR_H_
