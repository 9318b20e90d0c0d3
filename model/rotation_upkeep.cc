#include "model/rotation_upkeep.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <tuple>

#include "kernels/kv_evict.h"
#include "kernels/kv_reschedule.h"
#include "model/kernel_rates.h"

namespace ropeline {
namespace {

double LogRatio(double a, double b) { return std::abs(std::log(a / b)); }

double LogRatio(uint64_t a, uint64_t b) { return LogRatio(static_cast<double>(a), static_cast<double>(b)); }

// A row and its shape; h is hkv where the row has no query heads.
struct ShapedRow {
  const MeasuredRow* row = nullptr;
  double n = 0;
  Attention shape;
};

// The rotary layers of a model and what one format's rows say about them.
struct Pass {
  const PredictRequest& request;
  const BlockFormat& format;
  std::vector<const Attention*> layers;

  double Keys(const Attention& attention) const {
    return attention.Keys(static_cast<double>(request.context));
  }
};

std::vector<const Attention*> RotaryLayers(const Llm& llm) {
  std::vector<const Attention*> layers;
  for (const Layer& layer : llm.layers) {
    if (layer.stack == Stack::kDecoder && layer.self.kind != AttentionKind::kNone &&
        layer.self.position.rope_theta() > 0) {
      layers.push_back(&layer.self);
    }
  }
  return layers;
}

std::optional<ShapedRow> Shaped(const MeasuredRow& row) {
  const RowName& name = row.name;
  const auto n = name.Count("n"), hkv = name.Count("hkv"), d = name.Count("d");
  const auto h = name.Arg("h") != nullptr ? name.Count("h") : hkv;
  const std::string* cache = name.Arg("cache");
  if (!n || !h || !hkv || !d || *n == 0 || *hkv == 0 || *h % *hkv != 0 || *d == 0 || *d % 8 != 0) return {};
  if (cache == nullptr || *cache != "cold") return {};
  ShapedRow shaped{&row, static_cast<double>(*n), {}};
  shaped.shape.kind = AttentionKind::kFull;
  shaped.shape.n_heads = *h;
  shaped.shape.n_kv_heads = *hkv;
  shaped.shape.d_head_k = shaped.shape.d_head_v = *d;
  shaped.shape.position.rope.d_rot = *d;  // the rows turn whole heads
  return shaped;
}

// The row with these arguments and no others that is nearest in group, d_head and n.
std::optional<ShapedRow> NearestRow(const Pass& pass, std::string_view family, std::string_view variant,
                                    std::vector<std::string_view> keys, std::optional<size_t> gap) {
  const Attention& layer = *pass.layers.front();
  const Machine& machine = *pass.request.machine;
  std::optional<ShapedRow> nearest;
  const auto distance = [&](const ShapedRow& row) {
    // Rows of the cache alone have no query heads.
    const double group = family == "kv_cache" ? 0
                                              : LogRatio(row.shape.n_heads * layer.n_kv_heads,
                                                         layer.n_heads * row.shape.n_kv_heads);
    return std::make_tuple(group, LogRatio(row.shape.d_head_k, layer.d_head_k),
                           LogRatio(row.n, pass.Keys(layer)));
  };
  for (const MeasuredRow& row : machine.rows) {
    const RowName& name = row.name;
    if (name.family != family || name.variant != variant || name.dtype != pass.format.name) continue;
    if (!machine.target.empty() && name.target != machine.target) continue;
    if (name.Count("threads") != static_cast<size_t>(pass.request.threads) || !(row.call_ns > 0)) continue;
    if (name.args.size() != keys.size() || name.Count("gap") != gap) continue;
    const bool known =
        std::all_of(keys.begin(), keys.end(), [&](std::string_view key) { return name.Arg(key) != nullptr; });
    const auto shaped = known ? Shaped(row) : std::nullopt;
    if (shaped && (!nearest || distance(*shaped) < distance(*nearest))) nearest = shaped;
  }
  return nearest;
}

KvShape ShapeFor(const Attention& attention, const BlockFormat& format) {
  return {ParseKvFormat(format.name).value(), attention.n_kv_heads, attention.d_head_k, attention.d_head_v};
}

// The row's time at every layer, by the bytes that `bytes` says; milliseconds.
double ScaledMs(const Pass& pass, const ShapedRow& row,
                const std::function<double(const Attention&, double n)>& bytes) {
  const double ns_per_byte = row.row->call_ns / bytes(row.shape, row.n);
  double ns = 0;
  for (const Attention* layer : pass.layers) ns += ns_per_byte * bytes(*layer, pass.Keys(*layer));
  return ns / 1e6;
}

// Turned or not, the same bytes move.
double EvictBytes(const BlockFormat& format, const Attention& attention, double n) {
  constexpr size_t kKept = kKvTile;  // the rows keep the first block
  if (n <= static_cast<double>(kKept + kEvictGap)) return 0;
  return EvictCost(ShapeFor(attention, format), static_cast<size_t>(n), kKept, kKept + kEvictGap, {}).Bytes();
}

std::optional<TurnBreakEven> BreakEven(const Pass& pass) {
  const auto unrotated =
      NearestRow(pass, "attention", "decode_unrotated", {"n", "h", "hkv", "d", "cache", "threads"}, {});
  const std::vector<std::string_view> evict_keys = {"n", "hkv", "d", "gap", "cache", "threads"};
  const auto evict = NearestRow(pass, "kv_cache", "evict", evict_keys, kEvictGap);
  if (!unrotated || !evict || pass.Keys(*pass.layers.front()) <= kKvTile + kEvictGap) return std::nullopt;
  const KernelRates rates(*pass.request.machine, pass.request.threads);
  const auto rotated = rates.DecodeAttention(pass.format, unrotated->shape, unrotated->n);
  if (!rotated || evict->n <= kKvTile + kEvictGap) return std::nullopt;
  TurnBreakEven turn;
  turn.format = pass.format.name;
  const auto read_bytes = [&](const Attention& attention, double n) {
    return n * static_cast<double>(KvBytesPerToken(attention, pass.format));
  };
  const double share = 1 - rotated->ns / unrotated->row->call_ns;
  turn.turning_ms = share * ScaledMs(pass, *unrotated, read_bytes);
  const auto evict_bytes = [&](const Attention& attention, double n) {
    return EvictBytes(pass.format, attention, n);
  };
  turn.evicting_ms = ScaledMs(pass, *evict, evict_bytes);
  turn.rows = {unrotated->row->name.Text(), rotated->row, evict->row->name.Text()};
  const auto moving = NearestRow(pass, "kv_cache", "evict_position_free", evict_keys, kEvictGap);
  if (moving && moving->n == evict->n) {
    turn.moving_ms = ScaledMs(pass, *moving, evict_bytes);
    turn.rows.push_back(moving->row->name.Text());
  }
  if (turn.turning_ms > 0) {
    turn.steps = std::max(0.0, turn.evicting_ms - turn.moving_ms.value_or(0)) / turn.turning_ms;
  }
  return turn;
}

std::optional<Reschedule> RescheduleOf(const Pass& pass) {
  const auto row = NearestRow(pass, "kv_cache", "reschedule", {"n", "hkv", "d", "cache", "threads"}, {});
  if (!row) return std::nullopt;
  Reschedule reschedule;
  reschedule.format = pass.format.name;
  reschedule.row = row->row->name.Text();
  reschedule.ms = ScaledMs(pass, *row, [&](const Attention& attention, double n) {
    return RescheduleKeysCost(ShapeFor(attention, pass.format), static_cast<size_t>(n),
                              attention.position.d_rot())
        .Bytes();
  });
  PredictRequest request = pass.request;
  request.kv = pass.format;
  const Prediction prediction = Predict(request);
  reschedule.prefill_limit_seconds = prediction.prefill.limit.value->seconds;
  if (const auto& kernels = prediction.prefill.kernels.value) {
    reschedule.prefill_kernels_seconds = kernels->seconds;
  }
  return reschedule;
}

}  // namespace

RotationUpkeep RotationUpkeepOf(const PredictRequest& request) {
  RotationUpkeep upkeep;
  const std::vector<const Attention*> layers = RotaryLayers(request.llm);
  if (layers.empty()) return upkeep;
  for (const std::string& name : KvFormatNames()) {
    const Pass pass{request, FindKvFormat(name, {"cache", "format"}), layers};
    if (auto turn = BreakEven(pass)) upkeep.turns.push_back(*std::move(turn));
    if (auto reschedule = RescheduleOf(pass)) upkeep.reschedules.push_back(*std::move(reschedule));
  }
  return upkeep;
}

}  // namespace ropeline
