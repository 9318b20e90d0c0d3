// Elements and heads from one dtype to another; rounding is to nearest, ties to even.
#ifndef ROPELINE_KERNELS_CONVERT_H_
#define ROPELINE_KERNELS_CONVERT_H_

#include <cstddef>

#include "kernels/cost.h"
#include "kernels/dtype.h"

namespace ropeline {

// out[i] = in[i] for i < n; out is of `dtype`.
void ConvertElements(const float* in, size_t n, Dtype dtype, void* out);

// Heads that stand at regular distances: element i of head h of token t is at
// data[t·token_stride + h·head_stride + i]. Strides are in elements.
struct HeadsView {
  void* data;
  Dtype dtype;
  size_t token_stride;
  size_t head_stride;
};

// [n, n_heads, d_head] from `in` (not written to) to `out`, as K and V are written to a KV cache. dtypes are
// equal or `in` is f32; aborts otherwise.
void ConvertHeads(const HeadsView& in, const HeadsView& out, size_t n, size_t n_heads, size_t d_head);

// Reads and writes each element once; no flops.
Cost ConvertCost(Dtype in, Dtype out, size_t elements);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_CONVERT_H_
