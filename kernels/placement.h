// The contract of a position encoding. One descriptor owns everything that tests, benchmarks and the model
// need to know of an encoding; they loop over the registry and name none.
//
// There are three placements (article, "Attention has no sense of order"); each has one tensor that it
// changes in place, of Shape::dtype, rows contiguous:
//   input add     X [n, d_model]
//   score bias    S [n_heads, n, n_k]
//   Q/K rotation  Q [n, n_heads, d_head] followed by K [n, n_kv_heads, d_head], or one fused tensor
//                 [n, n_heads + 2·n_kv_heads, d_head] of Q, K and V (QkLayout)
#ifndef ROPELINE_KERNELS_PLACEMENT_H_
#define ROPELINE_KERNELS_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cost.h"
#include "kernels/dtype.h"
#include "kernels/roofline.h"

namespace ropeline {

enum class Placement { kInputAdd, kScoreBias, kQkRotation };

const char* PlacementName(Placement placement);  // the row family: "input_add", "score_bias", "qk_rotation"
const char* CostClass(Placement placement);  // "once at the input", "O(h·N²) per layer", "O(N·d) per layer"

// The kind of traffic whose stream row is the limit of the placement's kernels.
Traffic TrafficOf(Placement placement);

// Where Q and K of a rotation stand.
enum class QkLayout {
  kSeparate,  // Q [n, n_heads, d_head], then K [n, n_kv_heads, d_head]
  kFusedQkv,  // [n, n_heads + 2·n_kv_heads, d_head]: a token's Q, K and V; V is left as it is
};

// Fields that a placement does not use are ignored.
struct Shape {
  Dtype dtype = Dtype::kF32;  // of the tensor, and of tables that a checkpoint would store
  size_t n = 0;               // tokens; for scores: queries, which are the last n of the n_k tokens
  size_t n_k = 0;             // score bias: keys, positions 0 … n_k−1; n_k >= n
  size_t n_heads = 0;         // query heads in the tensor
  size_t n_kv_heads = 0;      // rotation: KV heads rotated beside them; 0 where there is no K
  size_t d_head = 0;          // rotation: dimensions of one head
  size_t d_rot = 0;           // rotation: the first d_rot of them turn (partial rotary); 0 means d_head
  size_t d_model = 0;         // input add
  size_t first_position = 0;  // input add, rotation: position of token 0
  size_t first_head = 0;      // score bias: index of head 0 among total_heads (a slice of a larger tensor)
  size_t total_heads = 0;     // score bias: heads of the model; 0 means n_heads
  bool causal = true;         // score bias: false also biases keys after the query
  QkLayout layout = QkLayout::kSeparate;  // rotation
  bool inverse = false;                   // rotation: turns back, as to re-position a cached key
  // Rotation: [n, axes of the encoding], the position of each token along each axis, >= 0; instead of
  // first_position + t. nullptr: consecutive ones.
  const int32_t* positions = nullptr;

  size_t Rotated() const { return d_rot != 0 ? d_rot : d_head; }
};

// Elements of the placement's tensor.
size_t TensorElements(Placement placement, const Shape& shape);

// What setup built: angles, slopes, rows of biases.
class EncodingTables {
 public:
  virtual ~EncodingTables() = default;
  virtual size_t Bytes() const = 0;  // memory the tables take
};

// Largest |actual − expected| allowed, in units of scale · RoundingUnit(dtype): one for each rounding.
struct Tolerance {
  double f32;
  double half;  // f16 and bf16: the result is rounded to them once, and tables that are stored in them
  double Of(Dtype dtype) const { return dtype == Dtype::kF32 ? f32 : half; }
};

struct Encoding {
  const char* name;  // the row's variant: "rope_half"
  Placement placement;
  const char* about;       // the formula in a few words and where it was published
  const char* cached_key;  // what a key in the KV cache holds of position: "position-free", "rotated" …
  size_t axes = 1;         // coordinates of a token's position: 1 in text; rows and columns of a picture: 2
  // nullptr where the shape is fine, else what is wrong with it ("d_head must be even").
  const char* (*reject)(const Shape&);
  // What apply moves and computes, tables included. All zero where it does nothing.
  Cost (*cost)(const Shape&);
  // Builds tables in double, once, outside any timed loop.
  std::unique_ptr<EncodingTables> (*setup)(const Shape&);
  // Changes the tensor in place with the currently chosen Highway target. Dispatches once per call.
  void (*apply)(const EncodingTables&, const Shape&, void* tensor);
  // expected[i] in double from in[i] (the tensor's elements as f32, before apply), and the natural scale[i]
  // of its rounding error (the pair's norm for a rotation, |x|+|bias| for an addition). scale 0 means that
  // the element must be left as it was, bit for bit.
  void (*reference)(const Shape&, const float* in, double* expected, double* scale);
  Tolerance tolerance;
};

// Part `part` of `parts` of the shape and where it starts in the whole tensor: tokens for input add and
// rotation (a rotation of separate Q and K is sliced as one tensor per part), heads for score bias. A part
// may be empty.
Shape SliceShape(const Encoding& encoding, const Shape& shape, size_t part, size_t parts);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_PLACEMENT_H_
