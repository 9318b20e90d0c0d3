#include "model/rope_identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/units.h"

namespace ropeline {
namespace {

constexpr double kLeastBase = 100, kMostBase = 1e10;
constexpr double kMostFactor = 1024;

struct Fitter {
  const MeasuredRotation& measured;
  size_t d_rot;

  double Chi2(const std::vector<double>& inv_freq) const {
    double sum = 0;
    for (const MeasuredBand& band : measured.bands) {
      const double off = (band.theta - inv_freq[band.i]) / Sigma(band);
      sum += off * off;
    }
    return sum;
  }
  // f32 angles are off by up to 5e-6 of the step (DIFFERENCES of float32 schedules).
  static double Sigma(const MeasuredBand& band) {
    return std::hypot(band.sigma, 5e-6 * std::abs(band.theta));
  }

  RopeParameters Plain() const {
    RopeParameters rope;
    rope.d_head = rope.d_rot = d_rot;
    rope.factor_given = true;
    return rope;
  }

  ScheduleFit Fit(const RopeParameters& rope, double free_numbers) const {
    ScheduleFit fit;
    fit.name = RopeTypeName(rope.type);
    fit.rope = rope;
    fit.inv_freq = FrequenciesOf(rope, {1, 0}, RopeSemantics::kHf).inv_freq;
    fit.chi2 = Chi2(fit.inv_freq);
    fit.criterion = fit.chi2 + free_numbers * std::log(static_cast<double>(fit.inv_freq.size()));
    return fit;
  }
  double Chi2(const RopeParameters& rope) const {
    return Chi2(FrequenciesOf(rope, {1, 0}, RopeSemantics::kHf).inv_freq);
  }
};

// The least of a function with one dip in [low, high], by golden sections.
double Least(double low, double high, const std::function<double(double)>& f) {
  constexpr double kGolden = 0.6180339887498949;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double at_a = f(a), at_b = f(b);
  for (int i = 0; i < 36 && high - low > 1e-12; ++i) {
    if (at_a < at_b) {
      high = b;
      b = a;
      at_b = at_a;
      a = high - kGolden * (high - low);
      at_a = f(a);
    } else {
      low = a;
      a = b;
      at_a = at_b;
      b = low + kGolden * (high - low);
      at_b = f(b);
    }
  }
  return (low + high) / 2;
}

// A grid finds the dip, golden sections its bottom.
double LeastOnGrid(double low, double high, int steps, const std::function<double(double)>& f) {
  int best = 0;
  double least = INFINITY;
  const double step = (high - low) / steps;
  for (int i = 0; i <= steps; ++i) {
    if (const double value = f(low + i * step); value < least) least = value, best = i;
  }
  return Least(std::max(low, low + (best - 1) * step), std::min(high, low + (best + 1) * step), f);
}

// log base from the first eighth of the bands, which every schedule leaves in proportion.
double FirstBase(const Fitter& fitter) {
  const auto& bands = fitter.measured.bands;
  const size_t few = std::max<size_t>(2, bands.size() / 8);
  const double first = std::max(bands[0].theta, 1e-12);
  return LeastOnGrid(std::log(kLeastBase), std::log(kMostBase), 400, [&](double log_base) {
    double sum = 0;
    for (size_t i = 0; i <= std::min(few, bands.size() - 1); ++i) {
      const double expected =
          first * std::exp(-2 * static_cast<double>(i) / static_cast<double>(fitter.d_rot) * log_base);
      const double off = (bands[i].theta - expected) / Fitter::Sigma(bands[i]);
      sum += off * off;
    }
    return sum;
  });
}

// Turn by turn: the base, then the factor.
RopeParameters Settled(const Fitter& fitter, RopeParameters rope, double log_base, bool has_factor) {
  double log_factor = 0;
  rope.base = std::exp(log_base);
  for (int round = 0; round < (has_factor ? 3 : 1); ++round) {
    if (has_factor) {
      log_factor = LeastOnGrid(0, std::log(kMostFactor), 60, [&](double x) {
        rope.factor = std::exp(x);
        return fitter.Chi2(rope);
      });
      rope.factor = std::exp(log_factor);
    }
    const double width = round == 0 ? 0.2 : 0.02;
    log_base = LeastOnGrid(std::log(rope.base) - width, std::log(rope.base) + width, 20, [&](double x) {
      rope.base = std::exp(x);
      return fitter.Chi2(rope);
    });
    rope.base = std::exp(log_base);
  }
  return rope;
}

void AddModel(const Fitter& fitter, const std::vector<RopeLayers>& model, int64_t last,
              std::vector<ScheduleFit>* fits) {
  for (const RopeLayers& layers : model) {
    if (FindRopeProblem(layers.rope) || UnscaledInvFreq(layers.rope).size() != fitter.measured.bands.size())
      continue;
    for (const RopeSemantics semantics : {RopeSemantics::kHf, RopeSemantics::kGgml}) {
      ScheduleFit fit;
      fit.name = fmt::format("the model's layers {}, as {} reads them", layers.layer_type,
                             RopeSemanticsName(semantics));
      fit.rope = layers.rope;
      const RopeLength length{static_cast<uint64_t>(std::max<int64_t>(0, last)) + 1, 0};
      fit.inv_freq = FrequenciesOf(layers.rope, length, semantics).inv_freq;
      fit.chi2 = fit.criterion = fitter.Chi2(fit.inv_freq);
      const bool again = !fits->empty() && fits->back().inv_freq == fit.inv_freq;
      if (!again) fits->push_back(fit);
    }
  }
}

// A base that no model is published with may be a smaller one stretched.
std::string NtkRemark(const ScheduleFit& best) {
  if (best.rope.type != RopeType::kDefault || best.rope.d_rot < 4) return "";
  const auto d = static_cast<double>(best.rope.d_rot);
  for (const double base : {10000.0, 500000.0, 1e6, 150000.0, 5e6, 1e7}) {
    if (std::abs(best.rope.base / base - 1) < 0.01) return "";
  }
  for (const double base : {10000.0, 500000.0, 1e6}) {
    for (const double s : {2.0, 4.0, 8.0, 16.0, 32.0}) {
      const double stretched = base * std::pow(s, d / (d - 2));
      if (std::abs(best.rope.base / stretched - 1) > 0.005) continue;
      return fmt::format("base {:.6g} is that of NTK with base {:g} and factor {:g}", best.rope.base, base,
                         s);
    }
  }
  return "";
}

}  // namespace

RopeIdentification IdentifyRope(const KeyDump& dump, const std::vector<RopeLayers>& model) {
  RopeIdentification identification;
  identification.measured = MeasureRotation(dump);
  const Fitter fitter{identification.measured, dump.d_rot};
  for (const MeasuredBand& band : identification.measured.bands) {
    identification.usable_bands += band.sigma < 0.1 * std::abs(band.theta) ? 1 : 0;
  }
  const double log_base = FirstBase(fitter);
  RopeParameters rope = fitter.Plain();
  identification.fits.push_back(fitter.Fit(Settled(fitter, rope, log_base, false), 1));
  rope.type = RopeType::kLinear;
  identification.fits.push_back(fitter.Fit(Settled(fitter, rope, log_base, true), 2));
  for (const RopeType type : {RopeType::kYarn, RopeType::kLlama3}) {
    rope.type = type;
    ScheduleFit best;
    best.criterion = INFINITY;
    for (int power = 10; power <= 17; ++power) {
      rope.original_context = std::exp2(power);
      const ScheduleFit fit = fitter.Fit(Settled(fitter, rope, log_base, true), 3);
      if (fit.criterion < best.criterion) best = fit;
    }
    identification.fits.push_back(best);
  }
  const int64_t last = *std::max_element(dump.positions.begin(), dump.positions.end());
  AddModel(fitter, model, last, &identification.fits);
  std::sort(identification.fits.begin(), identification.fits.end(),
            [](const ScheduleFit& a, const ScheduleFit& b) { return a.criterion < b.criterion; });
  const ScheduleFit& best = identification.fits.front();
  identification.convincing = best.chi2 < 3 * static_cast<double>(best.inv_freq.size());
  identification.remark = NtkRemark(best);
  return identification;
}

std::string ScheduleText(const ScheduleFit& fit) {
  std::string text = fmt::format("{}: base {:.6g}", fit.name, fit.rope.base);
  if (fit.rope.type == RopeType::kDefault) return text;
  text += fmt::format(", factor {:.4g}", ExtensionFactor(fit.rope));
  if (fit.rope.original_context > 0) {
    text += ", original context " + FormatTokens(fit.rope.original_context);
  }
  return text;
}

nlohmann::ordered_json IdentificationJson(const RopeIdentification& identification) {
  using Json = nlohmann::ordered_json;
  const MeasuredRotation& measured = identification.measured;
  Json json = {{"pairing", measured.pairing},
               {"noise", measured.noise},
               {"usable_bands", identification.usable_bands},
               {"convincing", identification.convincing},
               {"remark", identification.remark.empty() ? Json(nullptr) : Json(identification.remark)},
               {"fits", Json::array()},
               {"bands", Json::array()}};
  for (const ScheduleFit& fit : identification.fits) {
    json["fits"].push_back({{"name", fit.name},
                            {"rope_type", RopeTypeName(fit.rope.type)},
                            {"base", fit.rope.base},
                            {"factor", ExtensionFactor(fit.rope)},
                            {"original_context",
                             fit.rope.original_context > 0 ? Json(fit.rope.original_context) : Json(nullptr)},
                            {"chi2_per_band", fit.chi2 / static_cast<double>(fit.inv_freq.size())},
                            {"criterion", fit.criterion}});
  }
  for (const MeasuredBand& band : measured.bands) {
    json["bands"].push_back({{"i", band.i},
                             {"inv_freq", band.theta},
                             {"sigma", band.sigma},
                             {"coherence", band.coherence},
                             {"fitted", identification.fits.front().inv_freq[band.i]}});
  }
  return json;
}

}  // namespace ropeline
