#include "kernels/synthetic_kv.h"

#include <cmath>

#include "kernels/hash.h"

namespace ropeline {

namespace {

constexpr size_t kPassage = 192;  // tokens
constexpr float kMostAdded = 7;   // to a score
constexpr float kOutlierInQuery = 0.1f;

enum Stream : uint64_t { kKeys, kValues, kQueries, kMeans, kDeviations, kOutlier, kTopic, kAbout, kHowMuch };

// Of a stream's row `a`, as HashToFloatInRow takes it.
uint64_t Row(const SyntheticKv& kv, Stream stream, size_t a) {
  return Hash64(Hash64(Hash64(kv.seed) + stream) + a);
}

float Uniform(uint64_t row, size_t b) { return 0.5f + 0.5f * HashToFloatInRow(row, b); }

// Mean 0, variance 1: three uniform numbers of variance 1/3.
float Normal(uint64_t row, size_t b) {
  return HashToFloatInRow(row, 3 * b) + HashToFloatInRow(row, 3 * b + 1) + HashToFloatInRow(row, 3 * b + 2);
}

bool IsOutlier(const SyntheticKv& kv, size_t head, size_t i) {
  const uint64_t row = Row(kv, kOutlier, head);
  const size_t tile = i / 32, width = kv.d_head - tile * 32 < 32 ? kv.d_head - tile * 32 : 32;
  return Hash64(row + tile) % width == i % 32;
}

}  // namespace

const char* KeyStatisticsName(KeyStatistics statistics) {
  switch (statistics) {
    case KeyStatistics::kWhite:
      return "white";
    case KeyStatistics::kOutliers:
      return "outliers";
    case KeyStatistics::kTopics:
      return "topics";
  }
  return "";
}

void SyntheticKv::Keys(size_t first, size_t count, float* k) const {
  const float root = std::sqrt(static_cast<float>(d_head));
  for (size_t h = 0; h < n_kv_heads; ++h) {
    const uint64_t means = Row(*this, kMeans, h), deviations = Row(*this, kDeviations, h);
    const uint64_t topic = Row(*this, kTopic, h), about = Row(*this, kAbout, h);
    for (size_t t = first; t < first + count; ++t) {
      float* to = k + ((t - first) * n_kv_heads + h) * d_head;
      const uint64_t row = Row(*this, kKeys, t * n_kv_heads + h);
      for (size_t i = 0; i < d_head; ++i) to[i] = Normal(row, i);
      if (statistics == KeyStatistics::kOutliers) {
        for (size_t i = 0; i < d_head; ++i) {
          const float own = HashToFloatInRow(means, i);
          if (IsOutlier(*this, h, i)) {
            const float magnitude = 15 + 5 * own;  // 10 to 20
            to[i] = (Hash64(means + i) % 2 == 0 ? magnitude : -magnitude) + 2 * to[i];
          } else {
            to[i] = own + (0.75f + 0.25f * HashToFloatInRow(deviations, i)) * to[i];
          }
        }
      } else if (statistics == KeyStatistics::kTopics && Hash64(about + t / kPassage) % 16 == 0) {
        // A query is the topic and as much noise; its score with the topic is √d on average.
        const float much = kMostAdded * Uniform(Row(*this, kHowMuch, h), t) / root;
        for (size_t i = 0; i < d_head; ++i) to[i] += much * Normal(topic, i);
      }
    }
  }
}

void SyntheticKv::Values(size_t first, size_t count, float* v) const {
  for (size_t t = 0; t < count * n_kv_heads; ++t) {
    const uint64_t row = Row(*this, kValues, first * n_kv_heads + t);
    for (size_t i = 0; i < d_head; ++i) v[t * d_head + i] = Normal(row, i);
  }
}

void SyntheticKv::Query(float* q) const {
  const size_t group = n_heads / n_kv_heads;
  for (size_t h = 0; h < n_heads; ++h) {
    const uint64_t row = Row(*this, kQueries, h), topic = Row(*this, kTopic, h / group);
    for (size_t i = 0; i < d_head; ++i) {
      float& to = q[h * d_head + i];
      to = Normal(row, i);
      if (statistics == KeyStatistics::kTopics) to = 0.5f * to + Normal(topic, i);
      if (statistics == KeyStatistics::kOutliers && IsOutlier(*this, h / group, i)) to *= kOutlierInQuery;
    }
  }
}

}  // namespace ropeline
