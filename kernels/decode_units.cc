#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/decode_attention.h"
#include "kernels/decode_visible.h"
#include "kernels/softmax_state.h"
#include "kernels/unrotated_keys.h"

namespace ropeline {

const char* BiasKindName(BiasKind kind) {
  switch (kind) {
    case BiasKind::kNone:
      return "none";
    case BiasKind::kSlope:
      return "alibi";
    case BiasKind::kByDistance:
      return "t5";
    case BiasKind::kSoftCap:
      return "soft_cap";
  }
  return "";
}

size_t VisibleTokens(const DecodeAttention& call, size_t n) {
  const Visible visible = VisibleOf(call, n);
  return visible.sinks + visible.end - visible.first;
}

size_t VisibleTokens(const DecodeAttention& call) { return VisibleTokens(call, call.cache->n()); }

size_t DecodeSlices(const DecodeAttention& call, size_t threads) {
  const size_t heads = call.cache->shape().n_kv_heads;
  return std::max<size_t>(threads, 1) / std::gcd(heads, std::max<size_t>(threads, 1));
}

size_t PartialFloats(const DecodeAttention& call) {
  return call.Group() * (call.cache->shape().d_head_v + 2);
}

void MergeUnits(const DecodeAttention& call, size_t head, size_t heads, size_t slices, const float* partials,
                float* out) {
  const size_t d = call.cache->shape().d_head_v, group = call.Group();
  for (size_t h = head; h < head + heads; ++h) {
    for (size_t r = 0; r < group; ++r) {
      const auto part = [&](size_t s) {
        return partials + (h * slices + s) * PartialFloats(call) + r * (d + 2);
      };
      const float* sink = call.bias.sink_logits;
      float largest = sink != nullptr ? sink[h * group + r] : kLowestScore;
      for (size_t s = 0; s < slices; ++s) largest = std::max(largest, part(s)[d]);
      // Where the sink is infinite it takes all.
      float weights = 0;
      if (sink != nullptr)
        weights = sink[h * group + r] == largest ? 1 : std::exp(sink[h * group + r] - largest);
      float* to = out + (h * group + r) * d;
      std::fill_n(to, d, 0.0f);
      for (size_t s = 0; s < slices; ++s) {
        const float factor = std::exp(part(s)[d] - largest);
        weights += factor * part(s)[d + 1];
        for (size_t i = 0; i < d; ++i) to[i] += factor * part(s)[i];
      }
      // NaN weights stay NaN; no weights at all: no visible key.
      const float inverse = weights == 0 ? 0 : 1 / weights;
      for (size_t i = 0; i < d; ++i) to[i] *= inverse;
    }
  }
}

void Attend(const DecodeAttention& call, float* out) {
  const size_t heads = call.cache->shape().n_kv_heads;
  if (heads == 0) return;
  std::vector<float> partials(heads * PartialFloats(call));
  for (size_t h = 0; h < heads; ++h) AttendUnit(call, h, 1, partials.data() + h * PartialFloats(call));
  MergeUnits(call, 0, heads, 1, partials.data(), out);
}

Cost DecodeAttentionCost(const DecodeAttention& call) {
  return DecodeAttentionCost(call, static_cast<double>(VisibleTokens(call)));
}

Cost DecodeAttentionCost(const DecodeAttention& call, double tokens) {
  const KvShape& shape = call.cache->shape();
  const auto heads = static_cast<double>(call.n_heads);
  const auto d_k = static_cast<double>(shape.d_head_k), d_v = static_cast<double>(shape.d_head_v);
  const Cost cost{.bytes_read = tokens * shape.BytesPerToken() + 4 * heads * d_k,
                  .bytes_written = 4 * heads * d_v,
                  .flops = 2 * heads * tokens * (d_k + d_v)};
  if (call.unrotated == nullptr) return cost;
  return cost + TurnWhileReadingCost(*call.unrotated, call.n_heads, shape.n_kv_heads, tokens);
}

}  // namespace ropeline
