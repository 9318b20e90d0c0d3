// Loops over lanes, for every Highway target. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_LANES_INL_H_
#undef ROPELINE_KERNELS_LANES_INL_H_
#else
#define ROPELINE_KERNELS_LANES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>

#include "kernels/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The rest [i, n), in ever smaller vectors down to one lane: no lane outside is read or written, and the body
// is the same as in the main loop.
template <size_t kMaxLanes, class D, class Body>
HWY_INLINE void ForEachInTail(D d, size_t i, size_t n, const Body& body) {
  const hn::CappedTag<hn::TFromD<D>, kMaxLanes> dt;
  const size_t lanes = hn::Lanes(dt);
  for (; i + lanes <= n; i += lanes) body(dt, i);
  if constexpr (kMaxLanes > 1) ForEachInTail<kMaxLanes / 2>(d, i, n, body);
}

// body(tag, i) for i in [0, n): whole vectors, then the tail.
template <class D, class Body>
HWY_INLINE void ForEachVector(D d, size_t n, const Body& body) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  if (i < n) ForEachInTail<8>(d, i, n, body);
}

// x[j] = f(tag, x[j], j) for j in [i, n), fewer than one vector, where memory up to x[room) may be read and
// written back unchanged (room >= n): `whole` on one blended vector where there is room for it, else `part`
// on smaller ones. Both compute the same f.
template <class D, typename T, class Whole, class Part>
HWY_INLINE void UpdateTail(D d, T* x, size_t i, size_t n, size_t room, const Whole& whole, const Part& part) {
  if (i >= n) return;
  if (i + hn::Lanes(d) <= room) {
    const auto old = LoadF32(d, x + i);
    StoreF32(hn::IfThenElse(hn::FirstN(d, n - i), whole(d, old, i), old), d, x + i);
    return;
  }
  ForEachInTail<8>(d, i, n,
                   [&](auto dt, size_t j) HWY_ATTR { StoreF32(part(dt, LoadF32(dt, x + j), j), dt, x + j); });
}

// x[i] = f(tag, x[i], i) for i in [0, n); room as above.
template <class D, typename T, class F>
HWY_INLINE void UpdateRow(D d, T* x, size_t n, size_t room, const F& f) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = f(d, LoadF32(d, x + i), i);
    const auto v1 = f(d, LoadF32(d, x + i + lanes), i + lanes);
    const auto v2 = f(d, LoadF32(d, x + i + 2 * lanes), i + 2 * lanes);
    const auto v3 = f(d, LoadF32(d, x + i + 3 * lanes), i + 3 * lanes);
    StoreF32(v0, d, x + i);
    StoreF32(v1, d, x + i + lanes);
    StoreF32(v2, d, x + i + 2 * lanes);
    StoreF32(v3, d, x + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) StoreF32(f(d, LoadF32(d, x + i), i), d, x + i);
  UpdateTail(d, x, i, n, room, f, f);
}

// x[i] += b[i] for i in [0, n); room as above. kAhead: asks for what stands `ahead` elements after x[i].
template <bool kAhead, class D, typename T, typename B>
HWY_INLINE void AddRow(D d, T* x, const B* b, size_t n, size_t room, size_t ahead = 0) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHasPairs<T> && kHasPairs<B>) {
    const size_t step = 2 * hn::Lanes(d);
    for (; i + step <= n; i += step) {
      hn::Vec<D> x0, x1, b0, b1;
      LoadPair(d, x + i, x0, x1);
      LoadPair(d, b + i, b0, b1);
      if constexpr (kAhead) hwy::Prefetch(x + i + ahead);
      StorePair(hn::Add(x0, b0), hn::Add(x1, b1), d, x + i);
    }
  }
#endif
  const auto add = [&](auto dv, auto v, size_t j) HWY_ATTR {
    if constexpr (kAhead) hwy::Prefetch(x + i + j + ahead);
    return hn::Add(v, LoadF32(dv, b + i + j));
  };
  UpdateRow(d, x + i, n - i, room - i, add);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
