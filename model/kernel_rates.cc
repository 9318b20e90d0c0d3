#include "model/kernel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/kv_layout.h"

namespace ropeline {
namespace {

using Point = KernelSeries::Point;

bool Below(const Point& point, double n) { return point.n < n; }
bool Above(double n, const Point& point) { return n < point.n; }

bool OnlyArgs(const RowName& name, std::initializer_list<std::string_view> known) {
  return std::all_of(name.args.begin(), name.args.end(), [&](const auto& arg) {
    return std::find(known.begin(), known.end(), arg.first) != known.end();
  });
}

std::optional<KernelOperation> OperationOf(const RowName& name) {
  using enum KernelOperation;
  if (name.family == "kv_cache" && name.variant == "append") {
    if (OnlyArgs(name, {"n", "hkv", "d", "cache", "threads"})) return kAppend;
  } else if (name.family == "attention" && name.variant == "decode") {
    if (OnlyArgs(name, {"n", "h", "hkv", "d", "causal", "bias", "cache", "threads"})) return kDecode;
  } else if (name.family == "attention" && name.variant == "prefill") {
    if (OnlyArgs(name, {"n", "m", "h", "hkv", "d", "causal", "bias", "cache", "threads"})) return kPrefill;
  }
  return std::nullopt;
}

// The series that a row would begin, without its point; nothing where it is no row to predict from.
std::optional<KernelSeries> SeriesOf(const RowName& name) {
  const auto operation = OperationOf(name);
  if (!operation) return std::nullopt;
  const bool append = *operation == KernelOperation::kAppend;
  const bool prefill = *operation == KernelOperation::kPrefill;
  const auto n = name.Count("n");
  const auto hkv = name.Count("hkv");
  const auto h = append ? hkv : name.Count("h");
  const auto d = name.Count("d");
  const auto causal = prefill ? name.Count("causal") : std::optional<size_t>(1);
  const std::string* cache = name.Arg("cache");
  if (!n || !h || !hkv || !d || !causal || cache == nullptr) return std::nullopt;
  for (const size_t count : {*n, *h, *hkv, *d}) {
    if (count == 0 || count > 1 << 28) return std::nullopt;  // no row of ours
  }
  const bool same_causal = name.Arg("causal") == nullptr || name.Count("causal") == causal;
  if (*h % *hkv != 0 || !same_causal) return std::nullopt;
  KernelSeries series;
  series.operation = *operation;
  if (prefill && name.Count("m") != n) {
    const auto queries = name.Count("m");
    if (!queries || *queries == 0 || *queries > *n || *causal == 0) return std::nullopt;
    series.operation = KernelOperation::kChunk;
    series.queries = static_cast<double>(*queries);
  }
  series.format = name.dtype;
  series.shape.kind = AttentionKind::kFull;
  series.shape.n_heads = *h;
  series.shape.n_kv_heads = *hkv;
  series.shape.d_head_k = series.shape.d_head_v = *d;
  series.shape.causal = *causal != 0;
  if (const std::string* bias = name.Arg("bias")) series.bias = *bias;
  series.cold = *cache == "cold";
  if (*operation == KernelOperation::kDecode && !series.cold) return std::nullopt;
  return series;
}

auto Key(const KernelSeries& series) {
  const Attention& shape = series.shape;
  return std::make_tuple(series.operation, series.format, series.queries, shape.n_heads, shape.n_kv_heads,
                         shape.d_head_k, shape.causal, series.bias, series.cold);
}

double Group(const Attention& attention) {
  return static_cast<double>(attention.n_heads) / static_cast<double>(attention.n_kv_heads);
}

double LogRatio(double a, double b) { return std::abs(std::log(a / b)); }

// How far a row's shape is from a layer's; compares as the header says.
auto Distance(const KernelSeries& series, const Attention& attention, double queries = 0) {
  const bool prefill =
      series.operation == KernelOperation::kPrefill || series.operation == KernelOperation::kChunk;
  const bool append = series.operation == KernelOperation::kAppend;
  return std::make_tuple(
      series.queries == queries ? 0 : LogRatio(series.queries, queries),
      prefill && series.shape.causal != attention.causal,
      append ? 0 : LogRatio(Group(series.shape), Group(attention)),
      LogRatio(static_cast<double>(series.shape.d_head_k + series.shape.d_head_v),
               static_cast<double>(attention.d_head_k + attention.d_head_v)),
      LogRatio(static_cast<double>(series.shape.n_kv_heads), static_cast<double>(attention.n_kv_heads)),
      !series.cold, -static_cast<double>(series.points.size()));
}

const Point& NearestPoint(const std::vector<Point>& points, double n) {
  return *std::min_element(points.begin(), points.end(), [&](const Point& a, const Point& b) {
    return LogRatio(a.n, n) < LogRatio(b.n, n);
  });
}

double LinearNs(const std::vector<Point>& points, double n) {
  const Point& first = points.front();
  const Point& last = points.back();
  if (n >= last.n || points.size() == 1) return last.ns * n / last.n;
  if (n < first.n) {
    const double slope = (points[1].ns - first.ns) / (points[1].n - first.n);
    return std::clamp(first.ns - slope * (first.n - n), first.ns * n / first.n, first.ns);
  }
  const auto above = std::upper_bound(points.begin(), points.end(), n, Above);
  const Point& low = *std::prev(above);
  return low.ns + (above->ns - low.ns) * (n - low.n) / (above->n - low.n);
}

// (query, key) pairs of the last `queries` of n tokens: what Pairs(n) counts of them.
double ChunkPairs(const Attention& attention, double queries, double n) {
  return attention.Pairs(n) - (queries < n ? attention.Pairs(n - queries) : 0);
}

// Flops per nanosecond.
double PrefillRate(const KernelSeries& series, double n) {
  const auto rate = [&](const Point& point) {
    const double pairs = series.operation == KernelOperation::kChunk
                             ? ChunkPairs(series.shape, series.queries, point.n)
                             : series.shape.Pairs(point.n);
    return pairs * series.shape.FlopsPerPair() / point.ns;
  };
  const std::vector<Point>& points = series.points;
  const auto above = std::upper_bound(points.begin(), points.end(), n, Above);
  if (above == points.begin()) return rate(points.front());
  const Point& low = *std::prev(above);
  if (above == points.end()) return rate(low);
  return std::lerp(rate(low), rate(*above), std::log(n / low.n) / std::log(above->n / low.n));
}

std::string WidthText(const Attention& attention) {
  return attention.d_head_k == attention.d_head_v
             ? std::to_string(attention.d_head_k)
             : fmt::format("{}/{}", attention.d_head_k, attention.d_head_v);
}

// In which respects the layer is not what was measured.
std::string ShapeNote(const KernelSeries& series, const Attention& attention) {
  const Attention& shape = series.shape;
  const bool prefill =
      series.operation == KernelOperation::kPrefill || series.operation == KernelOperation::kChunk;
  std::vector<std::string> parts;
  if (series.operation != KernelOperation::kAppend && Group(shape) != Group(attention)) {
    parts.push_back(fmt::format("group {:.3g} → {:.3g}", Group(shape), Group(attention)));
  }
  if (WidthText(shape) != WidthText(attention)) {
    parts.push_back(fmt::format("d_head {} → {}", WidthText(shape), WidthText(attention)));
  }
  if (shape.n_kv_heads != attention.n_kv_heads) {
    parts.push_back(fmt::format("KV heads {} → {}", shape.n_kv_heads, attention.n_kv_heads));
  }
  if (prefill && shape.causal != attention.causal) {
    parts.push_back(fmt::format("causal {:d} → {:d}", shape.causal, attention.causal));
  }
  if (prefill && attention.kind == AttentionKind::kWindow) {
    parts.push_back(fmt::format("none → a window of {}", attention.window));
  }
  if (parts.empty()) return "";
  return fmt::format("scaled by {}: {}", prefill ? "flops" : "bytes", fmt::join(parts, ", "));
}

std::string TokensNote(const KernelSeries& series, double n) {
  const std::vector<Point>& points = series.points;
  if (n > points.back().n) return fmt::format("n {:.0f}, beyond all measured, at its rate", n);
  const auto at = std::lower_bound(points.begin(), points.end(), n, Below);
  if (at->n == n) return "";
  if (at == points.begin()) return fmt::format("n {:.0f}, below all measured", n);
  return fmt::format("n {:.0f}, between {:.0f} and {:.0f}", n, std::prev(at)->n, at->n);
}

KernelTime TimeFrom(const KernelSeries& series, const Attention& attention, double n, double ns) {
  const Point& point = NearestPoint(series.points, n);
  std::string note;
  for (const std::string& part : {TokensNote(series, n), ShapeNote(series, attention),
                                  std::string(point.tainted ? "disturbed in every repetition" : "")}) {
    if (!part.empty()) note += (note.empty() ? "" : "; ") + part;
  }
  return {ns, point.row, note};
}

double AppendBytes(const Attention& attention, const BlockFormat& format) {
  return static_cast<double>(KvBytesPerToken(attention, kBlockF32) + KvBytesPerToken(attention, format));
}

}  // namespace

KernelRates::KernelRates(const Machine& machine, int threads) {
  for (const MeasuredRow& row : machine.rows) {
    if (!machine.target.empty() && row.name.target != machine.target) continue;
    if (row.name.Count("threads") != static_cast<size_t>(threads) || !(row.call_ns > 0)) continue;
    auto series = SeriesOf(row.name);
    if (!series) continue;
    auto at = std::find_if(series_.begin(), series_.end(),
                           [&](const KernelSeries& known) { return Key(known) == Key(*series); });
    if (at == series_.end()) at = series_.insert(at, *std::move(series));
    const auto n = static_cast<double>(*row.name.Count("n"));
    const auto place = std::lower_bound(at->points.begin(), at->points.end(), n, Below);
    if (place != at->points.end() && place->n == n) continue;  // with and without bias:none
    at->points.insert(place, {n, row.call_ns, row.name.Text(), row.tainted});
  }
}

const KernelSeries* KernelRates::Nearest(KernelOperation operation, const BlockFormat& format,
                                         const Attention& attention, double queries) const {
  const KernelSeries* nearest = nullptr;
  for (const KernelSeries& series : series_) {
    if (series.operation != operation || series.format != format.name || series.bias != "none") continue;
    if (nearest == nullptr || Distance(series, attention, queries) < Distance(*nearest, attention, queries)) {
      nearest = &series;
    }
  }
  return nearest;
}

std::optional<KernelTime> KernelRates::DecodeAttention(const BlockFormat& format, const Attention& attention,
                                                       double keys) const {
  const KernelSeries* series = Nearest(KernelOperation::kDecode, format, attention);
  if (series == nullptr) return std::nullopt;
  const double bytes_ratio = static_cast<double>(KvBytesPerToken(attention, format)) /
                             static_cast<double>(KvBytesPerToken(series->shape, format));
  return TimeFrom(*series, attention, keys, LinearNs(series->points, keys) * bytes_ratio);
}

std::optional<KernelTime> KernelRates::PrefillAttention(const BlockFormat& format, const Attention& attention,
                                                        double n) const {
  const KernelSeries* series = Nearest(KernelOperation::kPrefill, format, attention);
  if (series == nullptr) return std::nullopt;
  const double keys = attention.Keys(n);
  const double flops = attention.Pairs(n) * attention.FlopsPerPair();
  return TimeFrom(*series, attention, keys, flops / PrefillRate(*series, keys));
}

std::optional<KernelTime> KernelRates::ChunkAttention(const BlockFormat& format, const Attention& attention,
                                                      double queries, double n) const {
  const KernelSeries* series =
      queries < n ? Nearest(KernelOperation::kChunk, format, attention, queries) : nullptr;
  if (series == nullptr) series = Nearest(KernelOperation::kPrefill, format, attention);
  if (series == nullptr) return std::nullopt;
  const double keys = attention.Keys(n);
  const double flops = ChunkPairs(attention, queries, n) * attention.FlopsPerPair();
  return TimeFrom(*series, attention, keys, flops / PrefillRate(*series, keys));
}

std::optional<KernelTime> KernelRates::Append(const BlockFormat& format, const Attention& attention,
                                              double n) const {
  const KernelSeries* series = Nearest(KernelOperation::kAppend, format, attention);
  if (series == nullptr) return std::nullopt;
  const double bytes_ratio = AppendBytes(attention, format) / AppendBytes(series->shape, format);
  return TimeFrom(*series, attention, n, LinearNs(series->points, n) * bytes_ratio);
}

std::optional<KernelTime> KernelRates::BiasOnAttention(Phase phase, const BlockFormat& format,
                                                       const Attention& attention, double n,
                                                       std::string_view encoding, double attention_ns) const {
  const auto operation = phase == Phase::kPrefill ? KernelOperation::kPrefill : KernelOperation::kDecode;
  const KernelSeries* nearest = nullptr;
  const Point *with = nullptr, *without = nullptr;
  for (const KernelSeries& series : series_) {
    if (series.operation != operation || series.format != format.name) continue;
    if (series.bias != encoding && series.bias + "_bias" != encoding) continue;
    KernelSeries plain = series;
    plain.bias = "none";
    const auto twin = std::find_if(series_.begin(), series_.end(),
                                   [&](const KernelSeries& other) { return Key(other) == Key(plain); });
    if (twin == series_.end()) continue;
    for (const Point& a : series.points) {
      for (const Point& b : twin->points) {
        if (a.n != b.n) continue;
        const auto distance = [&](const KernelSeries& of, double at) {
          return std::make_pair(Distance(of, attention), LogRatio(at, n));
        };
        if (nearest != nullptr && !(distance(series, a.n) < distance(*nearest, with->n))) continue;
        nearest = &series;
        with = &a;
        without = &b;
      }
    }
  }
  if (nearest == nullptr) return std::nullopt;
  const double excess = std::max(0.0, with->ns / without->ns - 1);
  return KernelTime{attention_ns * excess, with->row,
                    fmt::format("inside attention, {:.1f} % more than without it", excess * 100)};
}

}  // namespace ropeline
