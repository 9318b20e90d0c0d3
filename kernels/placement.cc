#include "kernels/placement.h"

namespace ropeline {

const char* PlacementName(Placement placement) {
  switch (placement) {
    case Placement::kInputAdd:
      return "input_add";
    case Placement::kScoreBias:
      return "score_bias";
    case Placement::kQkRotation:
      return "qk_rotation";
  }
  return "";
}

const char* CostClass(Placement placement) {
  switch (placement) {
    case Placement::kInputAdd:
      return "once at the input";
    case Placement::kScoreBias:
      return "O(h·N²) per layer";
    case Placement::kQkRotation:
      return "O(N·d) per layer";
  }
  return "";
}

Traffic TrafficOf(Placement placement) {
  return placement == Placement::kInputAdd ? Traffic::kAdd : Traffic::kUpdate;
}

size_t TensorElements(Placement placement, const Shape& shape) {
  switch (placement) {
    case Placement::kInputAdd:
      return shape.n * shape.d_model;
    case Placement::kScoreBias:
      return shape.n_heads * shape.n * shape.n_k;
    case Placement::kQkRotation: {
      const size_t v_heads = shape.layout == QkLayout::kFusedQkv ? shape.n_kv_heads : 0;
      return shape.n * (shape.n_heads + shape.n_kv_heads + v_heads) * shape.d_head;
    }
  }
  return 0;
}

Shape SliceShape(const Encoding& encoding, const Shape& shape, size_t part, size_t parts) {
  const auto slice = [&](size_t count, size_t index) { return count * index / parts; };
  Shape out = shape;
  if (encoding.placement == Placement::kScoreBias) {
    const size_t begin = slice(shape.n_heads, part);
    out.total_heads = shape.total_heads != 0 ? shape.total_heads : shape.n_heads;
    out.first_head = shape.first_head + begin;
    out.n_heads = slice(shape.n_heads, part + 1) - begin;
  } else {
    const size_t begin = slice(shape.n, part);
    out.first_position = shape.first_position + begin;
    out.n = slice(shape.n, part + 1) - begin;
    if (shape.positions != nullptr) out.positions = shape.positions + begin * encoding.axes;
  }
  return out;
}

}  // namespace ropeline
