// a' = a·cos − b·sin
// b' = b·cos + a·sin      for each pair (a, b), with the angle of its band and token
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/qk_rotation.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/qk_rotation.h"
#include "kernels/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kHalf, typename TIn, typename TOut>
void RotateT(const Rotation& r, const TIn* in, TOut* out) {
  for (size_t t = 0; t < r.n; ++t) {
    const size_t row = r.rows != nullptr ? static_cast<size_t>(r.rows[t]) : t;
    const AngleRow angles{r.table + row * r.d_rot, r.inverse ? -0.0f : 0.0f};
    TurnToken<kHalf>(angles, r.d_rot, r.d_head,
                     TokenHeads<TIn, TOut>{in + t * r.in.token_stride, r.in.head_stride,
                                           out + t * r.out.token_stride, r.out.head_stride, r.n_heads});
  }
}

template <bool kHalf>
void RotateDtypes(const Rotation& r) {
  WithType(r.out.dtype, r.out.data, [&](auto* out) HWY_ATTR {
    using TOut = std::remove_reference_t<decltype(*out)>;
    if (r.in.dtype == r.out.dtype) return RotateT<kHalf>(r, static_cast<const TOut*>(r.in.data), out);
    if constexpr (!std::is_same_v<TOut, float>) RotateT<kHalf>(r, static_cast<const float*>(r.in.data), out);
  });
}

void RotateAny(const Rotation& r) {
  return r.pairing == Pairing::kHalf ? RotateDtypes<true>(r) : RotateDtypes<false>(r);
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/memory.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

HWY_EXPORT(RotateAny);

void Rotate(const Rotation& rotation) {
  if (rotation.in.dtype != rotation.out.dtype && rotation.in.dtype != Dtype::kF32) {
    HWY_ABORT("rotation from %s to %s, expected equal types or from f32", DtypeName(rotation.in.dtype),
              DtypeName(rotation.out.dtype));
  }
  HWY_DYNAMIC_DISPATCH(RotateAny)(rotation);
}

Cost RotationCost(const Rotation& r) {
  const double n = static_cast<double>(r.n);
  const double turned = n * static_cast<double>(r.n_heads) * static_cast<double>(r.d_rot);
  const bool copies = r.in.data != r.out.data;
  const double moved = copies ? n * static_cast<double>(r.n_heads) * static_cast<double>(r.d_head) : turned;
  const double angles =
      turned == 0 ? 0 : n * (4.0 * static_cast<double>(r.d_rot) + (r.rows != nullptr ? 4 : 0));
  return {.bytes_read = moved * static_cast<double>(DtypeBytes(r.in.dtype)) + angles,
          .bytes_written = moved * static_cast<double>(DtypeBytes(r.out.dtype)),
          .flops = 3 * turned};
}

Cost QkRotationCost(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double rotated = static_cast<double>(shape.Rotated());
  const double elements = n * static_cast<double>(shape.n_heads + shape.n_kv_heads) * rotated;
  const double bytes = elements * static_cast<double>(DtypeBytes(shape.dtype));
  const double angles = elements == 0 ? 0 : n * (4 * rotated + (shape.positions != nullptr ? 4 : 0));
  return {.bytes_read = bytes + angles, .bytes_written = bytes, .flops = 3 * elements};
}

namespace {

constexpr double kBase = 10000;

// What makes one rotary encoding differ from another: the axis and frequency of each band, and what xPos
// multiplies by.
struct Bands {
  std::vector<double> inv_freq;  // [d_rot / 2]
  std::vector<size_t> axis;      // [d_rot / 2], < axes
  // log of the factor on Q per position; on K it is the inverse. Empty: none.
  std::vector<double> log_growth;
};

struct Kind {
  Pairing pairing;
  size_t axes;
  Bands (*bands)(size_t d_rot);
  // Position along each axis of token t where the shape lists none.
  int32_t (*position)(size_t token_position, size_t axis);
};

int32_t SameOnEachAxis(size_t position, size_t) { return static_cast<int32_t>(position); }

// A picture of 32 patches to a row, read line by line.
int32_t RowThenColumn(size_t position, size_t axis) {
  constexpr size_t kPatchesPerRow = 32;
  return static_cast<int32_t>(axis == 0 ? position / kPatchesPerRow : position % kPatchesPerRow);
}

Bands OneAxis(size_t d_rot) { return {DefaultInvFreq(d_rot, kBase), std::vector<size_t>(d_rot / 2, 0), {}}; }

// Sun et al. 2022: ζ_i = (2i/d + γ) / (1 + γ), raised to position / 512, γ = 0.4.
Bands XposBands(size_t d_rot) {
  Bands bands = OneAxis(d_rot);
  constexpr double kGamma = 0.4;
  constexpr double kScaleBase = 512;
  for (size_t i = 0; i < d_rot / 2; ++i) {
    const double zeta = (2.0 * static_cast<double>(i) / static_cast<double>(d_rot) + kGamma) / (1 + kGamma);
    bands.log_growth.push_back(std::log(zeta) / kScaleBase);
  }
  return bands;
}

// Qwen2-VL's sections of d_head 128 are 16, 24 and 24 bands; other sizes are shared out alike.
Bands MropeBands(size_t d_rot) {
  Bands bands = OneAxis(d_rot);
  const size_t all = d_rot / 2;
  const size_t time = all / 4;
  const size_t height = (all - time) / 2;
  for (size_t i = time; i < all; ++i) bands.axis[i] = i < time + height ? 1 : 2;
  return bands;
}

// The first half of the bands turns by the row, the second by the column, each with a ladder of its own.
Bands GridBands(size_t d_rot) {
  const std::vector<double> ladder = DefaultInvFreq(d_rot / 2, kBase);
  Bands bands;
  for (size_t axis : {0, 1}) {
    bands.inv_freq.insert(bands.inv_freq.end(), ladder.begin(), ladder.end());
    bands.axis.insert(bands.axis.end(), ladder.size(), axis);
  }
  return bands;
}

constexpr Kind kHalfKind{Pairing::kHalf, 1, OneAxis, SameOnEachAxis};
constexpr Kind kInterleavedKind{Pairing::kInterleaved, 1, OneAxis, SameOnEachAxis};
constexpr Kind kXpos{Pairing::kInterleaved, 1, XposBands, SameOnEachAxis};
constexpr Kind kMrope{Pairing::kHalf, 3, MropeBands, SameOnEachAxis};
constexpr Kind kGrid{Pairing::kHalf, 2, GridBands, RowThenColumn};

int32_t PositionOf(const Kind& kind, const Shape& shape, size_t t, size_t axis) {
  if (shape.positions != nullptr) return shape.positions[t * kind.axes + axis];
  return kind.position(shape.first_position + t, axis);
}

AngleLayout LayoutOf(Pairing pairing) {
  return pairing == Pairing::kHalf ? AngleLayout::kSplit : AngleLayout::kCosSin;
}

struct AngleTables : EncodingTables {
  TableMemory q;  // [rows, d_rot]
  TableMemory k;  // the same for K, where it differs
  bool k_differs = false;
  std::vector<int32_t> rows;  // [n]; empty: row t
  size_t bytes = 0;
  size_t Bytes() const override { return bytes; }
};

// One row of angles for each token, made one by one: for positions without order, several axes, xPos.
void BuildRows(const Kind& kind, const Bands& bands, const Shape& shape, double growth, float* table) {
  const size_t count = bands.inv_freq.size();
  std::vector<int32_t> positions(count);
  std::vector<double> factors(count, 1.0);
  for (size_t t = 0; t < shape.n; ++t) {
    for (size_t i = 0; i < count; ++i) {
      positions[i] = PositionOf(kind, shape, t, bands.axis[i]);
      if (growth != 0) factors[i] = std::exp(growth * bands.log_growth[i] * positions[i]);
    }
    BuildAngleRow(bands.inv_freq, positions, factors, LayoutOf(kind.pairing), table + t * 2 * count);
  }
}

template <const Kind& kKind>
std::unique_ptr<EncodingTables> Setup(const Shape& shape) {
  auto tables = std::make_unique<AngleTables>();
  const size_t d_rot = shape.Rotated();
  const Bands bands = kKind.bands(d_rot);
  const AngleLayout layout = LayoutOf(kKind.pairing);
  const auto make = [&](TableMemory* memory, size_t rows) {
    *memory = TableMemory(rows * d_rot);
    tables->bytes += 4 * rows * d_rot;
    return memory->get();
  };
  if (!bands.log_growth.empty()) {
    BuildRows(kKind, bands, shape, 1, make(&tables->q, shape.n));
    BuildRows(kKind, bands, shape, -1, make(&tables->k, shape.n));
    tables->k_differs = true;
    return tables;
  }
  // Positions that are the same on each axis and follow each other.
  if (shape.positions == nullptr && kKind.position == SameOnEachAxis) {
    BuildAngleTable(bands.inv_freq, shape.first_position, shape.n, layout, make(&tables->q, shape.n));
    return tables;
  }
  // Positions out of a range: the table covers it, as an engine's covers its context, and tokens look their
  // rows up. A range that is too large gets a row for each token.
  constexpr size_t kMostTable = size_t{32} << 20;
  if (kKind.axes == 1 && shape.n > 0) {
    const auto [least, most] = std::minmax_element(shape.positions, shape.positions + shape.n);
    const size_t range = static_cast<size_t>(*most - *least) + 1;
    if (range * d_rot * 4 <= kMostTable) {
      for (size_t t = 0; t < shape.n; ++t) tables->rows.push_back(shape.positions[t] - *least);
      BuildAngleTable(bands.inv_freq, static_cast<size_t>(*least), range, layout, make(&tables->q, range));
      return tables;
    }
  }
  BuildRows(kKind, bands, shape, 0, make(&tables->q, shape.n));
  return tables;
}

template <const Kind& kKind>
void Apply(const EncodingTables& any, const Shape& shape, void* tensor) {
  const auto& tables = static_cast<const AngleTables&>(any);
  const size_t d = shape.d_head;
  const bool fused = shape.layout == QkLayout::kFusedQkv;
  const auto rotate = [&](size_t offset, size_t row_heads, size_t n_heads, const TableMemory& table) {
    if (n_heads == 0) return;
    const HeadsView heads{static_cast<char*>(tensor) + offset * DtypeBytes(shape.dtype), shape.dtype,
                          row_heads * d, d};
    Rotate({kKind.pairing, shape.n, n_heads, d, shape.Rotated(), heads, heads, table.get(),
            tables.rows.empty() ? nullptr : tables.rows.data(), shape.inverse});
  };
  const TableMemory& k_table = tables.k_differs ? tables.k : tables.q;
  if (!fused) {
    rotate(0, shape.n_heads, shape.n_heads, tables.q);
    rotate(shape.n * shape.n_heads * d, shape.n_kv_heads, shape.n_kv_heads, k_table);
    return;
  }
  const size_t row_heads = shape.n_heads + 2 * shape.n_kv_heads;
  if (!tables.k_differs) return rotate(0, row_heads, shape.n_heads + shape.n_kv_heads, tables.q);
  rotate(0, row_heads, shape.n_heads, tables.q);
  rotate(shape.n_heads * d, row_heads, shape.n_kv_heads, k_table);
}

// One head of token t, from element `at` on; growth 1 for Q, −1 for K.
void ReferenceHead(const Kind& kind, const Bands& bands, const Shape& shape, size_t t, size_t at,
                   double growth, const float* in, double* expected, double* scale) {
  const size_t count = bands.inv_freq.size();
  for (size_t i = 0; i < count; ++i) {
    const double position = PositionOf(kind, shape, t, bands.axis[i]);
    const long double angle = static_cast<long double>(position) * bands.inv_freq[i];
    const long double factor =
        bands.log_growth.empty()
            ? 1.0L
            : std::exp(static_cast<long double>(growth * bands.log_growth[i]) * position);
    const long double c = factor * std::cos(angle);
    const long double s = factor * std::sin(angle) * (shape.inverse ? -1 : 1);
    const size_t first = at + (kind.pairing == Pairing::kHalf ? i : 2 * i);
    const size_t second = first + (kind.pairing == Pairing::kHalf ? count : 1);
    const long double a = in[first];
    const long double b = in[second];
    expected[first] = static_cast<double>(a * c - b * s);
    expected[second] = static_cast<double>(a * s + b * c);
    scale[first] = scale[second] = static_cast<double>(factor * std::hypot(a, b));
  }
}

template <const Kind& kKind>
void Reference(const Shape& shape, const float* in, double* expected, double* scale) {
  const Bands bands = kKind.bands(shape.Rotated());
  const size_t elements = TensorElements(Placement::kQkRotation, shape);
  for (size_t i = 0; i < elements; ++i) {
    expected[i] = static_cast<double>(in[i]);
    scale[i] = 0;
  }
  const bool fused = shape.layout == QkLayout::kFusedQkv;
  const size_t row = fused ? shape.n_heads + 2 * shape.n_kv_heads : shape.n_heads;
  for (size_t t = 0; t < shape.n; ++t) {
    for (size_t h = 0; h < shape.n_heads; ++h) {
      ReferenceHead(kKind, bands, shape, t, (t * row + h) * shape.d_head, 1, in, expected, scale);
    }
    for (size_t h = 0; h < shape.n_kv_heads; ++h) {
      const size_t head = fused ? t * row + shape.n_heads + h : shape.n * row + t * shape.n_kv_heads + h;
      ReferenceHead(kKind, bands, shape, t, head * shape.d_head, -1, in, expected, scale);
    }
  }
}

const char* RejectRotation(const Shape& shape) {
  if (shape.Rotated() % 2 != 0) return "the rotated dimensions must be even: they turn in pairs";
  if (shape.Rotated() > shape.d_head) return "d_rot must not be larger than d_head";
  return nullptr;
}

const char* RejectGrid(const Shape& shape) {
  return shape.Rotated() % 4 == 0
             ? RejectRotation(shape)
             : "the rotated dimensions must be a multiple of 4: pairs of rows, pairs of columns";
}

const char* RejectXpos(const Shape& shape) {
  // K grows by up to 3.5^(position/512) and Q shrinks by as much: exp(60) in eight exponent bits, exp(8) in
  // five.
  const size_t last = shape.dtype == Dtype::kF16 ? 3400 : 24500;
  size_t position = shape.first_position + shape.n;
  for (size_t t = 0; shape.positions != nullptr && t < shape.n; ++t) {
    position = std::max(position, static_cast<size_t>(shape.positions[t]));
  }
  if (position > last) {
    return "keys grow by 3.5^(position/512) and leave the dtype's range beyond position 24,500 (f16: 3,400)";
  }
  return RejectRotation(shape);
}

// NoPE: nothing to build, to read or to do.
struct NoTables : EncodingTables {
  size_t Bytes() const override { return 0; }
};
const char* RejectNothing(const Shape&) { return nullptr; }
Cost NoCost(const Shape&) { return {}; }
std::unique_ptr<EncodingTables> NoSetup(const Shape&) { return std::make_unique<NoTables>(); }
void LeaveAlone(const EncodingTables&, const Shape&, void*) {}
void ReferenceUnchanged(const Shape& shape, const float* in, double* expected, double* scale) {
  for (size_t i = 0; i < TensorElements(Placement::kQkRotation, shape); ++i) {
    expected[i] = static_cast<double>(in[i]);
    scale[i] = 0;
  }
}

// Two tables, one for Q and one for K.
Cost XposCost(const Shape& shape) {
  Cost cost = QkRotationCost(shape);
  if (shape.n_heads > 0 && shape.n_kv_heads > 0) {
    cost.bytes_read += 4 * static_cast<double>(shape.n * shape.Rotated());
  }
  return cost;
}

// Roundings: of cos and sin, of two products and of the sum; a 16-bit result is rounded once more, which
// outweighs all of them.
constexpr Tolerance kRotationTolerance{.f32 = 4.0, .half = 1.01};

constexpr Encoding kEncodings[] = {
    {.name = "rope_half",
     .placement = Placement::kQkRotation,
     .about = "turns the pairs (i, i + d/2) by position · 10000^(−2i/d); Su et al. 2021, section 3.4.2",
     .cached_key = "rotated",
     .reject = RejectRotation,
     .cost = QkRotationCost,
     .setup = Setup<kHalfKind>,
     .apply = Apply<kHalfKind>,
     .reference = Reference<kHalfKind>,
     .tolerance = kRotationTolerance},
    {.name = "rope_interleaved",
     .placement = Placement::kQkRotation,
     .about = "turns the pairs (2i, 2i + 1) by position · 10000^(−2i/d); Su et al. 2021, section 3.4.2",
     .cached_key = "rotated",
     .reject = RejectRotation,
     .cost = QkRotationCost,
     .setup = Setup<kInterleavedKind>,
     .apply = Apply<kInterleavedKind>,
     .reference = Reference<kInterleavedKind>,
     .tolerance = kRotationTolerance},
    {.name = "xpos",
     .placement = Placement::kQkRotation,
     .about = "turns (2i, 2i + 1); Q · ζ^(position/512), K · ζ^(−position/512); Sun et al. 2022, section 3",
     .cached_key = "rotated and scaled",
     .reject = RejectXpos,
     .cost = XposCost,
     .setup = Setup<kXpos>,
     .apply = Apply<kXpos>,
     .reference = Reference<kXpos>,
     .tolerance = kRotationTolerance},
    {.name = "mrope",
     .placement = Placement::kQkRotation,
     .about = "turns (i, i + d/2), a quarter of the bands by time, the rest by height and width; Wang et al. "
              "2024, section 2.1",
     .cached_key = "rotated",
     .axes = 3,
     .reject = RejectRotation,
     .cost = QkRotationCost,
     .setup = Setup<kMrope>,
     .apply = Apply<kMrope>,
     .reference = Reference<kMrope>,
     .tolerance = kRotationTolerance},
    {.name = "rope_2d",
     .placement = Placement::kQkRotation,
     .about = "turns (i, i + d/2), half of the bands by a patch's row, half by its column; Wang et al. 2024, "
              "section 2.1",
     .cached_key = "rotated",
     .axes = 2,
     .reject = RejectGrid,
     .cost = QkRotationCost,
     .setup = Setup<kGrid>,
     .apply = Apply<kGrid>,
     .reference = Reference<kGrid>,
     .tolerance = kRotationTolerance},
    {.name = "nope",
     .placement = Placement::kQkRotation,
     .about = "no position at all; Kazemnejad et al. 2023",
     .cached_key = "position-free",
     .reject = RejectNothing,
     .cost = NoCost,
     .setup = NoSetup,
     .apply = LeaveAlone,
     .reference = ReferenceUnchanged,
     .tolerance = {.f32 = 0, .half = 0}},
};

}  // namespace

std::span<const Encoding> QkRotationEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
