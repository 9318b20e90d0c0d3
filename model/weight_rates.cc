#include "model/weight_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace ropeline {
namespace {

using Point = WeightRates::Point;

double Weights(const Point& point) { return point.rows * point.cols; }
double LogRatio(double a, double b) { return std::abs(std::log(a / b)); }

struct Rate {
  double ns_per_weight = 0;
  const Point* nearest = nullptr;
};

// Among points of one n.
std::optional<Rate> RateAt(const std::vector<const Point*>& points, double rows, double cols) {
  const double weights = rows * cols;
  const auto better = [&](const Point* a, const Point* b) {
    if (b == nullptr) return true;
    if (Weights(*a) != Weights(*b)) return LogRatio(Weights(*a), weights) < LogRatio(Weights(*b), weights);
    return LogRatio(a->cols, cols) < LogRatio(b->cols, cols);
  };
  const Point *below = nullptr, *above = nullptr;
  for (const Point* point : points) {
    if (Weights(*point) <= weights && better(point, below)) below = point;
    if (Weights(*point) >= weights && better(point, above)) above = point;
  }
  if (below == nullptr && above == nullptr) return std::nullopt;
  const auto rate = [](const Point* point) { return point->ns / Weights(*point); };
  if (below == nullptr) return Rate{rate(above), above};
  if (above == nullptr || Weights(*below) == Weights(*above)) return Rate{rate(below), below};
  const double t = std::log(weights / Weights(*below)) / std::log(Weights(*above) / Weights(*below));
  return Rate{std::lerp(rate(below), rate(above), t), t < 0.5 ? below : above};
}

std::vector<const Point*> OfN(const std::vector<Point>& points, double n) {
  std::vector<const Point*> some;
  for (const Point& point : points) {
    if (point.n == n) some.push_back(&point);
  }
  return some;
}

std::string Note(const Point& point, double rows, double cols, double n) {
  std::string note;
  const auto add = [&](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (point.rows != rows || point.cols != cols) {
    add(fmt::format("by weights from {:.0f} × {:.0f} to {:.0f} × {:.0f}", point.rows, point.cols, rows,
                    cols));
  }
  if (point.n != n) add(fmt::format("n {:.0f} → {:.4g}", point.n, n));
  if (point.tainted) add("disturbed in every repetition");
  return note;
}

const std::vector<Point>* PointsOf(const std::map<std::string, std::vector<Point>, std::less<>>& points,
                                   const BlockFormat& format) {
  const auto found = points.find(format.name);
  return found == points.end() ? nullptr : &found->second;
}

}  // namespace

WeightRates::WeightRates(const Machine& machine, int threads) {
  for (const MeasuredRow& row : machine.rows) {
    const RowName& name = row.name;
    if (!machine.target.empty() && name.target != machine.target) continue;
    if (!(row.call_ns > 0)) continue;
    const auto n = name.Count("n"), rows = name.Count("rows"), cols = name.Count("cols");
    const std::string* cache = name.Arg("cache");
    if (!n || !cols || *n == 0 || *cols == 0 || cache == nullptr) continue;
    const bool prepare = name.family == "weights" && name.variant == "prepare";
    const bool mat_vec = name.family == "weights" && name.variant == "matvec" && *cache == "cold";
    const bool mat_mul = name.family == "linear" && name.variant == "matmul";
    if (name.Count("threads") != static_cast<size_t>(prepare ? 1 : threads)) continue;
    Point point{1,          static_cast<double>(*cols), static_cast<double>(*n), row.call_ns, name.Text(),
                row.tainted};
    if (prepare) {
      if (name.args.size() == 4) prepare_[name.dtype].push_back(std::move(point));
      continue;
    }
    if ((!mat_vec && !mat_mul) || !rows || *rows == 0 || name.args.size() != 5) continue;
    point.rows = static_cast<double>(*rows);
    (mat_vec ? mat_vec_ : mat_mul_)[name.dtype].push_back(std::move(point));
  }
}

std::optional<KernelTime> WeightRates::MatVec(const BlockFormat& format, double rows, double cols,
                                              double vectors) const {
  const std::vector<Point>* points = PointsOf(mat_vec_, format);
  if (points == nullptr) return std::nullopt;
  std::set<double> counts;
  for (const Point& point : *points) counts.insert(point.n);
  const auto above = counts.lower_bound(vectors);
  const double high = above == counts.end() ? *counts.rbegin() : *above;
  const double low =
      above == counts.begin() || high == vectors || above == counts.end() ? high : *std::prev(above);
  const auto at_high = RateAt(OfN(*points, high), rows, cols), at_low = RateAt(OfN(*points, low), rows, cols);
  double ns = 0;
  if (low == high) {
    // Beyond what was measured: passes of the largest count. Below: no faster than the smallest.
    ns = at_high->ns_per_weight * rows * cols * std::max(1.0, vectors / high);
  } else {
    const double t = (vectors - low) / (high - low);
    ns = std::lerp(at_low->ns_per_weight, at_high->ns_per_weight, t) * rows * cols;
  }
  const Point& nearest = vectors - low < high - vectors ? *at_low->nearest : *at_high->nearest;
  return KernelTime{ns, nearest.row, Note(nearest, rows, cols, vectors)};
}

std::optional<KernelTime> WeightRates::MatMul(const BlockFormat& format, double rows, double cols,
                                              double tokens) const {
  const std::vector<Point>* points = PointsOf(mat_mul_, format);
  if (points == nullptr) return std::nullopt;
  double nearest_n = points->front().n;
  for (const Point& point : *points) {
    if (LogRatio(point.n, tokens) < LogRatio(nearest_n, tokens)) nearest_n = point.n;
  }
  const auto rate = RateAt(OfN(*points, nearest_n), rows, cols);
  const double ns = rate->ns_per_weight * rows * cols * tokens / nearest_n;
  return KernelTime{ns, rate->nearest->row, Note(*rate->nearest, rows, cols, tokens)};
}

std::optional<KernelTime> WeightRates::Prepare(const BlockFormat& format, double cols, double vectors) const {
  const std::vector<Point>* points = PointsOf(prepare_, format);
  if (points == nullptr) return std::nullopt;
  const auto rate = RateAt(OfN(*points, points->front().n), 1, cols);
  return KernelTime{rate->ns_per_weight * cols * vectors, rate->nearest->row,
                    Note(*rate->nearest, 1, cols, vectors)};
}

}  // namespace ropeline
