// One row's product with kVectors vectors, formats of 32 weights a block (q8_0, q4_0), for every Highway
// target. Blocks are taken in groups that fill 64 bytes; each 32-bit lane of a sum belongs to one block, and
// is scaled as the block is. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#undef ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#else
#define ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/byte_dot-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/mat_vec_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How far ahead of the row's bytes the next ones are asked for: the hardware's own prefetcher stops at the
// end of a page and starts late in the next.
inline constexpr size_t kWeightsAhead = 1024;

HWY_INLINE float LoadHalf(const uint8_t* p) {
  return hn::GetLane(LoadF32(hn::FixedTag<float, 4>(), reinterpret_cast<const F16*>(p)));
}

// A vector whose lanes belong to consecutive blocks of kBlockBytes from `block` on, kLanes lanes a block:
// their scales, f16 at the start of each. A vector of part of a block: its scale in every lane.
template <size_t kBlockBytes, size_t kLanes>
HWY_INLINE hn::Vec<DF32> BlockScales(const uint8_t* block) {
  const DF32 d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  static_assert(kBlockBytes % 2 == 0 && (16 / kLanes - 1) * kBlockBytes < 64);
  // Highway 1.0.3 moves 32-bit lanes across a vector, not 16-bit ones.
  alignas(64) static constexpr auto kAt = [] {
    struct {
      uint16_t word[32];
    } lanes{};
    for (size_t i = 0; i < 32; ++i) {
      lanes.word[i] = static_cast<uint16_t>(i % 16 / kLanes * (kBlockBytes / 2));
    }
    return lanes;
  }();
  const __m512i halves = _mm512_permutexvar_epi16(_mm512_load_si512(kAt.word), _mm512_loadu_si512(block));
  return hn::Vec<DF32>{_mm512_cvtph_ps(_mm512_castsi512_si256(halves))};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (kLanes == 4) {
    const hn::Half<DF32> dh;
    return hn::Combine(d, hn::Set(dh, LoadHalf(block + kBlockBytes)), hn::Set(dh, LoadHalf(block)));
  } else {
    return hn::Set(d, LoadHalf(block));
  }
#else
  return hn::Set(d, LoadHalf(block));
#endif
}

// 16 bytes at each of p, p + stride …, as many as fill a vector.
template <size_t kStride>
HWY_INLINE hn::Vec<DU8> LoadSixteens(const uint8_t* p) {
  const DU8 d;
  const hn::FixedTag<uint8_t, 16> d16;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Half<DU8> dh;
  const auto low = hn::Combine(dh, hn::LoadU(d16, p + kStride), hn::LoadU(d16, p));
  const auto high = hn::Combine(dh, hn::LoadU(d16, p + 3 * kStride), hn::LoadU(d16, p + 2 * kStride));
  return hn::Combine(d, high, low);
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Combine(d, hn::LoadU(d16, p + kStride), hn::LoadU(d16, p));
#else
  (void)d;
  return hn::LoadU(d16, p);
#endif
}

// 32 bytes at each of p, p + stride; a shorter vector: its length at p.
template <size_t kStride>
HWY_INLINE hn::Vec<DU8> LoadThirtyTwos(const uint8_t* p) {
  const DU8 d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::Half<DU8> dh;
  return hn::Combine(d, hn::LoadU(dh, p + kStride), hn::LoadU(dh, p));
#else
  return hn::LoadU(d, p);
#endif
}

struct FormatQ80 {
  using X = ActivationsQ80;
  static constexpr size_t kBlockBytes = 34, kBlockWeights = 32;

  // Lanes [lane, lane + Lanes) of a group's sums: whole numbers, and the scale of each.
  template <size_t kVectors>
  static HWY_INLINE void Sum(const uint8_t* group, size_t lane, const X* const* x, hn::Vec<DF32>* sums) {
    const DI8 di;
    const DI32 d32;
    const DF32 df;
    const uint8_t* block = group + lane / 8 * kBlockBytes;
    const auto w = LoadThirtyTwos<kBlockBytes>(block + 2 + lane % 8 * 4);
    const auto scale = BlockScales<kBlockBytes, 8>(block);
#if ROPELINE_BYTE_DOT
    const auto unsigned_w = hn::Xor(w, hn::Set(DU8(), 0x80));
#else
    const auto signed_w = hn::BitCast(di, w);
    const auto unsigned_w = hn::BitCast(DU8(), hn::Abs(signed_w));
    const auto negative = hn::Lt(signed_w, hn::Zero(di));
#endif
    for (size_t i = 0; i < kVectors; ++i) {
      auto q = hn::LoadU(di, x[i]->q + 4 * lane);
#if ROPELINE_BYTE_DOT
      const auto start = hn::LoadU(d32, x[i]->offset + lane);
#else
      q = hn::IfThenElse(negative, hn::Neg(q), q);
      const auto start = hn::Zero(d32);
#endif
      const auto sum = AddFours(start, unsigned_w, q);
      sums[i] =
          hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(scale, hn::LoadU(df, x[i]->scale + lane)), sums[i]);
    }
  }
};

struct FormatQ40 {
  using X = ActivationsQ40;
  static constexpr size_t kBlockBytes = 18, kBlockWeights = 32;

  template <size_t kVectors>
  static HWY_INLINE void Sum(const uint8_t* group, size_t lane, const X* const* x, hn::Vec<DF32>* sums) {
    const DU8 du;
    const DI8 di;
    const DI32 d32;
    const DF32 df;
    const uint8_t* block = group + lane / 4 * kBlockBytes;
    const auto nibbles = LoadSixteens<kBlockBytes>(block + 2);
    const auto scale = BlockScales<kBlockBytes, 4>(block);
    const auto low = hn::And(nibbles, hn::Set(du, 0x0f));
    const auto high = hn::ShiftRight<4>(nibbles);
    for (size_t i = 0; i < kVectors; ++i) {
      auto sum = hn::LoadU(d32, x[i]->offset + lane);
      sum = AddFours(sum, low, hn::LoadU(di, x[i]->low + 4 * lane));
      sum = AddFours(sum, high, hn::LoadU(di, x[i]->high + 4 * lane));
      sums[i] =
          hn::MulAdd(hn::ConvertTo(df, sum), hn::Mul(scale, hn::LoadU(df, x[i]->scale + lane)), sums[i]);
    }
  }
};

// y[i] = row · x[i]. A last group of fewer blocks is filled up with zeros in a copy.
template <class Format, size_t kVectors>
HWY_INLINE void DotBlocks(const uint8_t* row, size_t cols, const typename Format::X* const* vectors,
                          float* const* y) {
  using X = typename Format::X;
  constexpr size_t kGroupBytes = X::kBlocks * Format::kBlockBytes;
  const DF32 df;
  const size_t lanes = hn::Lanes(df);
  const size_t blocks = cols / Format::kBlockWeights, groups = blocks / X::kBlocks;
  hn::Vec<DF32> sums[kVectors];
  const X* x[kVectors];
  for (size_t i = 0; i < kVectors; ++i) sums[i] = hn::Zero(df), x[i] = vectors[i];
  for (size_t g = 0; g < groups; ++g) {
    const uint8_t* group = row + g * kGroupBytes;
    hwy::Prefetch(group + kWeightsAhead);
    if constexpr (kGroupBytes > 64) {
      if (g % 8 == 0) hwy::Prefetch(group + kWeightsAhead + 64 * (kGroupBytes / 64));
    }
    for (size_t lane = 0; lane < 16; lane += lanes) Format::template Sum<kVectors>(group, lane, x, sums);
    for (size_t i = 0; i < kVectors; ++i) ++x[i];
  }
  if (const size_t rest = blocks % X::kBlocks; rest != 0) {
    uint8_t group[kGroupBytes + 64] = {};  // a vector of scales reads 64 bytes
    std::memcpy(group, row + groups * kGroupBytes, rest * Format::kBlockBytes);
    for (size_t lane = 0; lane < 16; lane += lanes) Format::template Sum<kVectors>(group, lane, x, sums);
  }
  for (size_t i = 0; i < kVectors; ++i) *y[i] = hn::GetLane(hn::SumOfLanes(df, sums[i]));
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // ROPELINE_KERNELS_MAT_VEC_BLOCKS_INL_H_
