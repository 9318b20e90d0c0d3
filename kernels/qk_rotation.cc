// a' = a·cos − b·sin
// b' = b·cos + a·sin      for each pair (a, b), with the angle of its band and token
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/qk_rotation.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/lanes-inl.h"
#include "kernels/qk_rotation.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bands [i, i + kVectors · lanes) of every head of one token. The angles stay in registers while the heads
// pass by.
template <size_t kVectors, class D>
HWY_INLINE void HalfOfToken(D d, const float* HWY_RESTRICT angles, size_t i, size_t half, size_t n_heads,
                            float* HWY_RESTRICT x) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const float* cosines = angles + i;
  const float* sines = angles + half + i;
  const auto at = [&](size_t v) { return v * lanes; };
  const V c0 = hn::LoadU(d, cosines), s0 = hn::LoadU(d, sines);
  const V c1 = kVectors > 1 ? hn::LoadU(d, cosines + at(1)) : c0,
          s1 = kVectors > 1 ? hn::LoadU(d, sines + at(1)) : s0;
  const V c2 = kVectors > 2 ? hn::LoadU(d, cosines + at(2)) : c0,
          s2 = kVectors > 2 ? hn::LoadU(d, sines + at(2)) : s0;
  const V c3 = kVectors > 3 ? hn::LoadU(d, cosines + at(3)) : c0,
          s3 = kVectors > 3 ? hn::LoadU(d, sines + at(3)) : s0;
  const auto turn = [&](float* HWY_RESTRICT p, V c, V s) HWY_ATTR {
    const V a = hn::LoadU(d, p);
    const V b = hn::LoadU(d, p + half);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, p);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, p + half);
  };
  for (size_t h = 0; h < n_heads; ++h) {
    float* HWY_RESTRICT p = x + h * 2 * half + i;
    turn(p, c0, s0);
    if constexpr (kVectors > 1) turn(p + at(1), c1, s1);
    if constexpr (kVectors > 2) turn(p + at(2), c2, s2);
    if constexpr (kVectors > 3) turn(p + at(3), c3, s3);
  }
}

void RotateHalfT(const float* table, size_t n, size_t n_heads, size_t d_head, float* x) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t half = d_head / 2;
  for (size_t t = 0; t < n; ++t) {
    const float* angles = table + t * d_head;
    float* token = x + t * n_heads * d_head;
    size_t i = 0;
    for (; i + 4 * lanes <= half; i += 4 * lanes) HalfOfToken<4>(d, angles, i, half, n_heads, token);
    if (i + 2 * lanes <= half) {
      HalfOfToken<2>(d, angles, i, half, n_heads, token);
      i += 2 * lanes;
    }
    if (i + lanes <= half) {
      HalfOfToken<1>(d, angles, i, half, n_heads, token);
      i += lanes;
    }
    ForEachInTail<8>(
        d, i, half, [&](auto dt, size_t j) HWY_ATTR { HalfOfToken<1>(dt, angles, j, half, n_heads, token); });
  }
}

// One pair, for what no vector of at least two lanes covers.
HWY_INLINE void PairOfToken(const float* angles, size_t j, size_t d_head, size_t n_heads, float* x) {
  for (size_t h = 0; h < n_heads; ++h) {
    float* p = x + h * d_head + j;
    const float a = p[0];
    const float b = p[1];
    p[0] = a * angles[j] - b * angles[j + 1];
    p[1] = a * angles[j + 1] + b * angles[j];
  }
}

#if HWY_TARGET == HWY_SCALAR

void RotateInterleavedT(const float* table, size_t n, size_t n_heads, size_t d_head, float* x) {
  for (size_t t = 0; t < n; ++t) {
    for (size_t j = 0; j < d_head; j += 2) {
      PairOfToken(table + t * d_head, j, d_head, n_heads, x + t * n_heads * d_head);
    }
  }
}

#else

// One vector of neighbours [a0 b0 a1 b1 …]: x·[c0 c0 …] + swapped(x)·[−s0 s0 …]. One load, one shuffle and
// one store. (x86 can duplicate lanes while it loads, which needs no shuffle but two loads: where the load
// and store ports are the limit, as in the first-level cache, that was measured at 0.7 of the speed.)
template <class D, class V>
HWY_INLINE void TurnNeighbours(D d, V cosine, V sine, float* p) {
  const V x = hn::LoadU(d, p);
  hn::StoreU(hn::MulAdd(x, cosine, hn::Mul(hn::Reverse2(d, x), sine)), d, p);
}

// Dimensions [j, j + kVectors · lanes) of every head of one token.
template <size_t kVectors, class D>
HWY_INLINE void NeighboursOfToken(D d, const float* HWY_RESTRICT angles, size_t j, size_t d_head,
                                  size_t n_heads, float* x) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  // [c s c s …] → [−s s −s s …]
  const auto sine = [&](V angle) HWY_ATTR {
    const V s = hn::DupOdd(angle);
    return hn::OddEven(s, hn::Neg(s));
  };
  const auto load = [&](size_t v)
                        HWY_ATTR { return hn::LoadU(d, angles + j + (v < kVectors ? v * lanes : 0)); };
  const V a0 = load(0), a1 = load(1), a2 = load(2), a3 = load(3);
  const V a4 = load(4), a5 = load(5), a6 = load(6), a7 = load(7);
  const V c0 = hn::DupEven(a0), c1 = hn::DupEven(a1), c2 = hn::DupEven(a2), c3 = hn::DupEven(a3);
  const V c4 = hn::DupEven(a4), c5 = hn::DupEven(a5), c6 = hn::DupEven(a6), c7 = hn::DupEven(a7);
  const V s0 = sine(a0), s1 = sine(a1), s2 = sine(a2), s3 = sine(a3);
  const V s4 = sine(a4), s5 = sine(a5), s6 = sine(a6), s7 = sine(a7);
  for (size_t h = 0; h < n_heads; ++h) {
    float* p = x + h * d_head + j;
    TurnNeighbours(d, c0, s0, p);
    if constexpr (kVectors > 1) TurnNeighbours(d, c1, s1, p + lanes);
    if constexpr (kVectors > 2) {
      TurnNeighbours(d, c2, s2, p + 2 * lanes);
      TurnNeighbours(d, c3, s3, p + 3 * lanes);
    }
    if constexpr (kVectors > 4) {
      TurnNeighbours(d, c4, s4, p + 4 * lanes);
      TurnNeighbours(d, c5, s5, p + 5 * lanes);
      TurnNeighbours(d, c6, s6, p + 6 * lanes);
      TurnNeighbours(d, c7, s7, p + 7 * lanes);
    }
  }
}

// The rest in ever smaller vectors, down to one pair.
template <size_t kMaxLanes>
HWY_INLINE void NeighboursInTail(const float* angles, size_t j, size_t d_head, size_t n_heads, float* x) {
  if constexpr (kMaxLanes >= 2) {
    const hn::CappedTag<float, kMaxLanes> dt;
    const size_t lanes = hn::Lanes(dt);
    if (lanes >= 2) {
      for (; j + lanes <= d_head; j += lanes) NeighboursOfToken<1>(dt, angles, j, d_head, n_heads, x);
    }
    NeighboursInTail<kMaxLanes / 2>(angles, j, d_head, n_heads, x);
  } else {
    for (; j + 2 <= d_head; j += 2) PairOfToken(angles, j, d_head, n_heads, x);
  }
}

void RotateInterleavedT(const float* table, size_t n, size_t n_heads, size_t d_head, float* x) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  // 16 vectors of angles fit in 32 registers, not in 16.
  constexpr size_t kMost = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL ? 8 : 4;
  for (size_t t = 0; t < n; ++t) {
    const float* angles = table + t * d_head;
    float* token = x + t * n_heads * d_head;
    size_t j = 0;
    if (lanes >= 2) {
      for (; j + kMost * lanes <= d_head; j += kMost * lanes) {
        NeighboursOfToken<kMost>(d, angles, j, d_head, n_heads, token);
      }
      if (kMost > 4 && j + 4 * lanes <= d_head) {
        NeighboursOfToken<4>(d, angles, j, d_head, n_heads, token);
        j += 4 * lanes;
      }
      if (j + 2 * lanes <= d_head) {
        NeighboursOfToken<2>(d, angles, j, d_head, n_heads, token);
        j += 2 * lanes;
      }
      if (j + lanes <= d_head) {
        NeighboursOfToken<1>(d, angles, j, d_head, n_heads, token);
        j += lanes;
      }
    }
    NeighboursInTail<8>(angles, j, d_head, n_heads, token);
  }
}

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "kernels/angle_table.h"
#include "kernels/memory.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

HWY_EXPORT(RotateHalfT);
HWY_EXPORT(RotateInterleavedT);

void RotateHalf(const float* table, size_t n, size_t n_heads, size_t d_head, float* x) {
  HWY_DYNAMIC_DISPATCH(RotateHalfT)(table, n, n_heads, d_head, x);
}

void RotateInterleaved(const float* table, size_t n, size_t n_heads, size_t d_head, float* x) {
  HWY_DYNAMIC_DISPATCH(RotateInterleavedT)(table, n, n_heads, d_head, x);
}

Cost QkRotationCost(const Shape& shape) {
  const double table = static_cast<double>(shape.n) * static_cast<double>(shape.Rotated());
  const double elements = table * static_cast<double>(shape.n_heads + shape.n_kv_heads);
  const double bytes = static_cast<double>(DtypeBytes(shape.dtype)) * elements;
  return {.bytes_read = bytes + 4 * table, .bytes_written = bytes, .flops = 3 * elements};
}

namespace {

constexpr double kBase = 10000;

struct AngleTables : EncodingTables {
  TableMemory table;  // [n, d_head]
  size_t bytes = 0;
  size_t Bytes() const override { return bytes; }
};

template <AngleLayout kLayout>
std::unique_ptr<EncodingTables> Setup(const Shape& shape) {
  auto tables = std::make_unique<AngleTables>();
  tables->table = TableMemory(shape.n * shape.d_head);
  tables->bytes = 4 * shape.n * shape.d_head;
  BuildAngleTable(DefaultInvFreq(shape.d_head, kBase), shape.first_position, shape.n, kLayout,
                  tables->table.get());
  return tables;
}

using Rotation = void (*)(const float*, size_t, size_t, size_t, float*);

template <Rotation kRotate>
void Apply(const EncodingTables& tables, const Shape& shape, void* tensor) {
  float* x = static_cast<float*>(tensor);
  const float* table = static_cast<const AngleTables&>(tables).table.get();
  kRotate(table, shape.n, shape.n_heads, shape.d_head, x);
  if (shape.n_kv_heads == 0) return;
  kRotate(table, shape.n, shape.n_kv_heads, shape.d_head, x + shape.n * shape.n_heads * shape.d_head);
}

// One tensor [n, n_heads, d_head]; the pair of band i is (i·step, i·step + gap).
void ReferenceTensor(const Shape& shape, size_t n_heads, size_t step, size_t gap, const float* in,
                     double* expected, double* scale) {
  const double d = static_cast<double>(shape.d_head);
  for (size_t t = 0; t < shape.n; ++t) {
    for (size_t i = 0; i < shape.d_head / 2; ++i) {
      const double inv_freq = std::pow(kBase, -2.0 * static_cast<double>(i) / d);
      const long double angle = static_cast<long double>(shape.first_position + t) * inv_freq;
      const long double c = std::cos(angle);
      const long double s = std::sin(angle);
      for (size_t h = 0; h < n_heads; ++h) {
        const size_t at = (t * n_heads + h) * shape.d_head + i * step;
        const long double a = in[at];
        const long double b = in[at + gap];
        expected[at] = static_cast<double>(a * c - b * s);
        expected[at + gap] = static_cast<double>(a * s + b * c);
        scale[at] = scale[at + gap] = static_cast<double>(std::hypot(a, b));
      }
    }
  }
}

template <bool kHalf>
void Reference(const Shape& shape, const float* in, double* expected, double* scale) {
  const size_t step = kHalf ? 1 : 2;
  const size_t gap = kHalf ? shape.d_head / 2 : 1;
  ReferenceTensor(shape, shape.n_heads, step, gap, in, expected, scale);
  const size_t k = shape.n * shape.n_heads * shape.d_head;
  ReferenceTensor(shape, shape.n_kv_heads, step, gap, in + k, expected + k, scale + k);
}

const char* RejectOdd(const Shape& shape) {
  return shape.d_head % 2 == 0 ? nullptr : "d_head must be even: dimensions turn in pairs";
}

// The rounding of cos and sin, of two products and of the sum.
constexpr Encoding kEncodings[] = {
    {.name = "rope_half",
     .placement = Placement::kQkRotation,
     .about = "turns the pairs (i, i + d/2) by position · base^(−2i/d); Su et al. 2021, section 3.4.2",
     .cached_key = "rotated",
     .reject = RejectOdd,
     .cost = QkRotationCost,
     .setup = Setup<AngleLayout::kSplit>,
     .apply = Apply<RotateHalf>,
     .reference = Reference<true>,
     .tolerance = {4.0, 2}},
    {.name = "rope_interleaved",
     .placement = Placement::kQkRotation,
     .about = "turns the pairs (2i, 2i + 1) by position · base^(−2i/d); Su et al. 2021, section 3.4.2",
     .cached_key = "rotated",
     .reject = RejectOdd,
     .cost = QkRotationCost,
     .setup = Setup<AngleLayout::kCosSin>,
     .apply = Apply<RotateInterleaved>,
     .reference = Reference<false>,
     .tolerance = {4.0, 2}},
};

}  // namespace

std::span<const Encoding> QkRotationEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
