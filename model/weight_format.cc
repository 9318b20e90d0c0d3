#include "model/weight_format.h"

#include <cmath>

namespace ropeline {
namespace {

// Bytes that one token's step reads of `bytes`, of which it takes `active` of `all` equal parts.
uint64_t ActivePart(uint64_t bytes, uint64_t active, uint64_t all) {
  if (active >= all || all == 0) return bytes;
  return static_cast<uint64_t>(
      std::llround(static_cast<double>(bytes) * static_cast<double>(active) / static_cast<double>(all)));
}

std::vector<WeightTensor> Tensors(const Llm& llm, const WeightMix& mix) {
  std::vector<WeightTensor> tensors;
  if (mix.mix == Mix::kStored) {
    for (const Matrix& matrix : llm.matrices) {
      const StoredMatrix stored = matrix.stored.value_or(StoredMatrix{});
      tensors.push_back({matrix, stored.format, stored.bytes});
    }
    return tensors;
  }
  const std::vector<const BlockFormat*> formats = MatrixFormats(llm, mix);
  for (size_t i = 0; i < formats.size(); ++i) {
    const Matrix& matrix = llm.matrices[i];
    tensors.push_back({matrix, formats[i], formats[i]->RowBytes(matrix.cols) * matrix.rows * matrix.count});
  }
  return tensors;
}

}  // namespace

const WeightMix& ChooseWeightMix(const Llm& llm, std::string_view name, const Where& where) {
  if (name.empty()) name = llm.stored ? "stored" : "q4_k_m";
  const WeightMix& mix = FindWeightMix(name, where);
  if (mix.mix == Mix::kStored && !llm.stored) {
    throw BadInput(where, "\"stored\" needs a model file with weights",
                   "a GGUF file, a folder with safetensors or another format");
  }
  return mix;
}

WeightLayout LayOutWeights(const Llm& llm, const WeightMix& mix) {
  WeightLayout layout;
  if (llm.params_given) {
    const double bytes = static_cast<double>(*llm.params_given) * mix.plain_bits / 8;
    layout.total_bytes = layout.decode_bytes = layout.prefill_bytes =
        static_cast<uint64_t>(std::llround(bytes));
    layout.bits_per_weight = mix.plain_bits;
    layout.sums.decode_layers = layout.sums.prefill_layers = {static_cast<double>(layout.total_bytes),
                                                              static_cast<double>(*llm.params_given)};
    return layout;
  }
  const bool stored = mix.mix == Mix::kStored;
  if (stored) layout.total_bytes = llm.stored->other_bytes;
  layout.tensors = Tensors(llm, mix);
  for (const WeightTensor& tensor : layout.tensors) {
    const Matrix& matrix = tensor.matrix;
    const MatrixUse use = llm.UseOf(matrix);
    layout.total_bytes += tensor.bytes;
    if (use.decode)
      layout.decode_bytes += ActivePart(tensor.bytes, matrix.active.value_or(matrix.count), matrix.count);
    if (use.prefill_each || use.prefill_last) layout.prefill_bytes += tensor.bytes;
  }
  const bool encoder_decoder = llm.EncoderDecoder();
  uint64_t decode_vectors = 0, prefill_vectors = 0;
  for (const Vector& vector : llm.vectors) {
    const uint64_t bytes = stored ? vector.stored_bytes.value_or(0) : kBlockF32.RowBytes(vector.elements);
    const bool encoder =
        vector.layer >= 0 && llm.layers[static_cast<size_t>(vector.layer)].stack == Stack::kEncoder;
    layout.vector_bytes += bytes;
    layout.total_bytes += bytes;
    if (!encoder) layout.decode_bytes += ActivePart(bytes, vector.ActiveElements(), vector.elements);
    if (encoder || !encoder_decoder) layout.prefill_bytes += bytes;
    if (!encoder) decode_vectors += bytes;
    if (encoder || !encoder_decoder) prefill_vectors += bytes;
  }
  layout.sums = SumWeights(llm, layout.tensors, static_cast<double>(decode_vectors),
                           static_cast<double>(prefill_vectors));
  const auto params = static_cast<double>(llm.ParamsTotal());
  const uint64_t beside = stored ? llm.stored->other_bytes : 0;
  if (params > 0) layout.bits_per_weight = 8 * static_cast<double>(layout.total_bytes - beside) / params;
  return layout;
}

}  // namespace ropeline
