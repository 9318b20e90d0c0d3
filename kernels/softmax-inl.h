// The softmax of attention, a chunk of keys at a time, with its bias: for every Highway target.
//   m' = max(m, max s)    w = exp(s − m')    l' = l·exp(m − m') + Σ w    sums' = sums·exp(m − m') + w·V
// Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3. Included inside
// foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_SOFTMAX_INL_H_
#undef ROPELINE_KERNELS_SOFTMAX_INL_H_
#else
#define ROPELINE_KERNELS_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/attention_bias.h"
#include "kernels/exp-inl.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float ExpOfOne(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(Exp(d, hn::Set(d, x)));
}

// Scores of one query head, and keys from token `first` on.
template <BiasKind kBias>
class ScoreBias {
 public:
  ScoreBias(const AttentionBias& bias, size_t head, size_t position, size_t first) {
    distance_ = static_cast<float>(first) - static_cast<float>(position);
    if constexpr (kBias == BiasKind::kSlope) slope_ = bias.slopes[head];
    if constexpr (kBias == BiasKind::kSoftCap) slope_ = bias.cap;
    if constexpr (kBias == BiasKind::kByDistance) {
      row_ = bias.by_distance + static_cast<std::ptrdiff_t>(head * bias.stride + bias.origin + first) -
             static_cast<std::ptrdiff_t>(position);
    }
  }

  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V At(D d, size_t i, V score) const {
    if constexpr (kBias == BiasKind::kSlope) {
      return hn::MulAdd(hn::Set(d, slope_), hn::Iota(d, distance_ + static_cast<float>(i)), score);
    } else if constexpr (kBias == BiasKind::kByDistance) {
      return hn::Add(score, hn::LoadU(d, row_ + i));
    } else if constexpr (kBias == BiasKind::kSoftCap) {
      // tanh x = 1 − 2 / (exp 2x + 1), and 1 in f32 from x = 9.1 on.
      const V cap = hn::Set(d, slope_);
      const V twice = hn::Min(hn::Mul(score, hn::Set(d, 2 / slope_)), hn::Set(d, 80.0f));
      const V half = hn::Div(hn::Set(d, 2.0f), hn::Add(Exp(d, twice), hn::Set(d, 1.0f)));
      return hn::NegMulAdd(cap, half, cap);
    } else {
      return score;
    }
  }

 private:
  float distance_ = 0;
  float slope_ = 0;
  const float* row_ = nullptr;
};

// Calls f(the kind as a constant).
template <class F>
HWY_INLINE void WithBias(BiasKind kind, const F& f) {
  switch (kind) {
    case BiasKind::kNone:
      return f(std::integral_constant<BiasKind, BiasKind::kNone>());
    case BiasKind::kSlope:
      return f(std::integral_constant<BiasKind, BiasKind::kSlope>());
    case BiasKind::kByDistance:
      return f(std::integral_constant<BiasKind, BiasKind::kByDistance>());
    case BiasKind::kSoftCap:
      return f(std::integral_constant<BiasKind, BiasKind::kSoftCap>());
  }
}

// Largest of a chunk's scores once they have their bias. Of `columns` (a multiple of 32) those that do not
// count become −infinity.
template <BiasKind kBias>
HWY_INLINE float BiasScores(const ScoreBias<kBias>& bias, Seen seen, size_t columns,
                            float* HWY_RESTRICT scores) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const V lowest = hn::Set(d, kLowestScore);
  V largest0 = lowest, largest1 = lowest;
  const bool all = seen.high == columns && (seen.low == 0 || seen.sinks >= seen.low);
  if (all) {
    for (size_t i = 0; i < columns; i += 2 * lanes) {
      const V s0 = bias.At(d, i, hn::LoadU(d, scores + i));
      const V s1 = bias.At(d, i + lanes, hn::LoadU(d, scores + i + lanes));
      if constexpr (kBias != BiasKind::kNone) {
        hn::StoreU(s0, d, scores + i);
        hn::StoreU(s1, d, scores + i + lanes);
      }
      // In this order a NaN is passed over, not taken.
      largest0 = hn::Max(s0, largest0);
      largest1 = hn::Max(s1, largest1);
    }
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest0, largest1)));
  }
  const V hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const V low = hn::Set(d, static_cast<float>(seen.low)), high = hn::Set(d, static_cast<float>(seen.high));
  const V sinks = hn::Set(d, static_cast<float>(seen.sinks));
  for (size_t i = 0; i < columns; i += lanes) {
    if (i >= seen.high || (i >= seen.sinks && i + lanes <= seen.low)) {
      hn::StoreU(hidden, d, scores + i);
      continue;
    }
    V s = bias.At(d, i, hn::LoadU(d, scores + i));
    const V at = hn::Iota(d, static_cast<float>(i));
    s = hn::IfThenElse(hn::And(hn::Lt(at, low), hn::Ge(at, sinks)), hidden, s);
    s = hn::IfThenElse(hn::Lt(at, high), s, hidden);
    hn::StoreU(s, d, scores + i);
    largest0 = hn::Max(s, largest0);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest0));
}

// scores become weights exp(s − m'); sums [d_v] (a multiple of 16) and the state are brought up to date.
// Returns the chunk's largest score.
template <BiasKind kBias>
HWY_INLINE float SoftmaxStep(const ScoreBias<kBias>& bias, Seen seen, size_t columns,
                             float* HWY_RESTRICT scores, float* HWY_RESTRICT sums, size_t d_v,
                             SoftmaxState* state) {
  const TileTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const float in_chunk = BiasScores(bias, seen, columns, scores);
  if (in_chunk > state->largest) {
    const float factor = ExpOfOne(state->largest - in_chunk);
    state->largest = in_chunk;
    state->weights *= factor;
    for (size_t i = 0; i < d_v; i += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, sums + i), hn::Set(d, factor)), d, sums + i);
    }
  }
  const V largest = hn::Set(d, state->largest);
  V weights0 = hn::Zero(d), weights1 = weights0;
  for (size_t i = 0; i < columns; i += 2 * lanes) {
    const V w0 = Exp(d, hn::Sub(hn::LoadU(d, scores + i), largest));
    const V w1 = Exp(d, hn::Sub(hn::LoadU(d, scores + i + lanes), largest));
    weights0 = hn::Add(weights0, w0);
    weights1 = hn::Add(weights1, w1);
    hn::StoreU(w0, d, scores + i);
    hn::StoreU(w1, d, scores + i + lanes);
  }
  state->weights += hn::GetLane(hn::SumOfLanes(d, hn::Add(weights0, weights1)));
  return in_chunk;
}

// The largest weight of a chunk, given SoftmaxStep's result.
HWY_INLINE float LargestWeight(float in_chunk, const SoftmaxState& state) {
  return in_chunk > kLowestScore ? ExpOfOne(in_chunk - state.largest) : 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
