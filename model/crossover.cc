#include "model/crossover.h"

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "model/limit_terms.h"

namespace ropeline {
namespace {

// a·n² + b·n + c
struct Polynomial {
  double a = 0, b = 0, c = 0;

  void Add(const Polynomial& other, double times) {
    a += other.a * times;
    b += other.b * times;
    c += other.c * times;
  }
};

constexpr double kNever = std::numeric_limits<double>::infinity();

// Keys and pairs of an attention as polynomials on an interval of n that ends at `end` and crosses no
// window's edge.
Polynomial KeysOn(const Attention& attention, double end) {
  if (attention.kind == AttentionKind::kNone) return {};
  const auto window = static_cast<double>(attention.window);
  if (attention.limited() && end > window) return {.c = window};
  if (attention.source_tokens) return {.c = static_cast<double>(*attention.source_tokens)};
  return {.b = 1};
}

Polynomial PairsOn(const Attention& attention, double end) {
  if (attention.kind == AttentionKind::kNone) return {};
  if (!attention.causal) return {.a = 1};
  const auto window = static_cast<double>(attention.window);
  if (attention.kind == AttentionKind::kWindow && end > window)
    return {.b = window, .c = -window * window / 2};
  if (attention.kind == AttentionKind::kChunked && end > window) return {.b = window / 2};  // whole chunks
  return {.a = 0.5};
}

// The first n > 0 where difference(end of n's interval) rises through zero.
std::optional<double> FirstRise(const std::set<double>& windows,
                                const std::function<Polynomial(double)>& difference) {
  double begin = 0;
  std::set<double> ends = windows;
  ends.insert(kNever);
  for (const double end : ends) {
    const Polynomial p = difference(end);
    double root = kNever;
    if (p.a > 0) {
      root = (-p.b + std::sqrt(std::max(0.0, p.b * p.b - 4 * p.a * p.c))) / (2 * p.a);
    } else if (p.b > 0) {
      root = -p.c / p.b;
    }
    if (root > begin && root <= end && root != kNever) return root;
    begin = end;
  }
  return std::nullopt;
}

}  // namespace

Crossovers FindCrossovers(const Llm& llm, const KvFormats& kv_formats, uint64_t weight_bytes,
                          uint64_t batch) {
  std::set<double> windows;
  for (const Layer& layer : llm.layers) {
    if (layer.self.limited()) windows.insert(static_cast<double>(layer.self.window));
  }
  // Sum over layers of `weight`(attention) · keys or pairs, less a constant and a slope.
  const auto kv_bytes = [&](const Attention& attention) {
    const bool keeps = attention.caches() || attention.kind == AttentionKind::kCross;
    return keeps ? static_cast<double>(KvBytesPerToken(attention, kv_formats)) : 0;
  };
  const auto decoder = [&](double end, const std::function<double(const Attention&)>& weight, double times) {
    Polynomial sum;
    for (const Layer& layer : llm.layers) {
      if (layer.stack != Stack::kDecoder) continue;
      for (const Attention* attention : {&layer.self, &layer.cross}) {
        sum.Add(KeysOn(*attention, end), weight(*attention) * times);
      }
    }
    return sum;
  };
  const auto state_bytes = static_cast<double>(LayOutKv(llm, kv_formats, 1).total.state_bytes);
  Crossovers found;
  found.kv_equals_weights = FirstRise(windows, [&](double end) {
    Polynomial sum = decoder(end, kv_bytes, static_cast<double>(batch));
    sum.c += static_cast<double>(batch) * state_bytes - static_cast<double>(weight_bytes);
    return sum;
  });
  found.decode_attention_equals_linear = FirstRise(windows, [&](double end) {
    Polynomial sum = decoder(end, &Attention::FlopsPerPair, 1);
    sum.c -= 2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::decode));
    return sum;
  });
  found.prefill_attention_equals_linear = FirstRise(windows, [&](double end) {
    Polynomial sum;
    for (const Layer& layer : llm.layers) {
      if (layer.stack == PrefillStack(llm))
        sum.Add(PairsOn(layer.self, end), layer.self.ExpandedFlopsPerPair());
    }
    sum.b -= 2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_each));
    sum.c -= 2 * static_cast<double>(llm.ElementsUsed(&MatrixUse::prefill_last));
    return sum;
  });
  return found;
}

}  // namespace ropeline
