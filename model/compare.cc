#include "model/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "kernels/registry.h"
#include "model/limit_terms.h"

namespace ropeline {
namespace {

// The shape that a placement row's name describes; nothing where an argument is missing.
std::optional<Shape> ShapeOf(Placement placement, const RowName& name) {
  const auto n = name.Count("n");
  const auto h = name.Count("h");
  const auto d = name.Count("d");
  const auto causal = name.Count("causal");
  Shape shape;
  // Nothing to do, or more than any run did, is no row of ours.
  const auto odd = [](const std::optional<size_t>& count) {
    return count && (*count == 0 || *count > 1 << 28);
  };
  if (!n || odd(n) || odd(h) || odd(d)) return std::nullopt;
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
    case Placement::kQkRotation:  // h counts the heads of Q and of K
      if (!h || !d) return std::nullopt;
      shape.n_heads = *h;
      shape.d_head = *d;
      return shape;
  }
  return std::nullopt;
}

std::optional<MeasuredEncoding> Measured(const Encoding& encoding, const MeasuredRow& row,
                                         const Machine& machine, int threads) {
  if (row.name.family != PlacementName(encoding.placement) || row.name.variant != encoding.name)
    return std::nullopt;
  if (row.name.Count("threads") != static_cast<size_t>(threads) || !(row.call_ns > 0)) return std::nullopt;
  if (!machine.target.empty() && row.name.target != machine.target) return std::nullopt;
  const auto shape = ShapeOf(encoding.placement, row.name);
  const std::string* cache = row.name.Arg("cache");
  if (!shape || cache == nullptr || encoding.reject(*shape) != nullptr) return std::nullopt;
  MeasuredEncoding out;
  out.encoding = &encoding;
  out.shape = *shape;
  out.cold = *cache == "cold";
  out.cost = encoding.cost(*shape);
  out.working_set_bytes = row.working_set_bytes.value_or(out.cost.bytes_read);
  const LimitTime limit = machine.roofline.TimeAtLimit(out.cost, TrafficOf(encoding.placement), threads,
                                                       out.cold ? kMainMemoryBytes : out.working_set_bytes);
  out.limit_ns = limit.seconds * 1e9;
  out.bound = limit.bound;
  out.measured_ns = row.call_ns;
  out.row = row.name.Text();
  out.tainted = row.tainted;
  return out;
}

void RequireMatches(const std::vector<uint64_t>& wanted, const std::set<uint64_t>& measured,
                    const Where& where) {
  for (const uint64_t value : wanted) {
    if (measured.count(value)) continue;
    std::string list;
    for (const uint64_t known : measured) list += (list.empty() ? "" : ", ") + std::to_string(known);
    throw BadInput(where, std::to_string(value) + " was not measured",
                   list.empty() ? "no list at all" : "any of " + list);
  }
}

// d_model or d_head; nothing for a score bias.
std::optional<uint64_t> WidthOf(const MeasuredEncoding& row) {
  switch (row.encoding->placement) {
    case Placement::kInputAdd:
      return row.shape.d_model;
    case Placement::kScoreBias:
      return std::nullopt;
    case Placement::kQkRotation:
      return row.shape.d_head;
  }
  return std::nullopt;
}

// One layer's, and the whole pass's, matrices and attention at the limit.
struct PassTime {
  double layer_ms = 0;
  double pass_ms = 0;
};

PassTime TimeWithoutPosition(const ShareRequest& request, const Machine& machine, Phase phase, uint64_t n) {
  const auto time = [&](const Llm& llm) {
    const WeightLayout weights = LayOutWeights(llm, request.weights);
    const Workload work{&llm, &weights, &request.kv, n, 1};
    const auto terms = phase == Phase::kPrefill ? PrefillTermsAtLimit(work, machine, request.threads)
                                                : DecodeTermsAtLimit(work, machine, request.threads);
    double ms = 0;
    for (const Term& term : terms) ms += term.name == "position_encoding" ? 0 : term.ms;
    return ms;
  };
  Llm layers = request.llm;
  std::erase_if(layers.matrices, [](const Matrix& matrix) {
    return matrix.role == MatrixRole::kTokenEmbedding || matrix.role == MatrixRole::kOutput;
  });
  const Stack stack = phase == Phase::kPrefill ? PrefillStack(layers) : Stack::kDecoder;
  return {time(layers) / static_cast<double>(layers.NumLayers(stack)), time(request.llm)};
}

// The row of the encoding whose working set is nearest; of equals, a cold one in prefill (its tensor was just
// written by a matrix product over all tokens) and a hot one in decode.
const MeasuredEncoding* Nearest(const std::vector<MeasuredEncoding>& rows, const PositionWork& work,
                                Phase phase) {
  const MeasuredEncoding* nearest = nullptr;
  const auto distance = [&](const MeasuredEncoding& row) {
    return std::abs(std::log(row.cost.bytes_read / work.cost.bytes_read));
  };
  for (const MeasuredEncoding& row : rows) {
    if (row.encoding != work.encoding || !row.Ratio() || row.shape.causal != work.shape.causal) continue;
    const bool preferred = row.cold == (phase == Phase::kPrefill);
    if (nearest == nullptr || distance(row) < distance(*nearest) ||
        (distance(row) == distance(*nearest) && preferred)) {
      nearest = &row;
    }
  }
  return nearest;
}

// The self attention whose tensors a pass of this phase has.
const Attention* AttentionOf(const Llm& llm, Phase phase) {
  const Stack stack = phase == Phase::kPrefill ? PrefillStack(llm) : Stack::kDecoder;
  for (const Layer& layer : llm.layers) {
    if (layer.stack == stack && layer.self.kind != AttentionKind::kNone) return &layer.self;
  }
  return nullptr;
}

}  // namespace

std::optional<double> MeasuredEncoding::Ratio() const {
  if (bound == Bound::kUnknown) return std::nullopt;
  return measured_ns / limit_ns;
}

std::vector<MeasuredEncoding> MeasuredEncodings(const Machine& machine, int threads) {
  std::vector<MeasuredEncoding> rows;
  for (const Encoding* encoding : AllEncodings()) {
    for (const MeasuredRow& row : machine.rows) {
      if (auto measured = Measured(*encoding, row, machine, threads)) rows.push_back(std::move(*measured));
    }
  }
  return rows;
}

std::vector<MeasuredEncoding> Select(const std::vector<MeasuredEncoding>& rows,
                                     const std::vector<uint64_t>& n, const std::vector<uint64_t>& d,
                                     const Where& n_where, const Where& d_where) {
  std::set<uint64_t> measured_n, measured_d;
  for (const MeasuredEncoding& row : rows) {
    measured_n.insert(row.shape.n);
    if (const auto width = WidthOf(row)) measured_d.insert(*width);
  }
  RequireMatches(n, measured_n, n_where);
  RequireMatches(d, measured_d, d_where);
  const auto wanted = [](const std::vector<uint64_t>& list, uint64_t value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  std::vector<MeasuredEncoding> selected;
  for (const MeasuredEncoding& row : rows) {
    const auto width = WidthOf(row);
    if (wanted(n, row.shape.n) && (!width || wanted(d, *width))) selected.push_back(row);
  }
  return selected;
}

std::vector<EncodingShare> EncodingShares(const ShareRequest& request, const Machine& machine,
                                          const std::vector<MeasuredEncoding>& measured) {
  std::vector<EncodingShare> shares;
  const Llm& llm = request.llm;
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    const Attention* attention = AttentionOf(llm, phase);
    if (attention == nullptr) continue;
    const Stack stack = phase == Phase::kPrefill ? PrefillStack(llm) : Stack::kDecoder;
    for (const uint64_t n : request.contexts) {
      const PassTime time = TimeWithoutPosition(request, machine, phase, n);
      for (const Encoding* encoding : AllEncodings()) {
        PositionWork work = WorkOf(llm, PositionFor(*encoding, *attention), attention, phase, n, 1);
        EncodingShare share;
        share.encoding = encoding;
        share.phase = phase;
        share.n = n;
        share.whole_pass = encoding->placement == Placement::kInputAdd;
        share.applications = share.whole_pass ? 1 : static_cast<double>(llm.NumLayers(stack));
        share.cost = work.cost;
        if (encoding->placement == Placement::kScoreBias) {
          share.score_bytes = 4 * static_cast<double>(TensorElements(encoding->placement, work.shape));
        }
        const MeasuredEncoding* nearest = Nearest(measured, work, phase);
        if (nearest != nullptr && nearest->cold) work.working_set_bytes = kMainMemoryBytes;
        share.limit_ms = TimeOf(work, machine, request.threads).seconds * 1e3;
        if (nearest != nullptr) share.ratio_row = nearest->row;
        if (nearest != nullptr) share.ratio = nearest->Ratio();
        // Faster than its limit means a limit measured too low, not a faster kernel.
        share.expected_ms = share.limit_ms * std::max(1.0, share.ratio.value_or(1));
        share.beside_ms = share.whole_pass ? time.pass_ms : time.layer_ms;
        shares.push_back(std::move(share));
      }
    }
  }
  return shares;
}

}  // namespace ropeline
