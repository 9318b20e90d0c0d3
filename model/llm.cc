#include "model/llm.h"

#include <algorithm>

namespace ropeline {

const char* AttentionKindName(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kNone:
      return "none";
    case AttentionKind::kFull:
      return "full";
    case AttentionKind::kWindow:
      return "window";
    case AttentionKind::kCross:
      return "cross";
  }
  return "";
}

double Attention::Pairs(double n) const {
  if (kind == AttentionKind::kNone) return 0;
  if (!causal || kind == AttentionKind::kCross) return n * n;
  const double w = kind == AttentionKind::kWindow ? std::min(n, static_cast<double>(window)) : n;
  return w * n - w * w / 2;
}

double Attention::Keys(double n) const {
  if (kind == AttentionKind::kNone) return 0;
  return kind == AttentionKind::kWindow ? std::min(n, static_cast<double>(window)) : n;
}

double Attention::FlopsPerPair() const {
  return 2 * static_cast<double>(n_heads) * static_cast<double>(d_head_k + d_head_v);
}

bool Llm::EncoderDecoder() const { return NumLayers(Stack::kEncoder) > 0 && NumLayers(Stack::kDecoder) > 0; }

uint64_t Llm::NumLayers(Stack stack) const {
  return static_cast<uint64_t>(
      std::count_if(layers.begin(), layers.end(), [&](const Layer& layer) { return layer.stack == stack; }));
}

const Attention* Llm::MainAttention() const {
  for (const Layer& layer : layers) {
    if (layer.stack == Stack::kDecoder && layer.self.kind != AttentionKind::kNone) return &layer.self;
  }
  return nullptr;
}

const Position& Llm::MainPosition() const {
  const Attention* attention = MainAttention();
  return input_position.empty() && attention != nullptr ? attention->position : input_position;
}

MatrixUse Llm::UseOf(const Matrix& matrix) const {
  MatrixUse use;
  const bool encoder =
      matrix.layer >= 0 && layers[static_cast<size_t>(matrix.layer)].stack == Stack::kEncoder;
  const bool only_decoder = !EncoderDecoder();
  switch (matrix.role) {
    case MatrixRole::kPositionTable:
    case MatrixRole::kRelativeBias:
      break;
    case MatrixRole::kTokenEmbedding:
    case MatrixRole::kOutput:
      use.decode = matrix.role == MatrixRole::kOutput || tied_embeddings;
      use.prefill_last = use.decode && only_decoder;
      break;
    case MatrixRole::kCrossK:
    case MatrixRole::kCrossV:
      use.prefill_each = true;
      break;
    default:
      use.decode = !encoder;
      use.prefill_each = encoder || only_decoder;
  }
  return use;
}

uint64_t Llm::ParamsTotal() const {
  if (params_given) return *params_given;
  uint64_t total = 0;
  for (const Matrix& matrix : matrices) total += matrix.Elements();
  for (const Vector& vector : vectors) total += vector.elements;
  return total;
}

uint64_t Llm::ElementsUsed(bool MatrixUse::*use) const {
  if (params_given) return use == &MatrixUse::prefill_last ? 0 : *params_given;
  uint64_t total = 0;
  for (const Matrix& matrix : matrices) {
    if (UseOf(matrix).*use) total += matrix.Elements();
  }
  return total;
}

}  // namespace ropeline
