#include "model/engine/curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/engine/spd.h"

namespace ropeline {
namespace {

constexpr int kGridPoints = 31;
constexpr int kGridZooms = 4;
constexpr double kGridHalfWidth = 6;  // of the log of the slope, around its prior's median
constexpr double kLogNegligible = 8;  // e^-8 of the likeliest point
constexpr int kRobustSteps = 10;
constexpr double kMaxRowWeight = 1.5;
constexpr double kImpossible = 50;  // log penalty of what physics excludes
constexpr size_t kMaxRows = 48;
constexpr double kLowTail = 0.05, kHighTail = 0.95;  // 90 % between

double NormalCdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// ∫₀ˣ log(1 + s/n₀) ds: by how much a slope that grows with the logarithm leaves the line.
double Drift(double x, double from) { return (x + from) * std::log1p(x / from) - x; }

// Covariance of ∫₀ˣ w and ∫₀ʸ w, w a Brownian motion in log(1 + n/n₀).
double WanderCovariance(double x, double y, double from) {
  const double lo = std::min(x, y), hi = std::max(x, y);
  const double log = std::log1p(lo / from);
  const double moment = (lo * lo - from * from) / 2 * log - lo * lo / 4 + from * lo / 2;  // ∫ s·log(1 + s/n₀)
  return 2 * (lo * Drift(lo, from) - moment) + Drift(lo, from) * (hi - lo);
}

// Rows evenly chosen, first and last among them.
std::vector<CurveRow> AtMost(std::vector<CurveRow> rows, size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<CurveRow> kept;
  for (size_t i = 0; i < most; ++i) kept.push_back(rows[i * (rows.size() - 1) / (most - 1)]);
  return kept;
}

double MedianSeconds(const std::vector<CurveRow>& rows) {
  std::vector<double> seconds;
  for (const CurveRow& row : rows) seconds.push_back(row.seconds);
  std::sort(seconds.begin(), seconds.end());
  return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
}

// Tokens from row to row where that is the same for all of at least three.
double StepOf(const std::vector<CurveRow>& rows) {
  if (rows.size() < 3) return 0;
  const double step = rows[1].n_kv - rows[0].n_kv;
  for (size_t i = 1; i < rows.size(); ++i) {
    if (std::abs(rows[i].n_kv - rows[i - 1].n_kv - step) > 0.01 * step) return 0;
  }
  return std::max(0.0, step);
}

double LogStudent(double z, double freedom) { return -0.5 * (freedom + 1) * std::log1p(z * z / freedom); }

}  // namespace

CurveConstants ConstantsOf(bool prefill) {
  CurveConstants constants;
  if (prefill) {
    constants.noise = 0.008;
    constants.cold = 0.06;
    constants.wander = 0.03;
    constants.bend = 0.03;
  }
  return constants;
}

CurveFit::CurveFit(Curve curve) : CurveFit(curve, ConstantsOf(curve.prefill)) {}

CurveFit::CurveFit(Curve curve, const CurveConstants& constants)
    : curve_(std::move(curve)), constants_(constants) {
  curve_.rows = AtMost(std::move(curve_.rows), kMaxRows);
  scale_ = MedianSeconds(curve_.rows);
  step_ = StepOf(curve_.rows);
  cold_first_ = curve_.rows[0].n_kv == 0 && (curve_.rows.size() < 2 || curve_.rows[1].n_kv > 0);
  std::vector<int> teeth = {0};
  for (const int period : {2, 3}) {
    if (step_ > 0 && curve_.rows.size() >= 2 * static_cast<size_t>(period)) teeth.push_back(period);
  }
  std::vector<double> log_weight;
  for (const bool skipped : {false, true}) {
    if (skipped && !curve_.window) continue;
    double prior = 1;
    if (curve_.window) prior = skipped ? constants_.windows_skipped : 1 - constants_.windows_skipped;
    for (const int period : teeth) {
      double of_period = 1;
      if (teeth.size() > 1) {
        of_period = period == 0 ? 1 - constants_.saw_tooth
                                : constants_.saw_tooth / (static_cast<double>(teeth.size()) - 1);
      }
      double log_evidence = 0;
      parts_.push_back(Fit(skipped, period, &log_evidence));
      log_weight.push_back(log_evidence + std::log(prior * of_period));
    }
  }
  const double best = *std::max_element(log_weight.begin(), log_weight.end());
  double sum = 0;
  for (const double log : log_weight) sum += std::exp(log - best);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i].probability = std::exp(log_weight[i] - best) / sum;
}

double CurveFit::Geometry(bool window_skipped, double depth) const {
  if (!window_skipped) return depth;
  const WindowShape& window = *curve_.window;
  return (1 - window.share) * depth + window.share * std::min(depth, window.tokens);
}

// −1: between the rows' grid.
int CurveFit::ToothOf(double n_kv, int teeth) const {
  if (teeth == 0) return 0;
  const double row = n_kv / step_;
  if (std::abs(row - std::round(row)) > 0.05) return -1;
  return static_cast<int>(std::fmod(std::round(row), teeth));
}

double CurveFit::Kernel(const CurveFitPart& part, double x, int x_tooth, double y, int y_tooth) const {
  double kernel = constants_.wander * WanderCovariance(x, y, constants_.wander_from);
  if (part.teeth > 0 && x_tooth == y_tooth && x_tooth >= 0) {
    kernel += constants_.tooth * constants_.tooth * x * y;
  }
  return kernel;
}

CurveFitPart CurveFit::FitOn(bool window_skipped, int teeth, const std::vector<double>& log_slopes,
                             std::vector<double>* log_posterior) const {
  const std::vector<CurveRow>& rows = curve_.rows;
  const size_t n = rows.size();
  CurveFitPart part;
  part.window_skipped = window_skipped;
  part.teeth = teeth;
  for (const CurveRow& row : rows) {
    part.depth.push_back(Geometry(window_skipped, row.depth));
    part.tooth.push_back(ToothOf(row.n_kv, teeth));
  }
  std::vector<double> kernel(n * n), drifted(n), time(n);
  for (size_t i = 0; i < n; ++i) {
    time[i] = rows[i].seconds / scale_;
    drifted[i] =
        part.depth[i] + (constants_.bend + curve_.bend) * Drift(part.depth[i], constants_.wander_from);
    for (size_t j = 0; j < n; ++j) {
      kernel[i * n + j] = Kernel(part, part.depth[i], part.tooth[i], part.depth[j], part.tooth[j]);
    }
  }
  const double prior_noise = constants_.noise * constants_.noise;
  log_posterior->clear();
  for (const double log_slope : log_slopes) {
    const double slope = std::exp(log_slope);
    std::vector<double> weight(n, 1.0), noise(n), residual(n), weighted(n), inverse, row_sum(n);
    double variance = prior_noise, intercept = 0, intercept_variance = 0, log_det = 0;
    for (int step = 0; step < kRobustSteps; ++step) {
      inverse.assign(n * n, 0);
      for (size_t i = 0; i < n; ++i) {
        noise[i] = (variance / weight[i] + rows[i].error * rows[i].error) * time[i] * time[i];
        for (size_t j = 0; j < n; ++j) inverse[i * n + j] = slope * slope * kernel[i * n + j];
        inverse[i * n + i] += noise[i];
      }
      if (cold_first_) inverse[0] += std::pow(constants_.cold * time[0], 2);
      log_det = InvertSpd(n, &inverse);
      double total = 0, projected = 0;
      for (size_t i = 0; i < n; ++i) {
        row_sum[i] = std::accumulate(inverse.begin() + static_cast<long>(i * n),
                                     inverse.begin() + static_cast<long>((i + 1) * n), 0.0);
        total += row_sum[i];
        projected += row_sum[i] * (time[i] - slope * drifted[i]);
      }
      intercept_variance = 1 / total;
      intercept = projected / total;
      for (size_t i = 0; i < n; ++i) residual[i] = time[i] - slope * drifted[i] - intercept;
      double explained = constants_.noise_rows * prior_noise;
      for (size_t i = 0; i < n; ++i) {
        weighted[i] = 0;
        for (size_t j = 0; j < n; ++j) weighted[i] += inverse[i * n + j] * residual[j];
        // The row's own noise, given all rows: mean and variance, less what its repetitions explain.
        const double own = 1 - rows[i].error * rows[i].error * time[i] * time[i] / noise[i];
        const double mean = own * noise[i] * weighted[i];
        const double diagonal = inverse[i * n + i] - row_sum[i] * row_sum[i] * intercept_variance;
        const double left =
            own * own * std::max(0.0, noise[i] - noise[i] * diagonal * noise[i]) + own * (1 - own) * noise[i];
        const double square = (mean * mean + left) / (time[i] * time[i]);
        weight[i] = std::min(kMaxRowWeight, (constants_.tails + 1) / (constants_.tails + square / variance));
        explained += weight[i] * square;
      }
      variance = explained / (constants_.noise_rows + static_cast<double>(n));
    }
    double log = -0.5 * log_det + 0.5 * std::log(intercept_variance);
    for (size_t i = 0; i < n; ++i) {
      log -= 0.5 * residual[i] * weighted[i];
      log -= 0.5 * constants_.tails * (weight[i] - std::log(weight[i]));
    }
    log -= 0.5 * constants_.noise_rows * (prior_noise / variance + std::log(variance));
    const double prior_median = std::log(curve_.prior.slope_s / scale_);
    log += LogStudent((log_slope - prior_median) / curve_.prior.sd, constants_.prior_tails);
    if (intercept < 0.02 || slope * scale_ < curve_.prior.slope_min_s) log -= kImpossible;
    log_posterior->push_back(log);
    part.points.push_back({0, slope, intercept, intercept_variance, variance, inverse, weighted});
  }
  return part;
}

CurveFitPart CurveFit::Fit(bool window_skipped, int teeth, double* log_evidence) const {
  const double middle = std::log(curve_.prior.slope_s / scale_);
  double low = middle - kGridHalfWidth, high = middle + kGridHalfWidth;
  for (int zoom = 0;; ++zoom) {
    const double spacing = (high - low) / (kGridPoints - 1);
    std::vector<double> log_slopes, log_posterior;
    for (int i = 0; i < kGridPoints; ++i) log_slopes.push_back(low + i * spacing);
    CurveFitPart part = FitOn(window_skipped, teeth, log_slopes, &log_posterior);
    const double best = *std::max_element(log_posterior.begin(), log_posterior.end());
    int first = kGridPoints, last = 0;
    double sum = 0;
    for (int i = 0; i < kGridPoints; ++i) {
      const double log = log_posterior[static_cast<size_t>(i)] - best;
      sum += std::exp(log);
      if (log < -kLogNegligible) continue;
      first = std::min(first, i);
      last = i;
    }
    if (zoom + 1 < kGridZooms && last - first + 1 < 0.6 * kGridPoints) {
      high = low + (last + 1) * spacing;
      low += (first - 1) * spacing;
      continue;
    }
    for (size_t i = 0; i < part.points.size(); ++i) {
      part.points[i].probability = std::exp(log_posterior[i] - best) / sum;
    }
    *log_evidence = best + std::log(sum * spacing / curve_.prior.sd);
    return part;
  }
}

Estimate CurveFit::QuantilesOf(const std::vector<double>& weight, const std::vector<double>& mean,
                               const std::vector<double>& variance) const {
  const auto quantile = [&](double of) {
    double low = 1e300, high = -1e300;
    for (size_t i = 0; i < weight.size(); ++i) {
      if (weight[i] < 1e-9) continue;
      low = std::min(low, mean[i] - 6 * std::sqrt(variance[i]));
      high = std::max(high, mean[i] + 6 * std::sqrt(variance[i]));
    }
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      double below = 0;
      for (size_t i = 0; i < weight.size(); ++i) {
        below += weight[i] * NormalCdf((middle - mean[i]) / std::sqrt(variance[i]));
      }
      (below < of ? low : high) = middle;
    }
    return high;
  };
  return {quantile(0.5), quantile(kLowTail), quantile(kHighTail)};
}

Estimate CurveFit::At(double n_kv, double depth) const {
  std::vector<double> weight, means, variances;
  const size_t n = curve_.rows.size();
  const double doublings = std::log2(std::max(1.0, depth / std::max(1.0, curve_.rows.back().depth)));
  const double discrepancy = constants_.discrepancy + constants_.discrepancy_doubling * doublings;
  double stated = 0;  // a new row repeats no better than those of the fit
  for (const CurveRow& row : curve_.rows) stated += row.error * row.error / static_cast<double>(n);
  for (const CurveFitPart& part : parts_) {
    const double x = Geometry(part.window_skipped, depth);
    const int tooth = ToothOf(n_kv, part.teeth);
    const double drifted = x + (constants_.bend + curve_.bend) * Drift(x, constants_.wander_from);
    std::vector<double> with(n);
    for (size_t i = 0; i < n; ++i) with[i] = Kernel(part, part.depth[i], part.tooth[i], x, tooth);
    double own = Kernel(part, x, tooth, x, tooth);
    if (part.teeth > 0 && tooth < 0) own += constants_.tooth * constants_.tooth * x * x;
    for (const CurveFitPart::Point& point : part.points) {
      const double square = point.slope * point.slope;
      double mean = point.intercept + point.slope * drifted, known = 0, sum = 0;
      for (size_t i = 0; i < n; ++i) {
        mean += square * with[i] * point.weighted_residual[i];
        double row = 0;
        for (size_t j = 0; j < n; ++j) row += point.inverse[i * n + j] * square * with[j];
        known += square * with[i] * row;
        sum += row;
      }
      double variance = std::max(0.0, square * own - known);
      variance += (1 - sum) * (1 - sum) * point.intercept_variance;
      variance +=
          (constants_.spread * point.noise_variance + stated + discrepancy * discrepancy) * mean * mean;
      weight.push_back(part.probability * point.probability);
      means.push_back(mean * scale_);
      variances.push_back(variance * scale_ * scale_);
    }
  }
  return QuantilesOf(weight, means, variances);
}

Estimate CurveFit::Slope() const {
  std::vector<double> weight, mean, variance;
  for (const CurveFitPart& part : parts_) {
    for (const CurveFitPart::Point& point : part.points) {
      weight.push_back(part.probability * point.probability);
      mean.push_back(point.slope * scale_);
      variance.push_back(std::pow(0.01 * point.slope * scale_, 2));  // the grid's own width
    }
  }
  return QuantilesOf(weight, mean, variance);
}

Estimate CurveFit::Intercept() const {
  std::vector<double> weight, mean, variance;
  for (const CurveFitPart& part : parts_) {
    for (const CurveFitPart::Point& point : part.points) {
      weight.push_back(part.probability * point.probability);
      mean.push_back(point.intercept * scale_);
      variance.push_back(point.intercept_variance * scale_ * scale_);
    }
  }
  return QuantilesOf(weight, mean, variance);
}

double CurveFit::Noise() const {
  double variance = 0;
  for (const CurveFitPart& part : parts_) {
    for (const CurveFitPart::Point& point : part.points) {
      variance += part.probability * point.probability * point.noise_variance;
    }
  }
  return std::sqrt(variance);
}

double CurveFit::WindowSkipped() const {
  double probability = 0;
  for (const CurveFitPart& part : parts_) {
    if (part.window_skipped) probability += part.probability;
  }
  return probability;
}

int CurveFit::Teeth() const {
  double plain = 0, best = 0;
  int teeth = 0;
  for (const CurveFitPart& part : parts_) {
    if (part.teeth == 0) {
      plain += part.probability;
    } else if (part.probability > best) {
      best = part.probability;
      teeth = part.teeth;
    }
  }
  return plain < 0.5 ? teeth : 0;
}

}  // namespace ropeline
