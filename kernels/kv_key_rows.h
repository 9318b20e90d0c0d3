// A block of keys as rows of 32 tokens, for operations that move tokens without looking at their numbers.
#ifndef ROPELINE_KERNELS_KV_KEY_ROWS_H_
#define ROPELINE_KERNELS_KV_KEY_ROWS_H_

#include <cstddef>

#include "kernels/kv_format.h"

namespace ropeline {

// f(start in bytes, bytes of one element) for every row of 32 elements, element o of which is token o's: the
// numbers, and of q8_0 and q4_0 the scales too. Not for kivi4, whose scales belong to channels.
template <class F>
inline void ForEachKeyRow(KvFormat format, size_t d_head, const F& f) {
  const size_t bytes = KvBlockBytes(format, d_head);
  if (format == KvFormat::kF32) {
    for (size_t at = 0; at < bytes; at += 4 * kKvTile) f(at, size_t{4});
  } else if (format != KvFormat::kQ40) {
    for (size_t at = 0; at < bytes; at += 2 * kKvTile) f(at, size_t{2});
  } else {
    for (size_t at = 0; at < bytes;) {
      f(at, size_t{2});
      at += 2 * kKvTile;
      for (size_t i = 0; i < kKvTile / 8; ++i, at += 4 * kKvTile) f(at, size_t{4});
    }
  }
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_KEY_ROWS_H_
