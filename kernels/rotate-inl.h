// Turns the heads of one token by one row of angles, for every Highway target.
//   a' = a·cos − b·sin
//   b' = b·cos + a·sin      for each pair (a, b), with the angle of its band
// Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_ROTATE_INL_H_
#undef ROPELINE_KERNELS_ROTATE_INL_H_
#else
#define ROPELINE_KERNELS_ROTATE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The heads of one token. `out` may be `in`; strides are in elements, from head to head.
template <typename TIn, typename TOut>
struct TokenHeads {
  const TIn* in;
  size_t in_stride;
  TOut* out;
  size_t out_stride;
  size_t count;
};

// One row of angles, [d_rot] f32. `flip` is −0 to turn back (it changes the sign of each sine), else +0.
struct AngleRow {
  const float* values;
  float flip;
};

// Asks for a head that is some way ahead. 16-bit heads take long enough to convert that the hardware's
// prefetcher alone leaves a seventh of the memory's bandwidth unused; in a cache this costs nothing.
template <typename T>
HWY_INLINE void PrefetchHead(const T* head, size_t stride, size_t elements) {
  if constexpr (sizeof(T) == 2) {
    constexpr size_t kHeadsAhead = 8;
    for (size_t i = 0; i < elements; i += 32) hwy::Prefetch(head + kHeadsAhead * stride + i);
  }
}

// ---------------------------------------------------------------- pairs (i, i + half); cosines, then sines

// With 32 registers a head of four vectors to each half can be loaded, and stored, from its first line to its
// last, which the first-level cache's prefetcher follows.
inline constexpr bool kInOrder = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3;

// Bands [i, i + kVectors · lanes) of every head. The angles stay in registers while the heads pass by.
template <size_t kVectors, class D, typename TIn, typename TOut>
HWY_INLINE void TurnHalves(D d, AngleRow angles, size_t i, size_t half, TokenHeads<TIn, TOut> heads) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const V flip = hn::Set(d, angles.flip);
  const auto at = [&](size_t v) { return (v < kVectors ? v : 0) * lanes; };
  const auto cosine = [&](size_t v) HWY_ATTR { return hn::LoadU(d, angles.values + i + at(v)); };
  const auto sine = [&](size_t v)
                        HWY_ATTR { return hn::Xor(hn::LoadU(d, angles.values + half + i + at(v)), flip); };
  const V c0 = cosine(0), c1 = cosine(1), c2 = cosine(2), c3 = cosine(3);
  const V s0 = sine(0), s1 = sine(1), s2 = sine(2), s3 = sine(3);
  const auto first = [&](const TIn* p, size_t v) HWY_ATTR { return LoadF32(d, p + at(v)); };
  const auto second = [&](const TIn* p, size_t v) HWY_ATTR { return LoadF32(d, p + half + at(v)); };
  const auto low = [&](TOut* q, size_t v, V a, V b, V c, V s)
                       HWY_ATTR { StoreF32(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, q + at(v)); };
  const auto high = [&](TOut* q, size_t v, V a, V b, V c, V s)
                        HWY_ATTR { StoreF32(hn::MulAdd(a, s, hn::Mul(b, c)), d, q + half + at(v)); };
  for (size_t h = 0; h < heads.count; ++h) {
    const TIn* p = heads.in + h * heads.in_stride + i;
    TOut* q = heads.out + h * heads.out_stride + i;
    if (i == 0) PrefetchHead(p, heads.in_stride, 2 * half);
    if constexpr (kInOrder && kVectors == 4) {
      const V a0 = first(p, 0), a1 = first(p, 1), a2 = first(p, 2), a3 = first(p, 3);
      const V b0 = second(p, 0), b1 = second(p, 1), b2 = second(p, 2), b3 = second(p, 3);
      low(q, 0, a0, b0, c0, s0), low(q, 1, a1, b1, c1, s1);
      low(q, 2, a2, b2, c2, s2), low(q, 3, a3, b3, c3, s3);
      high(q, 0, a0, b0, c0, s0), high(q, 1, a1, b1, c1, s1);
      high(q, 2, a2, b2, c2, s2), high(q, 3, a3, b3, c3, s3);
      continue;
    }
    const auto turn = [&](size_t v, V c, V s) HWY_ATTR {
      const V a = first(p, v), b = second(p, v);
      low(q, v, a, b, c, s);
      high(q, v, a, b, c, s);
    };
    turn(0, c0, s0);
    if constexpr (kVectors > 1) turn(1, c1, s1);
    if constexpr (kVectors > 2) turn(2, c2, s2);
    if constexpr (kVectors > 3) turn(3, c3, s3);
  }
}

#if HWY_TARGET != HWY_SCALAR

// The same for bf16, 2 · lanes bands, the even ones and the odd ones in a vector each.
template <size_t kPairs, class D>
HWY_INLINE void TurnHalfPairs(D d, AngleRow angles, size_t i, size_t half, TokenHeads<Bf16, Bf16> heads) {
  using V = hn::Vec<D>;
  const size_t step = 2 * hn::Lanes(d);
  const V flip = hn::Set(d, angles.flip);
  V c0, c1, s0, s1, c2, c3, s2, s3;
  hn::LoadInterleaved2(d, angles.values + i, c0, c1);
  hn::LoadInterleaved2(d, angles.values + half + i, s0, s1);
  hn::LoadInterleaved2(d, angles.values + i + (kPairs > 1 ? step : 0), c2, c3);
  hn::LoadInterleaved2(d, angles.values + half + i + (kPairs > 1 ? step : 0), s2, s3);
  s0 = hn::Xor(s0, flip), s1 = hn::Xor(s1, flip), s2 = hn::Xor(s2, flip), s3 = hn::Xor(s3, flip);
  const auto turn = [&](const Bf16* p, Bf16* q, V ce, V co, V se, V so) HWY_ATTR {
    V a_even, a_odd, b_even, b_odd;
    LoadPair(d, p, a_even, a_odd);
    LoadPair(d, p + half, b_even, b_odd);
    StorePair(hn::NegMulAdd(b_even, se, hn::Mul(a_even, ce)), hn::NegMulAdd(b_odd, so, hn::Mul(a_odd, co)), d,
              q);
    StorePair(hn::MulAdd(a_even, se, hn::Mul(b_even, ce)), hn::MulAdd(a_odd, so, hn::Mul(b_odd, co)), d,
              q + half);
  };
  for (size_t h = 0; h < heads.count; ++h) {
    const Bf16* p = heads.in + h * heads.in_stride + i;
    Bf16* q = heads.out + h * heads.out_stride + i;
    if (i == 0) PrefetchHead(p, heads.in_stride, 2 * half);
    turn(p, q, c0, c1, s0, s1);
    if constexpr (kPairs > 1) turn(p + step, q + step, c2, c3, s2, s3);
  }
}

#endif  // HWY_SCALAR

template <typename TIn, typename TOut>
HWY_INLINE void TurnTokenHalf(AngleRow angles, size_t d_rot, TokenHeads<TIn, TOut> heads) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t half = d_rot / 2;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHasPairs<TIn> && kHasPairs<TOut>) {
    for (; i + 4 * lanes <= half; i += 4 * lanes) TurnHalfPairs<2>(d, angles, i, half, heads);
    if (i + 2 * lanes <= half) {
      TurnHalfPairs<1>(d, angles, i, half, heads);
      i += 2 * lanes;
    }
  }
#endif
  for (; i + 4 * lanes <= half; i += 4 * lanes) TurnHalves<4>(d, angles, i, half, heads);
  if (i + 2 * lanes <= half) {
    TurnHalves<2>(d, angles, i, half, heads);
    i += 2 * lanes;
  }
  if (i + lanes <= half) {
    TurnHalves<1>(d, angles, i, half, heads);
    i += lanes;
  }
  ForEachInTail<8>(d, i, half,
                   [&](auto dt, size_t j) HWY_ATTR { TurnHalves<1>(dt, angles, j, half, heads); });
}

// ---------------------------------------------------------------- pairs (2i, 2i + 1); cosine, sine, cosine …

// One pair, for what no vector of at least two lanes covers.
template <typename TIn, typename TOut>
HWY_INLINE void TurnOnePair(AngleRow angles, size_t j, TokenHeads<TIn, TOut> heads) {
  const hn::CappedTag<float, 1> d1;
  const auto c = hn::LoadU(d1, angles.values + j);
  const auto s = hn::Xor(hn::LoadU(d1, angles.values + j + 1), hn::Set(d1, angles.flip));
  for (size_t h = 0; h < heads.count; ++h) {
    const TIn* p = heads.in + h * heads.in_stride + j;
    TOut* q = heads.out + h * heads.out_stride + j;
    const auto a = LoadF32(d1, p);
    const auto b = LoadF32(d1, p + 1);
    StoreF32(hn::NegMulAdd(b, s, hn::Mul(a, c)), d1, q);
    StoreF32(hn::MulAdd(a, s, hn::Mul(b, c)), d1, q + 1);
  }
}

#if HWY_TARGET == HWY_SCALAR

template <typename TIn, typename TOut>
HWY_INLINE void TurnTokenNeighbours(AngleRow angles, size_t d_rot, TokenHeads<TIn, TOut> heads) {
  for (size_t j = 0; j < d_rot; j += 2) TurnOnePair(angles, j, heads);
}

#else

// One vector of neighbours [a0 b0 a1 b1 …]: x·[c0 c0 …] + swapped(x)·[−s0 s0 …]. One load, one shuffle and
// one store. (x86 can duplicate lanes while it loads, which needs no shuffle but two loads: where the load
// and store ports are the limit, as in the first-level cache, that was measured at 0.7 of the speed.)
template <class D, class V, typename TIn, typename TOut>
HWY_INLINE void TurnNeighbours(D d, V cosine, V sine, const TIn* p, TOut* q) {
  const V x = LoadF32(d, p);
  StoreF32(hn::MulAdd(x, cosine, hn::Mul(hn::Reverse2(d, x), sine)), d, q);
}

// Dimensions [j, j + kVectors · lanes) of every head.
template <size_t kVectors, class D, typename TIn, typename TOut>
HWY_INLINE void TurnNeighbourVectors(D d, AngleRow angles, size_t j, TokenHeads<TIn, TOut> heads) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const V flip = hn::Set(d, angles.flip);
  // [c s c s …] → [−s s −s s …]
  const auto sine = [&](V angle) HWY_ATTR {
    const V s = hn::Xor(hn::DupOdd(angle), flip);
    return hn::OddEven(s, hn::Neg(s));
  };
  const auto load = [&](size_t v)
                        HWY_ATTR { return hn::LoadU(d, angles.values + j + (v < kVectors ? v * lanes : 0)); };
  const V a0 = load(0), a1 = load(1), a2 = load(2), a3 = load(3);
  const V a4 = load(4), a5 = load(5), a6 = load(6), a7 = load(7);
  const V c0 = hn::DupEven(a0), c1 = hn::DupEven(a1), c2 = hn::DupEven(a2), c3 = hn::DupEven(a3);
  const V c4 = hn::DupEven(a4), c5 = hn::DupEven(a5), c6 = hn::DupEven(a6), c7 = hn::DupEven(a7);
  const V s0 = sine(a0), s1 = sine(a1), s2 = sine(a2), s3 = sine(a3);
  const V s4 = sine(a4), s5 = sine(a5), s6 = sine(a6), s7 = sine(a7);
  for (size_t h = 0; h < heads.count; ++h) {
    const TIn* p = heads.in + h * heads.in_stride + j;
    TOut* q = heads.out + h * heads.out_stride + j;
    PrefetchHead(p, heads.in_stride, kVectors * lanes);
    TurnNeighbours(d, c0, s0, p, q);
    if constexpr (kVectors > 1) TurnNeighbours(d, c1, s1, p + lanes, q + lanes);
    if constexpr (kVectors > 2) {
      TurnNeighbours(d, c2, s2, p + 2 * lanes, q + 2 * lanes);
      TurnNeighbours(d, c3, s3, p + 3 * lanes, q + 3 * lanes);
    }
    if constexpr (kVectors > 4) {
      TurnNeighbours(d, c4, s4, p + 4 * lanes, q + 4 * lanes);
      TurnNeighbours(d, c5, s5, p + 5 * lanes, q + 5 * lanes);
      TurnNeighbours(d, c6, s6, p + 6 * lanes, q + 6 * lanes);
      TurnNeighbours(d, c7, s7, p + 7 * lanes, q + 7 * lanes);
    }
  }
}

// The same for bf16, 2 · lanes dimensions: the even elements are the a of each pair, the odd ones the b.
template <size_t kPairs, class D>
HWY_INLINE void TurnNeighbourPairs(D d, AngleRow angles, size_t j, TokenHeads<Bf16, Bf16> heads) {
  using V = hn::Vec<D>;
  const size_t step = 2 * hn::Lanes(d);
  const V flip = hn::Set(d, angles.flip);
  const auto at = [&](size_t v) { return j + (v < kPairs ? v : 0) * step; };
  V c0, s0, c1, s1, c2, s2, c3, s3;
  hn::LoadInterleaved2(d, angles.values + at(0), c0, s0);
  hn::LoadInterleaved2(d, angles.values + at(1), c1, s1);
  hn::LoadInterleaved2(d, angles.values + at(2), c2, s2);
  hn::LoadInterleaved2(d, angles.values + at(3), c3, s3);
  s0 = hn::Xor(s0, flip), s1 = hn::Xor(s1, flip), s2 = hn::Xor(s2, flip), s3 = hn::Xor(s3, flip);
  const auto turn = [&](const Bf16* p, Bf16* q, V c, V s) HWY_ATTR {
    V a, b;
    LoadPair(d, p, a, b);
    StorePair(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, q);
  };
  for (size_t h = 0; h < heads.count; ++h) {
    const Bf16* p = heads.in + h * heads.in_stride;
    Bf16* q = heads.out + h * heads.out_stride;
    PrefetchHead(p + j, heads.in_stride, kPairs * step);
    turn(p + at(0), q + at(0), c0, s0);
    if constexpr (kPairs > 1) turn(p + at(1), q + at(1), c1, s1);
    if constexpr (kPairs > 2) {
      turn(p + at(2), q + at(2), c2, s2);
      turn(p + at(3), q + at(3), c3, s3);
    }
  }
}

// The rest in ever smaller vectors, down to one pair.
template <size_t kMaxLanes, typename TIn, typename TOut>
HWY_INLINE void TurnNeighboursInTail(AngleRow angles, size_t j, size_t d_rot, TokenHeads<TIn, TOut> heads) {
  if constexpr (kMaxLanes >= 2) {
    const hn::CappedTag<float, kMaxLanes> dt;
    const size_t lanes = hn::Lanes(dt);
    if (lanes >= 2) {
      for (; j + lanes <= d_rot; j += lanes) TurnNeighbourVectors<1>(dt, angles, j, heads);
    }
    TurnNeighboursInTail<kMaxLanes / 2>(angles, j, d_rot, heads);
  } else {
    for (; j + 2 <= d_rot; j += 2) TurnOnePair(angles, j, heads);
  }
}

template <typename TIn, typename TOut>
HWY_INLINE void TurnTokenNeighbours(AngleRow angles, size_t d_rot, TokenHeads<TIn, TOut> heads) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  // 16 vectors of angles fit in 32 registers, not in 16.
  constexpr size_t kMost = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  size_t j = 0;
  if (lanes >= 2) {
    if constexpr (kHasPairs<TIn> && kHasPairs<TOut>) {
      for (; j + 8 * lanes <= d_rot; j += 8 * lanes) TurnNeighbourPairs<4>(d, angles, j, heads);
      if (j + 4 * lanes <= d_rot) {
        TurnNeighbourPairs<2>(d, angles, j, heads);
        j += 4 * lanes;
      }
      if (j + 2 * lanes <= d_rot) {
        TurnNeighbourPairs<1>(d, angles, j, heads);
        j += 2 * lanes;
      }
    }
    for (; j + kMost * lanes <= d_rot; j += kMost * lanes) {
      TurnNeighbourVectors<kMost>(d, angles, j, heads);
    }
    if (kMost > 4 && j + 4 * lanes <= d_rot) {
      TurnNeighbourVectors<4>(d, angles, j, heads);
      j += 4 * lanes;
    }
    if (j + 2 * lanes <= d_rot) {
      TurnNeighbourVectors<2>(d, angles, j, heads);
      j += 2 * lanes;
    }
    if (j + lanes <= d_rot) {
      TurnNeighbourVectors<1>(d, angles, j, heads);
      j += lanes;
    }
  }
  TurnNeighboursInTail<8>(angles, j, d_rot, heads);
}

#endif  // HWY_SCALAR

// A token's heads: turned in the first d_rot dimensions; out of place, the others are copied.
template <bool kHalf, typename TIn, typename TOut>
HWY_INLINE void TurnToken(AngleRow angles, size_t d_rot, size_t d_head, TokenHeads<TIn, TOut> heads) {
  if constexpr (kHalf) {
    TurnTokenHalf(angles, d_rot, heads);
  } else {
    TurnTokenNeighbours(angles, d_rot, heads);
  }
  if (d_rot == d_head || static_cast<const void*>(heads.in) == static_cast<const void*>(heads.out)) return;
  for (size_t h = 0; h < heads.count; ++h) {
    const TIn* p = heads.in + h * heads.in_stride + d_rot;
    TOut* q = heads.out + h * heads.out_stride + d_rot;
    ForEachVector(hn::ScalableTag<float>(), d_head - d_rot,
                  [&](auto d, size_t i) HWY_ATTR { StoreF32(LoadF32(d, p + i), d, q + i); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
