#include "model/position_work.h"

#include "kernels/registry.h"
#include "model/bad_input.h"

namespace ropeline {

Position PositionFor(const Encoding& encoding, const Attention& attention) {
  Position position{.encoding = encoding.name};
  if (encoding.placement == Placement::kQkRotation) position.d_rot = attention.d_head_k;
  return position;
}

PositionWork WorkOf(const Llm& llm, const Position& position, const Attention* attention, Phase phase,
                    uint64_t n, uint64_t sequences) {
  PositionWork work;
  work.encoding = FindEncoding(position.encoding);
  const Where where{llm.name, "position encoding"};
  if (work.encoding == nullptr) {
    std::string list;
    for (const Encoding* known : AllEncodings())
      list += (list.empty() ? "" : ", ") + std::string(known->name);
    throw BadInput(where, Quoted(position.encoding) + " is not known", "one of " + list);
  }
  const bool decode = phase == Phase::kDecode;
  const double tokens_seen = attention != nullptr ? attention->Keys(static_cast<double>(n)) : 0;
  Shape& shape = work.shape;
  double share = 1;  // of a full score matrix that a window leaves
  switch (work.encoding->placement) {
    case Placement::kInputAdd:
      shape.n = decode ? sequences : n;
      shape.d_model = llm.d_model;
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
      shape.d_head = position.d_rot;
      break;
  }
  if (const char* reason = work.encoding->reject(shape)) {
    throw BadInput(where, std::string(work.encoding->name) + ": " + reason, "a shape that it can take");
  }
  work.cost = work.encoding->cost(shape) * share;
  work.working_set_bytes = work.cost.bytes_read;
  return work;
}

}  // namespace ropeline
