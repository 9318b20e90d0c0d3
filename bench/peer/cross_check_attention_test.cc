// flash_attn_ext and our attention, decode and prefill, on the same numbers: each against what it should give
// from its own cache, and both caches against each other.
#include "bench/peer/cross_check_attention.h"

#include <cmath>
#include <string>
#include <vector>

#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kQ80, KvFormat::kQ40};

struct Heads {
  size_t n_heads, n_kv_heads;
};
constexpr Heads kGroups[] = {{4, 4}, {6, 2}, {8, 2}, {8, 1}};  // 1, 3, 4 and 8 query heads to a KV head

// f32 sums. Decoding over quantised caches rounds to 16-bit whole numbers, relative to the largest of 32;
// five standard deviations of
//   q: d_head products with keys in [−1, 1), times a scale of 1/√d_head
//   weights times the values' scales: 32 tokens with values in [−1, 1), if one block has all the weight
double AllowedOfOurs(const AttentionCase& c) {
  if (!IsQuantised(c.format) || c.n_q != 1) return kAllowedOfSums;
  constexpr double kQuery = 3;
  const double step = 1 / 32767.0 / std::sqrt(12), number = 1 / std::sqrt(3);
  return kAllowedOfSums + 5 * std::hypot(kQuery * step * number, std::sqrt(32) * step * number);
}

// [n_q, n_heads, d_head]
struct Expected {
  std::vector<double> out, allowed;
};

Expected OfOurs(const AttentionInputs& in) {
  const AttentionCase& c = in.Case();
  const ReferenceCache cache(in.cache);
  Expected expected;
  for (size_t t = 0; t < c.n_q; ++t) {
    for (size_t h = 0; h < c.n_heads; ++h) {
      const auto row = ReferenceAttention(cache, in.Bias(), true, h, h / c.Group(), c.n - c.n_q + t,
                                          in.Query(t, h), static_cast<double>(in.Scale()));
      expected.out.insert(expected.out.end(), row.out.begin(), row.out.end());
    }
  }
  expected.allowed.assign(expected.out.size(), AllowedOfOurs(c));
  return expected;
}

Expected OfGgml(const AttentionInputs& in, const GgmlResult& result, GgmlRounding rounding) {
  const AttentionCase& c = in.Case();
  Expected expected;
  for (size_t t = 0; t < c.n_q; ++t) {
    for (size_t h = 0; h < c.n_heads; ++h) {
      const ExpectedRow row = ExpectedOfGgml(in, result, rounding, t, h);
      expected.out.insert(expected.out.end(), row.out.begin(), row.out.end());
      expected.allowed.insert(expected.allowed.end(), row.allowed.begin(), row.allowed.end());
    }
  }
  return expected;
}

void Note(const AttentionCase& c, const std::vector<float>& actual, const Expected& expected, Worst* worst) {
  for (size_t at = 0; at < actual.size(); ++at) {
    worst->Note(std::abs(static_cast<double>(actual[at]) - expected.out[at]), expected.allowed[at], [&] {
      return fmt::format("{}, query {}, head {}, element {}", c.Text(), at / (c.n_heads * c.d_head),
                         at / c.d_head % c.n_heads, at % c.d_head);
    });
  }
}

// Two caches [n_kv_heads, n, d] of x [n, n_kv_heads, d]. Numbers that are just half way between two steps of
// q8_0 go to the even one in ours, away from zero in ggml_quantize_chunk.
void ExpectSameNumbers(const AttentionCase& c, const std::vector<double>& ours,
                       const std::vector<double>& theirs, const std::vector<float>& x) {
  for (size_t at = 0; at < ours.size(); ++at) {
    if (ours[at] == theirs[at]) continue;
    const size_t i = at % c.d_head, t = at / c.d_head % c.n, h = at / c.d_head / c.n;
    const float* const line = x.data() + (t * c.n_kv_heads + h) * c.d_head + i / kKvTile * kKvTile;
    float largest = 0;
    for (size_t j = 0; j < kKvTile; ++j) largest = std::max(largest, std::abs(line[j]));
    const double steps =
        std::abs(static_cast<double>(line[i % kKvTile])) / static_cast<double>(largest) * 127;
    ASSERT_EQ(c.format, KvFormat::kQ80) << c.Text();
    ASSERT_NEAR(steps - std::floor(steps), 0.5, 127 * 0x1p-23) << c.Text() << " head " << h << " token " << t;
  }
}

class AttentionCrossCheck : public CrossCheck {
 protected:
  void TearDown() override { UseBestTarget(); }

  // A line each for ours, for ggml, and for how far they are apart.
  void Check(const std::string& what, const std::vector<AttentionCase>& cases) {
    Worst ours(what + ", ours"), theirs(what + ", ggml");
    double apart = 0;
    for (const AttentionCase& c : cases) {
      const AttentionInputs in(c);
      const auto result = AttentionByGgml(library_, in);
      if (!result) GTEST_SKIP() << "this library has no flash_attn_ext with sinks";
      const ReferenceCache cache(in.cache);
      ExpectSameNumbers(c, cache.keys, result->keys, in.k);
      ExpectSameNumbers(c, cache.values, result->values, in.v);
      NoteGgml(in, *result, &theirs);
      const Expected expected = OfOurs(in);
      for (const std::string& target : SupportedTargetNames()) {
        ASSERT_TRUE(UseTarget(target));
        const std::vector<float> out = AttentionByUs(in);
        Note(c, out, expected, &ours);
        for (size_t i = 0; i < out.size(); ++i) {
          apart =
              std::max(apart, std::abs(static_cast<double>(out[i]) - static_cast<double>(result->out[i])));
        }
      }
    }
    ours.Report();
    theirs.Report();
    std::printf("  %s, apart: %.3g\n", what.c_str(), apart);
  }

 private:
  // The library takes one of the ways it has for the whole case.
  static void NoteGgml(const AttentionInputs& in, const GgmlResult& result, Worst* worst) {
    std::optional<Worst> least;
    for (const GgmlRounding rounding : PossibleRoundings(in.Case().format)) {
      Worst one = *worst;
      Note(in.Case(), result.out, OfGgml(in, result, rounding), &one);
      if (!least || one.Share() < least->Share()) least = one;
    }
    *worst = *least;
  }
};

std::vector<AttentionCase> AllShapes(KvFormat format, const std::vector<std::pair<size_t, size_t>>& tokens) {
  std::vector<AttentionCase> cases;
  for (const Heads& heads : kGroups) {
    for (const size_t d : {64, 128}) {
      for (const auto& [n, n_q] : tokens) {
        cases.push_back({.format = format,
                         .n = n,
                         .n_q = n_q,
                         .n_heads = heads.n_heads,
                         .n_kv_heads = heads.n_kv_heads,
                         .d_head = d});
      }
    }
  }
  return cases;
}

TEST_F(AttentionCrossCheck, Decode) {
  for (const KvFormat format : kFormats) {
    Check(std::string("decode ") + KvFormatName(format), AllShapes(format, {{1, 1}, {77, 1}, {600, 1}}));
  }
}

// Few queries, and enough of them for tiles of queries.
TEST_F(AttentionCrossCheck, PrefillIsCausal) {
  for (const KvFormat format : kFormats) {
    Check(std::string("prefill ") + KvFormatName(format), AllShapes(format, {{150, 20}, {230, 130}}));
  }
}

// Every case of `like` in every format, once to decode and once with more queries.
std::vector<AttentionCase> EveryFormat(AttentionCase like, size_t n_q) {
  std::vector<AttentionCase> cases;
  for (const KvFormat format : kFormats) {
    for (const size_t queries : {size_t{1}, n_q}) {
      like.format = format;
      like.n_q = queries;
      cases.push_back(like);
    }
  }
  return cases;
}

TEST_F(AttentionCrossCheck, Alibi) {
  for (const Heads& heads : {Heads{8, 2}, Heads{12, 4}, Heads{24, 8}}) {
    Check(
        fmt::format("alibi of {} heads", heads.n_heads),
        EveryFormat(
            {.n = 300, .n_heads = heads.n_heads, .n_kv_heads = heads.n_kv_heads, .d_head = 64, .alibi = true},
            100));
  }
}

// ggml's mask is f16, in which distances above 2048 are rounded. The smallest slope, 2^-8, leaves keys that
// far away less than e^-8 of the weight of the nearest: no difference is seen.
TEST_F(AttentionCrossCheck, AlibiBeyondWholeNumbersOfF16) {
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kQ80}) {
    Check(std::string("alibi at 6,001 tokens ") + KvFormatName(format),
          {{.format = format, .n = 6001, .n_heads = 32, .n_kv_heads = 4, .d_head = 64, .alibi = true}});
  }
}

TEST_F(AttentionCrossCheck, WindowByMask) {
  for (const size_t window : {1, 33, 128}) {
    for (const size_t first : {0, 4}) {
      Check(
          fmt::format("window {} and the first {}", window, first),
          EveryFormat(
              {.n = 260, .n_heads = 6, .n_kv_heads = 2, .d_head = 64, .window = window, .first_kept = first},
              90));
    }
  }
}

TEST_F(AttentionCrossCheck, SinkLogits) {
  Check("sinks",
        EveryFormat({.n = 200, .n_heads = 8, .n_kv_heads = 2, .d_head = 64, .sink_logits = true}, 80));
  Check("sinks and window",
        EveryFormat(
            {.n = 200, .n_heads = 8, .n_kv_heads = 1, .d_head = 128, .window = 50, .sink_logits = true}, 80));
}

TEST_F(AttentionCrossCheck, SoftCap) {
  for (const float cap : {0.7f, 50.0f}) {
    Check(fmt::format("soft cap {}", cap),
          EveryFormat({.n = 200, .n_heads = 8, .n_kv_heads = 2, .d_head = 128, .soft_cap = cap}, 80));
  }
}

}  // namespace
}  // namespace ropeline
