// Transposition of f32 in memory, four by four, for every Highway target. Included inside foreach_target's
// repeated inclusion.
#if defined(ROPELINE_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_TRANSPOSE_INL_H_
#undef ROPELINE_KERNELS_TRANSPOSE_INL_H_
#else
#define ROPELINE_KERNELS_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[c][r] = in[r][c] for r < rows, c < columns; strides in floats.
HWY_INLINE void TransposeSmall(const float* in, size_t in_stride, size_t rows, size_t columns, float* out,
                               size_t out_stride) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) out[c * out_stride + r] = in[r * in_stride + c];
  }
}

// The same of four rows and columns.
HWY_INLINE void TransposeFour(const float* HWY_RESTRICT in, size_t in_stride, float* HWY_RESTRICT out,
                              size_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  TransposeSmall(in, in_stride, 4, 4, out, out_stride);
#else
  const hn::Full128<float> d;
  const auto a = hn::LoadU(d, in), b = hn::LoadU(d, in + in_stride);
  const auto c = hn::LoadU(d, in + 2 * in_stride), e = hn::LoadU(d, in + 3 * in_stride);
  const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const auto ac_upper = hn::InterleaveUpper(d, a, c), be_upper = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac, be), d, out);
  hn::StoreU(hn::InterleaveUpper(d, ac, be), d, out + out_stride);
  hn::StoreU(hn::InterleaveLower(d, ac_upper, be_upper), d, out + 2 * out_stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_upper, be_upper), d, out + 3 * out_stride);
#endif
}

// Of any size.
HWY_INLINE void Transpose(const float* HWY_RESTRICT in, size_t in_stride, size_t rows, size_t columns,
                          float* HWY_RESTRICT out, size_t out_stride) {
  const size_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (size_t c = 0; c < whole_columns; c += 4) {
    for (size_t r = 0; r < whole_rows; r += 4) {
      TransposeFour(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }
  }
  TransposeSmall(in + whole_columns, in_stride, whole_rows, columns - whole_columns,
                 out + whole_columns * out_stride, out_stride);
  TransposeSmall(in + whole_rows * in_stride, in_stride, rows - whole_rows, columns, out + whole_rows,
                 out_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
