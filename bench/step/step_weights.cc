#include "bench/step/step_weights.h"

#include <hwy/base.h>

#include <cmath>

#include "kernels/hash.h"

namespace ropeline {
namespace {

constexpr size_t kLine = 64;
// Between two pieces, so that they do not start at the same place within a page.
constexpr size_t kApart = 3 * kLine;
constexpr size_t kSlack = 4096;  // kernels read whole vectors

size_t Room(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine + kApart; }

size_t RoomOf(const StepPlan& plan) {
  size_t pieces = 8;
  for (const StepLayer& layer : plan.layers) pieces += layer.qkv ? 14 : 16;
  return plan.MatrixBytes() + plan.VectorBytes() + pieces * (kLine + kApart) + kSlack;
}

float Deviation(const MatrixShape& shape) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(shape.cols)));
}

WeightMatrix Rows(const WeightMatrix& of, size_t first, size_t count) {
  return {of.dtype, count, of.cols, of.Row(first)};
}

}  // namespace

StepWeights::StepWeights(const StepPlan& plan) : memory_(RoomOf(plan), Pages::kHuge) {
  embedding = head = Place(plan.embedding, 1);
  if (!plan.tied) head = Place(plan.head, Deviation(plan.head));
  if (plan.learned_positions) learned_positions = Place(*plan.learned_positions, 1);
  if (plan.relative_biases) relative_biases = Place(*plan.relative_biases, 1);
  final_norm = PlaceVector(plan.d_model, true);
  for (const StepLayer& layer : plan.layers) {
    const size_t d_q = layer.QueryWidth(), d_k = layer.KeyWidth(), d_v = layer.ValueWidth();
    LayerWeights weights;
    if (layer.qkv) {
      const WeightMatrix qkv = Place(*layer.qkv, Deviation(*layer.qkv));
      weights.q = Rows(qkv, 0, d_q);
      weights.k = Rows(qkv, d_q, d_k);
      weights.v = Rows(qkv, d_q + d_k, d_v);
    } else {
      weights.q = Place(layer.q, Deviation(layer.q));
      weights.k = Place(layer.k, Deviation(layer.k));
      weights.v = Place(layer.v, Deviation(layer.v));
    }
    weights.o = Place(layer.o, Deviation(layer.o));
    weights.gate = Place(layer.gate, Deviation(layer.gate));
    weights.up = Place(layer.up, Deviation(layer.up));
    weights.down = Place(layer.down, Deviation(layer.down));
    weights.attention_norm = PlaceVector(plan.d_model, true);
    weights.ffn_norm = PlaceVector(plan.d_model, true);
    if (layer.qkv_bias) {
      weights.q_bias = PlaceVector(d_q, false);
      weights.k_bias = PlaceVector(d_k, false);
      weights.v_bias = PlaceVector(d_v, false);
    }
    if (layer.o_bias) weights.o_bias = PlaceVector(plan.d_model, false);
    if (layer.qk_norm) {
      weights.q_norm = PlaceVector(layer.d_head_k, true);
      weights.k_norm = PlaceVector(layer.d_head_k, true);
    }
    layers.push_back(weights);
  }
  if (used_ + kSlack > memory_.Bytes()) HWY_ABORT("%zu bytes of weights in %zu", used_, memory_.Bytes());
}

WeightMatrix StepWeights::Place(const MatrixShape& shape, float deviation) {
  const WeightMatrix matrix{shape.dtype, shape.rows, shape.cols,
                            static_cast<uint8_t*>(memory_.Data()) + used_};
  used_ += Room(shape.Bytes());
  matrices_.push_back({matrix, deviation});
  return matrix;
}

const float* StepWeights::PlaceVector(size_t elements, bool norm) {
  auto* data = reinterpret_cast<float*>(static_cast<uint8_t*>(memory_.Data()) + used_);
  used_ += Room(4 * elements);
  vectors_.push_back({data, elements, norm});
  return data;
}

void StepWeights::Fill(size_t part, size_t parts, uint64_t seed) {
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const auto& [matrix, deviation] = matrices_[i];
    FillWeights(matrix.dtype, matrix.cols, matrix.rows * part / parts, matrix.rows * (part + 1) / parts,
                Hash64(seed) + i, deviation, const_cast<void*>(matrix.data));
  }
  if (part != 0) return;
  for (size_t i = 0; i < vectors_.size(); ++i) {
    const auto& [data, elements, norm] = vectors_[i];
    for (size_t j = 0; j < elements; ++j) data[j] = (norm ? 1.0f : 0.0f) + HashToFloat(seed + i, j) / 10;
  }
}

}  // namespace ropeline
