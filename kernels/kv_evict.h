// Taking tokens out of the cache. The tokens behind them close the gap, and where keys hold positions they
// are turned back by as many, so that the survivors stand at contiguous positions: what a model sees that was
// given the survivors alone, in this layer. Xiao et al. 2024, "Efficient streaming language models with
// attention sinks", section 3.2 (positions are those inside the cache).
#ifndef ROPELINE_KERNELS_KV_EVICT_H_
#define ROPELINE_KERNELS_KV_EVICT_H_

#include <cstddef>

#include "kernels/cost.h"
#include "kernels/kv_cache.h"
#include "kernels/kv_turn.h"

namespace ropeline {

// Tokens [begin, end) go; n() falls by end − begin. Values, and keys that hold no position, move bit for bit.
// Keys that turn are rounded once more; quantised ones are quantised again, of q8_0 and q4_0 the tiles in
// which something turns. kivi4: channels of every block whose tokens did not move together are quantised
// again, and a finished block that becomes the last, unfinished one goes back to f16.
// Evict many tokens at a time: each call rounds all keys behind the gap, and a turn by few positions may be
// less than a 16-bit format's rounding of the slow bands (rerotation_error_test.cc has the numbers).
// Fast where end − begin is a multiple of 32: blocks move whole. Aborts unless begin <= end <= n().
void EvictTokens(size_t begin, size_t end, const KeyRotation& rotation, KvCache* cache);

// Bytes of the keys and values that move, read and written once; three flops for each key element that turns.
Cost EvictCost(const KvShape& shape, size_t n, size_t begin, size_t end, const KeyRotation& rotation);

// Keeps the first `sinks` tokens and the last `window` ones. Returns how many went.
size_t KeepSinksAndWindow(size_t sinks, size_t window, const KeyRotation& rotation, KvCache* cache);
Cost KeepSinksAndWindowCost(const KvShape& shape, size_t n, size_t sinks, size_t window,
                            const KeyRotation& rotation);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_EVICT_H_
