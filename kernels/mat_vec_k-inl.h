// One row's product with kVectors vectors, formats of 256 weights a block (q4_K, q6_K), for every Highway
// target. A sub-block's scale multiplies sums of two products while they are 16-bit whole numbers, so that
// one conversion to f32 serves 256 weights. Included inside foreach_target's repeated inclusion.
#if defined(ROPELINE_KERNELS_MAT_VEC_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_MAT_VEC_K_INL_H_
#undef ROPELINE_KERNELS_MAT_VEC_K_INL_H_
#else
#define ROPELINE_KERNELS_MAT_VEC_K_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/byte_dot-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/mat_vec_blocks-inl.h"
#include "kernels/mat_vec_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using D4F = hn::FixedTag<float, 4>;
using D4I = hn::FixedTag<int32_t, 4>;
using D8S = hn::FixedTag<int16_t, 8>;

// sum − factor · Σ a·b of eight 16-bit numbers, the sum spread over four lanes. A sum of whole numbers would
// do, but Highway 1.0.3's AVX3_DL lets compilers turn a 128-bit product and sum into an AVX-VNNI instruction,
// which the first CPUs of that target do not have.
HWY_INLINE hn::Vec<D4F> SubtractProducts(hn::Vec<D4F> sum, hn::Vec<D4F> factor, hn::Vec<D8S> a,
                                         hn::Vec<D8S> b) {
  auto other = hn::Zero(D4I());
  const auto products = hn::ReorderWidenMulAccumulate(D4I(), a, b, hn::Zero(D4I()), other);
  sum = hn::NegMulAdd(hn::ConvertTo(D4F(), products), factor, sum);
#if ROPELINE_BYTE_PAIRS
  return sum;  // the second sum stays zero
#else
  return hn::NegMulAdd(hn::ConvertTo(D4F(), other), factor, sum);
#endif
}

// Where the bytes of a vector of scales come from: 0x80 makes a zero.
struct ScaleBytes {
  uint8_t at[4][128];
};

struct FormatQ4K {
  using X = ActivationsQ4K;
  static constexpr size_t kBlockBytes = 144;

  template <size_t kVectors>
  static HWY_INLINE void Sum(const uint8_t* block, const X* const* x, hn::Vec<DF32>* sums,
                             hn::Vec<D4F>* corrections) {
    const DU8 du;
    const DI8 di;
    const DI16 d16;
    const DI32 d32;
    const DF32 df;
    // Six bits each, in twelve bytes: the low six of bytes 0 to 3 are scales 0 to 3, of 4 to 7 minima 0 to 3;
    // bytes 8 to 11 have the low four of scales 4 to 7 (low) and minima 4 to 7 (high), and their upper two
    // are the upper two of bytes 0 to 3 and 4 to 7.
    uint32_t a, b, c;
    std::memcpy(&a, block + 4, 4);
    std::memcpy(&b, block + 8, 4);
    std::memcpy(&c, block + 12, 4);
    const uint64_t scales =
        (a & 0x3f3f3f3fu) | static_cast<uint64_t>((c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u)) << 32;
    const uint64_t minima =
        (b & 0x3f3f3f3fu) | static_cast<uint64_t>(((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u)) << 32;
    const auto scale_table = hn::BitCast(du, hn::Set(hn::Repartition<uint64_t, DU8>(), scales));
    const auto minimum = hn::PromoteTo(
        D8S(), hn::BitCast(hn::FixedTag<uint8_t, 8>(), hn::Set(hn::FixedTag<uint64_t, 1>(), minima)));

    hn::Vec<DI32> whole[kVectors];
    for (size_t i = 0; i < kVectors; ++i) whole[i] = hn::Zero(d32);
    const size_t lanes = hn::Lanes(du);
    for (size_t o = 0; o < 128; o += lanes) {
      const auto nibbles = hn::LoadU(du, block + 16 + o);
      const auto low = hn::And(nibbles, hn::Set(du, 0x0f));
      const auto high = hn::ShiftRight<4>(nibbles);
      const auto low_scale =
          hn::BitCast(d16, hn::TableLookupBytesOr0(scale_table, hn::Load(du, kAt.at[0] + o)));
      const auto high_scale =
          hn::BitCast(d16, hn::TableLookupBytesOr0(scale_table, hn::Load(du, kAt.at[1] + o)));
      for (size_t i = 0; i < kVectors; ++i) {
        whole[i] = AddProducts(whole[i], MulPairs(low, hn::LoadU(di, x[i]->low + o)), low_scale);
        whole[i] = AddProducts(whole[i], MulPairs(high, hn::LoadU(di, x[i]->high + o)), high_scale);
      }
    }
    const auto scale_pair = LoadF32(D4F(), reinterpret_cast<const F16*>(block));  // and two lanes of no use
    for (size_t i = 0; i < kVectors; ++i) {
      const auto scaled = hn::Mul(scale_pair, hn::Set(D4F(), x[i]->scale));
      sums[i] = hn::MulAdd(hn::ConvertTo(df, whole[i]), hn::Set(df, hn::GetLane(scaled)), sums[i]);
      corrections[i] =
          SubtractProducts(corrections[i], hn::Broadcast<1>(scaled), minimum, hn::LoadU(D8S(), x[i]->sums));
    }
  }

  // Byte p of low[] or high[] is of sub-block 2 · (p / 32), or one more.
  alignas(64) static constexpr ScaleBytes kAt = [] {
    ScaleBytes bytes{};
    for (size_t p = 0; p < 128; ++p) {
      for (size_t high = 0; high < 2; ++high) {
        bytes.at[high][p] = p % 2 == 0 ? static_cast<uint8_t>(p / 32 * 2 + high) : 0x80;
      }
    }
    return bytes;
  }();
};

struct FormatQ6K {
  using X = ActivationsQ6K;
  static constexpr size_t kBlockBytes = 210;

  // 16-byte vectors: part p (0 to 3) of a run is bytes 16 · (p % 2) of half p / 2.
  template <size_t kVectors>
  static HWY_INLINE void Sum(const uint8_t* block, const X* const* x, hn::Vec<DF32>* sums,
                             hn::Vec<D4F>* corrections) {
    const DU8 du;
    const DI8 di;
    const DI16 d16;
    const DI32 d32;
    const DF32 df;
    const hn::FixedTag<int8_t, 8> d8;
    const uint8_t* const upper = block + 128;
    const int8_t* const scales = reinterpret_cast<const int8_t*>(block + 192);
    const auto scale_table = LoadSixteenDup(scales);
    const auto low_mask = hn::Set(du, 0x0f), upper_mask = hn::Set(du, 0x30);

    hn::Vec<DI32> whole[kVectors];
    for (size_t i = 0; i < kVectors; ++i) whole[i] = hn::Zero(d32);
    const size_t lanes = hn::Lanes(du);
    for (size_t o = 0; o < 64; o += lanes) {
      const size_t half = o / 32, at = o % 32;
      const auto bits = hn::LoadU(du, upper + o);
      const auto first = LoadThirtyTwos<64>(block + 64 * half + at);
      const auto second = LoadThirtyTwos<64>(block + 64 * half + 32 + at);
      const auto bits16 = hn::BitCast(hn::RebindToUnsigned<DI16>(), bits);
      const hn::Vec<DU8> w[4] = {
          Join(hn::And(first, low_mask), hn::BitCast(du, hn::ShiftLeft<4>(bits16)), upper_mask),
          Join(hn::And(second, low_mask), hn::BitCast(du, hn::ShiftLeft<2>(bits16)), upper_mask),
          Join(hn::ShiftRight<4>(first), bits, upper_mask),
          Join(hn::ShiftRight<4>(second), hn::BitCast(du, hn::ShiftRight<2>(bits16)), upper_mask)};
      for (size_t r = 0; r < 4; ++r) {
        // The scale lands in the upper byte; a shift brings its sign down.
        const auto scale = hn::ShiftRight<8>(
            hn::BitCast(d16, hn::TableLookupBytesOr0(scale_table, hn::Load(du, kAt.at[r] + o))));
        for (size_t i = 0; i < kVectors; ++i) {
          whole[i] = AddProducts(whole[i], MulPairs(w[r], hn::LoadU(di, x[i]->q[r] + o)), scale);
        }
      }
    }
    const auto scale_low = hn::PromoteTo(D8S(), hn::LoadU(d8, scales));
    const auto scale_high = hn::PromoteTo(D8S(), hn::LoadU(d8, scales + 8));
    const float d = LoadLastHalf(block + 208);
    for (size_t i = 0; i < kVectors; ++i) {
      const float scaled = d * x[i]->scale;
      sums[i] = hn::MulAdd(hn::ConvertTo(df, whole[i]), hn::Set(df, scaled), sums[i]);
      const auto offset = hn::Set(D4F(), 32 * scaled);
      corrections[i] = SubtractProducts(corrections[i], offset, scale_low, hn::LoadU(D8S(), x[i]->sums));
      corrections[i] = SubtractProducts(corrections[i], offset, scale_high, hn::LoadU(D8S(), x[i]->sums + 8));
    }
  }

  static HWY_INLINE hn::Vec<DU8> LoadSixteenDup(const int8_t* p) {
    return hn::BitCast(DU8(), hn::LoadDup128(DI8(), p));
  }
  static HWY_INLINE hn::Vec<DU8> Join(hn::Vec<DU8> low, hn::Vec<DU8> upper, hn::Vec<DU8> mask) {
    return hn::Or(low, hn::And(upper, mask));
  }
  // The last two bytes of a block, which may be the last of the matrix.
  static HWY_INLINE float LoadLastHalf(const uint8_t* p) {
    const D4F d;
    return hn::GetLane(hn::Broadcast<3>(LoadF32(d, reinterpret_cast<const F16*>(p - 6))));
  }

  // Byte p of q[r] is of half p / 32, and of its scale 2r or one more.
  alignas(64) static constexpr ScaleBytes kAt = [] {
    ScaleBytes bytes{};
    for (size_t r = 0; r < 4; ++r) {
      for (size_t p = 0; p < 64; ++p) {
        bytes.at[r][p] = p % 2 != 0 ? static_cast<uint8_t>(p / 32 * 8 + 2 * r + p % 32 / 16) : 0x80;
      }
    }
    return bytes;
  }();
};

// y[i][r] = row r · x[i], rows stride bytes apart.
template <class Format, size_t kVectors, size_t kRows>
HWY_INLINE void DotSuperBlocks(const uint8_t* first_row, size_t stride, size_t cols,
                               const typename Format::X* const* vectors, float* const* y) {
  const DF32 df;
  hn::Vec<DF32> sums[kRows][kVectors];
  hn::Vec<D4F> corrections[kRows][kVectors];
  const typename Format::X* x[kVectors];
  for (size_t i = 0; i < kVectors; ++i) {
    for (size_t r = 0; r < kRows; ++r) sums[r][i] = hn::Zero(df), corrections[r][i] = hn::Zero(D4F());
    x[i] = vectors[i];
  }
  for (size_t b = 0; b < cols / 256; ++b) {
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* block = first_row + r * stride + b * Format::kBlockBytes;
      for (size_t line = 0; line < Format::kBlockBytes; line += 64)
        hwy::Prefetch(block + kWeightsAhead + line);
      Format::template Sum<kVectors>(block, x, sums[r], corrections[r]);
    }
    for (size_t i = 0; i < kVectors; ++i) ++x[i];
  }
  for (size_t i = 0; i < kVectors; ++i) {
    for (size_t r = 0; r < kRows; ++r) {
      y[i][r] =
          hn::GetLane(hn::SumOfLanes(df, sums[r][i])) + hn::GetLane(hn::SumOfLanes(D4F(), corrections[r][i]));
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // ROPELINE_KERNELS_MAT_VEC_K_INL_H_
