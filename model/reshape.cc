#include "model/reshape.h"

#include <algorithm>
#include <string>

#include "model/units.h"

namespace ropeline {
namespace {

constexpr uint64_t kMaxHeads = 4096;

// a · to ÷ from, rounded.
uint64_t InProportion(uint64_t a, uint64_t to, uint64_t from) { return (a * to + from / 2) / from; }

struct Widths {
  uint64_t d_model, n_heads, d_q, d_kv;
};

Matrix ReshapedMatrix(Matrix matrix, const Widths& was, const Widths& now) {
  switch (matrix.role) {
    case MatrixRole::kTokenEmbedding:
    case MatrixRole::kPositionTable:
    case MatrixRole::kOutput:
      matrix.cols = now.d_model;
      break;
    case MatrixRole::kRelativeBias:
      matrix.cols = now.n_heads;
      break;
    case MatrixRole::kAttnQ:
    case MatrixRole::kCrossQ:
      matrix.rows = now.d_q;
      matrix.cols = now.d_model;
      break;
    case MatrixRole::kAttnK:
    case MatrixRole::kAttnV:
    case MatrixRole::kCrossK:
    case MatrixRole::kCrossV:
      matrix.rows = now.d_kv;
      matrix.cols = now.d_model;
      break;
    case MatrixRole::kAttnQkv:
      matrix.rows = now.d_q + 2 * now.d_kv;
      matrix.cols = now.d_model;
      break;
    case MatrixRole::kAttnOutput:
    case MatrixRole::kCrossOutput:
      matrix.rows = now.d_model;
      matrix.cols = now.d_q;
      break;
    case MatrixRole::kFfnGate:
    case MatrixRole::kFfnUp:
      matrix.rows = InProportion(matrix.rows, now.d_model, was.d_model);
      matrix.cols = now.d_model;
      break;
    case MatrixRole::kFfnDown:
      matrix.rows = now.d_model;
      matrix.cols = InProportion(matrix.cols, now.d_model, was.d_model);
      break;
    default:  // Reshaped refuses models that have others
      break;
  }
  return matrix;
}

bool Plain(const Layer& layer) {
  return layer.self.kind != AttentionKind::kMla && layer.recurrent.empty() && layer.ffn.kind != FfnKind::kMoe;
}

}  // namespace

HeadCounts ParseHeads(std::string_view text, const Where& where) {
  const size_t slash = text.find('/');
  HeadCounts heads;
  heads.n_heads = heads.n_kv_heads = ParseCount(text.substr(0, slash), where, kMaxHeads);
  if (slash == std::string_view::npos) return heads;
  heads.n_kv_heads = ParseCount(text.substr(slash + 1), where, kMaxHeads);
  if (heads.n_heads % heads.n_kv_heads != 0) {
    throw BadInput(where, Quoted(text) + " does not divide evenly",
                   "query heads that are a multiple of the KV heads, such as 24/8");
  }
  return heads;
}

Llm Reshaped(const Llm& llm, const std::optional<HeadCounts>& heads, const std::optional<uint64_t>& d_head,
             const Where& where) {
  const Attention* main = llm.MainAttention();
  if (main == nullptr || llm.matrices.empty()) {
    throw BadInput(where, llm.name + " has no matrices that could take another shape",
                   "a --model whose matrices are known");
  }
  if (!std::all_of(llm.layers.begin(), llm.layers.end(), Plain)) {
    throw BadInput(
        where, llm.name + " has latent attention, recurrent layers or experts, whose widths do not follow",
        "a --model of plain attention and feed-forward layers");
  }
  const uint64_t was_d_head = main->d_head_k;
  const HeadCounts now_heads = heads.value_or(HeadCounts{main->n_heads, main->n_kv_heads});
  const uint64_t now_d_head = d_head.value_or(was_d_head);
  const auto widths = [](uint64_t d_model, const HeadCounts& counts, uint64_t width) {
    return Widths{d_model, counts.n_heads, counts.n_heads * width, counts.n_kv_heads * width};
  };
  const Widths was = widths(llm.d_model, {main->n_heads, main->n_kv_heads}, was_d_head);
  const Widths now = widths(now_heads.n_heads * now_d_head, now_heads, now_d_head);
  Llm out = llm;
  out.d_model = now.d_model;
  for (Layer& layer : out.layers) {
    for (Attention* attention : {&layer.self, &layer.cross}) {
      if (attention->kind == AttentionKind::kNone) continue;
      attention->n_heads = now_heads.n_heads;
      attention->n_kv_heads = now_heads.n_kv_heads;
      attention->d_head_k = attention->d_head_v = now_d_head;
      RopeParameters& rope = attention->position.rope;
      rope.d_rot = InProportion(rope.d_rot, now_d_head, was_d_head);
      if (rope.d_rot > 0) rope.d_head = now_d_head;
    }
  }
  for (Matrix& matrix : out.matrices) matrix = ReshapedMatrix(matrix, was, now);
  for (Vector& vector : out.vectors)
    vector.elements = InProportion(vector.elements, now.d_model, was.d_model);
  return out;
}

}  // namespace ropeline
