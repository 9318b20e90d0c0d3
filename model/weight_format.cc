#include "model/weight_format.h"

#include <algorithm>
#include <cmath>

namespace ropeline {
namespace {

// plain_bits of q4_k_m is what the mix comes to over whole llama-like models of 3e9 parameters and more.
constexpr WeightMix kMixes[] = {
    {"f32", 32, &kBlockF32, &kBlockF32, &kBlockF32, &kBlockF32},
    {"f16", 16, &kBlockF16, &kBlockF16, &kBlockF16, &kBlockF16},
    {"bf16", 16, &kBlockBf16, &kBlockBf16, &kBlockBf16, &kBlockBf16},
    {"q8_0", 8.5, &kBlockQ80, &kBlockQ80, &kBlockQ80, &kBlockQ80},
    {"q4_0", 4.5, &kBlockQ40, &kBlockQ6K, &kBlockQ40, &kBlockQ40},
    {"q4_k_m", 4.85, &kBlockQ4K, &kBlockQ6K, &kBlockQ5K, &kBlockQ6K},
};

bool MoreBits(uint64_t i, uint64_t n) { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

const BlockFormat* Fallback(const BlockFormat* format, uint64_t cols) {
  if (format->Fits(cols)) return format;
  if (format == &kBlockQ4K) format = &kBlockQ50;
  if (format == &kBlockQ5K) format = &kBlockQ51;
  if (format == &kBlockQ6K) format = &kBlockQ80;
  return format->Fits(cols) ? format : &kBlockF16;
}

const BlockFormat* FormatOf(const Llm& llm, const WeightMix& mix, const Matrix& matrix) {
  switch (matrix.role) {
    case MatrixRole::kPositionTable:
      return &kBlockF32;
    case MatrixRole::kRelativeBias:
      return mix.base->block_elements == 1 ? mix.base : &kBlockF16;
    case MatrixRole::kTokenEmbedding:
      return llm.tied_embeddings ? mix.output : mix.base;
    case MatrixRole::kOutput:
      return mix.output;
    case MatrixRole::kAttnQkv:
      return mix.fused_qkv;
    case MatrixRole::kAttnV:
    case MatrixRole::kCrossV:
    case MatrixRole::kFfnDown: {
      const auto layer = static_cast<size_t>(matrix.layer);
      const Stack stack = llm.layers[layer].stack;
      const auto before = std::count_if(llm.layers.begin(), llm.layers.begin() + matrix.layer,
                                        [&](const Layer& other) { return other.stack == stack; });
      return MoreBits(static_cast<uint64_t>(before), llm.NumLayers(stack)) ? mix.more_bits : mix.base;
    }
    default:
      return mix.base;
  }
}

}  // namespace

std::vector<std::string> WeightMixNames() {
  std::vector<std::string> names;
  for (const WeightMix& mix : kMixes) names.emplace_back(mix.name);
  return names;
}

const WeightMix& FindWeightMix(std::string_view name, const Where& where) {
  std::string list;
  for (const WeightMix& mix : kMixes) {
    if (mix.name == name) return mix;
    list += (list.empty() ? "" : ", ") + std::string(mix.name);
  }
  throw BadInput(where, Quoted(name) + " is not a weight format", "one of " + list);
}

WeightLayout LayOutWeights(const Llm& llm, const WeightMix& mix) {
  WeightLayout layout;
  if (llm.params_given) {
    const double bytes = static_cast<double>(*llm.params_given) * mix.plain_bits / 8;
    layout.total_bytes = layout.decode_bytes = layout.prefill_bytes =
        static_cast<uint64_t>(std::llround(bytes));
    layout.bits_per_weight = mix.plain_bits;
    return layout;
  }
  for (const Matrix& matrix : llm.matrices) {
    const BlockFormat* format = Fallback(FormatOf(llm, mix, matrix), matrix.cols);
    const uint64_t bytes = format->RowBytes(matrix.cols) * matrix.rows * matrix.count;
    layout.tensors.push_back({matrix, format, bytes});
    const MatrixUse use = llm.UseOf(matrix);
    layout.total_bytes += bytes;
    if (use.decode) layout.decode_bytes += bytes;
    if (use.prefill_each || use.prefill_last) layout.prefill_bytes += bytes;
  }
  for (const Vector& vector : llm.vectors) {
    const uint64_t bytes = kBlockF32.RowBytes(vector.elements);
    const bool encoder =
        vector.layer >= 0 && llm.layers[static_cast<size_t>(vector.layer)].stack == Stack::kEncoder;
    layout.vector_bytes += bytes;
    layout.total_bytes += bytes;
    if (!encoder) layout.decode_bytes += bytes;
    if (encoder || !llm.EncoderDecoder()) layout.prefill_bytes += bytes;
  }
  layout.bits_per_weight =
      8 * static_cast<double>(layout.total_bytes) / static_cast<double>(llm.ParamsTotal());
  return layout;
}

}  // namespace ropeline
