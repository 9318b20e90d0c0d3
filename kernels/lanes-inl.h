// Loops over lanes, for every Highway target. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_LANES_INL_H_
#undef ROPELINE_KERNELS_LANES_INL_H_
#else
#define ROPELINE_KERNELS_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

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
template <class D, class Whole, class Part>
HWY_INLINE void UpdateTail(D d, float* x, size_t i, size_t n, size_t room, const Whole& whole,
                           const Part& part) {
  if (i >= n) return;
  if (i + hn::Lanes(d) <= room) {
    const auto old = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenElse(hn::FirstN(d, n - i), whole(d, old, i), old), d, x + i);
    return;
  }
  ForEachInTail<8>(
      d, i, n, [&](auto dt, size_t j) HWY_ATTR { hn::StoreU(part(dt, hn::LoadU(dt, x + j), j), dt, x + j); });
}

// x[i] = f(tag, x[i], i) for i in [0, n); room as above.
template <class D, class F>
HWY_INLINE void UpdateRow(D d, float* x, size_t n, size_t room, const F& f) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = f(d, hn::LoadU(d, x + i), i);
    const auto v1 = f(d, hn::LoadU(d, x + i + lanes), i + lanes);
    const auto v2 = f(d, hn::LoadU(d, x + i + 2 * lanes), i + 2 * lanes);
    const auto v3 = f(d, hn::LoadU(d, x + i + 3 * lanes), i + 3 * lanes);
    hn::StoreU(v0, d, x + i);
    hn::StoreU(v1, d, x + i + lanes);
    hn::StoreU(v2, d, x + i + 2 * lanes);
    hn::StoreU(v3, d, x + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i), i), d, x + i);
  UpdateTail(d, x, i, n, room, f, f);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
