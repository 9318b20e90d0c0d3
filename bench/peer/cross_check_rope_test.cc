// ggml_rope_ext against our rotation, at the angles that ggml's f32 arithmetic arrives at. How far those are
// from the exact ones is cross_check_angle_test.cc's question.
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_angles.h"
#include "bench/peer/ggml_fill.h"
#include "kernels/dtype.h"
#include "kernels/qk_rotation.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

using ggml::RopeMode;
using ggml::Type;

constexpr std::array<int32_t, 6> kPositions = {0, 1, 499, 4095, 32767, 131071};
constexpr size_t kHeads = 3;

struct RopeCase {
  RopeMode mode;
  Dtype dtype;
  size_t d_head;
  RopeSchedule schedule;

  bool Half() const { return mode == RopeMode::kNeox; }
  size_t Rotated() const { return static_cast<size_t>(schedule.rope.d_rot); }
  size_t Elements() const { return kPositions.size() * kHeads * d_head; }
};

// [positions, heads, d_head] as floats, exact in the case's dtype.
std::vector<float> Input(const RopeCase& c) {
  std::vector<float> x = Numbers(c.Elements(), 1);
  if (c.dtype == Dtype::kF16) {
    for (float& number : x) number = FloatFromF16(F16FromFloat(number));
  }
  return x;
}

std::vector<float> ByGgml(const std::shared_ptr<const GgmlLibrary>& library, const RopeCase& c) {
  GgmlSession session(library, {});
  const Type type = c.dtype == Dtype::kF16 ? Type::kF16 : Type::kF32;
  ggml::Tensor* heads = session.New(type, static_cast<int64_t>(c.d_head), kHeads, kPositions.size());
  const std::vector<float> x = Input(c);
  EncodeRows(*library, type, x.data(), c.d_head, kHeads * kPositions.size(), session.Data(heads));
  ggml::Tensor* positions = session.New(Type::kI32, kPositions.size());
  std::memcpy(session.Data(positions), kPositions.data(), sizeof(kPositions));
  ggml::Tensor* factors = nullptr;
  if (!c.schedule.factors.empty()) {
    factors = session.New(Type::kF32, static_cast<int64_t>(c.schedule.factors.size()));
    std::memcpy(session.Data(factors), c.schedule.factors.data(), 4 * c.schedule.factors.size());
  }
  GgmlRope rope = c.schedule.rope;
  rope.mode = c.mode;
  session.RopeInPlace(heads, positions, rope, factors);
  session.Compute();
  std::vector<float> out(c.Elements());
  for (size_t i = 0; i < out.size(); ++i) out[i] = LoadElement(c.dtype, session.Data(heads), i);
  return out;
}

std::vector<float> ByUs(const RopeCase& c, Contraction contraction) {
  const size_t d_rot = c.Rotated(), bands = d_rot / 2;
  const auto magnitude = static_cast<double>(GgmlMagnitude(c.schedule.rope));
  std::vector<float> table(kPositions.size() * d_rot);
  for (size_t t = 0; t < kPositions.size(); ++t) {
    const auto angles = GgmlAngles(c.schedule, kPositions[t], contraction);
    for (size_t i = 0; i < bands; ++i) {
      const auto angle = static_cast<double>(angles[i]);
      table[t * d_rot + (c.Half() ? i : 2 * i)] = static_cast<float>(magnitude * std::cos(angle));
      table[t * d_rot + (c.Half() ? bands + i : 2 * i + 1)] = static_cast<float>(magnitude * std::sin(angle));
    }
  }
  const std::vector<float> x = Input(c);
  std::vector<char> tensor(c.Elements() * DtypeBytes(c.dtype));
  for (size_t i = 0; i < x.size(); ++i) StoreElement(c.dtype, tensor.data(), i, x[i]);
  const HeadsView view{tensor.data(), c.dtype, kHeads * c.d_head, c.d_head};
  Rotate({.pairing = c.Half() ? Pairing::kHalf : Pairing::kInterleaved,
          .n = kPositions.size(),
          .n_heads = kHeads,
          .d_head = c.d_head,
          .d_rot = d_rot,
          .in = view,
          .out = view,
          .table = table.data(),
          .rows = nullptr,
          .inverse = false});
  std::vector<float> out(c.Elements());
  for (size_t i = 0; i < out.size(); ++i) out[i] = LoadElement(c.dtype, tensor.data(), i);
  return out;
}

// Roundings of f32, in units of 2^-24 · the pair's norm · magnitude. Ours: the table's value, a product, the
// sum. ggml's: the library's cosine (2), times the magnitude and that one's own rounding (2), a product, the
// sum.
constexpr double kUnits = 3 + 6;

// Elements of one case against each other.
void Compare(const RopeCase& c, const std::vector<float>& theirs, const std::vector<float>& ours,
             Worst* worst) {
  const std::vector<float> x = Input(c);
  const size_t bands = c.Rotated() / 2;
  const auto magnitude = static_cast<double>(GgmlMagnitude(c.schedule.rope));
  for (size_t at = 0; at < c.Elements(); ++at) {
    const size_t e = at % c.d_head, row = at - e;
    double allowed = 0;  // beyond d_rot nothing changes
    if (e < c.Rotated()) {
      const size_t a = c.Half() ? e % bands : e / 2 * 2, b = c.Half() ? a + bands : a + 1;
      const double norm = std::hypot(static_cast<double>(x[row + a]), static_cast<double>(x[row + b]));
      allowed = kUnits * 0x1p-24 * norm * magnitude;
      // Results that close round to the same f16 number or to neighbours.
      if (c.dtype == Dtype::kF16) {
        allowed += 2 * RoundingUnit(c.dtype) * std::abs(static_cast<double>(ours[at])) + 0x1p-24;
      }
    }
    const double error = std::abs(static_cast<double>(theirs[at]) - static_cast<double>(ours[at]));
    if (allowed == 0) {
      EXPECT_EQ(theirs[at], ours[at]) << "element " << e << " is not rotated";
      EXPECT_EQ(theirs[at], x[at]) << "element " << e << " is not rotated";
      continue;
    }
    worst->Note(error, allowed, [&] {
      return fmt::format("{}, d {} of {}, position {}, element {}", c.schedule.name, c.Rotated(), c.d_head,
                         kPositions[at / (kHeads * c.d_head)], e);
    });
  }
}

class RopeCrossCheck : public CrossCheck {
 protected:
  void TearDown() override { UseBestTarget(); }

  // All schedules, whole and partial rotation, every target.
  void Check(RopeMode mode, Dtype dtype) {
    std::vector<RopeCase> cases;
    std::vector<std::vector<float>> theirs;
    for (const auto& [d_head, d_rot] : {std::pair<size_t, int>{64, 64}, {128, 128}, {128, 64}, {64, 32}}) {
      for (const RopeSchedule& schedule : RopeSchedules(d_rot)) {
        cases.push_back({mode, dtype, d_head, schedule});
        theirs.push_back(ByGgml(library_, cases.back()));
      }
    }
    const auto compare_all = [&](Contraction contraction, Worst* worst) {
      for (size_t i = 0; i < cases.size(); ++i) {
        Compare(cases[i], theirs[i], ByUs(cases[i], contraction), worst);
      }
    };
    // The one contraction that all of the library's numbers agree with best.
    Contraction best = Contraction::kNone;
    double least = INFINITY;
    for (const Contraction contraction : kAllContractions) {
      Worst worst("");
      compare_all(contraction, &worst);
      if (worst.Share() < least) least = worst.Share(), best = contraction;
    }
    Worst worst(fmt::format("rope_ext {} {}, product made one with YaRN's sum: {}",
                            mode == RopeMode::kNeox ? "neox" : "normal", DtypeName(dtype),
                            ContractionName(best)));
    for (const std::string& target : SupportedTargetNames()) {
      ASSERT_TRUE(UseTarget(target));
      compare_all(best, &worst);
    }
    worst.Report();
  }
};

TEST_F(RopeCrossCheck, NeoxF32) { Check(RopeMode::kNeox, Dtype::kF32); }
TEST_F(RopeCrossCheck, NeoxF16) { Check(RopeMode::kNeox, Dtype::kF16); }
TEST_F(RopeCrossCheck, NormalF32) { Check(RopeMode::kNormal, Dtype::kF32); }
TEST_F(RopeCrossCheck, NormalF16) { Check(RopeMode::kNormal, Dtype::kF16); }

}  // namespace
}  // namespace ropeline
