// The generic test of the contract: every encoding of the registry, on every target this CPU has, over shapes
// that straddle the vector length and positions from 0 to a million, against the encoding's own double
// reference.
#include "kernels/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/hash.h"
#include "kernels/input_add.h"
#include "kernels/registry.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

constexpr size_t kGuard = 32;
constexpr float kSentinel = -12345.5f;

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
  return "n " + std::to_string(s.n) + " n_k " + std::to_string(s.n_k) + " heads " +
         std::to_string(s.n_heads) + "+" + std::to_string(s.n_kv_heads) + " from " +
         std::to_string(s.first_head) + " of " + std::to_string(s.total_heads) + " d_head " +
         std::to_string(s.d_head) + " d_model " + std::to_string(s.d_model) + " position " +
         std::to_string(s.first_position) + (s.causal ? " causal" : " bidirectional");
}

// The worst element of one call, in units of scale · 2^-24.
struct Worst {
  double error = 0;
  std::string where;
};

// Checks one call; `worst` takes its largest error if that is larger. Fails where an element that must stay
// was changed, where memory around the tensor was touched, or where the output is as the input although it
// must not be.
void CheckShape(const Encoding& encoding, const Shape& shape, Worst* worst) {
  const size_t elements = TensorElements(encoding.placement, shape);
  std::vector<float> in(elements), actual(elements + 2 * kGuard, kSentinel);
  for (size_t i = 0; i < elements; ++i) in[i] = 3.3f * HashToFloat(i, 17);  // sums must round
  std::copy(in.begin(), in.end(), actual.begin() + kGuard);

  const auto tables = encoding.setup(shape);
  float* x = actual.data() + kGuard;
  encoding.apply(*tables, shape, x);

  std::vector<double> expected(elements), scale(elements);
  encoding.reference(shape, in.data(), expected.data(), scale.data());
  size_t must_change = 0, changed = 0;
  for (size_t i = 0; i < elements; ++i) {
    ASSERT_TRUE(std::isfinite(x[i])) << encoding.name << " " << Describe(shape) << " element " << i;
    if (scale[i] == 0) {
      ASSERT_EQ(std::memcmp(&x[i], &in[i], sizeof(float)), 0)
          << encoding.name << " " << Describe(shape) << ": element " << i << " must be left as it was";
      continue;
    }
    const double error = std::abs(static_cast<double>(x[i]) - expected[i]) / (scale[i] * 0x1p-24);
    if (error > worst->error) {
      worst->error = error;
      worst->where = Describe(shape) + " element " + std::to_string(i) + ": " + std::to_string(x[i]) +
                     ", expected " + std::to_string(expected[i]);
    }
    if (std::abs(expected[i] - static_cast<double>(in[i])) > 1e-3 * scale[i]) {
      ++must_change;
      changed += x[i] != in[i] ? 1 : 0;
    }
  }
  ASSERT_EQ(changed, must_change) << encoding.name << " " << Describe(shape) << ": untouched output";
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(actual[i], kSentinel) << encoding.name << " " << Describe(shape) << ": wrote before the tensor";
    ASSERT_EQ(actual[kGuard + elements + i], kSentinel)
        << encoding.name << " " << Describe(shape) << ": wrote beyond the tensor";
  }
}

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(UseTarget(GetParam())); }
  void TearDown() override { UseBestTarget(); }
};

TEST_P(EveryTarget, MatchesTheDoubleReference) {
  for (const Encoding* encoding : AllEncodings()) {
    Worst worst;
    size_t checked = 0;
    const auto shapes =
        encoding->placement == Placement::kScoreBias ? ScoreShapes() : TokenShapes(encoding->placement);
    for (const Shape& shape : shapes) {
      if (encoding->reject(shape) != nullptr) continue;
      CheckShape(*encoding, shape, &worst);
      if (HasFatalFailure()) return;
      ++checked;
    }
    EXPECT_GT(checked, shapes.size() / 2) << encoding->name;
    EXPECT_LE(worst.error, encoding->tolerance.f32) << encoding->name << " worst at " << worst.where;
    // An encoding that is always exact is not being tested.
    EXPECT_GT(worst.error, 0) << encoding->name;
    RecordProperty(std::string(encoding->name) + "_worst",
                   std::to_string(worst.error) + " at " + worst.where);
  }
}

// Q and K of many slices together are what one call on the whole does, bit for bit: threads change nothing.
TEST_P(EveryTarget, SlicesMakeTheWhole) {
  for (const Encoding* encoding : AllEncodings()) {
    Shape shape;
    shape.n = 7;
    shape.n_k = 23;
    shape.n_heads = 5;
    shape.d_head = 24;
    shape.d_model = 40;
    shape.first_position = 100;
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
      EXPECT_NEAR(parts[i], whole[i], 2e-7) << encoding->name << " " << i;
    }
  }
}

// A rotation keeps each pair's norm and leaves position 0 as it is.
TEST_P(EveryTarget, RotationKeepsNormsAndPositionZero) {
  for (const Encoding& encoding : QkRotationEncodings()) {
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
    EXPECT_NEAR(after / before, 1, 1e-6) << encoding.name;
  }
}

// <R_m q, R_n k> depends on m − n only.
TEST_P(EveryTarget, RotatedProductDependsOnTheDistanceOnly) {
  for (const Encoding& encoding : QkRotationEncodings()) {
    const auto product = [&](size_t m, size_t n) {
      Shape shape;
      shape.n = 1;
      shape.n_heads = 1;
      shape.d_head = 64;
      std::vector<float> q(64), k(64);
      for (size_t i = 0; i < 64; ++i) {
        q[i] = HashToFloat(i, 7);
        k[i] = HashToFloat(i, 8);
      }
      shape.first_position = m;
      encoding.apply(*encoding.setup(shape), shape, q.data());
      shape.first_position = n;
      encoding.apply(*encoding.setup(shape), shape, k.data());
      double sum = 0;
      for (size_t i = 0; i < 64; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(k[i]);
      return sum;
    };
    const double here = product(7, 5);
    EXPECT_NEAR(product(5007, 5005), here, 1e-5) << encoding.name;
    EXPECT_NEAR(product(1048577, 1048575), here, 1e-5) << encoding.name;
    EXPECT_GT(std::abs(product(7, 4) - here), 1e-3) << encoding.name << ": the distance must matter";
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
  AddTableRows(table.data(), rows.data(), rows.size(), kModel, x.data());
  for (size_t t = 0; t < rows.size(); ++t) {
    for (size_t j = 0; j < kModel; ++j) {
      ASSERT_EQ(x[t * kModel + j], before[t * kModel + j] + table[static_cast<size_t>(rows[t]) * kModel + j])
          << "token " << t << " dimension " << j;
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
