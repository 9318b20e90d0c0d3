#include "model/measured_encoding.h"

#include <algorithm>
#include <string_view>

#include "kernels/registry.h"

namespace ropeline {
namespace {

bool IsWayToPay(const RowName& name) { return name.Arg("form") != nullptr || name.Arg("angles") != nullptr; }

// The arguments that are neither the shape's nor the run's.
std::string VariantOf(const RowName& name) {
  constexpr std::string_view kPlain[] = {"n", "h", "d", "kv", "rot", "causal", "cache", "threads"};
  std::string text;
  for (const auto& [key, value] : name.args) {
    if (std::find(std::begin(kPlain), std::end(kPlain), key) != std::end(kPlain)) continue;
    text += (text.empty() ? "" : " ") + key + ":" + value;
  }
  return text;
}

// The shape that a placement row's name describes; nothing where an argument is missing.
std::optional<Shape> ShapeOf(Placement placement, const RowName& name, Dtype dtype) {
  const auto n = name.Count("n");
  const auto h = name.Count("h");
  const auto d = name.Count("d");
  const auto kv = name.Count("kv");
  const auto rot = name.Count("rot");
  const auto causal = name.Count("causal");
  // Nothing to do, or more than any run did, is no row of ours.
  const auto odd = [](const std::optional<size_t>& count) {
    return count && (*count == 0 || *count > 1 << 28);
  };
  if (!n || odd(n) || odd(h) || odd(d) || odd(rot) || kv.value_or(0) > 1 << 28) return std::nullopt;
  Shape shape;
  shape.dtype = dtype;
  shape.n = *n;
  switch (placement) {
    case Placement::kInputAdd:
      if (!d) return std::nullopt;
      shape.d_model = *d;
      return shape;
    case Placement::kScoreBias:
      if (!h || !causal) return std::nullopt;
      shape.n_k = *n;
      shape.n_heads = shape.total_heads = *h;
      shape.causal = *causal != 0;
      return shape;
    case Placement::kQkRotation: {  // h counts the heads of Q and of K where kv does not count those of K
      if (!h || !d || rot.value_or(0) > *d) return std::nullopt;
      shape.n_heads = *h;
      shape.n_kv_heads = kv.value_or(0);
      shape.d_head = *d;
      shape.d_rot = rot.value_or(0);
      const std::string* layout = name.Arg("layout");
      if (layout != nullptr && *layout == "fused_qkv") shape.layout = QkLayout::kFusedQkv;
      shape.inverse = name.Count("inverse").value_or(0) != 0;
      return shape;
    }
  }
  return std::nullopt;
}

std::optional<MeasuredEncoding> Measured(const Encoding& encoding, const MeasuredRow& row,
                                         const Machine& machine, int threads, Dtype dtype) {
  const RowName& name = row.name;
  if (name.family != PlacementName(encoding.placement) || name.variant != encoding.name) return std::nullopt;
  if (name.dtype != DtypeName(dtype) || IsWayToPay(name)) return std::nullopt;
  if (name.Count("threads") != static_cast<size_t>(threads) || !(row.call_ns > 0)) return std::nullopt;
  if (!machine.target.empty() && name.target != machine.target) return std::nullopt;
  const auto shape = ShapeOf(encoding.placement, name, dtype);
  const std::string* cache = name.Arg("cache");
  if (!shape || cache == nullptr || encoding.reject(*shape) != nullptr) return std::nullopt;
  MeasuredEncoding out;
  out.encoding = &encoding;
  out.shape = *shape;
  out.variant = VariantOf(name);
  out.cold = *cache == "cold";
  out.cost = encoding.cost(*shape);
  out.working_set_bytes = row.working_set_bytes.value_or(out.cost.bytes_read);
  const LimitTime limit = machine.roofline.TimeAtLimit(out.cost, TrafficOf(encoding.placement), threads,
                                                       out.cold ? kMainMemoryBytes : out.working_set_bytes);
  out.limit_ns = limit.seconds * 1e9;
  out.bound = limit.bound;
  out.measured_ns = row.call_ns;
  out.row = name.Text();
  out.tainted = row.tainted;
  return out;
}

}  // namespace

std::optional<double> MeasuredEncoding::Ratio() const {
  if (bound == Bound::kUnknown || !(limit_ns > 0)) return std::nullopt;
  return measured_ns / limit_ns;
}

std::vector<MeasuredEncoding> MeasuredEncodings(const Machine& machine, int threads, Dtype dtype) {
  std::vector<MeasuredEncoding> rows;
  for (const Encoding* encoding : AllEncodings()) {
    for (const MeasuredRow& row : machine.rows) {
      if (auto measured = Measured(*encoding, row, machine, threads, dtype)) {
        rows.push_back(std::move(*measured));
      }
    }
  }
  return rows;
}

std::vector<MeasuredEncoding> Select(const std::vector<MeasuredEncoding>& rows, const RowFilter& filter) {
  const auto is = [](const std::optional<uint64_t>& wanted, uint64_t value) {
    return !wanted || *wanted == value;
  };
  const auto keeps = [&](const MeasuredEncoding& row) {
    const auto& list = filter.encodings;
    if (!list.empty() && std::find(list.begin(), list.end(), row.encoding) == list.end()) return false;
    switch (row.encoding->placement) {
      case Placement::kInputAdd:
        return is(filter.d_model, row.shape.d_model);
      case Placement::kScoreBias:
        return is(filter.score_heads, row.shape.n_heads);
      case Placement::kQkRotation:
        return is(filter.rotated_heads, row.shape.n_heads + row.shape.n_kv_heads) &&
               is(filter.d_head, row.shape.d_head);
    }
    return false;
  };
  std::vector<MeasuredEncoding> selected;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(selected), keeps);
  return selected;
}

}  // namespace ropeline
