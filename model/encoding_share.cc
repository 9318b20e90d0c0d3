#include "model/encoding_share.h"

#include <algorithm>

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

void SetTime(const CompareRequest& request, const Machine& machine,
             const std::vector<MeasuredEncoding>& measured, const PositionWork& work, EncodingShare* share) {
  const EncodingTime time = TimeFromRows(work, share->phase, measured, machine, request.threads);
  share->source = time.source;
  share->limit_ms = time.limit_ms;
  share->expected_ms = time.expected_ms;
  if (time.row == nullptr) return;
  share->ratio_row = time.row->row;
  share->ratio_row_n = time.row->shape.n;
  share->ratio_row_cold = time.row->cold;
  share->ratio = time.row->Ratio();
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
