#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mat_vec.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/byte_dot-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/mat_vec.h"
#include "kernels/mat_vec_blocks-inl.h"
#include "kernels/mat_vec_k-inl.h"
#include "kernels/mat_vec_layout.h"
#include "kernels/mat_vec_scalar-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ------------------------------------------------------------------------------------------- plain weights

// y[i][r] = row r · x[i], rows stride bytes apart. At least four sums hide the latency of an FMA.
template <typename T, size_t kVectors, size_t kRows>
HWY_INLINE void DotPlain(const uint8_t* first_row, size_t stride, size_t cols, const float* const* x,
                         float* const* y) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kSums = kVectors * kRows < 4 ? 4 / (kVectors * kRows) : 1;
  hn::Vec<decltype(d)> sums[kSums][kVectors][kRows];
  for (auto& some : sums) {
    for (auto& of_vector : some) {
      for (auto& sum : of_vector) sum = hn::Zero(d);
    }
  }
  const auto add = [&](size_t at, auto& to) HWY_ATTR {
    hn::Vec<decltype(d)> w[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const T* row = reinterpret_cast<const T*>(first_row + r * stride);
      if (at * sizeof(T) % 64 == 0) hwy::Prefetch(row + at + kWeightsAhead / sizeof(T));
      w[r] = LoadF32(d, row + at);
    }
    for (size_t i = 0; i < kVectors; ++i) {
      const auto of_x = hn::LoadU(d, x[i] + at);
      for (size_t r = 0; r < kRows; ++r) to[i][r] = hn::MulAdd(w[r], of_x, to[i][r]);
    }
  };
  size_t c = 0;
  for (; c + kSums * lanes <= cols; c += kSums * lanes) {
    for (size_t s = 0; s < kSums; ++s) add(c + s * lanes, sums[s]);
  }
  for (; c + lanes <= cols; c += lanes) add(c, sums[0]);
  const hn::CappedTag<float, 1> one;
  for (size_t i = 0; i < kVectors; ++i) {
    for (size_t r = 0; r < kRows; ++r) {
      const T* row = reinterpret_cast<const T*>(first_row + r * stride);
      for (size_t s = 1; s < kSums; ++s) sums[0][i][r] = hn::Add(sums[0][i][r], sums[s][i][r]);
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[0][i][r]));
      for (size_t rest = c; rest < cols; ++rest) {
        sum = hn::GetLane(hn::MulAdd(LoadF32(one, row + rest), hn::Set(one, x[i][rest]), hn::Set(one, sum)));
      }
      y[i][r] = sum;
    }
  }
}

// --------------------------------------------------------------------------------------------- all formats

// Rows taken together share what is read of the vectors. Blocks with one vector are better off alone: they
// wait for memory, and one row after the other is one stream of it.
template <class X>
constexpr size_t RowsTogether(size_t vectors) {
  return vectors > 1 || std::is_same_v<X, float> ? 2 : 1;
}

template <size_t kVectors, size_t kRows>
struct Together {
  static constexpr size_t kV = kVectors, kR = kRows;
};

// Rows [first, end) for vectors [from, from + kVectors).
template <class X, size_t kVectors, class Dot>
HWY_INLINE void RowsTimes(const WeightMatrix& w, const X* const* x, size_t first, size_t end, float* y,
                          size_t from, const Dot& dot) {
  constexpr size_t kRows = RowsTogether<X>(kVectors);
  const size_t stride = w.RowBytes();
  float* to[kVectors];
  size_t row = first;
  for (; row + kRows <= end; row += kRows) {
    for (size_t i = 0; i < kVectors; ++i) to[i] = y + (from + i) * w.rows + row;
    dot(Together<kVectors, kRows>(), w.Row(row), stride, w.cols, x + from, to);
  }
  for (; row < end; ++row) {
    for (size_t i = 0; i < kVectors; ++i) to[i] = y + (from + i) * w.rows + row;
    dot(Together<kVectors, 1>(), w.Row(row), stride, w.cols, x + from, to);
  }
}

// A few rows at a time stay in the first-level cache for the vectors' next pass.
constexpr size_t kRowsBytes = 16 << 10;

template <class X, class Dot>
HWY_INLINE void MatrixTimes(const WeightMatrix& w, const X* const* x, size_t n, size_t first, size_t end,
                            float* y, const Dot& dot) {
  const bool once = n == 1 || n == 2 || n == 4;
  const size_t step = once ? end - first : std::max(RowsTogether<X>(4), kRowsBytes / w.RowBytes());
  for (size_t row = first; row < end; row += step) {
    const size_t last = std::min(end, row + step);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) RowsTimes<X, 4>(w, x, row, last, y, i, dot);
    if (i + 2 <= n) {
      RowsTimes<X, 2>(w, x, row, last, y, i, dot);
      i += 2;
    }
    if (i < n) RowsTimes<X, 1>(w, x, row, last, y, i, dot);
  }
}

template <typename T>
void PlainTimes(const WeightMatrix& w, const Activations& x, size_t first, size_t end, float* y) {
  const float* vectors[kMostVectors];
  for (size_t i = 0; i < x.n(); ++i) vectors[i] = x.Values(i);
  MatrixTimes(w, vectors, x.n(), first, end, y,
              [](auto together, const uint8_t* row, size_t stride, size_t cols, const float* const* v,
                 float* const* to) HWY_ATTR {
                DotPlain<T, decltype(together)::kV, decltype(together)::kR>(row, stride, cols, v, to);
              });
}

template <class Format>
void BlocksTimes(const WeightMatrix& w, const Activations& x, size_t first, size_t end, float* y) {
  using X = typename Format::X;
  const X* vectors[kMostVectors];
  for (size_t i = 0; i < x.n(); ++i) vectors[i] = reinterpret_cast<const X*>(x.Blocks(i));
  MatrixTimes(w, vectors, x.n(), first, end, y,
              [](auto together, const uint8_t* row, size_t stride, size_t cols, const X* const* v,
                 float* const* to) HWY_ATTR {
                constexpr size_t kV = decltype(together)::kV, kR = decltype(together)::kR;
                if constexpr (X::kBlocks == 1) {
                  DotSuperBlocks<Format, kV, kR>(row, stride, cols, v, to);
                } else {
                  DotBlocks<Format, kV, kR>(row, stride, cols, v, to);
                }
              });
}

void MatVecT(const WeightMatrix& w, const Activations& x, size_t first, size_t end, float* y) {
  switch (w.dtype) {
    case WeightDtype::kF32:
      return PlainTimes<float>(w, x, first, end, y);
    case WeightDtype::kF16:
      return PlainTimes<F16>(w, x, first, end, y);
    case WeightDtype::kBf16:
      return PlainTimes<Bf16>(w, x, first, end, y);
    case WeightDtype::kQ80:
      return BlocksTimes<FormatQ80>(w, x, first, end, y);
    case WeightDtype::kQ40:
      return BlocksTimes<FormatQ40>(w, x, first, end, y);
    case WeightDtype::kQ4K:
      return BlocksTimes<FormatQ4K>(w, x, first, end, y);
    case WeightDtype::kQ6K:
      return BlocksTimes<FormatQ6K>(w, x, first, end, y);
  }
}

// --------------------------------------------------------------------------------------------- activations

// Rounds n numbers (a multiple of 32) to int8, the largest magnitude to 127. Returns the scale.
HWY_INLINE float Quantise(const float* x, size_t n, int8_t* q) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + i)));
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  const auto inverse = hn::Set(d, most > 0 ? 127 / most : 0);
  for (size_t i = 0; i < n; i += lanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse));
    hn::StoreU(hn::DemoteTo(d8, rounded), d8, q + i);
  }
  return most / 127;
}

template <size_t kCount>
HWY_INLINE int32_t SumOf(const int8_t* q) {
  int32_t sum = 0;
  for (size_t i = 0; i < kCount; ++i) sum += q[i];
  return sum;
}

// −factor · the sum of four neighbours of `a`, and of `b` where there is one.
template <int kFactor>
HWY_INLINE void OffsetsOf(const int8_t* a, const int8_t* b, int32_t* offset) {
#if HWY_TARGET == HWY_SCALAR
  (void)a, (void)b, (void)offset;  // weights are read with their sign
#else
  const DU8 du;
  const DI8 di;
  const DI32 d32;
  const auto one = hn::Set(du, 1);
  for (size_t i = 0; i < 64; i += hn::Lanes(du)) {
    auto sum = AddFours(hn::Zero(d32), one, hn::LoadU(di, a + i));
    if (b != nullptr) sum = AddFours(sum, one, hn::LoadU(di, b + i));
    hn::StoreU(hn::Mul(sum, hn::Set(d32, -kFactor)), d32, offset + i / 4);
  }
#endif
}

void PrepareQ80(const float* x, size_t cols, uint8_t* out) {
  constexpr size_t kBlocks = ActivationsQ80::kBlocks;
  auto* group = reinterpret_cast<ActivationsQ80*>(out);
  for (size_t block = 0; block < cols / 32; block += kBlocks, ++group) {
    const size_t count = std::min(kBlocks, cols / 32 - block);
    if (count < kBlocks) std::memset(group, 0, sizeof(*group));
    for (size_t b = 0; b < count; ++b) {
      std::fill_n(group->scale + 8 * b, 8, Quantise(x + 32 * (block + b), 32, group->q + 32 * b));
    }
    // Where weights are read as q + 128.
    if constexpr (ROPELINE_BYTE_DOT) OffsetsOf<128>(group->q, nullptr, group->offset);
  }
}

void PrepareQ40(const float* x, size_t cols, uint8_t* out) {
  constexpr size_t kBlocks = ActivationsQ40::kBlocks;
  auto* group = reinterpret_cast<ActivationsQ40*>(out);
  for (size_t block = 0; block < cols / 32; block += kBlocks, ++group) {
    const size_t count = std::min(kBlocks, cols / 32 - block);
    if (count < kBlocks) std::memset(group, 0, sizeof(*group));
    for (size_t b = 0; b < count; ++b) {
      int8_t q[32];
      std::fill_n(group->scale + 4 * b, 4, Quantise(x + 32 * (block + b), 32, q));
      std::memcpy(group->low + 16 * b, q, 16);
      std::memcpy(group->high + 16 * b, q + 16, 16);
    }
    OffsetsOf<8>(group->low, group->high, group->offset);
  }
}

void PrepareQ4K(const float* x, size_t cols, uint8_t* out) {
  auto* block = reinterpret_cast<ActivationsQ4K*>(out);
  for (size_t at = 0; at < cols; at += 256, ++block) {
    int8_t q[256];
    block->scale = Quantise(x + at, 256, q);
    for (size_t c = 0; c < 4; ++c) {
      std::memcpy(block->low + 32 * c, q + 64 * c, 32);
      std::memcpy(block->high + 32 * c, q + 64 * c + 32, 32);
    }
    for (size_t j = 0; j < 8; ++j) block->sums[j] = static_cast<int16_t>(SumOf<32>(q + 32 * j));
  }
}

void PrepareQ6K(const float* x, size_t cols, uint8_t* out) {
  auto* block = reinterpret_cast<ActivationsQ6K*>(out);
  for (size_t at = 0; at < cols; at += 256, ++block) {
    int8_t q[256];
    block->scale = Quantise(x + at, 256, q);
    for (size_t r = 0; r < 4; ++r) {
      for (size_t h = 0; h < 2; ++h) std::memcpy(block->q[r] + 32 * h, q + 128 * h + 32 * r, 32);
    }
    for (size_t j = 0; j < 16; ++j) block->sums[j] = static_cast<int16_t>(SumOf<16>(q + 16 * j));
  }
}

void PrepareT(WeightDtype dtype, const float* x, size_t cols, uint8_t* out) {
  switch (dtype) {
    case WeightDtype::kQ80:
      return PrepareQ80(x, cols, out);
    case WeightDtype::kQ40:
      return PrepareQ40(x, cols, out);
    case WeightDtype::kQ4K:
      return PrepareQ4K(x, cols, out);
    case WeightDtype::kQ6K:
      return PrepareQ6K(x, cols, out);
    default:
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ropeline {

namespace {

HWY_EXPORT(MatVecT);
HWY_EXPORT(PrepareT);

void Require(bool holds, const char* what) {
  if (!holds) HWY_ABORT("MatVec: %s", what);
}

// Bytes of a vector made ready.
size_t PreparedBytes(WeightDtype dtype, size_t cols) {
  const auto groups = [&](size_t weights) { return (cols + weights - 1) / weights; };
  switch (dtype) {
    case WeightDtype::kQ80:
      return groups(64) * sizeof(ActivationsQ80);
    case WeightDtype::kQ40:
      return groups(128) * sizeof(ActivationsQ40);
    case WeightDtype::kQ4K:
      return groups(256) * sizeof(ActivationsQ4K);
    case WeightDtype::kQ6K:
      return groups(256) * sizeof(ActivationsQ6K);
    default:
      return 0;
  }
}

}  // namespace

void Activations::Prepare(WeightDtype dtype, const float* x, size_t n, size_t cols) {
  Require(n <= kMostVectors, "too many vectors");
  Require(cols % WeightBlockOf(dtype).weights == 0, "the width is no multiple of a block");
  dtype_ = dtype, n_ = n, cols_ = cols;
  if (!IsBlocked(dtype)) {
    values_.assign(x, x + n * cols);
    return;
  }
  block_stride_ = PreparedBytes(dtype, cols);
  // 64 more: the vectors start at a line.
  if (blocks_.size() < n * block_stride_ + 64) blocks_.resize(n * block_stride_ + 64);
  for (size_t i = 0; i < n; ++i) {
    HWY_DYNAMIC_DISPATCH(PrepareT)(dtype, x + i * cols, cols, const_cast<uint8_t*>(Blocks(i)));
  }
}

const uint8_t* Activations::Blocks(size_t i) const {
  const auto address = reinterpret_cast<uintptr_t>(blocks_.data());
  return blocks_.data() + (64 - address % 64) % 64 + i * block_stride_;
}

void MatVec(const WeightMatrix& w, const Activations& x, size_t first_row, size_t end_row, float* y) {
  Require(x.dtype() == w.dtype && x.cols() == w.cols, "the vectors were made ready for another matrix");
  Require(first_row <= end_row && end_row <= w.rows, "rows beyond the matrix");
  HWY_DYNAMIC_DISPATCH(MatVecT)(w, x, first_row, end_row, y);
}

Cost MatVecCost(WeightDtype dtype, size_t rows, size_t cols, size_t n) {
  const auto weights = static_cast<double>(rows) * static_cast<double>(cols);
  const auto vectors = static_cast<double>(n);
  return {static_cast<double>(rows * WeightRowBytes(dtype, cols)) + 4 * vectors * static_cast<double>(cols),
          4 * vectors * static_cast<double>(rows), 2 * weights * vectors};
}

Cost PrepareCost(WeightDtype dtype, size_t cols, size_t n) {
  const double numbers = static_cast<double>(cols) * static_cast<double>(n);
  return {4 * numbers, (IsBlocked(dtype) ? 1 : 4) * numbers, 0};
}

}  // namespace ropeline
#endif  // HWY_ONCE
