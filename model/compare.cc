#include "model/compare.h"

namespace ropeline {
namespace {

RowFilter FilterOf(const CompareRequest& request) {
  RowFilter filter{.encodings = request.Encodings()};
  const Attention* attention = request.PrefillAttention();
  if (attention == nullptr) return filter;
  if (request.given_heads || request.given_d_head) filter.d_model = request.llm.d_model;
  if (request.given_heads) {
    filter.score_heads = attention->n_heads;
    filter.rotated_heads = attention->n_heads + attention->n_kv_heads;
  }
  if (request.given_d_head) filter.d_head = attention->d_head_k;
  return filter;
}

}  // namespace

Comparison Compare(const CompareRequest& request, const Machine& machine) {
  const std::vector<MeasuredEncoding> measured = MeasuredEncodings(machine, request.threads, request.dtype);
  const Attention* attention = request.PrefillAttention();
  Comparison out;
  out.rows = Select(measured, FilterOf(request));
  out.shares = EncodingShares(request, machine, measured);
  out.rejected = Rejections(request);
  out.laws = FitLaws(Select(measured, {.encodings = request.Encodings()}),
                     attention == nullptr || attention->causal);
  out.ways = WaysToPay(request, machine);
  out.curve = PrefillCurve(request, machine, measured);
  return out;
}

}  // namespace ropeline
