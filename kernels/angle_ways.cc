// shared:     c, s = cos, sin(position · inv_freq)                  once a token
// per head:   the same                                              once a head
// recurrence: c' = c·cos θ − s·sin θ,  s' = s·cos θ + c·sin θ       θ = inv_freq, from one token to the next
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/angle_ways.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <cmath>

#include "kernels/angle_ways.h"
#include "kernels/rotate-inl.h"
#include "kernels/sincos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// row[2 · bands]: cosines, then sines.
template <bool kF32Angle>
void ComputeRow(const double* inv_freq, size_t bands, size_t position, float* HWY_RESTRICT row) {
  const double p = static_cast<double>(position);
#if HWY_HAVE_FLOAT64
  const hn::ScalableTag<float> d;
  ForEachVector(d, bands, [&](auto dv, size_t i) HWY_ATTR {
    hn::Vec<decltype(dv)> cosine, sine;
    SinCosOfBands<kF32Angle>(dv, p, inv_freq + i, cosine, sine);
    hn::StoreU(cosine, dv, row + i);
    hn::StoreU(sine, dv, row + bands + i);
  });
#else
  for (size_t i = 0; i < bands; ++i) {
    double angle = p * inv_freq[i];
    if (kF32Angle) angle = static_cast<double>(static_cast<float>(p) * static_cast<float>(inv_freq[i]));
    row[i] = static_cast<float>(std::cos(angle));
    row[bands + i] = static_cast<float>(std::sin(angle));
  }
#endif
}

// One position further; step[2 · bands] as a row of position 1.
void AdvanceRow(const float* HWY_RESTRICT step, size_t bands, float* HWY_RESTRICT row) {
  const hn::ScalableTag<float> d;
  ForEachVector(d, bands, [&](auto dv, size_t i) HWY_ATTR {
    const auto c = hn::LoadU(dv, row + i), s = hn::LoadU(dv, row + bands + i);
    const auto step_c = hn::LoadU(dv, step + i), step_s = hn::LoadU(dv, step + bands + i);
    hn::StoreU(hn::NegMulAdd(s, step_s, hn::Mul(c, step_c)), dv, row + i);
    hn::StoreU(hn::MulAdd(c, step_s, hn::Mul(s, step_c)), dv, row + bands + i);
  });
}

void LibmRow(const double* inv_freq, size_t bands, size_t position, float* row) {
  for (size_t i = 0; i < bands; ++i) {
    const float angle = static_cast<float>(position) * static_cast<float>(inv_freq[i]);
    row[i] = std::cos(angle);
    row[bands + i] = std::sin(angle);
  }
}

constexpr size_t kMostDimensions = 1024;

// use(t, row) for each token with its row of angles; `repeat` times with a row made anew each time.
template <class Use>
HWY_INLINE void ForEachRow(AngleWay way, const std::vector<double>& inv_freq, size_t first, size_t n,
                           const Use& use) {
  HWY_ALIGN float row[kMostDimensions];
  HWY_ALIGN float step[kMostDimensions];
  const size_t bands = inv_freq.size();
  if (way == AngleWay::kRecurrence) ComputeRow<false>(inv_freq.data(), bands, 1, step);
  for (size_t t = 0; t < n; ++t) {
    const auto make = [&] {
      switch (way) {
        case AngleWay::kTable:
        case AngleWay::kShared:
        case AngleWay::kPerHead:
          return ComputeRow<false>(inv_freq.data(), bands, first + t, row);
        case AngleWay::kSharedF32:
          return ComputeRow<true>(inv_freq.data(), bands, first + t, row);
        case AngleWay::kPerHeadLibm:
          return LibmRow(inv_freq.data(), bands, first + t, row);
        case AngleWay::kRecurrence:
          if (t % kResynchronise == 0) return ComputeRow<false>(inv_freq.data(), bands, first + t, row);
          return AdvanceRow(step, bands, row);
      }
    };
    use(t, row, make);
  }
}

void RotateMaking(AngleWay way, const std::vector<double>& inv_freq, size_t first, size_t n, size_t n_heads,
                  float* x) {
  const size_t d_head = 2 * inv_freq.size();
  const bool per_head = way == AngleWay::kPerHead || way == AngleWay::kPerHeadLibm;
  ForEachRow(way, inv_freq, first, n, [&](size_t t, const float* row, const auto& make) {
    const size_t calls = per_head ? n_heads : 1;
    for (size_t call = 0; call < calls; ++call) {
      make();
      float* heads = x + (t * n_heads + call) * d_head;
      TurnToken<true>(AngleRow{row, 0.0f}, d_head, d_head,
                      TokenHeads<float, float>{heads, d_head, heads, d_head, per_head ? 1 : n_heads});
    }
  });
}

void MakeRows(AngleWay way, const std::vector<double>& inv_freq, size_t first, size_t n, float* rows) {
  const size_t d_head = 2 * inv_freq.size();
  ForEachRow(way, inv_freq, first, n, [&](size_t t, const float* row, const auto& make) {
    make();
    for (size_t i = 0; i < d_head; ++i) rows[t * d_head + i] = row[i];
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "kernels/angle_table.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

HWY_EXPORT(RotateMaking);
HWY_EXPORT(MakeRows);

const char* AngleWayName(AngleWay way) {
  switch (way) {
    case AngleWay::kTable:
      return "table";
    case AngleWay::kShared:
      return "shared";
    case AngleWay::kSharedF32:
      return "shared_f32";
    case AngleWay::kPerHead:
      return "per_head";
    case AngleWay::kPerHeadLibm:
      return "per_head_libm";
    case AngleWay::kRecurrence:
      return "recurrence";
  }
  return "";
}

void RotateMakingAngles(AngleWay way, const std::vector<double>& inv_freq, size_t first_position, size_t n,
                        size_t n_heads, float* x) {
  if (way == AngleWay::kTable || inv_freq.size() > 512) {
    HWY_ABORT("angles %s of %d bands, expected another way than a table and at most 512", AngleWayName(way),
              static_cast<int>(inv_freq.size()));
  }
  HWY_DYNAMIC_DISPATCH(RotateMaking)(way, inv_freq, first_position, n, n_heads, x);
}

void MakeAngles(AngleWay way, const std::vector<double>& inv_freq, size_t first_position, size_t n,
                float* rows) {
  if (way == AngleWay::kTable) {
    return BuildAngleTable(inv_freq, first_position, n, AngleLayout::kSplit, rows);
  }
  HWY_DYNAMIC_DISPATCH(MakeRows)(way, inv_freq, first_position, n, rows);
}

AngleError WorstAngleError(AngleWay way, size_t position) {
  constexpr size_t kD = 128;
  const std::vector<double> inv_freq = DefaultInvFreq(kD, 10000);
  const size_t n = std::min(kResynchronise, position + 1);
  const size_t first = position + 1 - n;
  std::vector<float> rows(n * kD);
  MakeAngles(way, inv_freq, first, n, rows.data());
  AngleError worst;
  for (size_t t = 0; t < n; ++t) {
    for (size_t i = 0; i < kD / 2; ++i) {
      const long double c = rows[t * kD + i];
      const long double s = rows[t * kD + kD / 2 + i];
      // The angle between the direction (c, s) and that of `angle`.
      const auto from = [&](long double angle) {
        const long double x = std::cos(angle), y = std::sin(angle);
        return std::abs(static_cast<double>(std::atan2(s * x - c * y, c * x + s * y)));
      };
      const long double exact = static_cast<long double>(first + t) * inv_freq[i];
      const float trained = static_cast<float>(first + t) * static_cast<float>(inv_freq[i]);
      worst.exact = std::max(worst.exact, from(exact));
      worst.trained = std::max(worst.trained, from(trained));
    }
  }
  return worst;
}

Cost MakingAnglesCost(AngleWay way, size_t n, size_t n_heads, size_t d_head) {
  const double tokens = static_cast<double>(n);
  const double elements = tokens * static_cast<double>(n_heads * d_head);
  const bool per_head = way == AngleWay::kPerHead || way == AngleWay::kPerHeadLibm;
  // Three flops for each angle, or for each of its two values.
  const double angles = (per_head ? elements : tokens * static_cast<double>(d_head)) / 2;
  const double flops = angles * (way == AngleWay::kRecurrence ? 6 : 3);
  const double inv_freq = 4 * static_cast<double>(d_head);
  return {
      .bytes_read = 4 * elements + inv_freq, .bytes_written = 4 * elements, .flops = 3 * elements + flops};
}

}  // namespace ropeline
#endif  // HWY_ONCE
