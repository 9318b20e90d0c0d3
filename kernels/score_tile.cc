// s[q][k] = bias(q, k) + Σ_i scale·Q[q][i] · K[k][i];  largest[q] = max over k <= q
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/score_tile.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <type_traits>

#include "kernels/rotate-inl.h"
#include "kernels/score_tile.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries of a tile: with two vectors of keys, kRows · 2 sums, a vector of q and two of keys must fit in 32
// or 16 registers.
constexpr size_t kRows = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 12 : 6;
constexpr size_t kMostDimensions = 512;
constexpr size_t kRowStride = kMostDimensions + 16;  // rows of a tile start in different cache sets
constexpr size_t kAhead = 16;                        // dimensions of keys asked for before they are needed
constexpr float kLowest = -3.0e38f;

// The sums of one tile start as its bias, which costs no more than setting them to zero does where it comes
// from one load or one product.
template <TileBias kBias, class D>
class BiasOf {
 public:
  using V = hn::Vec<D>;
  BiasOf(const ScoreTiles& tiles, size_t head) : tiles_(tiles) {
    if constexpr (kBias == TileBias::kSlope) slope_ = tiles.slopes[head];
    if constexpr (kBias == TileBias::kRow) {
      row_ = static_cast<const float*>(tiles.rows.rows) + head * tiles.rows.stride + tiles.n - 1;
    }
    if constexpr (kBias == TileBias::kGather) {
      bucket_ = tiles.gather->buckets.data() + tiles.n - 1;
      values_ = tiles.gather->values.data() + head * 32;
    }
    if constexpr (kBias == TileBias::kTensor) row_ = tiles.tensor + head * tiles.n * tiles.n;
  }

  // Of query q and two vectors of keys from k on. Keys past the last token hold anything: they are masked.
  // The slope's: one broadcast and two additions for two vectors, where slope · distance takes six.
  HWY_INLINE void AtTwo(D d, size_t q, size_t k, V& low, V& high) const {
    if constexpr (kBias == TileBias::kSlope) {
      const V slope = hn::Set(d, slope_);
      const V of_lane = hn::Mul(slope, hn::Iota(d, 0.0f));
      const V step = hn::Mul(slope, hn::Set(d, static_cast<float>(hn::Lanes(d))));
      const float distance = static_cast<float>(k) - static_cast<float>(q);
      low = hn::Add(of_lane, hn::Set(d, slope_ * distance));
      high = hn::Add(low, step);
    } else {
      low = At(d, q, k);
      high = At(d, q, k + hn::Lanes(d));
    }
  }

 private:
  HWY_INLINE V At(D d, size_t q, size_t k) const {
    if constexpr (kBias == TileBias::kRow) {
      return hn::LoadU(d, row_ + k - q);
    } else if constexpr (kBias == TileBias::kGather) {
      const hn::RebindToSigned<D> di;
      return hn::GatherIndex(d, values_, hn::LoadU(di, bucket_ + k - q));
    } else if constexpr (kBias == TileBias::kTensor) {
      return hn::LoadU(d, row_ + q * tiles_.n + k);
    } else {
      return hn::Zero(d);
    }
  }

  const ScoreTiles& tiles_;
  float slope_ = 0;
  const float* row_ = nullptr;
  const int32_t* bucket_ = nullptr;
  const float* values_ = nullptr;
};

// f(r) for r in [0, kCount), unrolled whatever the compiler thinks of it: the sums must stay in registers.
template <size_t kCount, class F>
HWY_INLINE void ForRows(const F& f) {
  if constexpr (kCount > 0) {
    ForRows<kCount - 1>(f);
    f(std::integral_constant<size_t, kCount - 1>());
  }
}

// max over keys [k, k + 2·lanes) of the rows' scores, into `largest`. kDiagonal: keys after the query are
// left out.
template <size_t kCount, bool kDiagonal, class D, class Bias>
HWY_INLINE void Tile(D d, const float* HWY_RESTRICT q_rows, size_t d_head, const float* HWY_RESTRICT keys,
                     const Bias& bias, size_t q, size_t k, float* HWY_RESTRICT largest) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  V low[kCount], high[kCount];
  ForRows<kCount>([&](auto r) HWY_ATTR { bias.AtTwo(d, q + r, k, low[r], high[r]); });
  for (size_t i = 0; i < d_head; ++i) {
    // Blocks follow each other, so that what comes after the last row is the next block's first.
    hwy::Prefetch(keys + (i + kAhead) * kTileKeys);
    hwy::Prefetch(keys + (i + kAhead) * kTileKeys + lanes);
    const V key_low = hn::LoadU(d, keys + i * kTileKeys);
    const V key_high = hn::LoadU(d, keys + i * kTileKeys + lanes);
    ForRows<kCount>([&](auto r) HWY_ATTR {
      const V element = hn::Set(d, q_rows[r * kRowStride + i]);
      low[r] = hn::MulAdd(element, key_low, low[r]);
      high[r] = hn::MulAdd(element, key_high, high[r]);
    });
  }
  ForRows<kCount>([&](auto r) HWY_ATTR {
    if constexpr (kDiagonal) {
      const V lowest = hn::Set(d, kLowest);
      const V seen = hn::Set(d, static_cast<float>(q + r));
      low[r] = hn::IfThenElse(hn::Le(hn::Iota(d, static_cast<float>(k)), seen), low[r], lowest);
      high[r] = hn::IfThenElse(hn::Le(hn::Iota(d, static_cast<float>(k + lanes)), seen), high[r], lowest);
    }
    float* best = largest + r * lanes;
    hn::StoreU(hn::Max(hn::LoadU(d, best), hn::Max(low[r], high[r])), d, best);
  });
}

// kCount queries from q on, of one head, against all keys they see.
template <size_t kCount, TileBias kBias>
HWY_INLINE void QueryRows(const ScoreTiles& tiles, const BiasOf<kBias, hn::ScalableTag<float>>& bias,
                          size_t head, size_t q, float* out) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t d_head = tiles.d_head;
  HWY_ALIGN float q_rows[kRows * kRowStride];  // turned and scaled
  HWY_ALIGN float turned[kMostDimensions];
  HWY_ALIGN float largest[kRows * HWY_MAX_BYTES / sizeof(float)];
  for (size_t r = 0; r < kCount; ++r) {
    const float* from = tiles.q + ((q + r) * tiles.n_heads + head) * d_head;
    if (tiles.angles != nullptr) {
      TurnToken<true>(AngleRow{tiles.angles + (q + r) * d_head, 0.0f}, d_head, d_head,
                      TokenHeads<float, float>{from, d_head, turned, d_head, 1});
      from = turned;
    }
    float* row = q_rows + r * kRowStride;
    ForEachVector(d, d_head, [&](auto dv, size_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::Set(dv, tiles.scale), hn::LoadU(dv, from + i)), dv, row + i);
    });
  }
  for (size_t i = 0; i < kCount * lanes; ++i) largest[i] = kLowest;

  const size_t blocks = (tiles.n + kTileKeys - 1) / kTileKeys;
  const size_t kv_head = head / (tiles.n_heads / tiles.n_kv_heads);
  const float* keys = tiles.tiled_keys + kv_head * blocks * d_head * kTileKeys;
  const size_t end = q + kCount;  // keys that any of the rows sees
  for (size_t block = 0; block * kTileKeys < end; ++block) {
    const float* of_block = keys + block * d_head * kTileKeys;
    for (size_t column = 0; column < kTileKeys; column += 2 * lanes) {
      const size_t k = block * kTileKeys + column;
      if (k >= end) break;
      if (k + 2 * lanes <= q + 1) {
        Tile<kCount, false>(d, q_rows, d_head, of_block + column, bias, q, k, largest);
      } else {
        Tile<kCount, true>(d, q_rows, d_head, of_block + column, bias, q, k, largest);
      }
    }
  }
  for (size_t r = 0; r < kCount; ++r) {
    out[r] = hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, largest + r * lanes)));
  }
}

template <TileBias kBias>
void LargestT(const ScoreTiles& tiles, float* largest) {
  for (size_t h = 0; h < tiles.n_heads; ++h) {
    const BiasOf<kBias, hn::ScalableTag<float>> bias(tiles, h);
    float* out = largest + h * tiles.n;
    size_t q = 0;
    for (; q + kRows <= tiles.n; q += kRows) QueryRows<kRows>(tiles, bias, h, q, out + q);
    for (; q < tiles.n; ++q) QueryRows<1>(tiles, bias, h, q, out + q);
  }
}

void Largest(const ScoreTiles& tiles, float* largest) {
  switch (tiles.bias) {
    case TileBias::kNone:
      return LargestT<TileBias::kNone>(tiles, largest);
    case TileBias::kSlope:
      return LargestT<TileBias::kSlope>(tiles, largest);
    case TileBias::kRow:
      return LargestT<TileBias::kRow>(tiles, largest);
    case TileBias::kGather:
      return LargestT<TileBias::kGather>(tiles, largest);
    case TileBias::kTensor:
      return LargestT<TileBias::kTensor>(tiles, largest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace ropeline {

HWY_EXPORT(Largest);

const char* TileBiasName(TileBias bias) {
  switch (bias) {
    case TileBias::kNone:
      return "none";
    case TileBias::kSlope:
      return "slope";
    case TileBias::kRow:
      return "row";
    case TileBias::kGather:
      return "gather";
    case TileBias::kTensor:
      return "tensor";
  }
  return "";
}

size_t TiledKeysElements(size_t n, size_t n_kv_heads, size_t d_head) {
  return (n + kTileKeys - 1) / kTileKeys * kTileKeys * n_kv_heads * d_head;
}

void TileKeys(const float* keys, size_t n, size_t n_kv_heads, size_t d_head, float* tiled) {
  const size_t blocks = (n + kTileKeys - 1) / kTileKeys;
  for (size_t h = 0; h < n_kv_heads; ++h) {
    for (size_t t = 0; t < blocks * kTileKeys; ++t) {
      const float* from = keys + (t * n_kv_heads + h) * d_head;
      float* to = tiled + (h * blocks + t / kTileKeys) * d_head * kTileKeys + t % kTileKeys;
      for (size_t i = 0; i < d_head; ++i) to[i * kTileKeys] = t < n ? from[i] : 0;
    }
  }
}

void LargestScores(const ScoreTiles& tiles, float* largest) {
  if (tiles.d_head > 512 || tiles.n_kv_heads == 0 || tiles.n_heads % tiles.n_kv_heads != 0) {
    HWY_ABORT("tiles of %d heads on %d of %d, expected a whole number of heads each, of at most 512",
              static_cast<int>(tiles.n_heads), static_cast<int>(tiles.n_kv_heads),
              static_cast<int>(tiles.d_head));
  }
  HWY_DYNAMIC_DISPATCH(Largest)(tiles, largest);
}

Cost ScoreTilesCost(const ScoreTiles& tiles) {
  const double n = static_cast<double>(tiles.n);
  const double heads = static_cast<double>(tiles.n_heads);
  const double d = static_cast<double>(tiles.d_head);
  const double pairs = heads * n * (n + 1) / 2;
  const double tensor = tiles.bias == TileBias::kTensor ? pairs : 0;
  const double angles = tiles.angles != nullptr ? n * d : 0;
  const double keys = n * static_cast<double>(tiles.n_kv_heads) * d;
  return {.bytes_read = 4 * (n * heads * d + keys + tensor + angles),
          .bytes_written = 4 * heads * n,
          .flops = 2 * d * pairs};
}

}  // namespace ropeline
#endif  // HWY_ONCE
