// What the machine can do: bandwidth by kind of traffic, f32 FMA peak, memory latency. The limits of every
// other kernel.
#ifndef ROPELINE_KERNELS_STREAM_H_
#define ROPELINE_KERNELS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/roofline.h"

namespace ropeline {

// One pass over `elements` floats with the current target. `a` and `b` do not overlap. Bytes are counted by
// StreamCost.
float StreamRead(const float* a, size_t elements);           // returns the sum
void StreamCopy(const float* a, float* b, size_t elements);  // b[i] = a[i]
void StreamUpdate(float* a, size_t elements);               // a[i] = 1 − a[i]: stays in range however often
void StreamAdd(float* a, const float* b, size_t elements);  // a[i] += b[i]
void StreamSum(const float* a, const float* b, float* c, size_t elements);  // c[i] = a[i] + b[i]
// The update of elements that are stored as `dtype` and computed in f32: what converting both ways costs.
void StreamUpdateAs(Dtype dtype, void* a, size_t elements);

Cost StreamCost(Traffic traffic, size_t elements, Dtype dtype = Dtype::kF32);

// Independent chains of f32 multiply-adds in registers, `rounds` times. Returns the flops done (it depends on
// the target's lanes); *sink takes the result, so that nothing is left out.
double PeakFma(size_t rounds, float* sink);

// A random cycle through one slot per 64 bytes of `bytes` of memory: slots[i·8] holds the index of the next
// slot. No stride for a prefetcher to find.
void BuildChase(size_t bytes, uint64_t seed, uint64_t* slots);
// Follows the cycle from `start` for `steps` loads, each depending on the last; returns where it stands.
uint64_t Chase(const uint64_t* slots, uint64_t start, size_t steps);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_STREAM_H_
