// Products of a few rows with a tile of nibbles (kv_format.h: q4_0, kivi4) as products of bytes, four at a
// time, for targets that have such an instruction or can make one of two: half the unpacking and, where a row
// is of 8 bits, half the products of kv_whole_product-inl.h, which stands for every other target. Included
// inside foreach_target's repeated inclusion.
//
// A 32-bit word of nibbles holds eight columns; its lower nibbles, a byte each, are those of columns 0, 4, 1
// and 5, its upper ones of 2, 6, 3 and 7.
#if defined(ROPELINE_KERNELS_KV_NIBBLE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROPELINE_KERNELS_KV_NIBBLE_PRODUCT_INL_H_
#undef ROPELINE_KERNELS_KV_NIBBLE_PRODUCT_INL_H_
#else
#define ROPELINE_KERNELS_KV_NIBBLE_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/byte_dot-inl.h"
#include "kernels/kv_whole_product-inl.h"

#undef ROPELINE_NIBBLE_BYTES
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define ROPELINE_NIBBLE_BYTES 1
#else
#define ROPELINE_NIBBLE_BYTES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if ROPELINE_NIBBLE_BYTES

inline constexpr size_t kColumnOfByte[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// Sums over one tile: 32 products of nibbles and bytes, where no instruction adds four to 32 bits pair by
// pair in 16 (8 · 2 · 15 · 128 = 30,720 fits).
#if ROPELINE_BYTE_DOT
using ByteSum = VInt;
HWY_INLINE ByteSum NoBytes() { return hn::Zero(TileInt()); }
HWY_INLINE ByteSum AddBytes(ByteSum sum, hn::Vec<DU8> w, hn::Vec<DI8> x) { return AddFours(sum, w, x); }
HWY_INLINE VInt SumOfBytes(ByteSum sum) { return sum; }
#else
using ByteSum = hn::Vec<DI16>;
HWY_INLINE ByteSum NoBytes() { return hn::Zero(DI16()); }
HWY_INLINE ByteSum AddBytes(ByteSum sum, hn::Vec<DU8> w, hn::Vec<DI8> x) {
  return hn::Add(sum, MulPairs(w, x));
}
HWY_INLINE VInt SumOfBytes(ByteSum sum) { return AddProducts(hn::Zero(DI32()), sum, hn::Set(DI16(), 1)); }
#endif

HWY_INLINE hn::Vec<DI8> BroadcastFour(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, sizeof(four));
  return hn::BitCast(DI8(), hn::Set(TileInt(), four));
}

// Rows [kFirst, kFirst + kRows): see NibbleProduct.
template <size_t kFirst, size_t kRows, size_t kPlanes, class A, class Finish>
HWY_INLINE void NibbleRows(const A& a, const uint8_t* HWY_RESTRICT data, const uint8_t* ahead,
                           const Finish& finish) {
  const TileInt di;
  const DU8 du8;
  const size_t lanes = hn::Lanes(di);
  const auto nibble = hn::Set(du8, 0x0f);
  for (size_t o = 0; o < kKvTile; o += 2 * lanes) {
    ByteSum low[kRows * kPlanes], high[kRows * kPlanes];
    ForRows<kRows * kPlanes>([&](auto i) HWY_ATTR { low[i] = high[i] = NoBytes(); });
    const auto* words = reinterpret_cast<const int32_t*>(data) + o;
    for (size_t c = 0; c < kKvTile; c += 8, words += kKvTile) {
      if constexpr (kFirst == 0) {
        hwy::Prefetch(ahead + c / 8 * 128 + 4 * o);
        hwy::Prefetch(ahead + c / 8 * 128 + 4 * (o + lanes));
      }
      const VInt word_low = hn::LoadU(di, words), word_high = hn::LoadU(di, words + lanes);
      const auto add = [&](size_t column, VInt from_low, VInt from_high) HWY_ATTR {
        const auto w_low = hn::And(hn::BitCast(du8, from_low), nibble);
        const auto w_high = hn::And(hn::BitCast(du8, from_high), nibble);
        ForRows<kRows * kPlanes>([&](auto i) HWY_ATTR {
          const auto numbers = BroadcastFour(a(kFirst + i / kPlanes, column, i % kPlanes));
          low[i] = AddBytes(low[i], w_low, numbers);
          high[i] = AddBytes(high[i], w_high, numbers);
        });
      };
      add(c, word_low, word_high);
      add(c + 4, hn::ShiftRight<4>(word_low), hn::ShiftRight<4>(word_high));
    }
    ForRows<kRows>([&](auto r) HWY_ATTR {
      finish(o, kFirst + r, low + r * kPlanes);
      finish(o + lanes, kFirst + r, high + r * kPlanes);
    });
  }
}

// data: words of nibbles. a(r, c, plane): the bytes of row r for columns c to c + 3 (c a multiple of 4), in
// the order above; kPlanes of them make a number. finish(o, r, sums): kPlanes sums of outputs [o, o + lanes).
template <size_t kRows, size_t kPlanes, size_t kFirst = 0, class A, class Finish>
HWY_INLINE void NibbleProduct(const A& a, const uint8_t* HWY_RESTRICT data, const uint8_t* ahead,
                              const Finish& finish) {
  // Fewer than fit: beyond, a compiler keeps what it broadcast and spills it (rows of 12: 199 µs, not 102).
  constexpr size_t kMost = (HWY_TARGET <= HWY_AVX3 ? 8 : 6) / kPlanes;
  if constexpr (kFirst < kRows) {
    constexpr size_t kCount = kRows - kFirst < kMost ? kRows - kFirst : kMost;
    NibbleRows<kFirst, kCount, kPlanes>(a, data, ahead, finish);
    NibbleProduct<kRows, kPlanes, kFirst + kCount>(a, data, ahead, finish);
  }
}

// ------------------------------------------------------------------ rows of 8 bits, tiles scaled by output

// For rows that are as good as ggml's: a cache of four bits can do with them.
struct ByteRows {
  int8_t* numbers;  // [tiles][rows][32], eight by eight in the order above
  float* steps;     // [tiles][rows]
  float* offsets;   // [tiles][rows]: −8 · step · their sum
};

// As RoundRows.
HWY_INLINE void RoundRowsToBytes(const float* a, size_t a_stride, size_t rows, size_t tiles, ByteRows out) {
  constexpr float kMostByte = 127;
  const TileTag d;
  const TileInt di;
  HWY_ALIGN int32_t numbers[kKvTile];
  for (size_t i = 0; i < tiles; ++i) {
    for (size_t r = 0; r < rows; ++r) {
      const float* x = a + r * a_stride + i * kKvTile;
      const float largest = LargestMagnitude(x, kKvTile);
      const auto factor = hn::Set(d, NumberFactor(largest) * (kMostByte / kMostNumber));
      for (size_t c = 0; c < kKvTile; c += hn::Lanes(d)) {
        hn::Store(RoundedNumber(d, hn::Mul(hn::LoadU(d, x + c), factor)), di, numbers + c);
      }
      const size_t at = i * rows + r;
      int32_t sum = 0;
      for (size_t c = 0; c < kKvTile; ++c) {
        const auto number = static_cast<int8_t>(numbers[c / 8 * 8 + kColumnOfByte[c % 8]]);
        out.numbers[at * kKvTile + c] = number;
        sum += number;
      }
      out.steps[at] = largest / kMostByte + NothingOf(x);
      out.offsets[at] = -8 * out.steps[at] * static_cast<float>(sum);
    }
  }
}

// out[r][o] += scale[o] · (step[r] · Σ_c number[r][c]·nibble[c][o] + offset[r])
template <size_t kRows>
HWY_INLINE void ByteRowsProduct(ByteRows a, const uint8_t* HWY_RESTRICT tile, float* HWY_RESTRICT out,
                                size_t out_stride, const uint8_t* ahead) {
  const TileTag d;
  const auto* scales = reinterpret_cast<const F16*>(tile);
  hwy::Prefetch(ahead);
  const auto numbers = [&](size_t r, size_t c, size_t) HWY_ATTR { return a.numbers + r * kKvTile + c; };
  NibbleProduct<kRows, 1>(numbers, tile + 2 * kKvTile, ahead + 2 * kKvTile,
                          [&](size_t o, size_t r, const ByteSum* sums) HWY_ATTR {
                            const auto sum = hn::ConvertTo(d, SumOfBytes(sums[0]));
                            const auto product =
                                hn::MulAdd(sum, hn::Set(d, a.steps[r]), hn::Set(d, a.offsets[r]));
                            float* to = out + r * out_stride + o;
                            hn::StoreU(hn::MulAdd(product, LoadF32(d, scales + o), hn::LoadU(d, to)), d, to);
                          });
}

// ---------------------------------------------------------------- rows of 16 bits, rounded for a tile each

// The numbers of RoundedRows, each as 256 · high + low, both bytes with a sign: of eight, in the order above,
// the lower bytes and then the upper ones.
template <size_t kRows>
HWY_INLINE void SplitNumbers(RoundedRows<kRows>* rows) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::Repartition<int8_t, decltype(d16)> d8;
  HWY_ALIGN static constexpr int8_t kBytes[16] = {0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15};
  const auto order = hn::LoadDup128(d8, kBytes);
  const auto half = hn::Set(d16, 128);
  for (size_t i = 0; i < kRows * kKvTile; i += hn::Lanes(d16)) {
    // The upper byte of n + 128 is what is left of n; its lower byte less 128 is the rest.
    const auto numbers = hn::Xor(hn::Add(hn::Load(d16, rows->numbers + i), half), half);
    hn::Store(hn::BitCast(d16, hn::TableLookupBytes(hn::BitCast(d8, numbers), order)), d16,
              rows->numbers + i);
  }
}

// RoundedProduct for nibbles and numbers that were split.
template <size_t kRows, bool kMinimum>
HWY_INLINE void SplitProduct(const RoundedRows<kRows>& rows, const uint8_t* HWY_RESTRICT tile,
                             float* HWY_RESTRICT out, size_t out_stride, const uint8_t* ahead) {
  const TileTag d;
  constexpr size_t kHeader = (kMinimum ? 4 : 2) * kKvTile;
  hwy::Prefetch(ahead);
  if constexpr (kMinimum) hwy::Prefetch(ahead + 64);
  const auto* bytes = reinterpret_cast<const int8_t*>(rows.numbers);
  // Sixteen bytes of eight numbers: twice four lower ones, twice four upper ones.
  const auto numbers = [&](auto r, size_t c, size_t plane)
                           HWY_ATTR { return bytes + 2 * (r * kKvTile + c / 8 * 8) + 8 * plane + c % 8; };
  NibbleProduct<kRows, 2>(
      numbers, tile + kHeader, ahead + kHeader, [&](size_t o, size_t r, const ByteSum* sums) HWY_ATTR {
        const VInt sum = hn::Add(hn::ShiftLeft<8>(SumOfBytes(sums[1])), SumOfBytes(sums[0]));
        float* to = out + r * out_stride + o;
        hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum), hn::Set(d, rows.steps[r]), hn::LoadU(d, to)), d, to);
      });
}

#endif  // ROPELINE_NIBBLE_BYTES

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
