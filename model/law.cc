#include "model/law.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ropeline {
namespace {

size_t DistinctSizes(std::span<const LawPoint> points) {
  std::set<double> sizes;
  for (const LawPoint& point : points) sizes.insert(point.size);
  return sizes.size();
}

Law WithResidual(Law law, std::span<const LawPoint> points) {
  double squares = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double error = law.At(points[i].size) / points[i].ns - 1;
    squares += error * error;
    if (i > 0 && std::abs(error) <= std::abs(law.worst_error)) continue;
    law.worst = i;
    law.worst_error = error;
  }
  law.residual_rms = std::sqrt(squares / static_cast<double>(points.size()));
  return law;
}

}  // namespace

// Both minimise Σ (a·u + b·v − 1)² with u = 1 ÷ t and v = size ÷ t.
std::optional<Law> FitLine(std::span<const LawPoint> points) {
  if (DistinctSizes(points) < 3) return std::nullopt;
  // Sizes are counted from their weighted mean, which keeps the two unknowns apart in the arithmetic.
  double weights = 0, mean = 0;
  for (const LawPoint& point : points) {
    const double w = 1 / (point.ns * point.ns);
    weights += w;
    mean += w * point.size;
  }
  mean /= weights;
  double size_time = 0, size_size = 0, time = 0;
  for (const LawPoint& point : points) {
    const double w = 1 / (point.ns * point.ns);
    const double size = point.size - mean;
    size_time += w * size * point.ns;
    size_size += w * size * size;
    time += w * point.ns;
  }
  Law law;
  law.per_size_ns = size_time / size_size;
  law.a_ns = time / weights - law.per_size_ns * mean;
  return WithResidual(law, points);
}

std::optional<Law> FitProportion(std::span<const LawPoint> points) {
  if (DistinctSizes(points) < 2) return std::nullopt;
  double v_sum = 0, v_squares = 0;
  for (const LawPoint& point : points) {
    const double v = point.size / point.ns;
    v_sum += v;
    v_squares += v * v;
  }
  Law law;
  law.per_size_ns = v_sum / v_squares;
  return WithResidual(law, points);
}

double LawSize(const MeasuredEncoding& row) {
  const Shape& shape = row.shape;
  const auto n = static_cast<double>(shape.n);
  switch (row.encoding->placement) {
    case Placement::kInputAdd:
      return n * static_cast<double>(shape.d_model);
    case Placement::kScoreBias:
      return n * static_cast<double>(shape.n_k) * static_cast<double>(shape.n_heads);
    case Placement::kQkRotation:
      return n * static_cast<double>(shape.n_heads + shape.n_kv_heads) * static_cast<double>(shape.Rotated());
  }
  return 0;
}

std::vector<EncodingLaw> FitLaws(const std::vector<MeasuredEncoding>& rows, bool causal) {
  std::vector<EncodingLaw> laws;
  std::vector<std::vector<const MeasuredEncoding*>> used;
  for (const MeasuredEncoding& row : rows) {
    const bool bias = row.encoding->placement == Placement::kScoreBias;
    if (!row.plain() || row.tainted || row.cost.Bytes() == 0) continue;
    if (bias && row.shape.causal != causal) continue;
    auto at = std::find_if(laws.begin(), laws.end(), [&](const EncodingLaw& law) {
      return law.encoding == row.encoding && law.cold == row.cold;
    });
    if (at == laws.end()) {
      at = laws.insert(laws.end(), {.encoding = row.encoding, .cold = row.cold});
      used.emplace_back();
    }
    used[static_cast<size_t>(at - laws.begin())].push_back(&row);
  }
  for (size_t i = 0; i < laws.size(); ++i) {
    EncodingLaw& law = laws[i];
    std::vector<LawPoint> points;
    law.rows = used[i].size();
    law.n_min = law.n_max = used[i].front()->shape.n;
    for (const MeasuredEncoding* row : used[i]) {
      points.push_back({LawSize(*row), row->measured_ns});
      law.n_min = std::min(law.n_min, row->shape.n);
      law.n_max = std::max(law.n_max, row->shape.n);
    }
    law.law = law.Proportional() ? FitProportion(points) : FitLine(points);
    if (law.law) law.worst_row = used[i][law.law->worst]->row;
  }
  return laws;
}

}  // namespace ropeline
