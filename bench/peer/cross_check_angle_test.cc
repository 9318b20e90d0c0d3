// How far the angles of ggml_rope_ext are from position · frequency. ggml multiplies an f32 angle by an f32
// step from band to band, so that an error grows with position and band; ours are exact to the f32 cosine.
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_angles.h"
#include "kernels/angle_table.h"

namespace ropeline {
namespace {

using ggml::Type;

constexpr std::array<int32_t, 5> kPositions = {1, 499, 4095, 32767, 131071};

// What (1, 0) in each pair turns to: the cosine and sine of each angle, times the magnitude.
struct UnitPairs {
  std::vector<double> cosines, sines;  // [positions, bands]
};

UnitPairs Turned(const std::shared_ptr<const GgmlLibrary>& library, const RopeSchedule& schedule) {
  GgmlSession session(library, {});
  const auto d = static_cast<size_t>(schedule.rope.d_rot), bands = d / 2;
  ggml::Tensor* heads = session.New(Type::kF32, schedule.rope.d_rot, 1, kPositions.size());
  ggml::Tensor* positions = session.New(Type::kI32, kPositions.size());
  std::memcpy(session.Data(positions), kPositions.data(), sizeof(kPositions));
  ggml::Tensor* factors = nullptr;
  if (!schedule.factors.empty()) {
    factors = session.New(Type::kF32, static_cast<int64_t>(bands));
    std::memcpy(session.Data(factors), schedule.factors.data(), 4 * bands);
  }
  float* const x = session.Floats(heads);
  for (size_t t = 0; t < kPositions.size(); ++t) std::fill_n(x + t * d, bands, 1.0f);
  GgmlRope rope = schedule.rope;
  rope.mode = ggml::RopeMode::kNeox;
  session.RopeInPlace(heads, positions, rope, factors);
  session.Compute();
  UnitPairs pairs;
  for (size_t t = 0; t < kPositions.size(); ++t) {
    for (size_t i = 0; i < bands; ++i) {
      pairs.cosines.push_back(static_cast<double>(x[t * d + i]));
      pairs.sines.push_back(static_cast<double>(x[t * d + bands + i]));
    }
  }
  return pairs;
}

// From `angle` to the angle whose cosine and sine stand in proportion c : s, in (−π, π].
double AngleBetween(long double angle, double c, double s) {
  const auto cosine = static_cast<double>(std::cos(angle)), sine = static_cast<double>(std::sin(angle));
  return std::atan2(s * cosine - c * sine, c * cosine + s * sine);
}

// ../shared/rope/DIFFERENCES.md, D22: the largest error over the bands of d 128, in radians, measured with
// another build of ggml. Printed with two digits.
struct Measured {
  float base;
  std::array<double, kPositions.size()> error;  // at kPositions; 0: not measured
};
constexpr Measured kMeasured[] = {{1e4f, {0, 5.0e-5, 5.0e-4, 2.8e-3, 1.3e-2}},
                                  {5e5f, {0, 2.4e-5, 2.9e-4, 1.5e-3, 4.2e-3}}};

// Of base 1e4, with what its two digits leave open; position 1 has no error but the cosine's.
double LargestMeasured(size_t t) { return kMeasured[0].error[t] * 1.05; }

class AngleCrossCheck : public CrossCheck {};

TEST_F(AngleCrossCheck, UnscaledErrorIsTheOneThatWasMeasured) {
  for (const Measured& measured : kMeasured) {
    const RopeSchedule schedule{
        fmt::format("base {:g}", measured.base), {.d_rot = 128, .base = measured.base}, {}};
    const UnitPairs pairs = Turned(library_, schedule);
    const auto exact = ExactFrequencies(schedule);
    for (size_t t = 0; t < kPositions.size(); ++t) {
      double worst = 0;
      size_t band = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        const double error = std::abs(
            AngleBetween(kPositions[t] * exact[i], pairs.cosines[t * 64 + i], pairs.sines[t * 64 + i]));
        if (error > worst) worst = error, band = i;
      }
      std::printf("  %s, position %d: off by %.3g rad in band %zu\n", schedule.name.c_str(), kPositions[t],
                  worst, band);
      if (measured.error[t] == 0) continue;
      // Half of the last printed digit, and the rounding of the cosine and sine that the angle is read from.
      const double digit = std::pow(10, std::floor(std::log10(measured.error[t])) - 1);
      EXPECT_NEAR(worst, measured.error[t], digit / 2 + 0x1p-22) << schedule.name << " at " << kPositions[t];
    }
  }
}

// Every schedule: the library's angle is the emulated one, and no further from the exact one than what is
// documented for the base without scaling.
TEST_F(AngleCrossCheck, ScaledErrorsAreNoLarger) {
  for (const int d_rot : {64, 128}) {
    for (const RopeSchedule& schedule : RopeSchedules(d_rot)) {
      const UnitPairs pairs = Turned(library_, schedule);
      const auto exact = ExactFrequencies(schedule);
      const size_t bands = exact.size();
      Worst emulated(fmt::format("angle of d {} {}, from the emulated one", d_rot, schedule.name));
      Worst error(fmt::format("angle of d {} {}, from the exact one", d_rot, schedule.name));
      for (size_t t = 0; t < kPositions.size(); ++t) {
        std::array<std::vector<float>, kAllContractions.size()> angles;
        for (size_t k = 0; k < angles.size(); ++k) {
          angles[k] = GgmlAngles(schedule, kPositions[t], kAllContractions[k]);
        }
        for (size_t i = 0; i < bands; ++i) {
          const double c = pairs.cosines[t * bands + i], s = pairs.sines[t * bands + i];
          double least = INFINITY;
          for (const auto& one : angles) {
            least = std::min(least, std::abs(AngleBetween(static_cast<long double>(one[i]), c, s)));
          }
          const auto where = [&] { return fmt::format("position {}, band {}", kPositions[t], i); };
          // Cosine and sine have two roundings each.
          emulated.Note(least, 4 * 0x1p-24, where);
          error.Note(std::abs(AngleBetween(kPositions[t] * exact[i], c, s)), LargestMeasured(t) + 4 * 0x1p-24,
                     where);
        }
      }
      emulated.Report();
      error.Report();
    }
  }
}

// What our own table would have instead.
TEST_F(AngleCrossCheck, OursAreExactToTheCosine) {
  Worst worst("our cosines and sines, from the exact angle's");
  for (const RopeSchedule& schedule : RopeSchedules(128)) {
    const auto exact = ExactFrequencies(schedule);
    const std::vector<double> frequencies(exact.begin(), exact.end());
    std::vector<float> row(128);
    for (const int32_t position : kPositions) {
      BuildAngleTable(frequencies, static_cast<size_t>(position), 1, AngleLayout::kSplit, row.data());
      for (size_t i = 0; i < 64; ++i) {
        const auto where = [&] {
          return fmt::format("{}, position {}, band {}", schedule.name, position, i);
        };
        // The frequency's rounding to double, and the result's to f32.
        const double allowed = 131071 * 0x1p-53 + 0x1p-24;
        worst.Note(std::abs(static_cast<double>(row[i]) - static_cast<double>(std::cos(position * exact[i]))),
                   allowed, where);
        worst.Note(
            std::abs(static_cast<double>(row[64 + i]) - static_cast<double>(std::sin(position * exact[i]))),
            allowed, where);
      }
    }
  }
  worst.Report();
}

}  // namespace
}  // namespace ropeline
