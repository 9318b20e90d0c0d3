#include "kernels/chunk_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention_reference.h"
#include "kernels/hash.h"
#include "kernels/synthetic_kv.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

class Chunks : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

struct Inputs {
  Inputs(KvFormat format, size_t tokens, size_t d_head, KeyStatistics statistics, uint64_t seed = 1)
      : kv{statistics, 6, 2, d_head, seed},
        cache(KvShape{format, 2, d_head, d_head}, tokens + 64),
        q(6 * d_head),
        k(tokens * 2 * d_head),
        v(tokens * 2 * d_head) {
    kv.Query(q.data());
    kv.Keys(0, tokens, k.data());
    kv.Values(0, tokens, v.data());
  }
  void Append(size_t count) {
    const size_t at = cache.n() * 2 * kv.d_head;
    cache.Append(k.data() + at, v.data() + at, count);
  }
  DecodeAttention Call() const {
    return {.cache = &cache,
            .n_heads = 6,
            .q = q.data(),
            .scale = 1 / std::sqrt(static_cast<float>(kv.d_head)),
            .position = cache.n() - 1};
  }

  SyntheticKv kv;
  KvCache cache;
  std::vector<float> q, k, v;
};

double Score(const Inputs& in, size_t query_head, size_t token) {
  double dot = 0;
  for (size_t i = 0; i < in.kv.d_head; ++i) {
    dot += static_cast<double>(in.q[query_head * in.kv.d_head + i]) *
           static_cast<double>(in.cache.Key(query_head / 3, token, i));
  }
  return dot / std::sqrt(static_cast<double>(in.kv.d_head));
}

// Both kinds, tokens appended in pieces that end within blocks and chunks, then cut and appended again.
TEST_P(Chunks, ScoresAreThoseOfTheKeys) {
  for (const KvFormat format : kAllKvFormats) {
    for (const size_t chunk : {32, 96}) {
      Inputs in(format, 333, 40, KeyStatistics::kOutliers);
      ChunkSummaries means(in.cache, ChunkSummary::kMean, chunk);
      ChunkSummaries bounds(in.cache, ChunkSummary::kBounds, chunk);
      const auto expect = [&](const std::string& when) {
        const size_t n = in.cache.n(), chunks = (n + chunk - 1) / chunk;
        ASSERT_EQ(means.chunks(), chunks);
        for (size_t head = 0; head < 2; ++head) {
          std::vector<float> mean(3 * chunks, -7), bound(3 * chunks, -7);
          ScoreChunks(means, in.Call(), head, mean.data());
          ScoreChunks(bounds, in.Call(), head, bound.data());
          for (size_t r = 0; r < 3; ++r) {
            for (size_t c = 0; c < chunks; ++c) {
              double sum = 0, most = -1e9;
              const size_t end = std::min(n, (c + 1) * chunk);
              for (size_t t = c * chunk; t < end; ++t) {
                const double score = Score(in, head * 3 + r, t);
                sum += score;
                most = std::max(most, score);
              }
              const std::string where =
                  std::string(KvFormatName(format)) + " " + when + " chunk " + std::to_string(c);
              const auto of_tokens = static_cast<double>(end - c * chunk);
              EXPECT_NEAR(static_cast<double>(mean[r * chunks + c]), sum / of_tokens, 2e-5) << where;
              EXPECT_GE(static_cast<double>(bound[r * chunks + c]), most - 2e-5) << where;
              // One key alone is its own bound.
              if (of_tokens == 1) {
                EXPECT_NEAR(static_cast<double>(bound[r * chunks + c]), most, 2e-5) << where;
              }
            }
          }
        }
      };
      for (const size_t count : {1, 30, 1, 1, 64, 96, 100, 40}) {
        in.Append(count);
        means.Update(in.cache);
        bounds.Update(in.cache);
        expect("n " + std::to_string(in.cache.n()));
      }
      in.cache.Truncate(128);
      // Other tokens than before.
      std::reverse(in.k.begin(), in.k.end());
      in.Append(33);
      means.Update(in.cache, 128);
      bounds.Update(in.cache, 128);
      expect("cut");
    }
  }
}

TEST_P(Chunks, BoundsAreTheLeastAndLargest) {
  Inputs in(KvFormat::kF32, 300, 24, KeyStatistics::kWhite);
  in.Append(300);
  const ChunkSummaries bounds(in.cache, ChunkSummary::kBounds, 64);
  for (size_t c = 0; c < 5; ++c) {
    for (size_t i = 0; i < 24; ++i) {
      float least = 1e9f, most = -1e9f;
      for (size_t t = c * 64; t < std::min<size_t>(300, c * 64 + 64); ++t) {
        least = std::min(least, in.cache.Key(1, t, i));
        most = std::max(most, in.cache.Key(1, t, i));
      }
      EXPECT_EQ(bounds.Block(1, 0)[i * 32 + c], most) << c << " " << i;
      EXPECT_EQ(bounds.Block(1, 0)[(24 + i) * 32 + c], least) << c << " " << i;
    }
  }
}

TEST_P(Chunks, AllChunksAreFullAttention) {
  for (const KvFormat format : kAllKvFormats) {
    for (const size_t n : {1, 32, 100, 777}) {
      Inputs in(format, n, 64, KeyStatistics::kWhite);
      in.Append(n);
      std::vector<float> full(6 * 64), chosen(6 * 64, -7);
      Attend(in.Call(), full.data());
      const ChunkSummaries bounds(in.cache, ChunkSummary::kBounds, 64);
      for (const ChunkChoice choice : {ChunkChoice{100, 0, 0}, {100, 4, 100}, {0, 0, 5000}, {0, 5000, 1}}) {
        AttendChosen(bounds, in.Call(), choice, chosen.data());
        EXPECT_EQ(chosen, full) << KvFormatName(format) << " n " << n << " best " << choice.best;
        EXPECT_NEAR(AttentionRecall(bounds, in.Call(), choice), 1, 1e-6);
      }
    }
  }
}

// Output and mass are those of a softmax over the chosen tokens alone; also in slices.
TEST_P(Chunks, AttendsToTheChosenTokensExactly) {
  for (const KvFormat format : kAllKvFormats) {
    Inputs in(format, 1003, 64, KeyStatistics::kTopics);
    in.Append(1003);
    const DecodeAttention call = in.Call();
    const ChunkSummaries means(in.cache, ChunkSummary::kMean, 64);
    const ChunkChoice choice{4, 32, 50};
    std::vector<float> out(6 * 64, -7);
    AttendChosen(means, call, choice, out.data());
    const ReferenceCache reference(in.cache);
    for (size_t head = 0; head < 2; ++head) {
      const std::vector<TokenRange> ranges = ChooseTokens(means, call, head, choice);
      std::vector<double> mass(3);
      AttentionMass(call, head, ranges, mass.data());
      const size_t slices = 5;
      std::vector<float> partials(2 * slices * PartialFloats(call)), sliced(6 * 64);
      for (size_t s = 0; s < slices; ++s) {
        const std::vector<TokenRange> part = SliceOf(ranges, s, slices);
        AttendRangesOf(call, head, part.data(), part.size(),
                       partials.data() + (head * slices + s) * PartialFloats(call));
      }
      MergeUnits(call, head, 1, slices, partials.data(), sliced.data());
      for (size_t r = 0; r < 3; ++r) {
        const size_t h = head * 3 + r;
        const ReferenceRow row = ReferenceAttention(reference, call.bias, true, h, head, call.position,
                                                    in.q.data() + h * 64, static_cast<double>(call.scale));
        double held = 0;
        std::vector<double> expected(64);
        for (const TokenRange& range : ranges) {
          for (size_t t = range.first; t < range.end; ++t) {
            held += row.weights[t];
            for (size_t i = 0; i < 64; ++i) {
              expected[i] += row.weights[t] * static_cast<double>(in.cache.Value(head, t, i));
            }
          }
        }
        // Against q4_0 keys q is of 8 bits (decode_attention.h), here as there: slices see the same.
        const bool bytes = format == KvFormat::kQ40;
        EXPECT_NEAR(mass[r], held, bytes ? 2e-3 : 1e-4) << KvFormatName(format);
        EXPECT_LT(held, 0.9999);
        for (size_t i = 0; i < 64; ++i) {
          EXPECT_NEAR(static_cast<double>(out[h * 64 + i]), expected[i] / held, bytes ? 1e-2 : 5e-4)
              << KvFormatName(format);
          EXPECT_NEAR(sliced[h * 64 + i], out[h * 64 + i], 5e-4f) << KvFormatName(format);
        }
      }
    }
  }
}

TEST_P(Chunks, SinksAndWindowAlways) {
  for (const size_t n : {1, 31, 33, 64, 300, 1000}) {
    Inputs in(KvFormat::kF16, n, 32, KeyStatistics::kTopics);
    in.Append(n);
    for (const size_t chunk : {32, 128, 256}) {
      const ChunkSummaries bounds(in.cache, ChunkSummary::kBounds, chunk);
      for (const ChunkChoice choice : {ChunkChoice{0, 4, 1}, {2, 4, 100}, {3, 40, 33}, {1, 0, 0}}) {
        for (const size_t position : {n - 1, n / 2}) {
          DecodeAttention call = in.Call();
          call.position = position;
          const size_t end = position + 1;
          const std::vector<TokenRange> ranges = ChooseTokens(bounds, call, 0, choice);
          std::vector<bool> in_range(n);
          size_t from = 0;
          for (const TokenRange& range : ranges) {
            EXPECT_EQ(range.first % 32, 0u);
            EXPECT_TRUE(range.end % 32 == 0 || range.end == end);
            EXPECT_TRUE(range.first > from || from == 0) << "not joined";
            ASSERT_LT(range.first, range.end);
            ASSERT_LE(range.end, end);
            for (size_t t = range.first; t < range.end; ++t) in_range[t] = true;
            from = range.end;
          }
          const auto held = static_cast<size_t>(std::count(in_range.begin(), in_range.end(), true));
          EXPECT_EQ(held, TokensOf(ranges));
          EXPECT_LE(held, choice.best * chunk + choice.sinks + 31 + choice.window + 31);
          for (size_t t = 0; t < std::min(choice.sinks, end); ++t) EXPECT_TRUE(in_range[t]) << "sink " << t;
          for (size_t t = end - std::min(end, choice.window); t < end; ++t) {
            EXPECT_TRUE(in_range[t]) << "window " << t << " of " << n;
          }
        }
      }
    }
  }
}

// The choice is by content, and a head that has a NaN leaves it to the others.
TEST_P(Chunks, AMarkedChunkIsFound) {
  for (const ChunkSummary summary : {ChunkSummary::kMean, ChunkSummary::kBounds}) {
    for (const size_t marked : {1, 5, 8}) {
      Inputs in(KvFormat::kQ80, 1200, 64, KeyStatistics::kWhite);
      for (size_t t = marked * 128; t < marked * 128 + 128; ++t) {
        for (size_t i = 0; i < 64; ++i) in.k[(t * 2 + 1) * 64 + i] += 2 * in.q[4 * 64 + i];
      }
      in.q[3 * 64] = std::numeric_limits<float>::quiet_NaN();
      in.q[5 * 64] = std::numeric_limits<float>::infinity();
      in.Append(1200);
      const ChunkSummaries summaries(in.cache, summary, 128);
      const std::vector<TokenRange> ranges = ChooseTokens(summaries, in.Call(), 1, {1, 0, 0});
      ASSERT_EQ(ranges.size(), 1u);
      EXPECT_EQ(ranges[0].first, marked * 128) << ChunkSummaryName(summary);
      EXPECT_EQ(ranges[0].end, marked * 128 + 128);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Chunks, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

// Recall where attention is concentrated, and where it is not: a share of the tokens holds about that share.
TEST(ChunkRecall, BestIsBetterThanAny) {
  constexpr size_t kTokens = 8000, kChunk = 256, kBest = 8;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Inputs in(KvFormat::kF16, kTokens, 128, KeyStatistics::kTopics, seed);
    in.Append(kTokens);
    const DecodeAttention call = in.Call();
    const ChunkSummaries means(in.cache, ChunkSummary::kMean, kChunk);
    const ChunkSummaries bounds(in.cache, ChunkSummary::kBounds, kChunk);
    const ChunkChoice choice{kBest, 32, 256};
    double any = 0;
    constexpr int kDraws = 10;
    for (size_t draw = 0; draw < kDraws; ++draw) {
      for (size_t head = 0; head < 2; ++head) {
        std::vector<TokenRange> ranges;
        std::vector<size_t> order;
        for (size_t c = 1; c < kTokens / kChunk; ++c) order.push_back(c);
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
          return Hash64(1000 * draw + a + 77 * head) < Hash64(1000 * draw + b + 77 * head);
        });
        order.resize(kBest);
        std::sort(order.begin(), order.end());
        ranges.push_back({0, 32});
        for (const size_t c : order) ranges.push_back({c * kChunk, c * kChunk + kChunk});
        ranges.push_back({kTokens / 32 * 32 - 256, kTokens});
        if (ranges[kBest].end > ranges[kBest + 1].first) ranges[kBest + 1].first = ranges[kBest].end;
        std::vector<double> mass(3);
        AttentionMass(call, head, ranges, mass.data());
        for (const double m : mass) any += m / (6 * kDraws);
      }
    }
    const double by_mean = AttentionRecall(means, call, choice);
    const double by_bounds = AttentionRecall(bounds, call, choice);
    std::printf(
        "topics, seed %d: recall of %zu chunks of %zu in %zu tokens: mean %.3f bounds %.3f any %.3f\n",
        static_cast<int>(seed), kBest, kChunk, kTokens, by_mean, by_bounds, any);
    EXPECT_GT(by_mean, any + 0.2);
    EXPECT_GT(by_bounds, any + 0.2);
  }
}

TEST(ChunkCost, CountsSummariesOnce) {
  KvCache cache(KvShape{KvFormat::kF16, 8, 128, 128}, 4096);
  std::vector<float> k(64 * 8 * 128), q(24 * 128);
  cache.Append(k.data(), k.data(), 64);
  cache.RepeatTo(4096);
  const DecodeAttention call{.cache = &cache, .n_heads = 24, .q = q.data(), .position = 4095};
  const ChunkSummaries bounds(cache, ChunkSummary::kBounds, 256);
  EXPECT_EQ(ChunkScoreCost(bounds, call).bytes_read, 16.0 * 256 * 8 * 4 + 4 * 24 * 128);
  EXPECT_EQ(ChunkScoreCost(bounds, call).flops, 2.0 * 24 * 16 * 256);
  EXPECT_EQ(ChunkUpdateCost(bounds, cache.shape(), 4096).bytes_read, 4096.0 * 8 * 128 * 2);
  EXPECT_EQ(ChunkUpdateCost(bounds, cache.shape(), 4096).bytes_written, 16.0 * 256 * 8 * 4);
}

TEST(ChunkDeathTest, RefusesWhatItCannotDo) {
  KvCache cache(KvShape{KvFormat::kF16, 1, 32, 32}, 128);
  EXPECT_DEATH(ChunkSummaries(cache, ChunkSummary::kMean, 48), "chunks of 48 tokens");
  std::vector<float> k(40 * 32);
  const ChunkSummaries means(cache, ChunkSummary::kMean, 32);
  cache.Append(k.data(), k.data(), 40);
  const DecodeAttention call{.cache = &cache, .n_heads = 1, .q = k.data(), .position = 39};
  EXPECT_DEATH(ChooseTokens(means, call, 0, {}), "summaries of 0 tokens for a cache of 40");
  std::vector<float> partial(PartialFloats(call));
  const TokenRange beyond{0, 41};
  EXPECT_DEATH(AttendRangesOf(call, 0, &beyond, 1, partial.data()), "expected ascending ranges");
}

}  // namespace
}  // namespace ropeline
