// sums[r][t] = Σ_k W[r][k] · x[t][k], in slices of k whose tokens stay in the first-level cache, for blocks
// of rows and tokens whose weights and sums stay in the second; then y[t][r] = sums[r][t].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mat_mul.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/kv_product-inl.h"
#include "kernels/mat_mul.h"
#include "kernels/mat_mul_scratch.h"
#include "kernels/transpose-inl.h"
#include "kernels/weight_unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of tokens beside six rows: 24 sums with a broadcast weight and four vectors fill 32 registers, 12
// with two fill 16.
constexpr size_t kWidest = (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64 ? 4 : 2;

// Memory that is soon used: `count` pieces of `bytes`, `stride` bytes apart, asked for in so many steps. A
// few lines at a time, into the second-level cache: the first is full.
class Ahead {
 public:
  Ahead() = default;
  Ahead(const void* start, size_t stride, size_t count, size_t bytes, size_t steps)
      : piece_(static_cast<const uint8_t*>(start)), stride_(stride), pieces_(count), bytes_(bytes) {
    // A piece that does not start with a line touches one more.
    const size_t lines = count * (bytes / kLine + 1);
    lines_ = (lines + steps - 1) / steps;
  }
  HWY_INLINE void Step() {
    for (size_t i = 0; i < lines_ && pieces_ != 0; ++i) {
      __builtin_prefetch(piece_ + at_, 0, 2);
      at_ += kLine;
      if (at_ < bytes_ + kLine) continue;
      at_ = 0;
      piece_ += stride_;
      --pieces_;
    }
  }

 private:
  static constexpr size_t kLine = 64;
  const uint8_t* piece_ = nullptr;
  size_t stride_ = 0, pieces_ = 0, bytes_ = 0, lines_ = 0, at_ = 0;
};

// What the tiles of a slice ask for on the way.
struct Soon {
  Ahead weights;  // of the next slice, as they are stored
  Ahead results;  // y, in the last slice
  Ahead tokens;   // of the next column of tiles

  HWY_INLINE void Step() {
    weights.Step();
    results.Step();
    tokens.Step();
  }
};

// sums[r][0 … kVectors·lanes) (+)= Σ_k weights[r][k] · panels[k][·] for r < kRows. kLast: the next tokens
// take the place of these in the first-level cache, line by line.
template <size_t kRows, size_t kVectors, bool kLast>
HWY_INLINE void Tile(const float* HWY_RESTRICT weights, const float* HWY_RESTRICT panel, size_t panel_floats,
                     size_t depth, bool fresh, float* HWY_RESTRICT sums) {
  const UnpackTag d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kTokens = TokenPanels::kTokens;
  const size_t next = (kVectors * lanes + kTokens - 1) / kTokens * panel_floats;
  const float* x[kVectors];
  V s[kRows][kVectors];
  ForRows<kVectors>([&](auto v) HWY_ATTR {
    x[v] = panel + v * lanes / kTokens * panel_floats + v * lanes % kTokens;
    ForRows<kRows>([&](auto r) HWY_ATTR {
      s[r][v] = fresh ? hn::Zero(d) : hn::LoadU(d, sums + r * kSumsStride + v * lanes);
    });
  });
  for (size_t k = 0; k < depth; ++k) {
    V tokens[kVectors];
    if constexpr (kLast) {
      ForRows<kVectors>([&](auto v) HWY_ATTR { hwy::Prefetch(x[v] + next + k * kTokens); });
    }
    ForRows<kVectors>([&](auto v) HWY_ATTR { tokens[v] = hn::LoadU(d, x[v] + k * kTokens); });
    ForRows<kRows>([&](auto r) HWY_ATTR {
      const V weight = hn::Set(d, weights[r * kSlice + k]);
      ForRows<kVectors>([&](auto v) HWY_ATTR { s[r][v] = hn::MulAdd(weight, tokens[v], s[r][v]); });
    });
  }
  ForRows<kVectors>([&](auto v) HWY_ATTR {
    ForRows<kRows>([&](auto r) HWY_ATTR { hn::StoreU(s[r][v], d, sums + r * kSumsStride + v * lanes); });
  });
}

// All rows of a block for kVectors vectors of tokens.
template <size_t kVectors>
HWY_NOINLINE void TileColumn(const float* weights, size_t rows, const float* panel, size_t panel_floats,
                             size_t depth, bool fresh, float* sums, Soon* soon) {
  const auto tile = [&](auto tile_rows, auto last, size_t r) HWY_ATTR {
    soon->Step();
    Tile<tile_rows, kVectors, last>(weights + r * kSlice, panel, panel_floats, depth, fresh,
                                    sums + r * kSumsStride);
  };
  size_t r = 0;
  for (; r + kTileRows < rows; r += kTileRows) {
    tile(std::integral_constant<size_t, kTileRows>(), std::false_type(), r);
  }
  if (r + 3 < rows) {
    tile(std::integral_constant<size_t, kTileRows>(), std::true_type(), r);
  } else {
    tile(std::integral_constant<size_t, 3>(), std::true_type(), r);
  }
}

// Weights [first, first + depth) of a block of rows; those of rows up to the last tile's end are zeros.
void UnpackSlice(const WeightMatrix& w, size_t row, size_t rows, size_t first, size_t depth, float* weights) {
  WithWeightDtype(w.dtype, [&](auto dtype) HWY_ATTR {
    for (size_t r = 0; r < rows; ++r)
      UnpackWeights<dtype>(w.Row(row + r), first, depth, weights + r * kSlice);
  });
  const UnpackTag d;
  const size_t end = (rows + kTileRows - 1) / kTileRows * kTileRows;
  for (size_t i = rows * kSlice; i < end * kSlice; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, weights + i);
}

// Rows [row, row + rows) of W times the tokens of `n` (at most kBlockTokens) from a panel on.
void MultiplyBlock(const WeightMatrix& w, size_t row, size_t rows, size_t next_row, const float* panels,
                   size_t n, const MatMulScratch& scratch, float* y) {
  const UnpackTag d;
  const size_t lanes = hn::Lanes(d), panel_floats = w.cols * TokenPanels::kTokens;
  const WeightBlock block = WeightBlockOf(w.dtype);
  const size_t row_tiles = (rows + kTileRows - 1) / kTileRows;
  const size_t tiles = (n + kWidest * lanes - 1) / (kWidest * lanes) * row_tiles;
  const auto tokens = [&](size_t t, size_t k) HWY_ATTR {
    constexpr size_t kTokens = TokenPanels::kTokens;
    return panels + t / kTokens * panel_floats + k * kTokens + t % kTokens;
  };
  for (size_t first = 0; first < w.cols; first += kSlice) {
    const size_t depth = w.cols - first < kSlice ? w.cols - first : kSlice;
    UnpackSlice(w, row, rows, first, depth, scratch.weights);
    const bool last = first + depth == w.cols;
    const size_t next_first = last ? 0 : first + kSlice;
    Soon soon;
    soon.weights = Ahead(w.Row(last ? next_row : row) + next_first * block.bytes / block.weights,
                         w.RowBytes(), rows, kSlice * block.bytes / block.weights, tiles);
    if (last) soon.results = Ahead(y + row, w.rows * sizeof(float), n, rows * sizeof(float), tiles);
    size_t t = 0;
    const auto column = [&](auto vectors) HWY_ATTR {
      const size_t next = t + vectors * lanes;
      const float* panel = tokens(t, first);
      soon.tokens =
          Ahead(next < n ? tokens(next, first) : tokens(0, next_first), panel_floats * sizeof(float),
                (vectors * lanes + TokenPanels::kTokens - 1) / TokenPanels::kTokens,
                (depth - 1) * TokenPanels::kTokens * sizeof(float), row_tiles);
      TileColumn<vectors>(scratch.weights, rows, panel, panel_floats, depth, first == 0, scratch.sums + t,
                          &soon);
      t = next;
    };
    while (t + (kWidest - 1) * lanes < n) column(std::integral_constant<size_t, kWidest>());
    if constexpr (kWidest == 4) {
      while (t + lanes < n) column(std::integral_constant<size_t, 2>());
    }
    while (t < n) column(std::integral_constant<size_t, 1>());
  }
  Transpose(scratch.sums, kSumsStride, rows, n, y + row, w.rows);
}

void PackPanel(const float* x, size_t tokens, size_t cols, float* panel) {
  constexpr size_t kTokens = TokenPanels::kTokens;
  const UnpackTag d;
  if (tokens < kTokens) {
    for (size_t i = 0; i < cols * kTokens; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, panel + i);
  }
  // A line of each token at a time.
  for (size_t k = 0; k < cols; k += 16) {
    Transpose(x + k, cols, tokens, cols - k < 16 ? cols - k : 16, panel + k * kTokens, kTokens);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace ropeline {

HWY_EXPORT(MultiplyBlock);
HWY_EXPORT(PackPanel);

namespace {

const MatMulScratch& ThreadScratch() {
  static thread_local const TableMemory weights(kBlockRows * kSlice), sums(kBlockRows * kSumsStride);
  static thread_local const MatMulScratch scratch{weights.get(), sums.get()};
  return scratch;
}

}  // namespace

void TokenPanels::Resize(size_t n, size_t cols) {
  n_ = n;
  cols_ = cols;
  const size_t floats = Panels() * kTokens * cols;
  if (floats <= room_) return;
  panels_ = TableMemory(floats);
  room_ = floats;
}

void TokenPanels::Pack(const float* x, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    HWY_DYNAMIC_DISPATCH(PackPanel)
    (x + i * kTokens * cols_, std::min(kTokens, n_ - i * kTokens), cols_,
     panels_.get() + i * kTokens * cols_);
  }
}

void MatMul(const WeightMatrix& w, const TokenPanels& x, size_t first_row, size_t end_row, float* y) {
  if (w.cols != x.cols() || w.cols % WeightBlockOf(w.dtype).weights != 0 || end_row > w.rows) {
    HWY_ABORT(
        "rows to %d of a matrix %d x %d of %s times tokens of %d, expected rows it has, whole blocks, "
        "and as many columns",
        static_cast<int>(end_row), static_cast<int>(w.rows), static_cast<int>(w.cols),
        WeightDtypeName(w.dtype), static_cast<int>(x.cols()));
  }
  for (size_t t = 0; t < x.n(); t += kBlockTokens) {
    const size_t n = std::min(kBlockTokens, x.n() - t);
    for (size_t row = first_row; row < end_row; row += kBlockRows) {
      const size_t rows = std::min(kBlockRows, end_row - row);
      const size_t next = row + rows < end_row ? row + rows : first_row;
      HWY_DYNAMIC_DISPATCH(MultiplyBlock)
      (w, row, rows, next, x.Panel(t / TokenPanels::kTokens), n, ThreadScratch(), y + t * w.rows);
    }
  }
}

Cost MatMulCost(WeightDtype dtype, size_t rows, size_t cols, size_t n) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(cols), vectors = static_cast<double>(n);
  return {.bytes_read = static_cast<double>(rows * WeightRowBytes(dtype, cols)) + 4 * vectors * c,
          .bytes_written = 4 * vectors * r,
          .flops = 2 * r * c * vectors};
}

}  // namespace ropeline
#endif  // HWY_ONCE
