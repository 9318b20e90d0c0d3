// x[t][j] = x[t][j] + P[rows[t]][j]
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

// Consecutive rows, as in prefill, are one long row: starting anew at each costs 15 % in the second-level
// cache.
void AddTableRowsT(const float* table, const int32_t* rows, size_t n, size_t d_model, float* x) {
  const hn::ScalableTag<float> d;
  for (size_t t = 0; t < n;) {
    size_t run = 1;
    while (t + run < n && rows[t + run] == rows[t] + static_cast<int32_t>(run)) ++run;
    const float* HWY_RESTRICT p = table + static_cast<size_t>(rows[t]) * d_model;
    UpdateRow(d, x + t * d_model, run * d_model, run * d_model,
              [&](auto dv, auto v, size_t i) HWY_ATTR { return hn::Add(v, hn::LoadU(dv, p + i)); });
    t += run;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ropeline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <vector>

#include "kernels/angle_table.h"
#include "kernels/hash.h"
#include "kernels/memory.h"
#include "kernels/registry.h"
#include "kernels/rope_schedule.h"

namespace ropeline {

HWY_EXPORT(AddTableRowsT);

void AddTableRows(const float* table, const int32_t* rows, size_t n, size_t d_model, float* x) {
  HWY_DYNAMIC_DISPATCH(AddTableRowsT)(table, rows, n, d_model, x);
}

Cost InputAddCost(const Shape& shape) {
  const double elements = static_cast<double>(shape.n) * static_cast<double>(shape.d_model);
  const double bytes = static_cast<double>(DtypeBytes(shape.dtype));
  return {.bytes_read = 2 * bytes * elements + 4.0 * static_cast<double>(shape.n),
          .bytes_written = bytes * elements,
          .flops = elements};
}

namespace {

constexpr double kBase = 10000;

// A stand-in for a trained table: entry (position, j), as a trained one's of order 0.02 to 1.
float LearnedEntry(size_t position, size_t j) { return HashToFloat(position, j); }

struct RowTables : EncodingTables {
  TableMemory table;          // [n, d_model]
  std::vector<int32_t> rows;  // [n]
  size_t bytes = 0;
  size_t Bytes() const override { return bytes; }

  explicit RowTables(const Shape& shape)
      : table(shape.n * shape.d_model), rows(shape.n), bytes(4 * shape.n * (shape.d_model)) {
    for (size_t t = 0; t < shape.n; ++t) rows[t] = static_cast<int32_t>(t);
  }
};

std::unique_ptr<EncodingTables> SetupLearned(const Shape& shape) {
  auto tables = std::make_unique<RowTables>(shape);
  for (size_t t = 0; t < shape.n; ++t) {
    for (size_t j = 0; j < shape.d_model; ++j) {
      tables->table[t * shape.d_model + j] = LearnedEntry(shape.first_position + t, j);
    }
  }
  return tables;
}

std::unique_ptr<EncodingTables> SetupSinusoidal(const Shape& shape) {
  auto tables = std::make_unique<RowTables>(shape);
  BuildAngleTable(DefaultInvFreq(shape.d_model, kBase), shape.first_position, shape.n, AngleLayout::kSinCos,
                  tables->table.get());
  return tables;
}

void Apply(const EncodingTables& tables, const Shape& shape, void* tensor) {
  float* x = static_cast<float*>(tensor);
  const auto& rows = static_cast<const RowTables&>(tables);
  AddTableRows(rows.table.get(), rows.rows.data(), shape.n, shape.d_model, x);
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
  Reference(shape, LearnedEntry, in, expected, scale);
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

// learned: one rounded addition. sinusoidal: one more for the table's entry.
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
     .tolerance = {1.0, 2}},
    {.name = "sinusoidal",
     .placement = Placement::kInputAdd,
     .about = "adds sin and cos of position · 10000^(−2i/d); Vaswani et al. 2017, section 3.5",
     .cached_key = "as the input",
     .reject = RejectOdd,
     .cost = InputAddCost,
     .setup = SetupSinusoidal,
     .apply = Apply,
     .reference = ReferenceSinusoidal,
     .tolerance = {2.5, 3}},
};

}  // namespace

std::span<const Encoding> InputAddEncodings() { return kEncodings; }

}  // namespace ropeline
#endif  // HWY_ONCE
