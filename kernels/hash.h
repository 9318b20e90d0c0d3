// Reproducible numbers without a generator's state: stand-ins for trained tables, and fills.
#ifndef ROPELINE_KERNELS_HASH_H_
#define ROPELINE_KERNELS_HASH_H_

#include <cstddef>
#include <cstdint>

namespace ropeline {

// The finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
inline uint64_t Hash64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [−1, 1), a multiple of 2^-23, so that it is exact in f32. `row` is Hash64(a).
inline float HashToFloatInRow(uint64_t row, size_t b) {
  const uint64_t bits = Hash64(row + b) >> 40;
  return static_cast<float>(static_cast<double>(bits) * 0x1p-23 - 1.0);
}
inline float HashToFloat(size_t a, size_t b) { return HashToFloatInRow(Hash64(a), b); }

// A stand-in for an entry of a trained table: in [−1, 1], a multiple of 2^-7, so that every dtype holds it
// exactly.
inline float TrainedEntryInRow(uint64_t row, size_t b) {
  return static_cast<float>(static_cast<int>(HashToFloatInRow(row, b) * 128)) / 128;
}
inline float TrainedEntry(size_t a, size_t b) { return TrainedEntryInRow(Hash64(a), b); }

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_HASH_H_
