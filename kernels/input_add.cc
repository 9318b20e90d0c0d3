// add:            x[t][j] = x[t][j] + P[position[t]][j]
// gather:         x[t][j] = E[token[t]][j]
// gather and add: x[t][j] = E[token[t]][j] + P[position[t]][j]
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/input_add.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#include "kernels/input_add.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ropeline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE const T* RowOf(const TableRows& rows, size_t t, size_t d_model) {
  return static_cast<const T*>(rows.table) + static_cast<size_t>(rows.index[t]) * d_model;
}

// Consecutive rows, as in prefill, are one long row: starting anew at each costs 15 % in the second-level
// cache.
template <typename T>
void AddRowsT(const TableRows& position, size_t n, size_t d_model, T* x) {
  const hn::ScalableTag<float> d;
  const int32_t* rows = position.index;
  for (size_t t = 0; t < n;) {
    size_t run = 1;
    while (t + run < n && rows[t + run] == rows[t] + static_cast<int32_t>(run)) ++run;
    AddRow<false>(d, x + t * d_model, RowOf<T>(position, t, d_model), run * d_model, run * d_model);
    t += run;
  }
}

// out[j] = e[j] + p[j]
template <typename T>
HWY_INLINE void SumRow(const T* e, const T* p, size_t n, T* out) {
  const hn::ScalableTag<float> d;
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kHasPairs<T>) {
    const size_t step = 2 * hn::Lanes(d);
    for (; j + step <= n; j += step) {
      hn::Vec<decltype(d)> e0, e1, p0, p1;
      LoadPair(d, e + j, e0, e1);
      LoadPair(d, p + j, p0, p1);
      StorePair(hn::Add(e0, p0), hn::Add(e1, p1), d, out + j);
    }
  }
#endif
  ForEachVector(d, n - j, [&](auto dv, size_t i) HWY_ATTR {
    StoreF32(hn::Add(LoadF32(dv, e + j + i), LoadF32(dv, p + j + i)), dv, out + j + i);
  });
}

template <typename T>
void GatherAndAddT(const TableRows& token, const TableRows& position, size_t n, size_t d_model, T* x) {
  for (size_t t = 0; t < n; ++t) {
    SumRow(RowOf<T>(token, t, d_model), RowOf<T>(position, t, d_model), d_model, x + t * d_model);
  }
}

void AddRows(Dtype dtype, const TableRows& position, size_t n, size_t d_model, void* x) {
  WithType(dtype, x, [&](auto* typed) HWY_ATTR { AddRowsT(position, n, d_model, typed); });
}

void GatherAndAdd(Dtype dtype, const TableRows& token, const TableRows& position, size_t n, size_t d_model,
                  void* x) {
  WithType(dtype, x, [&](auto* typed) HWY_ATTR { GatherAndAddT(token, position, n, d_model, typed); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/convert.h"
#include "kernels/hash.h"
#include "kernels/memory.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

HWY_EXPORT(AddRows);
HWY_EXPORT(GatherAndAdd);

void AddTableRows(Dtype dtype, const TableRows& position, size_t n, size_t d_model, void* x) {
  HWY_DYNAMIC_DISPATCH(AddRows)(dtype, position, n, d_model, x);
}

void GatherTableRows(Dtype dtype, const TableRows& token, size_t n, size_t d_model, void* x) {
  const size_t row_bytes = d_model * DtypeBytes(dtype);
  for (size_t t = 0; t < n; ++t) {
    std::memcpy(static_cast<char*>(x) + t * row_bytes,
                static_cast<const char*>(token.table) + static_cast<size_t>(token.index[t]) * row_bytes,
                row_bytes);
  }
}

void GatherAndAddTableRows(Dtype dtype, const TableRows& token, const TableRows& position, size_t n,
                           size_t d_model, void* x) {
  HWY_DYNAMIC_DISPATCH(GatherAndAdd)(dtype, token, position, n, d_model, x);
}

namespace {

// `tensors` read, one written, `lists` of indices read.
Cost RowsCost(const Shape& shape, double tensors, double lists, double flops) {
  const double n = static_cast<double>(shape.n);
  const double elements = n * static_cast<double>(shape.d_model);
  const double bytes = elements * static_cast<double>(DtypeBytes(shape.dtype));
  return {.bytes_read = tensors * bytes + 4 * lists * n, .bytes_written = bytes, .flops = flops * elements};
}

}  // namespace

Cost InputAddCost(const Shape& shape) { return RowsCost(shape, 2, 1, 1); }
Cost GatherCost(const Shape& shape) { return RowsCost(shape, 1, 1, 0); }
Cost GatherAndAddCost(const Shape& shape) { return RowsCost(shape, 2, 2, 1); }

namespace {

constexpr double kBase = 10000;

struct RowTables : EncodingTables {
  TableMemory table;          // [n, d_model] of the shape's dtype
  std::vector<int32_t> rows;  // [n]
  size_t bytes = 0;
  size_t Bytes() const override { return bytes; }

  explicit RowTables(const Shape& shape)
      : table(shape.n * shape.d_model, DtypeBytes(shape.dtype)),
        rows(shape.n),
        bytes(DtypeBytes(shape.dtype) * shape.n * shape.d_model) {
    for (size_t t = 0; t < shape.n; ++t) rows[t] = static_cast<int32_t>(t);
  }
};

// fill(t, row) writes a block of `block` rows in f32, which are then rounded to the dtype.
template <class Fill>
std::unique_ptr<EncodingTables> FillRows(const Shape& shape, size_t block, const Fill& fill) {
  auto tables = std::make_unique<RowTables>(shape);
  std::vector<float> rows(std::min(block, shape.n) * shape.d_model);
  char* out = static_cast<char*>(tables->table.Data());
  for (size_t t = 0; t < shape.n; t += block) {
    const size_t count = std::min(block, shape.n - t);
    fill(t, count, rows.data());
    ConvertElements(rows.data(), count * shape.d_model, shape.dtype,
                    out + t * shape.d_model * DtypeBytes(shape.dtype));
  }
  return tables;
}

std::unique_ptr<EncodingTables> SetupLearned(const Shape& shape) {
  return FillRows(shape, 1, [&](size_t t, size_t, float* row) {
    const uint64_t hash = Hash64(shape.first_position + t);
    for (size_t j = 0; j < shape.d_model; ++j) row[j] = TrainedEntryInRow(hash, j);
  });
}

std::unique_ptr<EncodingTables> SetupSinusoidal(const Shape& shape) {
  const std::vector<double> inv_freq = DefaultInvFreq(shape.d_model, kBase);
  return FillRows(shape, 1024, [&](size_t t, size_t count, float* rows) {
    BuildAngleTable(inv_freq, shape.first_position + t, count, AngleLayout::kSinCos, rows);
  });
}

void Apply(const EncodingTables& tables, const Shape& shape, void* x) {
  const auto& rows = static_cast<const RowTables&>(tables);
  AddTableRows(shape.dtype, {rows.table.Data(), rows.rows.data()}, shape.n, shape.d_model, x);
}

template <class Entry>  // double entry(position, j)
void Reference(const Shape& shape, const Entry& entry, const float* in, double* expected, double* scale) {
  for (size_t t = 0; t < shape.n; ++t) {
    for (size_t j = 0; j < shape.d_model; ++j) {
      const size_t at = t * shape.d_model + j;
      const double p = entry(shape.first_position + t, j);
      expected[at] = static_cast<double>(in[at]) + p;
      scale[at] = std::abs(static_cast<double>(in[at])) + std::abs(p);
    }
  }
}

void ReferenceLearned(const Shape& shape, const float* in, double* expected, double* scale) {
  Reference(shape, TrainedEntry, in, expected, scale);
}

void ReferenceSinusoidal(const Shape& shape, const float* in, double* expected, double* scale) {
  const auto entry = [&](size_t position, size_t j) {
    const double pair = static_cast<double>(j / 2 * 2);
    const long double angle =
        static_cast<long double>(position) * std::pow(kBase, -pair / static_cast<double>(shape.d_model));
    return static_cast<double>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
  };
  Reference(shape, entry, in, expected, scale);
}

const char* RejectNothing(const Shape&) { return nullptr; }
const char* RejectOdd(const Shape& shape) {
  return shape.d_model % 2 == 0 ? nullptr : "d_model must be even: sine and cosine come in pairs";
}

// learned: one rounded addition, and the rounding to 16 bits. sinusoidal: one more for the table's entry,
// which is rounded to 16 bits as well.
constexpr Encoding kEncodings[] = {
    {.name = "learned",
     .placement = Placement::kInputAdd,
     .about = "adds a trained table's row; Devlin et al. 2019, section 3; Radford et al. 2019",
     .cached_key = "as the input",
     .reject = RejectNothing,
     .cost = InputAddCost,
     .setup = SetupLearned,
     .apply = Apply,
     .reference = ReferenceLearned,
     .tolerance = {.f32 = 1.0, .half = 1.01}},
    {.name = "sinusoidal",
     .placement = Placement::kInputAdd,
     .about = "adds sin and cos of position · 10000^(−2i/d); Vaswani et al. 2017, section 3.5",
     .cached_key = "as the input",
     .reject = RejectOdd,
     .cost = InputAddCost,
     .setup = SetupSinusoidal,
     .apply = Apply,
     .reference = ReferenceSinusoidal,
     .tolerance = {.f32 = 2.5, .half = 2.01}},
};

}  // namespace

std::span<const Encoding> InputAddEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
