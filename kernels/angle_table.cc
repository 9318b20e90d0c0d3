// cos(a+b) = cos a·cos b − sin a·sin b
// sin(a+b) = sin a·cos b + cos a·sin b      a: first position of a block, b: offset inside it
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/angle_table.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/angle_table.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_FLOAT64

// One vector of bands: the angle a (cos_a, sin_a) advanced by b.
template <class D>
HWY_INLINE void StoreSum(D d, const double* cos_a, const double* sin_a, const double* cos_b,
                         const double* sin_b, size_t i, size_t bands, AngleLayout layout, float* row) {
  const hn::Rebind<float, D> df;
  const auto ca = hn::LoadU(d, cos_a + i);
  const auto sa = hn::LoadU(d, sin_a + i);
  const auto cb = hn::LoadU(d, cos_b + i);
  const auto sb = hn::LoadU(d, sin_b + i);
  const auto cosine = hn::DemoteTo(df, hn::NegMulAdd(sa, sb, hn::Mul(ca, cb)));
  const auto sine = hn::DemoteTo(df, hn::MulAdd(ca, sb, hn::Mul(sa, cb)));
  switch (layout) {
    case AngleLayout::kSplit:
      hn::StoreU(cosine, df, row + i);
      hn::StoreU(sine, df, row + bands + i);
      break;
    case AngleLayout::kCosSin:
      hn::StoreInterleaved2(cosine, sine, df, row + 2 * i);
      break;
    case AngleLayout::kSinCos:
      hn::StoreInterleaved2(sine, cosine, df, row + 2 * i);
      break;
  }
}

void SumRows(const double* cos_a, const double* sin_a, const double* cos_b, const double* sin_b, size_t bands,
             size_t rows, AngleLayout layout, float* table) {
  const hn::ScalableTag<double> d;
  for (size_t t = 0; t < rows; ++t) {
    ForEachVector(d, bands, [&](auto dv, size_t i) HWY_ATTR {
      StoreSum(dv, cos_a, sin_a, cos_b + t * bands, sin_b + t * bands, i, bands, layout,
               table + t * 2 * bands);
    });
  }
}

#else  // a target without double lanes

void SumRows(const double* cos_a, const double* sin_a, const double* cos_b, const double* sin_b, size_t bands,
             size_t rows, AngleLayout layout, float* table) {
  for (size_t t = 0; t < rows; ++t) {
    float* row = table + t * 2 * bands;
    for (size_t i = 0; i < bands; ++i) {
      const double cb = cos_b[t * bands + i];
      const double sb = sin_b[t * bands + i];
      const float cosine = static_cast<float>(cos_a[i] * cb - sin_a[i] * sb);
      const float sine = static_cast<float>(sin_a[i] * cb + cos_a[i] * sb);
      const bool split = layout == AngleLayout::kSplit;
      const bool sin_first = layout == AngleLayout::kSinCos;
      row[split ? i : 2 * i] = sin_first ? sine : cosine;
      row[split ? bands + i : 2 * i + 1] = sin_first ? cosine : sine;
    }
  }
}

#endif  // HWY_HAVE_FLOAT64

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace ropeline {

HWY_EXPORT(SumRows);

namespace {

// cos and sin of position · inv_freq[j] for the positions first, first + step, …; the part of the product
// that double cannot hold is carried to first order.
class Angles {
 public:
  Angles(const std::vector<double>& inv_freq, size_t first, size_t step, size_t rows)
      : bands_(inv_freq.size()), cos_(rows * bands_), sin_(rows * bands_) {
    for (size_t row = 0; row < rows; ++row) {
      const double position = static_cast<double>(first + row * step);
      for (size_t j = 0; j < bands_; ++j) {
        const double angle = position * inv_freq[j];
        const double rest = std::fma(position, inv_freq[j], -angle);
        const double c = std::cos(angle);
        const double s = std::sin(angle);
        cos_[row * bands_ + j] = c - s * rest;
        sin_[row * bands_ + j] = s + c * rest;
      }
    }
  }
  const double* Cos(size_t row) const { return &cos_[row * bands_]; }
  const double* Sin(size_t row) const { return &sin_[row * bands_]; }

 private:
  size_t bands_;
  std::vector<double> cos_, sin_;  // [rows, bands]
};

}  // namespace

void BuildAngleTable(const std::vector<double>& inv_freq, size_t first_position, size_t n, AngleLayout layout,
                     float* table) {
  const size_t bands = inv_freq.size();
  if (n == 0 || bands == 0) return;
  // position = first + (far·kNear + near)·kOffsets + offset; the lists of exact angles stay short and in the
  // caches.
  constexpr size_t kOffsets = 64;
  constexpr size_t kNear = 16;
  const Angles offsets(inv_freq, 0, 1, std::min(n, kOffsets));
  const Angles near(inv_freq, 0, kOffsets, std::min((n + kOffsets - 1) / kOffsets, kNear));
  std::vector<double> cosine(bands), sine(bands);
  for (size_t start = 0; start < n; start += kOffsets * kNear) {
    const Angles far(inv_freq, first_position + start, 1, 1);
    for (size_t i = 0; i < kNear && start + i * kOffsets < n; ++i) {
      const size_t t = start + i * kOffsets;
      for (size_t j = 0; j < bands; ++j) {
        const double cos_near = near.Cos(i)[j];
        const double sin_near = near.Sin(i)[j];
        cosine[j] = far.Cos(0)[j] * cos_near - far.Sin(0)[j] * sin_near;
        sine[j] = far.Sin(0)[j] * cos_near + far.Cos(0)[j] * sin_near;
      }
      HWY_DYNAMIC_DISPATCH(SumRows)
      (cosine.data(), sine.data(), offsets.Cos(0), offsets.Sin(0), bands, std::min(kOffsets, n - t), layout,
       table + t * 2 * bands);
    }
  }
}

namespace {

void StoreAngle(double cosine, double sine, size_t i, size_t bands, AngleLayout layout, float* row) {
  const bool split = layout == AngleLayout::kSplit;
  const bool sin_first = layout == AngleLayout::kSinCos;
  row[split ? i : 2 * i] = static_cast<float>(sin_first ? sine : cosine);
  row[split ? bands + i : 2 * i + 1] = static_cast<float>(sin_first ? cosine : sine);
}

}  // namespace

void BuildAngleRow(const std::vector<double>& inv_freq, const std::vector<int32_t>& positions,
                   const std::vector<double>& factors, AngleLayout layout, float* row) {
  const size_t bands = inv_freq.size();
  for (size_t i = 0; i < bands; ++i) {
    const double angle = positions[i] * inv_freq[i];
    const double rest = std::fma(positions[i], inv_freq[i], -angle);
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    StoreAngle(factors[i] * (c - s * rest), factors[i] * (s + c * rest), i, bands, layout, row);
  }
}

void BuildAngleTableScalar(const std::vector<double>& inv_freq, size_t first_position, size_t n,
                           AngleLayout layout, float* table) {
  const size_t bands = inv_freq.size();
  for (size_t t = 0; t < n; ++t) {
    float* row = table + t * 2 * bands;
    for (size_t i = 0; i < bands; ++i) {
      const double angle = static_cast<double>(first_position + t) * inv_freq[i];
      StoreAngle(std::cos(angle), std::sin(angle), i, bands, layout, row);
    }
  }
}

Cost AngleTableCost(size_t bands, size_t n) {
  const double angles = static_cast<double>(bands) * static_cast<double>(n);
  return {
      .bytes_read = 8.0 * static_cast<double>(bands), .bytes_written = 8.0 * angles, .flops = 3.0 * angles};
}

}  // namespace ropeline
#endif  // HWY_ONCE
