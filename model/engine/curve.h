// Time per token against depth, from the few rows of a short run: what it will be where nobody measured, and
// how sure that is.
//
// The curve is T(n) = a + b·g(n) + wander(n), n the tokens in the cache at the middle of what was timed.
//   a       what does not depend on depth: the weights, and the overhead of a step
//   b·g(n)  attention. g(n) = n; where window layers skip what they do not see, their share of b ends at the
//           window: g(n) = (1 − share)·n + share·min(n, window)
//   wander  the rate at which keys and values are read is not one number: as the cache outgrows the caches of
//           the CPU it changes. The slope follows a random walk in log(1 + n/n₀), so that a row says more
//           about its neighbours than about rows far deeper, and ranges widen with every doubling beyond the
//           last row.
// a is unknown, b has a prior (slope_prior.h), row noise is Student's t relative to the row, so that one bad
// row does not turn the line, on top of what the row's own repetitions say of it; the first row of an empty
// cache has noise of its own (a cold start). Posterior
// over a grid of log b, weighted by the likelihood; rows are robust by expectation-maximisation over the t's
// weights (Lange, Little and Taylor 1989, section 3), and a Gaussian process carries a and the wander
// (Rasmussen and Williams 2006, section 2.7).
//
// What cannot be known beforehand is a set of hypotheses weighted by their evidence: windows are skipped or
// not; the slope depends on n modulo some rows (a saw-tooth: an engine splits keys over threads evenly at
// some depths only).
#ifndef ROPELINE_MODEL_ENGINE_CURVE_H_
#define ROPELINE_MODEL_ENGINE_CURVE_H_

#include <optional>
#include <vector>

#include "model/engine/engine_run.h"

namespace ropeline {

struct CurveRow {
  double n_kv = 0;     // tokens in the cache before the first timed one
  double depth = 0;    // RunRow::MeanDepth
  double seconds = 0;  // per token
  double error = 0;    // standard error of seconds, relative, by the run's own repetitions; 0 unknown
};

// Of b, seconds per token of depth: log-Student around slope_s.
struct SlopePrior {
  double slope_s = 0;      // median; above zero
  double sd = 1;           // of its logarithm
  double slope_min_s = 0;  // below is impossible on the machine; 0: no machine
};

// The layers of one window.
struct WindowShape {
  double tokens = 0;
  double share = 0;  // of the attention's cost below the window; 0 to 1
};

struct Curve {
  bool prefill = false;
  std::vector<CurveRow> rows;  // at least one, by depth
  SlopePrior prior;
  std::optional<WindowShape> window;
  double bend = 0;  // the slope's relative growth per unit of log(1 + n/n₀), beyond CurveConstants::bend
};

// Chosen by hand and by scans of one at a time over ../shared/sweeps at three depths of calibration, on the
// same tables that the errors in sweeps_test.cc are of: other runs may be met somewhat worse.
struct CurveConstants {
  double noise = 0.006;                 // of a row, relative
  double noise_rows = 2;                // how many rows that figure counts for
  double tails = 4;                     // degrees of freedom of the noise
  double cold = 0.015;                  // of the first row of an empty cache, relative
  double wander = 0.02;                 // variance of the slope per unit of log(1 + n/n₀), relative to b²
  double wander_from = 512;             // n₀, tokens
  double bend = 0;                      // mean drift of the slope per unit of log(1 + n/n₀)
  double prior_tails = 6;               // degrees of freedom of the slope's prior
  double windows_skipped = 0.5;         // prior probability
  double saw_tooth = 0.2;               // prior probability
  double tooth = 0.5;                   // spread of the slope between the teeth, relative to b
  double spread = 1.3;                  // of a new row against the noise of the rows in the fit, variance
  double discrepancy = 0.01;            // of the curve itself, relative to a predicted time
  double discrepancy_doubling = 0.015;  // more of it with every doubling of depth beyond the last row
};
CurveConstants ConstantsOf(bool prefill);

struct Estimate {
  double value = 0;
  double low = 0, high = 0;  // 90 % of the probability is between
};

// One hypothesis, fitted: a grid over the slope.
struct CurveFitPart {
  double probability = 1;
  bool window_skipped = false;
  int teeth = 0;              // rows of one period of a saw-tooth; 0: none
  std::vector<double> depth;  // g of each row, and its tooth
  std::vector<int> tooth;
  struct Point {
    double probability, slope, intercept, intercept_variance, noise_variance;
    std::vector<double> inverse, weighted_residual;  // Σ⁻¹, row by row, and Σ⁻¹·(T − a − b·g)
  };
  std::vector<Point> points;
};

class CurveFit {
 public:
  explicit CurveFit(Curve curve);
  CurveFit(Curve curve, const CurveConstants& constants);

  const Curve& curve() const { return curve_; }
  // Seconds per token of a row that begins at n_kv and has `depth` tokens in the cache on average.
  Estimate At(double n_kv, double depth) const;
  Estimate Slope() const;        // b, seconds per token of depth, below any window
  Estimate Intercept() const;    // a, seconds
  double Noise() const;          // of a row, relative
  double WindowSkipped() const;  // probability; 0 without a window
  int Teeth() const;             // rows of the likelier period; 0 where no saw-tooth is likely
 private:
  double Geometry(bool window_skipped, double depth) const;
  CurveFitPart Fit(bool window_skipped, int teeth, double* log_evidence) const;
  CurveFitPart FitOn(bool window_skipped, int teeth, const std::vector<double>& log_slopes,
                     std::vector<double>* log_posterior) const;
  double Kernel(const CurveFitPart& part, double x, int x_tooth, double y, int y_tooth) const;
  int ToothOf(double n_kv, int teeth) const;
  Estimate QuantilesOf(const std::vector<double>& weight, const std::vector<double>& mean,
                       const std::vector<double>& variance) const;

  Curve curve_;
  CurveConstants constants_;
  double scale_ = 1;  // seconds: times are fitted as multiples of the median row
  double step_ = 0;   // tokens between rows where that is the same for all; 0 otherwise
  bool cold_first_ = false;
  std::vector<CurveFitPart> parts_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_CURVE_H_
