#include "model/llm.h"

#include <algorithm>
#include <cmath>

namespace ropeline {

const char* AttentionKindName(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kNone:
      return "none";
    case AttentionKind::kFull:
      return "full";
    case AttentionKind::kWindow:
      return "window";
    case AttentionKind::kChunked:
      return "chunked";
    case AttentionKind::kMla:
      return "mla";
    case AttentionKind::kCross:
      return "cross";
  }
  return "";
}

const char* FfnKindName(FfnKind kind) {
  switch (kind) {
    case FfnKind::kNone:
      return "none";
    case FfnKind::kMlp:
      return "mlp";
    case FfnKind::kGated:
      return "gated";
    case FfnKind::kMoe:
      return "moe";
  }
  return "";
}

const char* Position::rope_scaling() const {
  return rope.type == RopeType::kDefault ? "" : RopeTypeName(rope.type);
}

Position RotaryPosition(const char* encoding, double base, uint64_t d_head, uint64_t d_rot) {
  Position position{.encoding = encoding};
  position.rope.base = base;
  position.rope.d_head = d_head;
  position.rope.d_rot = d_rot;
  return position;
}

double Attention::Pairs(double n) const {
  if (kind == AttentionKind::kNone) return 0;
  if (kind == AttentionKind::kCross) return n * Keys(n);
  const auto limit = static_cast<double>(window);
  if (!causal) {
    const double unseen = kind == AttentionKind::kWindow ? std::max(0.0, n - limit) : 0;
    return n * n - unseen * unseen;
  }
  if (kind == AttentionKind::kChunked) {
    const double chunks = std::floor(n / limit), rest = n - chunks * limit;
    return (chunks * limit * limit + rest * rest) / 2;
  }
  const double w = kind == AttentionKind::kWindow ? std::min(n, limit) : n;
  return w * n - w * w / 2;
}

double Attention::Keys(double n) const {
  if (kind == AttentionKind::kNone) return 0;
  if (kind == AttentionKind::kCross && source_tokens) return static_cast<double>(*source_tokens);
  return limited() ? std::min(n, static_cast<double>(window)) : n;
}

double Attention::FlopsPerPair() const {
  if (kind != AttentionKind::kMla) return ExpandedFlopsPerPair();
  return 2 * static_cast<double>(n_heads) * static_cast<double>(2 * latent.kv_lora_rank + latent.d_rope);
}

double Attention::ExpandedFlopsPerPair() const {
  return 2 * static_cast<double>(n_heads) * static_cast<double>(d_head_k + d_head_v);
}

uint64_t Attention::KElements() const {
  return kind == AttentionKind::kMla ? latent.kv_lora_rank + latent.d_rope : n_kv_heads * d_head_k;
}

uint64_t Attention::VElements() const { return kind == AttentionKind::kMla ? 0 : n_kv_heads * d_head_v; }

const char* Layer::Kind() const {
  if (self.kind != AttentionKind::kNone) return AttentionKindName(self.kind);
  return recurrent.empty() ? AttentionKindName(cross.kind) : "recurrent";
}

bool Llm::EncoderDecoder() const {
  return !layers.empty() && layers.front().stack == Stack::kEncoder && layers.back().stack == Stack::kDecoder;
}

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
  if (!input_position.empty()) return input_position;
  for (const Layer& layer : layers) {
    if (layer.stack == Stack::kDecoder && !layer.self.position.empty()) return layer.self.position;
  }
  return input_position;
}

MatrixUse Llm::UseOf(const Matrix& matrix) const {
  MatrixUse use;
  const bool encoder =
      matrix.layer >= 0 && layers[static_cast<size_t>(matrix.layer)].stack == Stack::kEncoder;
  const bool only_decoder = !EncoderDecoder();
  switch (matrix.role) {
    case MatrixRole::kPositionTable:
    case MatrixRole::kTokenTypeTable:
    case MatrixRole::kRelativeBias:
    case MatrixRole::kPerLayerEmbedding:
      break;
    case MatrixRole::kPooler:
      use.prefill_last = true;
      break;
    case MatrixRole::kTokenEmbedding:
    case MatrixRole::kOutput:
      use.decode = matrix.role == MatrixRole::kOutput || tied_embeddings;
      use.prefill_last = use.decode && only_decoder;
      break;
    case MatrixRole::kAttnK:
    case MatrixRole::kAttnV:
      if (matrix.layer >= 0 && layers[static_cast<size_t>(matrix.layer)].self.shares_kv_with >= 0) break;
      use.decode = !encoder;
      use.prefill_each = encoder || only_decoder;
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

uint64_t Llm::ParamsActive() const {
  if (params_given) return *params_given;
  uint64_t total = 0;
  for (const Matrix& matrix : matrices) total += matrix.ActiveElements();
  for (const Vector& vector : vectors) total += vector.ActiveElements();
  return total;
}

uint64_t Llm::ElementsUsed(bool MatrixUse::*use) const {
  if (params_given) return use == &MatrixUse::prefill_last ? 0 : *params_given;
  uint64_t total = 0;
  for (const Matrix& matrix : matrices) {
    if (UseOf(matrix).*use) total += matrix.ActiveElements();
  }
  return total;
}

Llm WithExpandedLatent(Llm llm) {
  for (Layer& layer : llm.layers) {
    if (layer.self.kind == AttentionKind::kMla) layer.self.kind = AttentionKind::kFull;
  }
  return llm;
}

}  // namespace ropeline
