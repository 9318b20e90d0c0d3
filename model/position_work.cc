#include "model/position_work.h"

#include "kernels/registry.h"
#include "model/bad_input.h"

namespace ropeline {

Position PositionFor(const Encoding& encoding, const Attention& attention) {
  Position position{.encoding = encoding.name};
  if (encoding.placement == Placement::kQkRotation) {
    position.rope.d_head = attention.d_head_k;
    position.rope.d_rot = attention.position.d_rot() != 0 ? attention.position.d_rot() : attention.d_head_k;
  }
  return position;
}

PositionWork WorkOf(const Llm& llm, const Position& position, const Attention* attention, Phase phase,
                    uint64_t n, uint64_t sequences, Dtype dtype) {
  const Encoding* encoding = FindEncoding(position.encoding);
  const Where where{llm.name, "position encoding"};
  if (encoding == nullptr) {
    std::string list;
    for (const Encoding* known : AllEncodings())
      list += (list.empty() ? "" : ", ") + std::string(known->name);
    throw BadInput(where, Quoted(position.encoding) + " is not known", "one of " + list);
  }
  const char* reason = nullptr;
  auto work = TryWorkOf(llm, *encoding, position, attention, phase, n, sequences, dtype, &reason);
  if (!work) throw BadInput(where, std::string(encoding->name) + ": " + reason, "a shape that it can take");
  return *std::move(work);
}

std::optional<PositionWork> TryWorkOf(const Llm& llm, const Encoding& encoding, const Position& position,
                                      const Attention* attention, Phase phase, uint64_t n, uint64_t sequences,
                                      Dtype dtype, const char** reason) {
  PositionWork work;
  work.encoding = &encoding;
  const bool decode = phase == Phase::kDecode;
  const double tokens_seen = attention != nullptr ? attention->Keys(static_cast<double>(n)) : 0;
  Shape& shape = work.shape;
  shape.dtype = dtype;
  double share = 1;  // of a full score matrix that a window leaves
  switch (encoding.placement) {
    case Placement::kInputAdd:
      shape.n = decode ? sequences : n;
      shape.d_model = llm.d_model;
      shape.first_position = decode && n > 0 ? n - 1 : 0;
      break;
    case Placement::kScoreBias:
      shape.n = decode ? 1 : n;
      shape.n_k = decode ? static_cast<size_t>(tokens_seen) : n;
      shape.n_heads = shape.total_heads = attention->n_heads;
      shape.causal = attention->causal;
      work.calls = decode ? static_cast<double>(sequences) : 1;
      if (!decode && attention->kind == AttentionKind::kWindow) {
        Attention full = *attention;
        full.kind = AttentionKind::kFull;
        share = attention->Pairs(static_cast<double>(n)) / full.Pairs(static_cast<double>(n));
      }
      break;
    case Placement::kQkRotation:
      shape.n = decode ? sequences : n;
      shape.n_heads = attention->n_heads;
      shape.n_kv_heads = attention->n_kv_heads;
      shape.d_head = attention->d_head_k;
      if (attention->kind ==
          AttentionKind::kMla) {  // the rotary part of each query head, and one of K for all
        shape.n_kv_heads = 1;
        shape.d_head = attention->latent.d_rope;
      }
      shape.d_rot = position.d_rot();
      shape.first_position = decode && n > 0 ? n - 1 : 0;
      break;
  }
  *reason = encoding.reject(shape);
  if (*reason != nullptr) return std::nullopt;
  work.cost = encoding.cost(shape) * share;
  work.working_set_bytes = work.cost.bytes_read;
  return work;
}

}  // namespace ropeline
