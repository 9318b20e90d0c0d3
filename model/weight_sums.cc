#include "model/weight_sums.h"

#include <algorithm>
#include <cmath>

#include "model/weight_format.h"

namespace ropeline {
namespace {

bool IsExpert(MatrixRole role) {
  return role == MatrixRole::kExpertGate || role == MatrixRole::kExpertUp || role == MatrixRole::kExpertDown;
}

bool IsGathered(MatrixRole role) {
  return role == MatrixRole::kTokenEmbedding || role == MatrixRole::kPerLayerEmbedding ||
         role == MatrixRole::kTokenTypeTable;
}

bool IsHead(MatrixRole role) {
  return role == MatrixRole::kTokenEmbedding || role == MatrixRole::kOutput || role == MatrixRole::kPooler;
}

bool HasInputOfItsOwn(const Llm& llm, const Matrix& matrix) {
  switch (matrix.role) {
    case MatrixRole::kAttnK:
    case MatrixRole::kAttnV:
    case MatrixRole::kAttnGate:
    case MatrixRole::kAttnKvA:
    case MatrixRole::kCrossV:
    case MatrixRole::kExpertUp:
    case MatrixRole::kSharedUp:
      return false;
    case MatrixRole::kFfnUp:
      return matrix.layer < 0 || llm.layers[static_cast<size_t>(matrix.layer)].ffn.kind != FfnKind::kGated;
    default:
      return true;
  }
}

void Add(const Llm& llm, const WeightTensor& tensor, WeightSum* sum) {
  const Matrix& matrix = tensor.matrix;
  const auto count = static_cast<double>(matrix.count);
  sum->bytes += static_cast<double>(tensor.bytes);
  sum->elements += static_cast<double>(matrix.Elements());
  auto known = std::find_if(sum->products.begin(), sum->products.end(), [&](const ProductShape& product) {
    return product.format == tensor.format && product.rows == matrix.rows && product.cols == matrix.cols;
  });
  if (known == sum->products.end()) {
    known = sum->products.insert(known, {tensor.format, matrix.rows, matrix.cols, 0, 0});
  }
  known->count += count;
  if (HasInputOfItsOwn(llm, matrix)) known->inputs += count;
}

ExpertSum* GroupOf(const Matrix& matrix, std::vector<ExpertSum>* groups) {
  const uint64_t active = matrix.active.value_or(matrix.count);
  const auto found = std::find_if(groups->begin(), groups->end(), [&](const ExpertSum& group) {
    return group.n_experts == matrix.count && group.n_active == active;
  });
  if (found != groups->end()) return &*found;
  groups->push_back({matrix.count, active, {}});
  return &groups->back();
}

}  // namespace

double ExpertSum::Distinct(double tokens) const {
  const auto all = static_cast<double>(n_experts);
  return all * (1 - std::pow(1 - static_cast<double>(n_active) / all, tokens));
}

Cost WeightSums::Experts(double tokens) const {
  Cost cost;
  for (const ExpertSum& group : experts) {
    const auto all = static_cast<double>(group.n_experts);
    cost.bytes_read += group.sum.bytes / all * group.Distinct(tokens);
    cost.flops += 2 * group.sum.elements / all * static_cast<double>(group.n_active) * tokens;
  }
  return cost;
}

WeightSums SumWeights(const Llm& llm, const std::vector<WeightTensor>& tensors, double decode_vector_bytes,
                      double prefill_vector_bytes) {
  WeightSums sums;
  sums.decode_layers.bytes = decode_vector_bytes;
  sums.prefill_layers.bytes = prefill_vector_bytes;
  for (const WeightTensor& tensor : tensors) {
    const Matrix& matrix = tensor.matrix;
    if (IsGathered(matrix.role)) {
      sums.gathered_bytes +=
          static_cast<double>(tensor.bytes) / static_cast<double>(matrix.rows * matrix.count);
    }
    const MatrixUse use = llm.UseOf(matrix);
    if (IsExpert(matrix.role)) {
      if (use.decode) Add(llm, tensor, &GroupOf(matrix, &sums.experts)->sum);
      continue;
    }
    if (use.decode) Add(llm, tensor, IsHead(matrix.role) ? &sums.decode_head : &sums.decode_layers);
    if (use.prefill_each) Add(llm, tensor, &sums.prefill_layers);
    if (use.prefill_last) Add(llm, tensor, &sums.prefill_head);
  }
  return sums;
}

}  // namespace ropeline
