// soft_max_ext, add and get_rows against our kernels that do the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_fill.h"
#include "bench/peer/ggml_session.h"
#include "kernels/dtype.h"
#include "kernels/input_add.h"
#include "kernels/registry.h"
#include "kernels/score_bias.h"
#include "kernels/targets.h"

namespace ropeline {
namespace {

using ggml::Tensor;
using ggml::Type;

class TensorCrossCheck : public CrossCheck {
 protected:
  void TearDown() override { UseBestTarget(); }
};

// Scores that our ALiBi has biased, through a softmax in double, against soft_max_ext of scores, mask and
// max_bias. Queries are the last n of n_k tokens.
TEST_F(TensorCrossCheck, SoftMaxExtIsAlibiThenSoftmax) {
  constexpr size_t kN = 90, kKeys = 150;
  constexpr float kScale = 0.125f, kMaxBias = 8;
  for (const size_t n_heads : {8, 12}) {
    const auto scores = Numbers(n_heads * kN * kKeys, 1, 40);
    GgmlSession session(library_, {});
    Tensor* in = session.New(Type::kF32, kKeys, kN, static_cast<int64_t>(n_heads));
    Tensor* mask = session.New(Type::kF32, kKeys, kN);
    std::memcpy(session.Data(in), scores.data(), 4 * scores.size());
    for (size_t q = 0; q < kN; ++q) {
      for (size_t k = 0; k < kKeys; ++k) {
        const size_t position = kKeys - kN + q;
        session.Floats(mask)[q * kKeys + k] = k > position ? -INFINITY : -static_cast<float>(position - k);
      }
    }
    Tensor* out = session.SoftMax(in, mask, kScale, kMaxBias);
    session.Compute();

    std::vector<float> biased(scores);
    for (float& x : biased) x *= kScale;  // a power of two: exact
    const Encoding& alibi = *FindEncoding("alibi");
    const Shape shape{.n = kN, .n_k = kKeys, .n_heads = n_heads};
    alibi.apply(*alibi.setup(shape), shape, biased.data());
    Worst worst(fmt::format("soft_max_ext of {} heads", n_heads));
    for (size_t row = 0; row < n_heads * kN; ++row) {
      const size_t seen = kKeys - kN + row % kN + 1;
      const float* const ours = biased.data() + row * kKeys;
      const double largest = static_cast<double>(*std::max_element(ours, ours + seen));
      double sum = 0;
      for (size_t k = 0; k < seen; ++k) sum += std::exp(static_cast<double>(ours[k]) - largest);
      for (size_t k = 0; k < kKeys; ++k) {
        const double expected = k < seen ? std::exp(static_cast<double>(ours[k]) - largest) / sum : 0;
        const auto actual = static_cast<double>(session.Floats(out)[row * kKeys + k]);
        // A biased score is below 80, so that both sides' roundings of it (slope, product, sum) move its
        // exponential by no more than 6 · 80 · 2^-24 of itself; exp and sum add a few.
        worst.Note(std::abs(actual - expected), (6 * 80 + 8) * 0x1p-24 * expected + 1e-30,
                   [&] { return fmt::format("head {}, query {}, key {}", row / kN, row % kN, k); });
      }
    }
    worst.Report();
  }
}

TEST_F(TensorCrossCheck, AddIsOurBiasTensorBitForBit) {
  constexpr size_t kN = 37, kHeads = 5;
  const auto scores = Numbers(kHeads * kN * kN, 1, 30), bias = Numbers(kHeads * kN * kN, 2, 4);
  GgmlSession session(library_, {});
  Tensor* to = session.New(Type::kF32, kN, kN, kHeads);
  Tensor* what = session.New(Type::kF32, kN, kN, kHeads);
  std::memcpy(session.Data(to), scores.data(), 4 * scores.size());
  std::memcpy(session.Data(what), bias.data(), 4 * bias.size());
  const Tensor* sum = session.AddInPlace(to, what);
  session.Compute();
  for (const std::string& target : SupportedTargetNames()) {
    ASSERT_TRUE(UseTarget(target));
    std::vector<float> ours(scores);
    AddBiasTensor(bias.data(), Dtype::kF32, {.n = kN, .n_k = kN, .n_heads = kHeads, .causal = false},
                  ours.data());
    EXPECT_EQ(std::memcmp(ours.data(), session.Data(sum), 4 * ours.size()), 0) << target;
  }
  std::printf("  add: %zu sums equal in every bit\n", scores.size());
}

TEST_F(TensorCrossCheck, GetRowsAndAddIsOurGatherBitForBit) {
  constexpr size_t kD = 75, kRows = 40, kN = 9;
  const auto tokens = Numbers(kRows * kD, 1), positions = Numbers(kRows * kD, 2);
  const std::vector<int32_t> token_rows = {7, 0, 39, 7, 12, 3, 38, 1, 20},
                             position_rows = {3, 4, 5, 6, 7, 8, 9, 10, 11};
  GgmlSession session(library_, {});
  Tensor *tables[2], *rows[2];
  for (size_t i = 0; i < 2; ++i) {
    tables[i] = session.New(Type::kF32, kD, kRows);
    rows[i] = session.New(Type::kI32, kN);
    std::memcpy(session.Data(tables[i]), (i == 0 ? tokens : positions).data(), 4 * tokens.size());
    std::memcpy(session.Data(rows[i]), (i == 0 ? token_rows : position_rows).data(), 4 * kN);
  }
  Tensor* x = session.GetRows(tables[0], rows[0]);
  x = session.AddInPlace(x, session.GetRows(tables[1], rows[1]));
  session.Compute();
  for (const std::string& target : SupportedTargetNames()) {
    ASSERT_TRUE(UseTarget(target));
    std::vector<float> ours(kN * kD);
    GatherAndAddTableRows(Dtype::kF32, {tokens.data(), token_rows.data()},
                          {positions.data(), position_rows.data()}, kN, kD, ours.data());
    EXPECT_EQ(std::memcmp(ours.data(), session.Data(x), 4 * ours.size()), 0) << target;
  }
  std::printf("  get_rows and add: %zu sums equal in every bit\n", kN * kD);
}

// A machine with large caches takes many small operations to leave them.
TEST_F(TensorCrossCheck, AGraphHoldsAsManyOperationsAsAreSaid) {
  constexpr size_t kD = 8, kRows = 4, kOperations = 3000;
  GgmlSession session(library_, {}, kOperations);
  Tensor* table = session.New(Type::kF32, kD, kRows);
  const auto numbers = Numbers(kRows * kD, 1);
  std::memcpy(session.Data(table), numbers.data(), 4 * numbers.size());
  std::vector<Tensor*> sums;
  for (size_t i = 0; i < kOperations; ++i) {
    Tensor* rows[2];
    for (size_t which = 0; which < 2; ++which) {
      rows[which] = session.New(Type::kI32, 1);
      *static_cast<int32_t*>(session.Data(rows[which])) = static_cast<int32_t>((i + which) % kRows);
    }
    Tensor* x = session.GetRows(table, rows[0]);
    sums.push_back(session.AddInPlace(x, session.GetRows(table, rows[1])));
  }
  session.Compute();
  for (size_t i = 0; i < kOperations; ++i) {
    const float* const a = numbers.data() + i % kRows * kD;
    const float* const b = numbers.data() + (i + 1) % kRows * kD;
    for (size_t c = 0; c < kD; ++c) ASSERT_EQ(session.Floats(sums[i])[c], a[c] + b[c]) << i;
  }
}

// Rows of a quantised table come out as scale · code.
TEST_F(TensorCrossCheck, GetRowsOfBlocksIsScaleTimesCode) {
  constexpr size_t kD = 64, kRows = 10;
  const auto table = Numbers(kRows * kD, 3);
  for (const Type type : {Type::kF16, Type::kQ8_0}) {
    GgmlSession session(library_, {});
    Tensor* stored = session.New(type, kD, kRows);
    EncodeRows(*library_, type, table.data(), kD, kRows, session.Data(stored));
    Tensor* rows = session.New(Type::kI32, kRows);
    for (size_t i = 0; i < kRows; ++i)
      static_cast<int32_t*>(session.Data(rows))[i] = static_cast<int32_t>(kRows - 1 - i);
    Tensor* out = session.GetRows(stored, rows);
    session.Compute();
    const auto* const bytes = static_cast<const char*>(session.Data(stored));
    for (size_t i = 0; i < kRows * kD; ++i) {
      const size_t row = kRows - 1 - i / kD, c = i % kD;
      float expected = FloatFromF16(F16FromFloat(table[row * kD + c]));
      if (type == Type::kQ8_0) {
        const char* const block = bytes + (row * kD + c) / 32 * 34;
        expected =
            LoadElement(Dtype::kF16, block, 0) * static_cast<float>(static_cast<int8_t>(block[2 + c % 32]));
      }
      EXPECT_EQ(session.Floats(out)[i], expected) << "row " << row << " column " << c;
    }
  }
}

}  // namespace
}  // namespace ropeline
