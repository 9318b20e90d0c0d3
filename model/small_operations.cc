#include "model/small_operations.h"

#include <algorithm>
#include <cmath>

#include "kernels/residual.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace ropeline {
namespace {

double Inner(const FeedForward& ffn) {
  return static_cast<double>(ffn.width + ffn.n_active * ffn.expert_width + ffn.shared_width);
}

// Reads and writes two thirds of what the gated one does.
constexpr double kWithoutGate = 2.0 / 3;

}  // namespace

SmallElements SmallElementsOf(const Llm& llm, Stack stack) {
  SmallElements elements;
  const auto d_model = static_cast<double>(llm.d_model);
  bool any = false;
  for (const Layer& layer : llm.layers) {
    if (layer.stack != stack) continue;
    any = true;
    const bool mixes = layer.self.kind != AttentionKind::kNone || !layer.recurrent.empty();
    const int parts = (mixes ? 1 : 0) + (layer.cross.kind != AttentionKind::kNone ? 1 : 0) +
                      (layer.ffn.kind != FfnKind::kNone ? 1 : 0);
    elements.normed += parts * d_model;
    elements.added += parts * d_model;
    (layer.ffn.kind == FfnKind::kMlp ? elements.activated : elements.gated) += Inner(layer.ffn);
  }
  if (any) elements.normed += d_model;
  return elements;
}

Cost SmallCost(const SmallElements& elements, double tokens) {
  const auto of = [&](double per_token) { return static_cast<size_t>(std::llround(per_token * tokens)); };
  // As one long row: the weights of norms, a vector each, count with the model's.
  Cost norm = RmsNormCost(of(elements.normed), 1);
  norm.bytes_read = norm.bytes_written;
  return norm + SwiGluCost(of(elements.gated + kWithoutGate * elements.activated)) +
         ResidualCost(of(elements.added));
}

SmallRates::SmallRates(const Machine& machine, int threads) {
  for (const MeasuredRow& row : machine.rows) {
    const RowName& name = row.name;
    if (name.family != "linear" || (!machine.target.empty() && name.target != machine.target)) continue;
    const auto n = name.Count("n"), d = name.Count("d"), at = name.Count("threads");
    if (!n || !d || !at || *n == 0 || *d == 0 || name.args.size() != 4 || !(row.call_ns > 0)) continue;
    const bool norm = name.variant == "rms_norm";
    // One vector's norm is one thread's.
    if (static_cast<int>(*at) != (norm && *n == 1 ? 1 : threads)) continue;
    Point point{static_cast<double>(*n), row.call_ns / static_cast<double>(*n * *d), name.Text()};
    if (norm) norm_.push_back(std::move(point));
    if (name.variant == "swiglu") gate_.push_back(std::move(point));
    if (name.variant == "residual") add_.push_back(std::move(point));
  }
}

std::optional<KernelTime> SmallRates::Time(const SmallElements& elements, double tokens) const {
  if (norm_.empty() || gate_.empty() || add_.empty()) return std::nullopt;
  const auto nearest = [&](const std::vector<Point>& points) -> const Point& {
    const auto far = [&](const Point& point) { return std::abs(std::log(point.n / tokens)); };
    return *std::min_element(points.begin(), points.end(),
                             [&](const Point& a, const Point& b) { return far(a) < far(b); });
  };
  const Point &norm = nearest(norm_), &gate = nearest(gate_), &add = nearest(add_);
  const double gated = elements.gated + kWithoutGate * elements.activated;
  KernelTime time;
  time.ns = tokens * (elements.normed * norm.ns_per_element + gated * gate.ns_per_element +
                      elements.added * add.ns_per_element);
  time.row = norm.row;
  time.note = "by elements; also " + gate.row + ", " + add.row;
  return time;
}

}  // namespace ropeline
