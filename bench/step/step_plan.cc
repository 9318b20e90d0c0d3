#include "bench/step/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/rope_frequencies.h"

namespace ropeline {
namespace {

class Planner {
 public:
  Planner(const Llm& llm, const WeightMix& mix, const Where& where) : llm_(llm), mix_(mix), where_(where) {}

  StepPlan Run() {
    if (llm_.matrices.empty()) {
      Refuse("is known by its parameter count only", "a model with the shapes of its matrices");
    }
    plan_.name = llm_.name;
    plan_.d_model = llm_.d_model;
    plan_.vocabulary = llm_.vocabulary;
    plan_.tied = llm_.tied_embeddings;
    plan_.layers.resize(llm_.layers.size());
    for (size_t i = 0; i < llm_.layers.size(); ++i) AddLayer(i);
    InputPosition();
    for (const WeightTensor& tensor : LayOutWeights(llm_, mix_).tensors) AddTensor(tensor);
    if (plan_.tied) plan_.head = plan_.embedding;
    CheckShapes();
    Vectors();
    return std::move(plan_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& what, const std::string& expected) const {
    throw BadInput(where_, fmt::format("{} {}", llm_.name, what), expected);
  }
  [[noreturn]] void RefuseLayer(size_t layer, const std::string& what) const {
    Refuse(fmt::format("has {} in layer {}, which the executed step has not", what, layer),
           "a decoder of layers like Llama's");
  }

  void AddLayer(size_t i) {
    const Layer& from = llm_.layers[i];
    const Attention& attention = from.self;
    StepLayer& layer = plan_.layers[i];
    if (from.stack != Stack::kDecoder || !attention.causal) RefuseLayer(i, "an encoder");
    if (from.cross.kind != AttentionKind::kNone) RefuseLayer(i, "attention to an encoder");
    if (!from.recurrent.empty()) RefuseLayer(i, "a recurrent state (" + from.recurrent.form + ")");
    if (attention.kind == AttentionKind::kMla) RefuseLayer(i, "latent attention (MLA)");
    if (attention.kind != AttentionKind::kFull && attention.kind != AttentionKind::kWindow) {
      RefuseLayer(i, fmt::format("attention of kind {}", AttentionKindName(attention.kind)));
    }
    if (attention.shares_kv_with >= 0) RefuseLayer(i, "another layer's keys and values");
    if (attention.sinks) RefuseLayer(i, "a sink beside the scores");
    if (from.ffn.kind == FfnKind::kMoe) RefuseLayer(i, "a mixture of experts");
    if (from.ffn.kind != FfnKind::kGated) {
      RefuseLayer(i, fmt::format("a feed-forward of kind {}", FfnKindName(from.ffn.kind)));
    }
    if (attention.d_head_k % 8 != 0 || attention.d_head_v % 8 != 0) {
      RefuseLayer(i, fmt::format("heads of {} dimensions, no multiple of 8,", attention.d_head_k));
    }
    layer.n_heads = attention.n_heads;
    layer.n_kv_heads = attention.n_kv_heads;
    layer.d_head_k = attention.d_head_k;
    layer.d_head_v = attention.d_head_v;
    if (attention.kind == AttentionKind::kWindow) layer.window = attention.window;
    layer.scale = attention.position.score_factor / std::sqrt(static_cast<double>(attention.d_head_k));
    layer.d_ffn = from.ffn.width;
    LayerPosition(i, attention.position, &layer);
  }

  void LayerPosition(size_t i, const Position& position, StepLayer* layer) {
    if (position.empty()) return;
    if (position.encoding == "alibi") {
      layer->bias = BiasKind::kSlope;
    } else if (position.encoding == "t5_bias") {
      layer->bias = BiasKind::kByDistance;
    } else if (position.encoding == "rope_half" || position.encoding == "rope_interleaved") {
      layer->rotated = true;
      const Pairing pairing = position.encoding == "rope_half" ? Pairing::kHalf : Pairing::kInterleaved;
      if (!plan_.rotation) {
        plan_.rotation = StepRotation{pairing, position.rope};
      } else if (!SameRotation(*plan_.rotation, {pairing, position.rope})) {
        RefuseLayer(i, "a rotation other than the layers before it");
      }
    } else {
      RefuseLayer(i, "the position encoding " + position.encoding);
    }
  }

  static bool SameRotation(const StepRotation& a, const StepRotation& b) {
    const RopeParameters &p = a.parameters, &q = b.parameters;
    return a.pairing == b.pairing && p.type == q.type && p.d_head == q.d_head && p.d_rot == q.d_rot &&
           p.base == q.base && p.factor == q.factor;
  }

  void InputPosition() {
    const std::string& encoding = llm_.input_position.encoding;
    plan_.sinusoidal = encoding == "sinusoidal";
    if (!encoding.empty() && encoding != "sinusoidal" && encoding != "learned") {
      Refuse("has the position encoding " + encoding + " at its input, which the executed step has not",
             "learned positions, sinusoids or none there");
    }
  }

  WeightDtype DtypeOf(const WeightTensor& tensor) const {
    const auto dtype = tensor.format != nullptr ? ParseWeightDtype(tensor.format->name) : std::nullopt;
    if (dtype) return *dtype;
    std::string list;
    for (const WeightDtype known : kAllWeightDtypes) {
      list += (list.empty() ? "" : ", ") + std::string(WeightDtypeName(known));
    }
    Refuse(fmt::format("has matrices in {} with weights {}, a format that no kernel here reads",
                       tensor.format != nullptr ? tensor.format->name : "several formats", mix_.name),
           "weights whose matrices are of " + list);
  }

  void AddTensor(const WeightTensor& tensor) {
    const Matrix& matrix = tensor.matrix;
    const MatrixShape shape{DtypeOf(tensor), matrix.rows, matrix.cols};
    if (matrix.layer < 0 || matrix.role == MatrixRole::kRelativeBias) {
      std::optional<MatrixShape>* optional = nullptr;
      switch (matrix.role) {
        case MatrixRole::kTokenEmbedding:
          plan_.embedding = shape;
          return;
        case MatrixRole::kOutput:
          plan_.head = shape;
          return;
        case MatrixRole::kPositionTable:
          optional = &plan_.learned_positions;
          break;
        case MatrixRole::kRelativeBias:
          optional = &plan_.relative_biases;
          break;
        default:
          break;
      }
      if (optional == nullptr || *optional) {
        Refuse("has a matrix beside its layers that the executed step does not know",
               "an embedding, an output matrix, a table of positions");
      }
      *optional = shape;
      return;
    }
    StepLayer& layer = plan_.layers[static_cast<size_t>(matrix.layer)];
    if (matrix.role == MatrixRole::kAttnQkv) {
      layer.qkv = shape;
      return;
    }
    const std::map<MatrixRole, MatrixShape*> places = {
        {MatrixRole::kAttnQ, &layer.q},      {MatrixRole::kAttnK, &layer.k},
        {MatrixRole::kAttnV, &layer.v},      {MatrixRole::kAttnOutput, &layer.o},
        {MatrixRole::kFfnGate, &layer.gate}, {MatrixRole::kFfnUp, &layer.up},
        {MatrixRole::kFfnDown, &layer.down}};
    const auto place = places.find(matrix.role);
    if (place == places.end() || matrix.count != 1) {
      RefuseLayer(static_cast<size_t>(matrix.layer), "a matrix that Llama has not");
    }
    *place->second = shape;
  }

  void CheckShapes() const {
    const auto is = [](const MatrixShape& shape, size_t rows, size_t cols) {
      return shape.rows == rows && shape.cols == cols;
    };
    const size_t d = plan_.d_model;
    if (!is(plan_.embedding, plan_.vocabulary, d) || !is(plan_.head, plan_.vocabulary, d)) {
      Refuse("has no embedding and output matrix of its width", "matrices [vocabulary, d_model]");
    }
    for (size_t i = 0; i < plan_.layers.size(); ++i) {
      const StepLayer& layer = plan_.layers[i];
      const size_t width = layer.QueryWidth() + layer.KeyWidth() + layer.ValueWidth();
      const bool projections = layer.qkv
                                   ? is(*layer.qkv, width, d)
                                   : is(layer.q, layer.QueryWidth(), d) && is(layer.k, layer.KeyWidth(), d) &&
                                         is(layer.v, layer.ValueWidth(), d);
      if (!projections || !is(layer.o, d, layer.OutputWidth()) || !is(layer.gate, layer.d_ffn, d) ||
          !is(layer.up, layer.d_ffn, d) || !is(layer.down, d, layer.d_ffn)) {
        RefuseLayer(i, "not all of Llama's seven matrices");
      }
      if (layer.bias == BiasKind::kByDistance &&
          (!plan_.relative_biases || plan_.relative_biases->cols != layer.n_heads)) {
        RefuseLayer(i, "relative biases without their table");
      }
    }
    if (llm_.input_position.encoding == "learned" &&
        (!plan_.learned_positions || plan_.learned_positions->cols != d)) {
      Refuse("has learned positions without their table", "a table [positions, d_model]");
    }
  }

  // The model counts norms and biases and does not name them: what is left beside the two norms tells.
  void Vectors() {
    std::vector<size_t> elements(plan_.layers.size());
    size_t outside = 0;
    for (const Vector& vector : llm_.vectors) {
      (vector.layer < 0 ? outside : elements[static_cast<size_t>(vector.layer)]) += vector.elements;
    }
    if (outside != plan_.d_model) {
      Refuse(fmt::format("has {} norm weights and biases outside its layers", outside),
             fmt::format("one RMSNorm of {}", plan_.d_model));
    }
    for (size_t i = 0; i < elements.size(); ++i) {
      StepLayer& layer = plan_.layers[i];
      const size_t norms = 2 * plan_.d_model;
      const size_t biases = layer.QueryWidth() + layer.KeyWidth() + layer.ValueWidth();
      const size_t rest = elements[i] < norms ? 1 : elements[i] - norms;
      layer.qk_norm = rest == 2 * layer.d_head_k || rest == biases + 2 * layer.d_head_k;
      layer.qkv_bias =
          rest == biases || rest == biases + 2 * layer.d_head_k || rest == biases + plan_.d_model;
      layer.o_bias = rest == biases + plan_.d_model;
      if (rest != 0 && !layer.qk_norm && !layer.qkv_bias) {
        RefuseLayer(i, fmt::format("{} norm weights and biases, not those of two RMSNorms, Q, K and V,",
                                   elements[i]));
      }
    }
  }

  const Llm& llm_;
  const WeightMix& mix_;
  const Where& where_;
  StepPlan plan_;
};

}  // namespace

size_t StepLayer::VectorElements(size_t d_model) const {
  return 2 * d_model + (qkv_bias ? QueryWidth() + KeyWidth() + ValueWidth() : 0) + (o_bias ? d_model : 0) +
         (qk_norm ? 2 * d_head_k : 0);
}

size_t StepPlan::MatrixBytes() const {
  size_t bytes = embedding.Bytes() + (tied ? 0 : head.Bytes());
  if (learned_positions) bytes += learned_positions->Bytes();
  if (relative_biases) bytes += relative_biases->Bytes();
  for (const StepLayer& layer : layers) {
    bytes += layer.qkv ? layer.qkv->Bytes() : layer.q.Bytes() + layer.k.Bytes() + layer.v.Bytes();
    bytes += layer.o.Bytes() + layer.gate.Bytes() + layer.up.Bytes() + layer.down.Bytes();
  }
  return bytes;
}

size_t StepPlan::VectorBytes() const {
  size_t elements = d_model;
  for (const StepLayer& layer : layers) elements += layer.VectorElements(d_model);
  return 4 * elements;
}

double StepPlan::NeededBytes(KvFormat format, size_t capacity, size_t chunk) const {
  double cache = 0, widest = 0;
  for (const StepLayer& layer : layers) {
    cache += static_cast<double>(capacity) * layer.CacheShape(format).BytesPerToken();
    const size_t projections =
        layer.QueryWidth() + layer.KeyWidth() + layer.ValueWidth() + 2 * layer.OutputWidth();
    widest = std::max(widest, static_cast<double>(projections + 4 * layer.d_ffn));
  }
  const double activations = static_cast<double>(chunk) * (4 * static_cast<double>(d_model) + widest);
  double table = 0;  // one row of each position
  if (rotation) table += static_cast<double>(rotation->parameters.d_rot);
  if (sinusoidal || learned_positions) table += static_cast<double>(d_model);
  if (relative_biases) table += static_cast<double>(relative_biases->cols);
  return static_cast<double>(MatrixBytes() + VectorBytes()) + cache +
         4 * (activations + table * static_cast<double>(capacity) + static_cast<double>(vocabulary));
}

StepPlan PlanStep(const Llm& llm, const WeightMix& mix, const Where& where) {
  return Planner(llm, mix, where).Run();
}

}  // namespace ropeline
