#include "bench/peer/cross_check_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/peer/ggml_fill.h"
#include "kernels/decode_attention.h"
#include "kernels/dtype.h"
#include "kernels/prefill_attention.h"
#include "kernels/score_bias.h"

namespace ropeline {

namespace {

using ggml::Type;

constexpr float kAlibiMaxBias = 8;  // of which AlibiSlopes are the slopes

int64_t Int(size_t n) { return static_cast<int64_t>(n); }

Type GgmlTypeOf(KvFormat format) {
  switch (format) {
    case KvFormat::kF16:
      return Type::kF16;
    case KvFormat::kQ80:
      return Type::kQ8_0;
    case KvFormat::kQ40:
      return Type::kQ4_0;
    default:
      return Type::kF32;
  }
}

// Elements of one of ggml's rows as numbers: block_q8_0 {f16 d, int8 q[32]}, block_q4_0 {f16 d, uint8 q[16]}
// with element j in the low and element j + 16 in the high half (ggml-common.h).
double GgmlElement(Type type, const char* row, size_t i) {
  if (type == Type::kF32) return static_cast<double>(LoadElement(Dtype::kF32, row, i));
  if (type == Type::kF16) return static_cast<double>(LoadElement(Dtype::kF16, row, i));
  const char* const block = row + i / 32 * (type == Type::kQ8_0 ? 34 : 18);
  const float scale = LoadElement(Dtype::kF16, block, 0);
  const size_t j = i % 32;
  if (type == Type::kQ8_0)
    return static_cast<double>(scale * static_cast<float>(static_cast<int8_t>(block[2 + j])));
  const unsigned both = static_cast<uint8_t>(block[2 + j % 16]);
  return static_cast<double>(scale * (static_cast<float>(j < 16 ? both & 15 : both >> 4) - 8));
}

// [n_kv_heads, n, d] of a tensor {d, n_kv_heads, n}.
std::vector<double> Numbers(const GgmlSession& session, Type type, const ggml::Tensor* tensor,
                            const AttentionCase& c) {
  const size_t row_bytes = session.Bytes(tensor) / (c.n * c.n_kv_heads);
  std::vector<double> numbers(c.n_kv_heads * c.n * c.d_head);
  for (size_t h = 0; h < c.n_kv_heads; ++h) {
    for (size_t t = 0; t < c.n; ++t) {
      const char* row = static_cast<const char*>(session.Data(tensor)) + (t * c.n_kv_heads + h) * row_bytes;
      for (size_t i = 0; i < c.d_head; ++i) {
        numbers[(h * c.n + t) * c.d_head + i] = GgmlElement(type, row, i);
      }
    }
  }
  return numbers;
}

// What flash_attn_ext makes of q before it multiplies it with keys.
std::vector<double> RoundedQuery(const float* q, size_t d, GgmlRounding rounding) {
  std::vector<double> out(d);
  for (size_t start = 0; start < d; start += 32) {
    float largest = 0;
    for (size_t i = start; i < start + 32; ++i) largest = std::max(largest, std::abs(q[i]));
    // As the x86 code of quantize_row_q8_0 does it, which multiplies by 127/largest.
    const float scale = FloatFromF16(F16FromFloat(largest / 127)), inverse = largest != 0 ? 127 / largest : 0;
    for (size_t i = start; i < start + 32; ++i) {
      if (rounding == GgmlRounding::kNone) {
        out[i] = static_cast<double>(q[i]);
      } else if (rounding == GgmlRounding::kHalf) {
        out[i] = static_cast<double>(FloatFromF16(F16FromFloat(q[i])));
      } else {
        out[i] = static_cast<double>(scale) * std::nearbyint(static_cast<double>(q[i] * inverse));
      }
    }
  }
  return out;
}

}  // namespace

std::string AttentionCase::Text() const {
  std::string text = fmt::format("{} n {} queries {} heads {}/{} d {}", KvFormatName(format), n, n_q, n_heads,
                                 n_kv_heads, d_head);
  if (alibi) text += " alibi";
  if (soft_cap != 0) text += fmt::format(" cap {}", soft_cap);
  if (window != 0) text += fmt::format(" window {}+{}", window, first_kept);
  if (sink_logits) text += " sinks";
  return text;
}

AttentionInputs::AttentionInputs(const AttentionCase& c)
    : q(ropeline::Numbers(c.n_q * c.n_heads * c.d_head, 1, 3)),
      k(ropeline::Numbers(c.n * c.n_kv_heads * c.d_head, 2)),
      v(ropeline::Numbers(c.n * c.n_kv_heads * c.d_head, 3)),
      logits(ropeline::Numbers(c.n_heads, 4, 4)),
      cache(KvShape{c.format, c.n_kv_heads, c.d_head, c.d_head}, c.n),
      case_(c),
      scale_(1 / std::sqrt(static_cast<float>(c.d_head))) {
  for (const double slope : AlibiSlopes(c.n_heads)) slopes.push_back(static_cast<float>(slope));
  cache.Append(k.data(), v.data(), c.n);
  bias_.kind = c.alibi ? BiasKind::kSlope : c.soft_cap != 0 ? BiasKind::kSoftCap : BiasKind::kNone;
  bias_.slopes = slopes.data();
  bias_.cap = c.soft_cap;
  bias_.window = c.window;
  bias_.sinks = c.first_kept;
  bias_.sink_logits = c.sink_logits ? logits.data() : nullptr;
}

std::vector<float> AttentionByUs(const AttentionInputs& in) {
  const AttentionCase& c = in.Case();
  std::vector<float> out(c.n_q * c.n_heads * c.d_head, -7);
  if (c.n_q == 1) {
    Attend({.cache = &in.cache,
            .n_heads = c.n_heads,
            .q = in.q.data(),
            .scale = in.Scale(),
            .position = c.n - 1,
            .bias = in.Bias()},
           out.data());
  } else {
    AttendPrefill({.cache = &in.cache,
                   .n_heads = c.n_heads,
                   .n_q = c.n_q,
                   .q = in.q.data(),
                   .first_position = c.n - c.n_q,
                   .scale = in.Scale(),
                   .bias = in.Bias()},
                  out.data());
  }
  return out;
}

std::optional<GgmlResult> AttentionByGgml(const std::shared_ptr<const GgmlLibrary>& library,
                                          const AttentionInputs& in) {
  const AttentionCase& c = in.Case();
  const Type type = GgmlTypeOf(c.format);
  GgmlSession session(library, {});
  ggml::Tensor* q = session.New(Type::kF32, Int(c.d_head), Int(c.n_heads), Int(c.n_q));
  std::memcpy(session.Data(q), in.q.data(), 4 * in.q.size());
  ggml::Tensor* k = session.New(type, Int(c.d_head), Int(c.n_kv_heads), Int(c.n));
  ggml::Tensor* v = session.New(type, Int(c.d_head), Int(c.n_kv_heads), Int(c.n));
  EncodeRows(*library, type, in.k.data(), c.d_head, c.n * c.n_kv_heads, session.Data(k));
  EncodeRows(*library, type, in.v.data(), c.d_head, c.n * c.n_kv_heads, session.Data(v));
  ggml::Tensor* mask = session.New(Type::kF16, Int(c.n), Int(c.n_q));
  auto* const bits = static_cast<uint16_t*>(session.Data(mask));
  for (size_t t = 0; t < c.n_q; ++t) {
    const size_t position = c.n - c.n_q + t;
    for (size_t key = 0; key < c.n; ++key) {
      const bool seen = ReferenceSees(in.Bias(), true, position, key);
      const float bias = c.alibi ? -static_cast<float>(position - key) : 0;
      bits[t * c.n + key] = F16FromFloat(seen ? bias : -INFINITY);
    }
  }
  ggml::Tensor* sinks = nullptr;
  if (c.sink_logits) {
    sinks = session.New(Type::kF32, Int(c.n_heads));
    std::memcpy(session.Data(sinks), in.logits.data(), 4 * c.n_heads);
  }
  ggml::Tensor* out = session.Attend(
      q, k, v, mask, {.scale = in.Scale(), .max_bias = c.alibi ? kAlibiMaxBias : 0, .soft_cap = c.soft_cap},
      sinks);
  if (out == nullptr) return std::nullopt;
  session.Compute();
  GgmlResult result;
  result.out.assign(session.Floats(out), session.Floats(out) + in.q.size());
  result.keys = Numbers(session, type, k, c);
  result.values = Numbers(session, type, v, c);
  return result;
}

std::vector<GgmlRounding> PossibleRoundings(KvFormat format) {
  if (IsQuantised(format)) return {GgmlRounding::kQueryInWholeParts};
  if (format == KvFormat::kF16) return {GgmlRounding::kHalf, GgmlRounding::kNone};
  return {GgmlRounding::kNone};
}

ExpectedRow ExpectedOfGgml(const AttentionInputs& in, const GgmlResult& result, GgmlRounding rounding,
                           size_t t, size_t head) {
  const AttentionCase& c = in.Case();
  const size_t d = c.d_head, kv_head = head / c.Group(), position = c.n - c.n_q + t;
  const std::vector<double> q = RoundedQuery(in.Query(t, head), d, rounding);
  // Key after key, the sum of weighted values scaled down at each new largest score, as ggml goes.
  const double unit = rounding == GgmlRounding::kHalf ? RoundingUnit(Dtype::kF16) : 0;
  std::vector<double> sum(d), variance(d);
  double weights = 0, largest = -HUGE_VAL;
  const auto round = [&](double times) {
    for (size_t i = 0; i < d; ++i) {
      variance[i] = variance[i] * times * times + unit * unit * sum[i] * sum[i] / 3;
    }
  };
  const auto rescale = [&](double score) {
    const double times = std::exp(largest - score);
    for (double& x : sum) x *= times;
    round(times);
    weights *= times;
    largest = score;
  };
  for (size_t key = 0; key < c.n; ++key) {
    if (!ReferenceSees(in.Bias(), true, position, key)) continue;
    const double* const row = result.keys.data() + (kv_head * c.n + key) * d;
    double dot = 0;
    for (size_t i = 0; i < d; ++i) dot += q[i] * row[i];
    const double score =
        ReferenceScore(in.Bias(), head, position, key, static_cast<double>(in.Scale()) * dot);
    if (score > largest) rescale(score);
    const double weight = std::exp(score - largest);
    const double* const value = result.values.data() + (kv_head * c.n + key) * d;
    for (size_t i = 0; i < d; ++i) sum[i] += weight * value[i];
    round(1);
    weights += weight;
  }
  if (c.sink_logits) {
    const auto logit = static_cast<double>(in.logits[head]);
    if (logit > largest) rescale(logit);
    weights += std::exp(logit - largest);
  }
  ExpectedRow expected{std::vector<double>(d), std::vector<double>(d)};
  for (size_t i = 0; i < d && weights != 0; ++i) {
    expected.out[i] = sum[i] / weights;
    // Roundings to f16 are taken as independent and even within half a step each (Higham & Mary 2019, "A new
    // approach to probabilistic rounding error analysis"): five standard deviations.
    expected.allowed[i] = kAllowedOfSums + 5 * std::sqrt(variance[i]) / weights;
  }
  return expected;
}

}  // namespace ropeline
