#include "model/engine/curve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ropeline {
namespace {

constexpr size_t kFewRows = 3;
constexpr double kOff = 0.03;    // of the first row against the curve of the others
constexpr double kFall = 0.02;   // of a row against the one before it
constexpr double kNoisy = 0.03;  // of a row
constexpr double kBend = 1.3;    // slope of the deeper half against that of the shallower
constexpr double kKneeProbability = 0.5;

// Least squares; the slope of fewer than two depths is 0.
struct Line {
  double intercept = 0, slope = 0;
};
Line LineThrough(const std::vector<CurveRow>& rows, size_t first, size_t last) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = first; i < last; ++i) {
    n += 1;
    x += rows[i].depth;
    y += rows[i].seconds;
    xx += rows[i].depth * rows[i].depth;
    xy += rows[i].depth * rows[i].seconds;
  }
  const double spread = n * xx - x * x;
  if (!(spread > 0)) return {n > 0 ? y / n : 0, 0};
  const double slope = (n * xy - x * y) / spread;
  return {(y - slope * x) / n, slope};
}

}  // namespace

std::vector<EngineFlag> FlagsOf(const CurveFit& fit) {
  const Curve& curve = fit.curve();
  const std::vector<CurveRow>& rows = curve.rows;
  const size_t n = rows.size();
  std::vector<EngineFlag> flags;
  const auto add = [&](const char* name, std::string detail) {
    flags.push_back({name, curve.prefill ? "pp" : "tg", std::move(detail)});
  };
  if (n < kFewRows) {
    add("too_few_rows", fmt::format("{} row{}: the slope is mostly what the model and other engines suggest",
                                    n, n == 1 ? "" : "s"));
  }
  size_t first = 0;  // of the rows that the rest is judged by
  if (n >= kFewRows && rows[0].n_kv == 0) {
    const Line others = LineThrough(rows, 1, n);
    const double expected = others.intercept + others.slope * rows[0].depth;
    const double off = rows[0].seconds / expected - 1;
    if (expected > 0 && off > kOff && off > 3 * fit.Noise()) {
      add("cold_first_row",
          fmt::format("the first row is {:.0f} % slower than the others lead to expect", 100 * off));
      first = 1;
    }
  }
  if (fit.Teeth() > 0) {
    add("saw_tooth",
        fmt::format("time depends on the row's number modulo {}: threads share the keys evenly at some "
                    "depths only",
                    fit.Teeth()));
  } else {
    for (size_t i = first + 1; i < n; ++i) {
      const double fall = 1 - rows[i].seconds / rows[i - 1].seconds;
      if (fall < kFall || fall < 3 * fit.Noise()) continue;
      add("not_monotone", fmt::format("a token at depth {:.0f} takes {:.0f} % less time than at {:.0f}",
                                      rows[i].depth, 100 * fall, rows[i - 1].depth));
      break;
    }
  }
  if (fit.Noise() > kNoisy) {
    add("noisy", fmt::format("rows scatter by {:.0f} % around the curve", 100 * fit.Noise()));
  }
  const size_t half = first + (n - first) / 2;
  if (n - first >= 5) {
    const Line shallow = LineThrough(rows, first, half + 1), deep = LineThrough(rows, half, n);
    const double rise = shallow.slope * (rows[half].depth - rows[first].depth) / rows[half].seconds;
    if (deep.slope > kBend * shallow.slope && rise > 4 * fit.Noise()) {
      add("super_linear", fmt::format("the slope beyond depth {:.0f} is {:.1f} times of that before",
                                      rows[half].depth, deep.slope / shallow.slope));
    }
  }
  if (curve.window && fit.WindowSkipped() > kKneeProbability) {
    add("window_knee",
        fmt::format("window layers stop to cost more at {:.0f} tokens: {:.0f} % of the slope ends "
                    "there ({:.0f} % sure)",
                    curve.window->tokens, 100 * curve.window->share, 100 * fit.WindowSkipped()));
  }
  return flags;
}

}  // namespace ropeline
