// cos(a+b) = cos a·cos b − sin a·sin b
// sin(a+b) = sin a·cos b + cos a·sin b      a: the block's first token, b: 0 … 31 tokens later
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_reschedule.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/kv_reschedule.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// [bands] starts and [bands][32] steps to [bands][32] angles.
void JoinAngles(const float* cos_start, const float* sin_start, const float* cos_step, const float* sin_step,
                size_t bands, float* cosines, float* sines) {
  const hn::CappedTag<float, 16> d;
  for (size_t i = 0; i < bands; ++i) {
    const auto ca = hn::Set(d, cos_start[i]), sa = hn::Set(d, sin_start[i]);
    for (size_t o = i * kKvTile; o < (i + 1) * kKvTile; o += hn::Lanes(d)) {
      const auto cb = hn::LoadU(d, cos_step + o), sb = hn::LoadU(d, sin_step + o);
      hn::Store(hn::NegMulAdd(sa, sb, hn::Mul(ca, cb)), d, cosines + o);
      hn::Store(hn::MulAdd(ca, sb, hn::Mul(sa, cb)), d, sines + o);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "kernels/kv_turn.h"

namespace ropeline {

HWY_EXPORT(JoinAngles);

namespace {

// Of tokens · turn; what double cannot hold of the product is carried to first order.
void ExactAngle(double tokens, double turn, double* cosine, double* sine) {
  const double angle = tokens * turn, rest = std::fma(tokens, turn, -angle);
  const double c = std::cos(angle), s = std::sin(angle);
  *cosine = c - s * rest;
  *sine = s + c * rest;
}

}  // namespace

SteppedAngles::SteppedAngles(const std::vector<double>& turn, double factor)
    : turn_(turn),
      factor_(factor),
      cos_(turn.size()),
      sin_(turn.size()),
      cos_block_(turn.size()),
      sin_block_(turn.size()),
      cos_start_(turn.size()),
      sin_start_(turn.size()),
      cos_step_(turn.size() * kKvTile),
      sin_step_(turn.size() * kKvTile) {
  for (size_t i = 0; i < turn.size(); ++i) {
    ExactAngle(kKvTile, turn[i], &cos_block_[i], &sin_block_[i]);
    for (size_t t = 0; t < kKvTile; ++t) {
      double c, s;
      ExactAngle(static_cast<double>(t), turn[i], &c, &s);
      cos_step_[i * kKvTile + t] = static_cast<float>(c);
      sin_step_[i * kKvTile + t] = static_cast<float>(s);
    }
  }
}

void SteppedAngles::Next(float* cosines, float* sines) {
  constexpr size_t kExactEvery = 256;
  for (size_t i = 0; i < turn_.size(); ++i) {
    if (block_ % kExactEvery == 0) {
      ExactAngle(static_cast<double>(block_ * kKvTile), turn_[i], &cos_[i], &sin_[i]);
    } else {
      const double c = cos_[i], s = sin_[i];
      cos_[i] = c * cos_block_[i] - s * sin_block_[i];
      sin_[i] = s * cos_block_[i] + c * sin_block_[i];
    }
    cos_start_[i] = static_cast<float>(cos_[i] * factor_);
    sin_start_[i] = static_cast<float>(sin_[i] * factor_);
  }
  ++block_;
  HWY_DYNAMIC_DISPATCH(JoinAngles)
  (cos_start_.data(), sin_start_.data(), cos_step_.data(), sin_step_.data(), turn_.size(), cosines, sines);
}

void RescheduleKeys(Pairing pairing, const KeySchedule& from, const KeySchedule& to, KvCache* cache) {
  const size_t bands = from.inv_freq.size();
  if (to.inv_freq.size() != bands) {
    HWY_ABORT("a schedule of %d bands to one of %d", static_cast<int>(bands),
              static_cast<int>(to.inv_freq.size()));
  }
  std::vector<double> turn(bands);
  for (size_t i = 0; i < bands; ++i) turn[i] = to.inv_freq[i] - from.inv_freq[i];
  SteppedAngles angles(turn, to.factor / from.factor);
  TableMemory cosines(bands * kKvTile), sines(bands * kKvTile);
  KeyTurner turner({pairing, 2 * bands, true, cosines.get(), sines.get()}, cache);
  const size_t heads = cache->shape().n_kv_heads;
  for (size_t b = 0; b * kKvTile < cache->n(); ++b) {
    angles.Next(cosines.get(), sines.get());
    for (size_t h = 0; h < heads; ++h) {
      const uint8_t* ahead = h + 1 < heads ? cache->KeyBlock(h + 1, b) : cache->KeyBlock(0, b + 1);
      turner.Block(h, b, b, ahead);
    }
  }
}

Cost RescheduleKeysCost(const KvShape& shape, size_t n, size_t d_rot) {
  KeyRotation rotation;
  rotation.inv_freq.resize(d_rot / 2);
  Cost cost = TurnKeysCost(shape, n, rotation);
  cost.flops += 3 * static_cast<double>(n * d_rot);
  return cost;
}

}  // namespace ropeline
#endif  // HWY_ONCE
