// out[t][h][i] = in[t][h][i], rounded
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/convert.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename TIn, typename TOut>
HWY_INLINE void ConvertRow(const TIn* in, TOut* out, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = LoadF32(d, in + i);
    const auto v1 = LoadF32(d, in + i + lanes);
    const auto v2 = LoadF32(d, in + i + 2 * lanes);
    const auto v3 = LoadF32(d, in + i + 3 * lanes);
    StoreF32(v0, d, out + i);
    StoreF32(v1, d, out + i + lanes);
    StoreF32(v2, d, out + i + 2 * lanes);
    StoreF32(v3, d, out + i + 3 * lanes);
  }
  ForEachVector(d, n - i,
                [&](auto dv, size_t j) HWY_ATTR { StoreF32(LoadF32(dv, in + i + j), dv, out + i + j); });
}

template <typename TIn, typename TOut>
void ConvertT(const HeadsView& in, const HeadsView& out, size_t n, size_t n_heads, size_t d_head) {
  // Heads that follow each other are one row.
  const bool whole = in.head_stride == d_head && out.head_stride == d_head;
  const size_t rows = whole ? 1 : n_heads;
  const size_t width = whole ? n_heads * d_head : d_head;
  for (size_t t = 0; t < n; ++t) {
    for (size_t h = 0; h < rows; ++h) {
      ConvertRow(static_cast<const TIn*>(in.data) + t * in.token_stride + h * in.head_stride,
                 static_cast<TOut*>(out.data) + t * out.token_stride + h * out.head_stride, width);
    }
  }
}

void ConvertAny(const HeadsView& in, const HeadsView& out, size_t n, size_t n_heads, size_t d_head) {
  WithType(out.dtype, out.data, [&](auto* typed) HWY_ATTR {
    using TOut = std::remove_reference_t<decltype(*typed)>;
    if (in.dtype == out.dtype) return ConvertT<TOut, TOut>(in, out, n, n_heads, d_head);
    if constexpr (!std::is_same_v<TOut, float>) ConvertT<float, TOut>(in, out, n, n_heads, d_head);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropeline {

HWY_EXPORT(ConvertAny);

void ConvertHeads(const HeadsView& in, const HeadsView& out, size_t n, size_t n_heads, size_t d_head) {
  if (in.dtype != out.dtype && in.dtype != Dtype::kF32) {
    HWY_ABORT("heads from %s to %s, expected equal types or from f32", DtypeName(in.dtype),
              DtypeName(out.dtype));
  }
  HWY_DYNAMIC_DISPATCH(ConvertAny)(in, out, n, n_heads, d_head);
}

void ConvertElements(const float* in, size_t n, Dtype dtype, void* out) {
  ConvertHeads({const_cast<float*>(in), Dtype::kF32, n, n}, {out, dtype, n, n}, 1, 1, n);
}

Cost ConvertCost(Dtype in, Dtype out, size_t elements) {
  const double count = static_cast<double>(elements);
  return {.bytes_read = count * static_cast<double>(DtypeBytes(in)),
          .bytes_written = count * static_cast<double>(DtypeBytes(out)),
          .flops = 0};
}

}  // namespace ropeline
#endif  // HWY_ONCE
