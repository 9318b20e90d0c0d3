#include "model/encoding_share.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/registry.h"
#include "model/limit_terms.h"

namespace ropeline {
namespace {

PassTime TimeWithoutPosition(const CompareRequest& request, const Machine& machine, Phase phase, uint64_t n) {
  const auto time = [&](const Llm& llm) {
    const WeightLayout weights = LayOutWeights(llm, request.weights);
    const Workload work{&llm, &weights, &request.kv, n, 1};
    const auto terms = phase == Phase::kPrefill ? PrefillTermsAtLimit(work, machine, request.threads)
                                                : DecodeTermsAtLimit(work, machine, request.threads);
    double ms = 0;
    for (const Term& term : terms) ms += term.ms;
    return ms;
  };
  Llm whole = request.llm;
  whole.input_position = {};
  for (Layer& layer : whole.layers) layer.self.position = {};
  Llm layers = whole;
  std::erase_if(layers.matrices, [](const Matrix& matrix) {
    return matrix.role == MatrixRole::kTokenEmbedding || matrix.role == MatrixRole::kOutput;
  });
  const Stack stack = phase == Phase::kPrefill ? PrefillStack(layers) : Stack::kDecoder;
  return {time(layers) / static_cast<double>(layers.NumLayers(stack)), time(whole)};
}

bool SameShape(Placement placement, const Shape& a, const Shape& b) {
  if (a.n != b.n) return false;
  switch (placement) {
    case Placement::kInputAdd:
      return a.d_model == b.d_model;
    case Placement::kScoreBias:
      return a.n_k == b.n_k && a.n_heads == b.n_heads && a.causal == b.causal;
    case Placement::kQkRotation:
      return a.n_heads + a.n_kv_heads == b.n_heads + b.n_kv_heads && a.d_head == b.d_head &&
             a.Rotated() == b.Rotated();
  }
  return false;
}

bool PartOfHead(const Shape& shape) { return shape.Rotated() < shape.d_head; }

// The rows from which the time of `work` may follow, and the one that is nearest: one of the same shape, else
// the nearest working set. Of equals, a cold one in prefill (its tensor was just written by a matrix product
// over all tokens) and a hot one in decode.
struct Found {
  const MeasuredEncoding* row = nullptr;
  bool exact = false;
  bool beyond = false;  // smaller or larger than every row
};

Found FindRow(const std::vector<MeasuredEncoding>& rows, const PositionWork& work, Phase phase) {
  Found found;
  std::tuple<bool, bool, double, bool> best;
  double least = 0, most = 0;
  for (const MeasuredEncoding& row : rows) {
    if (row.encoding != work.encoding || !row.plain() || row.shape.causal != work.shape.causal) continue;
    if (!(row.cost.bytes_read > 0)) continue;
    // A window leaves a part of the scores: then the same shape is not the same work.
    const bool exact =
        SameShape(work.encoding->placement, row.shape, work.shape) && row.cost.Bytes() == work.cost.Bytes();
    if (!exact && !row.Ratio()) continue;
    const double size = row.cost.bytes_read;
    least = found.row == nullptr ? size : std::min(least, size);
    most = std::max(most, size);
    // Rotating a part of each head walks through memory in another way than rotating all of it.
    const auto distance = std::make_tuple(!exact, PartOfHead(row.shape) != PartOfHead(work.shape),
                                          std::abs(std::log(size / work.cost.bytes_read)),
                                          row.cold != (phase == Phase::kPrefill));
    if (found.row != nullptr && !(distance < best)) continue;
    best = distance;
    found = {&row, exact, false};
  }
  found.beyond = found.row != nullptr && (work.cost.bytes_read < least || work.cost.bytes_read > most);
  return found;
}

void SetTime(const CompareRequest& request, const Machine& machine,
             const std::vector<MeasuredEncoding>& measured, PositionWork work, EncodingShare* share) {
  if (work.cost.Bytes() == 0 && work.cost.flops == 0) {
    share->source = TimeSource::kNothing;
    return;
  }
  const Found found = FindRow(measured, work, share->phase);
  if (found.row != nullptr && found.row->cold) work.working_set_bytes = kMainMemoryBytes;
  const LimitTime limit = TimeOf(work, machine, request.threads);
  share->limit_ms = limit.seconds * 1e3;
  if (found.row != nullptr) {
    share->ratio_row = found.row->row;
    share->ratio_row_n = found.row->shape.n;
    share->ratio_row_cold = found.row->cold;
    share->ratio = found.row->Ratio();
  }
  if (found.exact) {
    share->source = TimeSource::kMeasured;
    share->expected_ms = found.row->measured_ns / 1e6 * work.calls;
  } else if (limit.bound == Bound::kUnknown) {
    share->source = TimeSource::kUnknown;
  } else {
    share->source = found.row == nullptr ? TimeSource::kLimit
                    : found.beyond       ? TimeSource::kExtrapolated
                                         : TimeSource::kScaled;
    // Faster than its limit means a limit measured too low, not a faster kernel.
    share->expected_ms = share->limit_ms * std::max(1.0, share->ratio.value_or(1));
  }
}

// The self attention whose tensors a pass of this phase has.
const Attention* AttentionOf(const Llm& llm, Phase phase) {
  const Stack stack = phase == Phase::kPrefill ? PrefillStack(llm) : Stack::kDecoder;
  for (const Layer& layer : llm.layers) {
    if (layer.stack == stack && layer.self.kind != AttentionKind::kNone) return &layer.self;
  }
  return nullptr;
}

std::vector<EncodingShare> SharesAt(const CompareRequest& request, const Machine& machine,
                                    const std::vector<MeasuredEncoding>& measured, Phase phase, uint64_t n,
                                    const PassTime& time) {
  std::vector<EncodingShare> shares;
  const Llm& llm = request.llm;
  const Attention* attention = AttentionOf(llm, phase);
  if (attention == nullptr) return shares;
  const Stack stack = phase == Phase::kPrefill ? PrefillStack(llm) : Stack::kDecoder;
  for (const Encoding* encoding : request.Encodings()) {
    const char* reason = nullptr;
    const auto work = TryWorkOf(llm, *encoding, PositionFor(*encoding, *attention), attention, phase, n, 1,
                                request.dtype, &reason);
    if (!work) continue;
    EncodingShare share;
    share.encoding = encoding;
    share.phase = phase;
    share.n = n;
    share.whole_pass = encoding->placement == Placement::kInputAdd;
    share.applications = share.whole_pass ? 1 : static_cast<double>(llm.NumLayers(stack));
    share.cost = work->cost;
    if (encoding->placement == Placement::kScoreBias && work->cost.Bytes() > 0) {
      share.score_bytes = static_cast<double>(DtypeBytes(request.dtype)) *
                          static_cast<double>(work->shape.n_heads) * static_cast<double>(work->shape.n) *
                          static_cast<double>(work->shape.n_k);
    }
    SetTime(request, machine, measured, *work, &share);
    share.beside_ms = share.whole_pass ? time.pass_ms : time.layer_ms;
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace

const char* TimeSourceName(TimeSource source) {
  switch (source) {
    case TimeSource::kMeasured:
      return "measured";
    case TimeSource::kScaled:
      return "scaled";
    case TimeSource::kExtrapolated:
      return "extrapolated";
    case TimeSource::kLimit:
      return "limit";
    case TimeSource::kNothing:
      return "nothing";
    case TimeSource::kUnknown:
      return "unknown";
  }
  return "";
}

const std::vector<const Encoding*>& CompareRequest::Encodings() const {
  return encodings.empty() ? AllEncodings() : encodings;
}

const Attention* CompareRequest::PrefillAttention() const { return AttentionOf(llm, Phase::kPrefill); }

std::vector<EncodingShare> EncodingShares(const CompareRequest& request, const Machine& machine,
                                          const std::vector<MeasuredEncoding>& measured) {
  std::vector<EncodingShare> shares;
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    for (const uint64_t n : request.contexts) {
      const PassTime time = TimeWithoutPosition(request, machine, phase, n);
      for (EncodingShare& share : SharesAt(request, machine, measured, phase, n, time)) {
        shares.push_back(std::move(share));
      }
    }
  }
  return shares;
}

std::vector<Rejection> Rejections(const CompareRequest& request) {
  std::vector<Rejection> rejections;
  for (const Encoding* encoding : request.Encodings()) {
    for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
      const Attention* attention = AttentionOf(request.llm, phase);
      if (attention == nullptr) continue;
      for (const uint64_t n : request.contexts) {
        const char* reason = nullptr;
        if (TryWorkOf(request.llm, *encoding, PositionFor(*encoding, *attention), attention, phase, n, 1,
                      request.dtype, &reason)) {
          continue;
        }
        rejections.push_back({encoding, phase, n, reason});
      }
    }
  }
  return rejections;
}

CostCurve PrefillCurve(const CompareRequest& request, const Machine& machine,
                       const std::vector<MeasuredEncoding>& measured) {
  CostCurve curve;
  for (uint64_t n = 128; n <= 131072; n *= 2) {
    const PassTime time = TimeWithoutPosition(request, machine, Phase::kPrefill, n);
    curve.n.push_back(n);
    curve.beside.push_back(time);
    for (EncodingShare& share : SharesAt(request, machine, measured, Phase::kPrefill, n, time)) {
      curve.points.push_back(std::move(share));
    }
  }
  return curve;
}

}  // namespace ropeline
