// The generic test of the contract: every encoding of the registry, on every target this CPU has, over shapes
// that straddle the vector length and positions from 0 to a million, against the encoding's own double
// reference.
#include "kernels/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/hash.h"
#include "kernels/input_add.h"
#include "kernels/registry.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr size_t kGuard = 64;           // elements before and after the tensor that must stay as they are
constexpr float kSentinel = -12344.0f;  // every dtype holds it or something near

// Positions after an eviction, in no order and far apart; [n, axes] for any number of axes.
const int32_t* ScatteredPositions() {
  static const std::vector<int32_t> positions = {0, 3, 4, 70, 2, 2, 31, 65, 1000, 7, 8, 40, 500, 5, 1999};
  return positions.data();
}
const int32_t* FarPositions() {
  static const std::vector<int32_t> positions = {1048575, 0, 131071, 32767, 1, 4095, 499, 1048570, 6};
  return positions.data();
}

// Beyond plain ones: partial rotary of 25, 40 and 50 %, Q and K within fused rows, turning back, positions
// from a list.
void AddRotationShapes(std::vector<Shape>* shapes) {
  for (size_t d : {8, 40, 64, 80, 128, 136}) {
    for (size_t percent : {25, 40, 50, 100}) {
      for (size_t variant = 0; variant < 12; ++variant) {
        Shape shape;
        shape.n = variant % 4 == 3 ? 1 : 3;
        shape.n_heads = 1 + variant % 3;
        shape.n_kv_heads = (variant + d / 8) % 3;
        shape.d_head = d;
        shape.d_rot = percent == 100 ? 0 : d * percent / 100 / 2 * 2;
        shape.first_position = 100 + 17 * variant;
        shape.layout = variant % 2 == 0 ? QkLayout::kSeparate : QkLayout::kFusedQkv;
        shape.inverse = variant / 2 % 2 == 1;
        shape.positions = variant / 4 == 0   ? nullptr
                          : variant / 4 == 1 ? ScatteredPositions()
                                             : FarPositions();
        if (shape.d_rot == 0 && percent != 100) continue;
        shapes->push_back(shape);
      }
    }
  }
}

std::vector<Shape> TokenShapes(Placement placement) {
  std::vector<Shape> shapes;
  // Odd halves, one vector more or less of every target (4, 8, 16 lanes), real models' 80, 96, 128, 256.
  for (size_t d : {2, 4, 6, 8, 10, 14, 16, 18, 30, 32, 34, 50, 62, 64, 66, 80, 96, 126, 128, 130, 256, 258}) {
    for (size_t position : {0, 1, 499, 4095, 32767, 131071, 1048575}) {
      Shape shape;
      shape.n = 1 + (d + position) % 3;
      shape.n_heads = 1 + d % 4;
      shape.n_kv_heads = d % 3;
      shape.d_head = d;
      shape.d_model = placement == Placement::kInputAdd && position % 2 == 0 ? d : d + d % 4;
      shape.first_position = position;
      shapes.push_back(shape);
    }
  }
  Shape none;
  none.d_head = none.d_model = 64;
  none.n_heads = 2;
  shapes.push_back(none);  // n 0
  for (size_t n : {5, 131}) {
    Shape many = none;
    many.n = n;
    many.n_kv_heads = 1;
    shapes.push_back(many);
  }
  if (placement == Placement::kQkRotation) AddRotationShapes(&shapes);
  return shapes;
}

std::vector<Shape> ScoreShapes() {
  std::vector<Shape> shapes;
  const auto add = [&](size_t n, size_t n_k, size_t n_heads, bool causal, size_t first, size_t total) {
    Shape shape;
    shape.n = n;
    shape.n_k = n_k;
    shape.n_heads = n_heads;
    shape.causal = causal;
    shape.first_head = first;
    shape.total_heads = total;
    shapes.push_back(shape);
  };
  for (bool causal : {true, false}) {
    for (size_t n_k : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 66, 129, 200}) {
      add(n_k, n_k, 2, causal, 0, 0);
      add(1, n_k, 3, causal, 0, 0);
      if (n_k > 5) add(5, n_k, 1, causal, 2, 12);
    }
    add(0, 0, 2, causal, 0, 0);
    add(0, 9, 2, causal, 0, 0);
    add(3, 2000, 1, causal, 6, 7);  // far past T5's last bucket
    add(1, 70000, 1, causal, 0, 8);
  }
  return shapes;
}

std::string Describe(const Shape& s) {
  return std::string(DtypeName(s.dtype)) + " n " + std::to_string(s.n) + " n_k " + std::to_string(s.n_k) +
         " heads " + std::to_string(s.n_heads) + "+" + std::to_string(s.n_kv_heads) + " from " +
         std::to_string(s.first_head) + " of " + std::to_string(s.total_heads) + " d_head " +
         std::to_string(s.d_head) + " d_rot " + std::to_string(s.d_rot) + " d_model " +
         std::to_string(s.d_model) + " position " + std::to_string(s.first_position) +
         (s.causal ? " causal" : " bidirectional") + (s.layout == QkLayout::kFusedQkv ? " fused" : "") +
         (s.inverse ? " inverse" : "") + (s.positions != nullptr ? " listed positions" : "");
}

// A tensor of any dtype with guards around it.
class Tensor {
 public:
  Tensor(Dtype dtype, size_t elements) : dtype_(dtype), elements_(elements) {
    bytes_.resize((elements + 2 * kGuard) * DtypeBytes(dtype));
    for (size_t i = 0; i < elements + 2 * kGuard; ++i) StoreElement(dtype, bytes_.data(), i, kSentinel);
  }
  void* Data() { return bytes_.data() + kGuard * DtypeBytes(dtype_); }
  float Get(size_t i) { return LoadElement(dtype_, Data(), i); }
  void Set(size_t i, float value) { StoreElement(dtype_, Data(), i, value); }
  bool GuardsHold() const {
    const float sentinel = LoadElement(dtype_, bytes_.data(), 0);
    for (size_t i = 0; i < kGuard; ++i) {
      if (LoadElement(dtype_, bytes_.data(), i) != sentinel) return false;
      if (LoadElement(dtype_, bytes_.data(), kGuard + elements_ + i) != sentinel) return false;
    }
    return sentinel < -12000;
  }

 private:
  Dtype dtype_;
  size_t elements_;
  std::vector<unsigned char> bytes_;
};

// The worst element, in units of scale · RoundingUnit(dtype).
struct Worst {
  double error = 0;
  std::string where;
  size_t must_change = 0;  // elements that had to
};

// What one rounding may cost: relative to the scale, and never less than half of f16's smallest step.
double ErrorUnit(Dtype dtype, double scale) {
  return std::max(scale * RoundingUnit(dtype), dtype == Dtype::kF16 ? 0x1p-25 : 0.0);
}

// Checks one call; `worst` takes its largest error if that is larger. Fails where an element that must stay
// was changed, where memory around the tensor was touched, or where the output is as the input although it
// must not be.
void CheckShape(const Encoding& encoding, const Shape& shape, Worst* worst) {
  const size_t elements = TensorElements(encoding.placement, shape);
  Tensor tensor(shape.dtype, elements);
  std::vector<float> in(elements);
  for (size_t i = 0; i < elements; ++i) {
    tensor.Set(i, 3.3f * HashToFloat(i, 17));  // sums must round
    in[i] = tensor.Get(i);
  }
  const auto tables = encoding.setup(shape);
  encoding.apply(*tables, shape, tensor.Data());

  std::vector<double> expected(elements), scale(elements);
  encoding.reference(shape, in.data(), expected.data(), scale.data());
  // A difference this large, in units of scale, survives rounding to the dtype.
  const double visible = std::max(1e-3, 4 * RoundingUnit(shape.dtype));
  size_t must_change = 0, changed = 0;
  for (size_t i = 0; i < elements; ++i) {
    const float actual = tensor.Get(i);
    ASSERT_TRUE(std::isfinite(actual)) << encoding.name << " " << Describe(shape) << " element " << i;
    if (scale[i] == 0) {
      ASSERT_EQ(std::memcmp(&actual, &in[i], sizeof(float)), 0)
          << encoding.name << " " << Describe(shape) << ": element " << i << " must be left as it was";
      continue;
    }
    const double error =
        std::abs(static_cast<double>(actual) - expected[i]) / ErrorUnit(shape.dtype, scale[i]);
    if (error > worst->error) {
      worst->error = error;
      worst->where = Describe(shape) + " element " + std::to_string(i) + ": " + std::to_string(actual) +
                     ", expected " + std::to_string(expected[i]);
    }
    if (std::abs(expected[i] - static_cast<double>(in[i])) > visible * scale[i]) {
      ++must_change;
      changed += actual != in[i] ? 1 : 0;
    }
  }
  worst->must_change += must_change;
  ASSERT_EQ(changed, must_change) << encoding.name << " " << Describe(shape) << ": untouched output";
  ASSERT_TRUE(tensor.GuardsHold()) << encoding.name << " " << Describe(shape) << ": wrote outside the tensor";
}

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(EveryTarget, MatchesTheDoubleReference) {
  for (const Encoding* encoding : AllEncodings()) {
    for (const Dtype dtype : kAllDtypes) {
      Worst worst;
      size_t checked = 0;
      const auto shapes =
          encoding->placement == Placement::kScoreBias ? ScoreShapes() : TokenShapes(encoding->placement);
      for (Shape shape : shapes) {
        shape.dtype = dtype;
        if (encoding->reject(shape) != nullptr) continue;
        CheckShape(*encoding, shape, &worst);
        if (HasFatalFailure()) return;
        ++checked;
      }
      EXPECT_GT(checked, shapes.size() / 3) << encoding->name;
      EXPECT_LE(worst.error, encoding->tolerance.Of(dtype)) << encoding->name << " worst at " << worst.where;
      if (encoding->cost(shapes.front()).Bytes() == 0) {  // NoPE
        EXPECT_EQ(worst.must_change, 0u) << encoding->name;
        continue;
      }
      // An encoding that is always exact, or never changes anything, is not being tested.
      EXPECT_GT(worst.error, 0) << encoding->name;
      EXPECT_GT(worst.must_change, 1000u) << encoding->name;
      RecordProperty(std::string(encoding->name) + "_" + DtypeName(dtype),
                     std::to_string(worst.error) + " at " + worst.where);
    }
  }
}

// The slices of a tensor together are what one call on the whole does: threads change nothing.
TEST_P(EveryTarget, SlicesMakeTheWhole) {
  for (const Encoding* encoding : AllEncodings()) {
    for (const bool listed : {false, true}) {
      Shape shape;
      shape.n = 7;
      shape.n_k = 23;
      shape.n_heads = 5;
      shape.n_kv_heads = 2;
      shape.d_head = 24;
      shape.d_model = 40;
      shape.first_position = 100;
      shape.layout = QkLayout::kFusedQkv;
      if (listed) shape.positions = ScatteredPositions();
      if (encoding->axes * shape.n > 15) shape.n = 5;
      const size_t elements = TensorElements(encoding->placement, shape);
      std::vector<float> whole(elements), parts;
      for (size_t i = 0; i < elements; ++i) whole[i] = HashToFloat(i, 3);
      parts = whole;
      encoding->apply(*encoding->setup(shape), shape, whole.data());
      size_t start = 0;
      for (size_t part = 0; part < 3; ++part) {
        const Shape slice = SliceShape(*encoding, shape, part, 3);
        encoding->apply(*encoding->setup(slice), slice, parts.data() + start);
        start += TensorElements(encoding->placement, slice);
      }
      EXPECT_EQ(start, elements) << encoding->name;
      for (size_t i = 0; i < elements; ++i) {
        // A table is made by blocks, so that its last bit may differ with where a block starts.
        EXPECT_NEAR(parts[i], whole[i], 2e-7 * std::max(1.0f, std::abs(whole[i])))
            << encoding->name << " " << i;
      }
    }
  }
}

// A rotation keeps each pair's norm and leaves position 0 as it is.
TEST_P(EveryTarget, RotationKeepsNormsAndPositionZero) {
  for (const Encoding& encoding : QkRotationEncodings()) {
    const bool scales = std::string(encoding.name) == "xpos";  // Q shrinks with position
    Shape shape;
    shape.n = 2;
    shape.n_heads = 3;
    shape.d_head = 80;
    std::vector<float> in(TensorElements(encoding.placement, shape));
    for (size_t i = 0; i < in.size(); ++i) in[i] = HashToFloat(i, 5);
    std::vector<float> out = in;
    encoding.apply(*encoding.setup(shape), shape, out.data());
    const size_t token = shape.n_heads * shape.d_head;
    double before = 0, after = 0;
    for (size_t i = 0; i < token; ++i) {
      EXPECT_EQ(out[i], in[i]) << encoding.name;
      before += static_cast<double>(in[token + i]) * static_cast<double>(in[token + i]);
      after += static_cast<double>(out[token + i]) * static_cast<double>(out[token + i]);
    }
    EXPECT_NEAR(after / before, 1, scales ? 3e-3 : 1e-6) << encoding.name;
  }
}

// Turning by a token's angles and back gives what was there.
TEST_P(EveryTarget, InverseTurnsBack) {
  for (const char* name : {"rope_half", "rope_interleaved", "mrope", "rope_2d"}) {
    const Encoding& encoding = *FindEncoding(name);
    Shape shape;
    shape.n = 3;
    shape.n_heads = 2;
    shape.d_head = 80;
    shape.d_rot = 32;
    shape.first_position = 12345;
    std::vector<float> x(TensorElements(encoding.placement, shape));
    for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 6);
    const std::vector<float> before = x;
    encoding.apply(*encoding.setup(shape), shape, x.data());
    EXPECT_GT(std::abs(x[0] - before[0]) + std::abs(x[16] - before[16]), 1e-3) << name;
    shape.inverse = true;
    encoding.apply(*encoding.setup(shape), shape, x.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-6) << name << " " << i;
  }
}

// <R_m q, R_n k> depends on m − n only. A picture's positions keep their row (32 patches to each).
TEST_P(EveryTarget, RotatedProductDependsOnTheDistanceOnly) {
  for (const Encoding& encoding : QkRotationEncodings()) {
    const auto product = [&](size_t m, size_t n) {
      Shape shape;
      shape.n = 1;
      shape.d_head = 64;
      std::vector<float> q(64), k(64);
      for (size_t i = 0; i < 64; ++i) {
        q[i] = HashToFloat(i, 7);
        k[i] = HashToFloat(i, 8);
      }
      shape.n_heads = 1;
      shape.first_position = m;
      encoding.apply(*encoding.setup(shape), shape, q.data());
      shape.n_heads = 0;
      shape.n_kv_heads = 1;
      shape.first_position = n;
      encoding.apply(*encoding.setup(shape), shape, k.data());
      double sum = 0;
      for (size_t i = 0; i < 64; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(k[i]);
      return sum;
    };
    const double here = product(7, 5);
    EXPECT_NEAR(product(5007, 5005), here, 1e-5) << encoding.name;
    Shape far;
    far.d_head = 64;
    far.first_position = 1048583;
    if (encoding.reject(far) == nullptr) {
      EXPECT_NEAR(product(1048583, 1048581), here, 1e-5) << encoding.name;
    }
    if (std::string(encoding.name) != "nope") {
      EXPECT_GT(std::abs(product(7, 4) - here), 1e-3) << encoding.name << ": the distance must matter";
    }
  }
}

// A score bias depends on k − q only: a query five tokens later sees the same row, shifted.
TEST_P(EveryTarget, ScoreBiasIsTranslationInvariant) {
  for (const Encoding& encoding : ScoreBiasEncodings()) {
    for (bool causal : {true, false}) {
      Shape shape;
      shape.n = shape.n_k = 40;
      shape.n_heads = 3;
      shape.causal = causal;
      std::vector<float> s(TensorElements(encoding.placement, shape), 0.0f);
      encoding.apply(*encoding.setup(shape), shape, s.data());
      for (size_t q = 0; q + 5 < 40; ++q) {
        for (size_t k = 0; k + 5 < 40; ++k) {
          EXPECT_EQ(s[(40 + q) * 40 + k], s[(40 + q + 5) * 40 + k + 5])
              << encoding.name << " " << q << " " << k;
        }
      }
    }
  }
}

// Positions need not be consecutive: after eviction, or in a batch, rows come in any order.
TEST_P(EveryTarget, TableRowsAreGatheredByTheirIndices) {
  constexpr size_t kModel = 37;
  const std::vector<int32_t> rows = {5, 6, 7, 0, 9, 8, 8, 9};
  std::vector<float> table(10 * kModel), x(rows.size() * kModel), before;
  for (size_t i = 0; i < table.size(); ++i) table[i] = HashToFloat(i, 21);
  for (size_t i = 0; i < x.size(); ++i) x[i] = HashToFloat(i, 22);
  before = x;
  AddTableRows(Dtype::kF32, {table.data(), rows.data()}, rows.size(), kModel, x.data());
  for (size_t t = 0; t < rows.size(); ++t) {
    for (size_t j = 0; j < kModel; ++j) {
      ASSERT_EQ(x[t * kModel + j], before[t * kModel + j] + table[static_cast<size_t>(rows[t]) * kModel + j])
          << "token " << t << " dimension " << j;
    }
  }
}

// The embedding's rows and the positions' in one pass are what one after the other gives.
TEST_P(EveryTarget, FusedGatherIsGatherThenAdd) {
  for (const size_t d_model : {1, 7, 16, 37, 64, 130}) {
    const std::vector<int32_t> tokens = {3, 3, 0, 8, 1}, positions = {0, 1, 2, 3, 9};
    for (const Dtype dtype : kAllDtypes) {
      std::vector<float> embedding(10 * d_model), table(10 * d_model), separate(5 * d_model + 8, 7);
      for (size_t i = 0; i < 10 * d_model; ++i) {
        StoreElement(dtype, embedding.data(), i, HashToFloat(i, 31));
        StoreElement(dtype, table.data(), i, HashToFloat(i, 32));
      }
      std::vector<float> fused = separate;
      GatherTableRows(dtype, {embedding.data(), tokens.data()}, 5, d_model, separate.data());
      EXPECT_EQ(LoadElement(dtype, separate.data(), 3 * d_model),
                LoadElement(dtype, embedding.data(), 8 * d_model));
      AddTableRows(dtype, {table.data(), positions.data()}, 5, d_model, separate.data());
      GatherAndAddTableRows(dtype, {embedding.data(), tokens.data()}, {table.data(), positions.data()}, 5,
                            d_model, fused.data());
      EXPECT_EQ(fused, separate) << DtypeName(dtype) << " " << d_model;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(SupportedTargetNames()),
                         [](const auto& target) { return target.param; });

TEST(Registry, NamesAreUniqueAndFound) {
  ASSERT_GE(AllEncodings().size(), 6u);
  for (const Encoding* encoding : AllEncodings()) EXPECT_EQ(FindEncoding(encoding->name), encoding);
  EXPECT_EQ(FindEncoding("rope"), nullptr);
}

TEST(Registry, OddDimensionsAreRejected) {
  Shape shape;
  shape.d_head = shape.d_model = 65;
  for (const char* name : {"sinusoidal", "rope_half", "rope_interleaved"}) {
    EXPECT_NE(FindEncoding(name)->reject(shape), nullptr) << name;
  }
  EXPECT_EQ(FindEncoding("learned")->reject(shape), nullptr);
  shape.n = 5;
  shape.n_k = 4;
  EXPECT_NE(FindEncoding("alibi")->reject(shape), nullptr);
}

TEST(Cost, IsWhatTheFormulaMoves) {
  Shape shape;
  shape.n = 10;
  shape.n_heads = 24;
  shape.n_kv_heads = 8;
  shape.d_head = 128;
  const Cost rope = FindEncoding("rope_half")->cost(shape);
  EXPECT_EQ(rope.bytes_written, 4.0 * 10 * 32 * 128);
  EXPECT_EQ(rope.bytes_read, 4.0 * 10 * (32 * 128 + 128));
  EXPECT_EQ(rope.flops, 3.0 * 10 * 32 * 128);

  Shape scores;
  scores.n = 2;
  scores.n_k = 5;
  scores.n_heads = 3;
  // Rows reach keys 0…3 and 0…4: nine scores a head.
  EXPECT_EQ(FindEncoding("alibi")->cost(scores).Bytes(), 3 * 9 * 8.0);
  EXPECT_EQ(FindEncoding("t5_bias")->cost(scores).Bytes(), 3 * 9 * 8.0 + 3 * 5 * 4.0);
  scores.causal = false;
  EXPECT_EQ(FindEncoding("alibi")->cost(scores).flops, 2 * 3 * 10.0);

  Shape input;
  input.n = 3;
  input.d_model = 100;
  EXPECT_EQ(FindEncoding("learned")->cost(input).Bytes(), 12.0 * 300 + 12);
}

}  // namespace
}  // namespace ropeline
