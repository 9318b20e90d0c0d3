// The contract of a position encoding. One descriptor owns everything that tests, benchmarks and the model
// need to know of an encoding; they loop over the registry and name none.
//
// There are three placements (article, "Attention has no sense of order"); each has one tensor that it
// changes in place, f32, rows contiguous:
//   input add     X [n, d_model]
//   score bias    S [n_heads, n, n_k]
//   Q/K rotation  Q [n, n_heads, d_head] followed by K [n, n_kv_heads, d_head]
#ifndef ROPELINE_KERNELS_PLACEMENT_H_
#define ROPELINE_KERNELS_PLACEMENT_H_

#include <cstddef>
#include <memory>

#include "kernels/cost.h"
#include "kernels/roofline.h"

namespace ropeline {

enum class Placement { kInputAdd, kScoreBias, kQkRotation };

const char* PlacementName(Placement placement);  // the row family: "input_add", "score_bias", "qk_rotation"
const char* CostClass(Placement placement);  // "once at the input", "O(h·N²) per layer", "O(N·d) per layer"

// The kind of traffic whose stream row is the limit of the placement's kernels.
Traffic TrafficOf(Placement placement);

// Fields that a placement does not use are ignored.
struct Shape {
  size_t n = 0;               // tokens; for scores: queries, which are the last n of the n_k tokens
  size_t n_k = 0;             // score bias: keys, positions 0 … n_k−1; n_k >= n
  size_t n_heads = 0;         // query heads in the tensor
  size_t n_kv_heads = 0;      // rotation: KV heads rotated beside them; 0 where there is no K
  size_t d_head = 0;          // rotation: dimensions of one head
  size_t d_model = 0;         // input add
  size_t first_position = 0;  // input add, rotation: position of token 0
  size_t first_head = 0;      // score bias: index of head 0 among total_heads (a slice of a larger tensor)
  size_t total_heads = 0;     // score bias: heads of the model; 0 means n_heads
  bool causal = true;         // score bias: false also biases keys after the query
};

// Elements of the placement's tensor, f32.
size_t TensorElements(Placement placement, const Shape& shape);

// Part `part` of `parts` of the shape and where it starts in the whole tensor: tokens for input add and
// rotation (a rotation with n_kv_heads > 0 is sliced as one tensor per part), heads for score bias. A part
// may be empty.
Shape SliceShape(Placement placement, const Shape& shape, size_t part, size_t parts);

// What setup built: angles, slopes, rows of biases.
class EncodingTables {
 public:
  virtual ~EncodingTables() = default;
  virtual size_t Bytes() const = 0;  // memory the tables take
};

struct Encoding {
  const char* name;  // the row's variant: "rope_half"
  Placement placement;
  // nullptr where the shape is fine, else what is wrong with it ("d_head must be even").
  const char* (*reject)(const Shape&);
  // What apply moves and computes, tables included.
  Cost (*cost)(const Shape&);
  // Builds tables in double, once, outside any timed loop.
  std::unique_ptr<EncodingTables> (*setup)(const Shape&);
  // Changes the tensor in place with the currently chosen Highway target. Dispatches once per call.
  void (*apply)(const EncodingTables&, const Shape&, float* tensor);
  // expected[i] in double from in[i], and the natural scale[i] of its rounding error (the pair's norm for a
  // rotation, |x|+|bias| for an addition). scale 0 means that the element must be left as it was, bit for
  // bit.
  void (*reference)(const Shape&, const float* in, double* expected, double* scale);
  // Largest |actual − expected| allowed, in units of scale · 2^-24 (half an ulp of 1, the rounding unit of
  // f32).
  double tolerance;
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_PLACEMENT_H_
