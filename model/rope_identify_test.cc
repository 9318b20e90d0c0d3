// Keys made with a known schedule and one percent of noise must give it back.
#include "model/rope_identify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace ropeline {
namespace {

constexpr double kNoise = 0.01;  // of the length of a pair

struct Made {
  RopeParameters rope;
  RopeSemantics semantics = RopeSemantics::kHf;
  bool half = true;
  double noise = kNoise;
  unsigned seed = 1;
};

RopeParameters Schedule(RopeType type, double base, double factor = 1, double original = 0) {
  RopeParameters rope;
  rope.type = type;
  rope.d_head = rope.d_rot = 128;
  rope.base = base;
  rope.factor = factor;
  rope.factor_given = true;
  rope.original_context = original;
  return rope;
}

std::vector<int64_t> Range(int64_t from, int64_t n, int64_t step = 1) {
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < n; ++t) positions.push_back(from + t * step);
  return positions;
}

// One vector per token (all alike unless `many`), turned to its position; noise is drawn anew for each.
std::vector<double> Keys(const Made& made, const std::vector<int64_t>& positions, bool many,
                         unsigned noise_seed) {
  const auto inv_freq = FrequenciesOf(made.rope, {131072, 0}, made.semantics).inv_freq;
  const size_t d = made.rope.d_rot, bands = d / 2;
  std::mt19937 content(made.seed), random(noise_seed);
  std::normal_distribution<double> normal;
  std::vector<double> token(d), keys(positions.size() * d);
  for (size_t t = 0; t < positions.size(); ++t) {
    if (t == 0 || many) {
      for (double& x : token) x = normal(content);
    }
    for (size_t i = 0; i < bands; ++i) {
      const size_t x = made.half ? i : 2 * i, y = made.half ? i + bands : 2 * i + 1;
      const double angle = static_cast<double>(positions[t]) * inv_freq[i];
      const double spread = made.noise * std::hypot(token[x], token[y]);
      double* row = keys.data() + t * d;
      row[x] = token[x] * std::cos(angle) - token[y] * std::sin(angle) + spread * normal(random);
      row[y] = token[x] * std::sin(angle) + token[y] * std::cos(angle) + spread * normal(random);
    }
  }
  return keys;
}

KeyDump Dump(const Made& made, const std::vector<int64_t>& positions) {
  return {made.rope.d_rot, Keys(made, positions, false, 7), positions, {}, {}};
}

TEST(RopeIdentifyTest, RecoversMethodAndTheta) {
  const RopeParameters kSchedules[] = {Schedule(RopeType::kDefault, 10000),
                                       Schedule(RopeType::kDefault, 500000),
                                       Schedule(RopeType::kDefault, 1e6),
                                       Schedule(RopeType::kLinear, 10000, 4),
                                       Schedule(RopeType::kLinear, 1e6, 8),
                                       Schedule(RopeType::kYarn, 10000, 8, 4096),
                                       Schedule(RopeType::kYarn, 1e6, 4, 32768),
                                       Schedule(RopeType::kLlama3, 500000, 8, 8192),
                                       Schedule(RopeType::kLlama3, 500000, 32, 8192)};
  for (const RopeParameters& rope : kSchedules) {
    for (const bool half : {true, false}) {
      const Made made{rope, RopeSemantics::kHf, half, kNoise, half ? 1u : 2u};
      const RopeIdentification found = IdentifyRope(Dump(made, Range(0, 2048)), {});
      const ScheduleFit& best = found.fits.front();
      SCOPED_TRACE(ScheduleText(best) + " for " + RopeTypeName(rope.type));
      EXPECT_EQ(found.measured.pairing, half ? "half" : "interleaved");
      EXPECT_EQ(best.rope.type, rope.type);
      EXPECT_NEAR(best.rope.base / rope.base, 1, 0.01);
      EXPECT_NEAR(best.rope.factor / rope.factor, 1, 0.02);
      if (rope.original_context > 0) EXPECT_EQ(best.rope.original_context, rope.original_context);
      EXPECT_TRUE(found.convincing);
      EXPECT_NEAR(found.measured.noise, kNoise, 0.005);
    }
  }
}

TEST(RopeIdentifyTest, MeasuresEachBandWithinItsError) {
  const Made made{Schedule(RopeType::kDefault, 10000)};
  const auto expected = UnscaledInvFreq(made.rope);
  size_t within = 0;
  for (const MeasuredBand& band : MeasureRotation(Dump(made, Range(100, 1000))).bands) {
    EXPECT_LT(std::abs(band.theta - expected[band.i]), 5 * band.sigma) << band.i;
    within += std::abs(band.theta - expected[band.i]) < band.sigma ? 1 : 0;
    EXPECT_LT(band.sigma, 2e-6);  // 0.01·√12/1000^1.5
    EXPECT_GT(band.coherence, 0.99);
  }
  EXPECT_GT(within, 64u / 3);  // two thirds are to be expected
}

TEST(RopeIdentifyTest, PositionsMayBeShuffledAndHaveGaps) {
  const Made made{Schedule(RopeType::kLinear, 10000, 4)};
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < 3000; ++p) {
    if (p % 7 < 3 || p % 11 == 0) positions.push_back(p);
  }
  std::mt19937 random(3);
  std::shuffle(positions.begin(), positions.end(), random);
  const ScheduleFit best = IdentifyRope(Dump(made, positions), {}).fits.front();
  EXPECT_EQ(best.rope.type, RopeType::kLinear);
  EXPECT_NEAR(best.rope.factor, 4, 0.01);
  EXPECT_NEAR(best.rope.base / 10000, 1, 0.01);
}

TEST(RopeIdentifyTest, TwoDumpsOfManyTokensWillDo) {
  const Made made{Schedule(RopeType::kLlama3, 500000, 8, 8192)};
  const std::vector<int64_t> at = Range(0, 512);
  std::vector<int64_t> later = at;  // each token seen again 1, 3, 9, 27 … tokens later
  int64_t shift = 1;
  for (size_t t = 0; t < later.size(); ++t) {
    later[t] += shift;
    shift = shift >= 2187 ? 1 : 3 * shift;
  }
  const KeyDump dump{128, Keys(made, at, true, 5), at, Keys(made, later, true, 6), later};
  const RopeIdentification found = IdentifyRope(dump, {});
  EXPECT_EQ(found.fits.front().rope.type, RopeType::kLlama3) << ScheduleText(found.fits.front());
  EXPECT_NEAR(found.fits.front().rope.base / 500000, 1, 0.01);
  EXPECT_NEAR(found.fits.front().rope.factor / 8, 1, 0.02);
}

// Every second position: neighbours are two tokens apart, and turns in between are told from the slow end.
TEST(RopeIdentifyTest, NeighboursMayBeMissing) {
  const Made made{Schedule(RopeType::kDefault, 500000)};
  const RopeIdentification found = IdentifyRope(Dump(made, Range(0, 2048, 4)), {});
  EXPECT_NEAR(found.measured.bands[0].theta, 1, 1e-4);
  EXPECT_NEAR(found.fits.front().rope.base / 500000, 1, 0.01);
}

TEST(RopeIdentifyTest, HoldsAModelBeside) {
  RopeLayers layers;
  layers.layer_type = "all";
  layers.rope = Schedule(RopeType::kYarn, 150000, 32, 4096);
  layers.rope.d_head = layers.rope.d_rot = 64;
  layers.rope.truncate = false;  // ggml rounds the bounds all the same
  for (const RopeSemantics semantics : {RopeSemantics::kHf, RopeSemantics::kGgml}) {
    const Made made{layers.rope, semantics};
    const ScheduleFit best = IdentifyRope(Dump(made, Range(0, 4096)), {layers}).fits.front();
    EXPECT_EQ(best.name,
              std::string("the model's layers all, as ") + RopeSemanticsName(semantics) + " reads them");
  }
}

TEST(RopeIdentifyTest, ADumpOfSomethingElseIsNotConvincing) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  KeyDump dump{128, {}, Range(0, 256), {}, {}};
  for (size_t k = 0; k < 256 * 128; ++k) dump.keys.push_back(normal(random));
  const RopeIdentification found = IdentifyRope(dump, {});
  EXPECT_FALSE(found.convincing);
  EXPECT_LT(found.measured.bands[0].coherence, 0.5);
}

TEST(RopeIdentifyTest, RemarksThatABaseIsAStretchedOne) {
  RopeParameters ntk = Schedule(RopeType::kNtk, 10000, 8);
  const RopeIdentification found = IdentifyRope(Dump({ntk}, Range(0, 2048)), {});
  EXPECT_EQ(found.fits.front().rope.type, RopeType::kDefault);
  EXPECT_NE(found.remark.find("NTK with base 10000 and factor 8"), std::string::npos) << found.remark;
  EXPECT_EQ(IdentifyRope(Dump({Schedule(RopeType::kDefault, 10000)}, Range(0, 2048)), {}).remark, "");
}

}  // namespace
}  // namespace ropeline
