// Double references that the tests of the KV cache's operations share.
#ifndef ROPELINE_KERNELS_KV_REFERENCE_TEST_H_
#define ROPELINE_KERNELS_KV_REFERENCE_TEST_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/hash.h"
#include "kernels/kv_cache.h"
#include "kernels/kv_turn.h"

namespace ropeline {

inline std::vector<float> RandomTokens(size_t elements, size_t seed) {
  std::vector<float> x(elements);
  for (size_t i = 0; i < elements; ++i) x[i] = HashToFloat(i, seed);
  return x;
}

// [n_kv_heads][n][d_head] in double.
class Keys {
 public:
  Keys(size_t heads, size_t n, size_t d_head) : n_(n), d_head_(d_head), x_(heads * n * d_head) {}
  double& At(size_t h, size_t t, size_t i) { return x_[(h * n_ + t) * d_head_ + i]; }
  double At(size_t h, size_t t, size_t i) const { return x_[(h * n_ + t) * d_head_ + i]; }
  double* Head(size_t h, size_t t) { return &x_[(h * n_ + t) * d_head_]; }
  size_t n() const { return n_; }

 private:
  size_t n_, d_head_;
  std::vector<double> x_;
};

// What a cache holds, as numbers.
class Snapshot {
 public:
  explicit Snapshot(const KvCache& cache)
      : keys_(cache.shape().n_kv_heads, cache.n(), cache.shape().d_head_k),
        values_(cache.shape().n_kv_heads, cache.n(), cache.shape().d_head_v) {
    for (size_t h = 0; h < cache.shape().n_kv_heads; ++h) {
      for (size_t t = 0; t < cache.n(); ++t) {
        for (size_t i = 0; i < cache.shape().d_head_k; ++i)
          keys_.At(h, t, i) = static_cast<double>(cache.Key(h, t, i));
        for (size_t i = 0; i < cache.shape().d_head_v; ++i)
          values_.At(h, t, i) = static_cast<double>(cache.Value(h, t, i));
      }
    }
  }
  double Key(size_t h, size_t t, size_t i) const { return keys_.At(h, t, i); }
  float Value(size_t h, size_t t, size_t i) const { return static_cast<float>(values_.At(h, t, i)); }

 private:
  Keys keys_, values_;
};

// Turns one key by positions · inv_freq, and scales what turns.
inline void TurnReference(const KeyRotation& rotation, double positions, double factor, double* key) {
  const size_t bands = rotation.inv_freq.size();
  for (size_t i = 0; i < bands; ++i) {
    const bool half = rotation.pairing == Pairing::kHalf;
    double& a = key[half ? i : 2 * i];
    double& b = key[half ? i + bands : 2 * i + 1];
    const double c = factor * std::cos(positions * rotation.inv_freq[i]);
    const double s = factor * std::sin(positions * rotation.inv_freq[i]);
    const double turned = a * c - b * s;
    b = b * c + a * s;
    a = turned;
  }
}

// How far a cache's element may be from the exact one that was stored there: one rounding of the format, and
// a few of f32 before it.
inline double RoundingBound(const KvCache& cache, const Keys& exact, size_t h, size_t t, size_t i) {
  const KvFormat format = cache.shape().format;
  const size_t d_head = cache.shape().d_head_k;
  constexpr double kNorm = 2;  // no pair of these tests is larger
  const double f32 = 4 * 0x1p-24 * kNorm, x = std::abs(exact.At(h, t, i));
  const bool unfinished = cache.IsUnfinished(t / kKvTile);
  if (format == KvFormat::kF32) return f32;
  if (format == KvFormat::kF16 || unfinished) return f32 + x * 0x1p-11 + 0x1p-25;
  if (format == KvFormat::kBf16) return f32 + x * 0x1p-8;
  if (format == KvFormat::kKivi4) {
    double least = 1e300, most = -1e300;
    const size_t start = t / kKvTile * kKvTile;
    for (size_t j = start; j < std::min(exact.n(), start + kKvTile); ++j) {
      least = std::min(least, exact.At(h, j, i));
      most = std::max(most, exact.At(h, j, i));
    }
    const double range = most - least;
    const double ends = range + std::max(std::abs(least), std::abs(most));
    return range / 30 + ends * 0x1p-11 + 4 * f32 + 16 * 0x1p-25;
  }
  double largest = 0;  // of the tile's line
  const size_t start = i / kKvTile * kKvTile;
  for (size_t j = start; j < std::min(d_head, start + kKvTile); ++j) {
    largest = std::max(largest, std::abs(exact.At(h, t, j)));
  }
  const double step = format == KvFormat::kQ80 ? largest / 127 / 2 : largest / 8;
  return f32 + step + largest * 0x1p-11 + 127 * 0x1p-25;
}

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_KV_REFERENCE_TEST_H_
