// The products of mat_vec_blocks-inl.h and mat_vec_k-inl.h for Highway's target without vectors, which some
// compilers have in place of the emulated ones. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_MAT_VEC_SCALAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_MAT_VEC_SCALAR_INL_H_
#undef ROPELINE_KERNELS_MAT_VEC_SCALAR_INL_H_
#else
#define ROPELINE_KERNELS_MAT_VEC_SCALAR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/mat_vec_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

inline constexpr size_t kWeightsAhead = 4096;

inline float HalfOf(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return FloatFromF16(bits);
}

// Σ over a block or a super-block, in the weights' own order; X has another.
struct FormatQ80 {
  using X = ActivationsQ80;
  static constexpr size_t kBlockBytes = 34, kWeights = 32;
  static float Product(const uint8_t* block, const X& x, size_t b) {
    int32_t sum = 0;
    for (size_t i = 0; i < 32; ++i) sum += static_cast<int8_t>(block[2 + i]) * x.q[32 * b + i];
    return static_cast<float>(sum) * (HalfOf(block) * x.scale[8 * b]);
  }
};

struct FormatQ40 {
  using X = ActivationsQ40;
  static constexpr size_t kBlockBytes = 18, kWeights = 32;
  static float Product(const uint8_t* block, const X& x, size_t b) {
    int32_t sum = 0;
    for (size_t i = 0; i < 16; ++i) {
      sum += ((block[2 + i] & 0xf) - 8) * x.low[16 * b + i] + ((block[2 + i] >> 4) - 8) * x.high[16 * b + i];
    }
    return static_cast<float>(sum) * (HalfOf(block) * x.scale[4 * b]);
  }
};

struct FormatQ4K {
  using X = ActivationsQ4K;
  static constexpr size_t kBlockBytes = 144, kWeights = 256;
  static float Product(const uint8_t* block, const X& x, size_t) {
    const uint8_t* six = block + 4;
    int32_t sum = 0, minima = 0;
    for (size_t j = 0; j < 8; ++j) {
      const int scale = j < 4 ? six[j] & 63 : (six[j + 4] & 0xf) | (six[j - 4] >> 6) << 4;
      const int minimum = j < 4 ? six[j + 4] & 63 : (six[j + 4] >> 4) | (six[j] >> 6) << 4;
      const uint8_t* nibbles = block + 16 + 32 * (j / 2);
      const int8_t* q = (j % 2 == 0 ? x.low : x.high) + 32 * (j / 2);
      int32_t part = 0;
      for (size_t i = 0; i < 32; ++i) part += (j % 2 == 0 ? nibbles[i] & 0xf : nibbles[i] >> 4) * q[i];
      sum += part * scale;
      minima += minimum * x.sums[j];
    }
    return x.scale *
           (HalfOf(block) * static_cast<float>(sum) - HalfOf(block + 2) * static_cast<float>(minima));
  }
};

struct FormatQ6K {
  using X = ActivationsQ6K;
  static constexpr size_t kBlockBytes = 210, kWeights = 256;
  static float Product(const uint8_t* block, const X& x, size_t) {
    int32_t sum = 0;
    for (size_t w = 0; w < 256; ++w) {
      const size_t half = w / 128, run = w % 128 / 32, i = w % 32;
      const uint8_t low = block[64 * half + run % 2 * 32 + i], upper = block[128 + 32 * half + i];
      const int q = (run < 2 ? low & 0xf : low >> 4) | ((upper >> (2 * run)) & 3) << 4;
      sum += static_cast<int8_t>(block[192 + w / 16]) * (q - 32) * x.q[run][32 * half + i];
    }
    return x.scale * HalfOf(block + 208) * static_cast<float>(sum);
  }
};

template <class Format, size_t kVectors, size_t kRows>
void DotBlocks(const uint8_t* first_row, size_t stride, size_t cols, const typename Format::X* const* x,
               float* const* y) {
  constexpr size_t kBlocks = Format::X::kBlocks;
  for (size_t i = 0; i < kVectors; ++i) {
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* row = first_row + r * stride;
      float sum = 0;
      for (size_t b = 0; b < cols / Format::kWeights; ++b) {
        sum += Format::Product(row + b * Format::kBlockBytes, x[i][b / kBlocks], b % kBlocks);
      }
      y[i][r] = sum;
    }
  }
}

template <class Format, size_t kVectors, size_t kRows>
void DotSuperBlocks(const uint8_t* first_row, size_t stride, size_t cols, const typename Format::X* const* x,
                    float* const* y) {
  DotBlocks<Format, kVectors, kRows>(first_row, stride, cols, x, y);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // ROPELINE_KERNELS_MAT_VEC_SCALAR_INL_H_
