#include "kernels/kv_error.h"

#include <algorithm>
#include <cmath>

#include "kernels/hash.h"
#include "kernels/kv_cache.h"
#include "kernels/kv_evict.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

namespace {

// Three uniform numbers in [−1, 1) have variance 1 together.
double Normal(uint64_t seed, size_t i) {
  double sum = 0;
  for (size_t j = 0; j < 3; ++j) sum += static_cast<double>(HashToFloat(seed, 3 * i + j));
  return sum;
}

// One vector of d dimensions, all of which turn.
void RotateExactly(Pairing pairing, const std::vector<double>& inv_freq, size_t position, double* x) {
  const size_t bands = inv_freq.size();
  for (size_t i = 0; i < bands; ++i) {
    double& a = x[pairing == Pairing::kHalf ? i : 2 * i];
    double& b = x[pairing == Pairing::kHalf ? i + bands : 2 * i + 1];
    const double angle = static_cast<double>(position) * inv_freq[i];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = turned;
  }
}

std::vector<double> RotatedExactly(const KvErrorCase& c, const std::vector<double>& inv_freq,
                                   std::vector<double> x, size_t first_position) {
  for (size_t t = 0; t * c.d_head < x.size(); ++t) {
    RotateExactly(c.pairing, inv_freq, first_position + t, &x[t * c.d_head]);
  }
  return x;
}

class RelativeError {
 public:
  void Add(double actual, double exact) {
    error_ += (actual - exact) * (actual - exact);
    size_ += exact * exact;
  }
  double Get() const { return std::sqrt(error_ / size_); }

 private:
  double error_ = 0, size_ = 0;
};

}  // namespace

std::vector<float> KeysWithOutliers(size_t n, size_t d_head, uint64_t seed) {
  std::vector<double> scale(d_head, 1);
  for (size_t start = 0; start < d_head; start += kKvTile) {
    const uint64_t bits = Hash64(Hash64(seed) + start);
    scale[start + bits % std::min(kKvTile, d_head - start)] =
        10 + 10 * static_cast<double>(bits >> 40) * 0x1p-24;
  }
  std::vector<float> keys(n * d_head);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = static_cast<float>(scale[i % d_head] * Normal(seed + 1000, i));
  }
  return keys;
}

KvError RerotationError(const KvErrorCase& c) {
  const std::vector<double> inv_freq = DefaultInvFreq(c.d_head, 10000);
  const KeyRotation rotation{c.pairing, inv_freq};
  constexpr size_t kValues = 8;  // dimensions of a value: they do not turn
  std::vector<size_t> gaps(c.evictions);
  size_t evicted = 0;
  for (size_t i = 0; i < c.evictions; ++i) {
    gaps[i] = 1 + Hash64(Hash64(c.seed + 2000) + i) % c.largest_gap;
    evicted += gaps[i];
  }
  // What goes, and a block that stays.
  const size_t start = (evicted / kKvTile + 2) * kKvTile;
  KvCache cache({c.format, 1, c.d_head, kValues}, start + c.n);
  const std::vector<float> others = KeysWithOutliers(kKvTile, c.d_head, c.seed);
  const std::vector<float> values((c.n + kKvTile) * kValues);
  cache.Append(others.data(), values.data(), kKvTile);
  cache.RepeatTo(start);

  // The same outlying channels as the others have, but other keys.
  const std::vector<float> all = KeysWithOutliers(kKvTile + c.n, c.d_head, c.seed);
  const std::vector<double> keys(all.begin() + static_cast<std::ptrdiff_t>(kKvTile * c.d_head), all.end());
  const std::vector<double> first = RotatedExactly(c, inv_freq, keys, start);
  cache.Append(std::vector<float>(first.begin(), first.end()).data(), values.data(), c.n);
  size_t at = start;
  for (const size_t gap : gaps) {
    EvictTokens(at - gap, at, rotation, &cache);
    at -= gap;
  }

  const std::vector<double> exact = RotatedExactly(c, inv_freq, keys, at);
  constexpr size_t kQueries = 16;
  std::vector<double> queries(kQueries * c.d_head);
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = Normal(c.seed + 3000, i);
  queries = RotatedExactly(c, inv_freq, queries, at + c.n);
  RelativeError key_error, logit_error;
  for (size_t t = 0; t < c.n; ++t) {
    std::vector<double> stored(c.d_head);
    for (size_t i = 0; i < c.d_head; ++i) {
      stored[i] = static_cast<double>(cache.Key(0, at + t, i));
      key_error.Add(stored[i], exact[t * c.d_head + i]);
    }
    for (size_t q = 0; q < kQueries; ++q) {
      double logit = 0, exact_logit = 0;
      for (size_t i = 0; i < c.d_head; ++i) {
        logit += queries[q * c.d_head + i] * stored[i];
        exact_logit += queries[q * c.d_head + i] * exact[t * c.d_head + i];
      }
      logit_error.Add(logit, exact_logit);
    }
  }
  return {key_error.Get(), logit_error.Get()};
}

}  // namespace ropeline
