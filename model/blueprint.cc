#include "model/blueprint.h"

namespace ropeline {
namespace {

constexpr double kMostElements = 1152921504606846976.0;  // 2^60
constexpr double kMostCached = 268435456.0;              // elements of one token: 2^28

class Assembler {
 public:
  explicit Assembler(const Blueprint& blueprint) : plan_(blueprint), llm_(blueprint.llm) {}

  Llm Run() {
    const uint64_t d_model = llm_.d_model;
    const uint64_t width = plan_.embedding_width > 0 ? plan_.embedding_width : d_model;
    if (llm_.vocabulary > 0) Add({MatrixRole::kTokenEmbedding, llm_.vocabulary, width});
    for (const Matrix& matrix : plan_.matrices) Add(matrix);
    for (layer_ = 0; layer_ < static_cast<int>(plan_.layers.size()); ++layer_) {
      AddLayer(plan_.layers[static_cast<size_t>(layer_)]);
    }
    layer_ = -1;
    Elements(plan_.other_elements);
    if (plan_.has_head && !llm_.tied_embeddings) Add({MatrixRole::kOutput, llm_.vocabulary, width});
    if (plan_.has_head) Elements(plan_.head_bias_elements);
    return std::move(llm_);
  }

 private:
  void Add(Matrix matrix) {
    if (matrix.rows == 0 || matrix.cols == 0 || matrix.count == 0) return;
    matrix.layer = layer_;
    llm_.matrices.push_back(matrix);
  }
  void Elements(uint64_t elements, std::optional<uint64_t> active = {}) {
    if (elements > 0) llm_.vectors.push_back({elements, layer_, active});
  }

  void AddLayer(const LayerPlan& plan) {
    llm_.layers.push_back(plan.layer);
    const Attention& self = plan.layer.self;
    if (self.kind == AttentionKind::kMla) AddLatent(self, plan.self);
    if (self.kind != AttentionKind::kNone && self.kind != AttentionKind::kMla) AddSelf(self, plan.self);
    if (plan.layer.cross.kind == AttentionKind::kCross) AddCross(plan.layer.cross, plan.cross);
    for (const Matrix& matrix : plan.matrices) Add(matrix);
    AddFfn(plan.layer.ffn, plan.ffn);
    Elements(plan.norm_elements);
    Elements(plan.other_elements);
  }

  void AddSelf(const Attention& attention, const AttentionPlan& plan) {
    const uint64_t d_q = attention.n_heads * attention.d_head_k,
                   d_k = attention.n_kv_heads * attention.d_head_k,
                   d_v = attention.n_kv_heads * attention.d_head_v,
                   d_out = attention.n_heads * attention.d_head_v;
    if (plan.fused_qkv) {
      Add({MatrixRole::kAttnQkv, d_q + d_k + d_v, llm_.d_model});
    } else {
      Add({MatrixRole::kAttnQ, d_q, llm_.d_model});
      if (plan.has_k) Add({MatrixRole::kAttnK, d_k, llm_.d_model});
      if (plan.has_v) Add({MatrixRole::kAttnV, d_v, llm_.d_model});
    }
    Add({MatrixRole::kAttnGate, plan.gate_rows, llm_.d_model});
    Add({MatrixRole::kAttnOutput, llm_.d_model, d_out});
    Elements((plan.q_bias ? d_q + plan.gate_rows : 0) + (plan.k_bias && plan.has_k ? d_k : 0) +
             (plan.v_bias && plan.has_v ? d_v : 0) + (plan.o_bias ? llm_.d_model : 0) + plan.q_norm +
             plan.k_norm);
  }

  // DeepSeek-V2: Q through q_lora_rank or direct; K and V through kv_lora_rank, each rank with a norm.
  void AddLatent(const Attention& attention, const AttentionPlan& plan) {
    const LatentWidths& latent = attention.latent;
    const uint64_t d_q = attention.n_heads * attention.d_head_k,
                   d_out = attention.n_heads * attention.d_head_v;
    if (latent.q_lora_rank > 0) {
      Add({MatrixRole::kAttnQA, latent.q_lora_rank, llm_.d_model});
      Add({MatrixRole::kAttnQB, d_q, latent.q_lora_rank});
    } else {
      Add({MatrixRole::kAttnQ, d_q, llm_.d_model});
    }
    Add({MatrixRole::kAttnKvA, latent.kv_lora_rank + latent.d_rope, llm_.d_model});
    Add({MatrixRole::kAttnKvB, attention.n_heads * (latent.d_nope + attention.d_head_v),
         latent.kv_lora_rank});
    Add({MatrixRole::kAttnGate, plan.gate_rows, llm_.d_model});
    Add({MatrixRole::kAttnOutput, llm_.d_model, d_out});
    const uint64_t q_bias = plan.q_bias ? latent.q_lora_rank : 0;
    const uint64_t kv_bias = plan.k_bias ? latent.kv_lora_rank + latent.d_rope : 0;
    Elements(latent.q_lora_rank + latent.kv_lora_rank + q_bias + kv_bias + (plan.o_bias ? llm_.d_model : 0));
  }

  void AddCross(const Attention& attention, const AttentionPlan& plan) {
    const uint64_t d_q = attention.n_heads * attention.d_head_k,
                   d_k = attention.n_kv_heads * attention.d_head_k,
                   d_v = attention.n_kv_heads * attention.d_head_v,
                   d_out = attention.n_heads * attention.d_head_v;
    Add({MatrixRole::kCrossQ, d_q, llm_.d_model});
    Add({MatrixRole::kCrossK, d_k, llm_.d_model});
    Add({MatrixRole::kCrossV, d_v, llm_.d_model});
    Add({MatrixRole::kCrossOutput, llm_.d_model, d_out});
    Elements((plan.q_bias ? d_q : 0) + (plan.k_bias ? d_k : 0) + (plan.v_bias ? d_v : 0) +
             (plan.o_bias ? llm_.d_model : 0) + plan.q_norm + plan.k_norm);
  }

  void AddFfn(const FeedForward& ffn, const FfnPlan& plan) {
    const uint64_t d_model = llm_.d_model;
    const uint64_t ups = plan.gated ? 2 : 1;
    if (ffn.width > 0) {
      if (plan.gated) Add({MatrixRole::kFfnGate, ffn.width, d_model});
      Add({MatrixRole::kFfnUp, ffn.width, d_model});
      Add({MatrixRole::kFfnDown, d_model, ffn.width});
      if (plan.bias) Elements(ups * ffn.width + d_model);
    }
    if (ffn.kind != FfnKind::kMoe) return;
    const uint64_t n = ffn.n_experts, k = ffn.n_active, width = ffn.expert_width;
    Add({MatrixRole::kRouter, n, d_model});
    Elements(plan.router_elements);
    if (plan.gated) Add({MatrixRole::kExpertGate, width, d_model, n, -1, k});
    Add({MatrixRole::kExpertUp, width, d_model, n, -1, k});
    Add({MatrixRole::kExpertDown, d_model, width, n, -1, k});
    const uint64_t expert_bias = plan.expert_bias ? ups * width + d_model : 0;
    Elements(n * expert_bias, k * expert_bias);
    if (ffn.shared_width == 0) return;
    if (plan.gated) Add({MatrixRole::kSharedGate, ffn.shared_width, d_model});
    Add({MatrixRole::kSharedUp, ffn.shared_width, d_model});
    Add({MatrixRole::kSharedDown, d_model, ffn.shared_width});
    if (plan.shared_router) Add({MatrixRole::kRouter, 1, d_model});
  }

  const Blueprint& plan_;
  Llm llm_;
  int layer_ = -1;
};

void CheckAttention(const Attention& attention, const Where& where) {
  if (attention.kind == AttentionKind::kNone) return;
  const std::string heads = std::to_string(attention.n_heads),
                    kv_heads = std::to_string(attention.n_kv_heads);
  if (attention.n_heads == 0 || attention.n_kv_heads == 0 || attention.n_heads % attention.n_kv_heads != 0) {
    throw BadInput({where.file, where.key + "num_key_value_heads"},
                   heads + " heads do not divide by " + kv_heads,
                   "heads that are a multiple of the KV heads");
  }
  if (attention.d_head_k == 0 || attention.d_head_v == 0) {
    throw BadInput({where.file, where.key + "head_dim"}, "is 0", "at least 1");
  }
  const RopeParameters& rope = attention.position.rope;
  if (rope.d_rot % 2 != 0 || rope.d_rot > rope.d_head || rope.d_head > attention.d_head_k) {
    throw BadInput(
        {where.file, where.key + "partial_rotary_factor"},
        std::to_string(rope.d_rot) + " rotated dimensions of a head of " + std::to_string(rope.d_head),
        "an even number, at most the head's");
  }
  if (attention.limited() && attention.window == 0) {
    throw BadInput({where.file, where.key + "sliding_window"}, "is 0", "at least 1");
  }
}

void CheckSharing(const std::vector<LayerPlan>& layers, size_t i, const std::string& file) {
  const int from = layers[i].layer.self.shares_kv_with;
  if (from < 0) return;
  const Where where{file, "layers[" + std::to_string(i) + "].shares_kv_with"};
  const auto source = static_cast<size_t>(from);
  if (source >= layers.size() || layers[source].layer.self.kind == AttentionKind::kNone) {
    throw BadInput(where, "layer " + std::to_string(from) + " has no K and V", "a layer that caches its own");
  }
  if (layers[source].layer.self.shares_kv_with >= 0) {
    throw BadInput(where, "layer " + std::to_string(from) + " shares another's K and V itself",
                   "a layer that caches its own");
  }
}

void CheckSizes(const Llm& llm, const std::string& file) {
  double elements = 0;
  for (const Matrix& matrix : llm.matrices) {
    elements += static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols) *
                static_cast<double>(matrix.count);
  }
  for (const Vector& vector : llm.vectors) elements += static_cast<double>(vector.elements);
  double cached = 0, kept = 0;
  for (const Layer& layer : llm.layers) {
    for (const Attention* attention : {&layer.self, &layer.cross}) {
      cached += static_cast<double>(attention->n_heads) *
                static_cast<double>(attention->d_head_k + attention->d_head_v);
      cached += static_cast<double>(attention->KElements());
    }
    kept += static_cast<double>(layer.recurrent.state_elements) +
            static_cast<double>(layer.recurrent.conv_elements);
  }
  if (cached > kMostCached || kept > kMostElements / kMostCached) {
    throw BadInput({file, ""}, "keeps more of a token than any model", "heads and widths of a model");
  }
  if (elements > kMostElements) throw BadInput({file, ""}, "comes to more than 2^60 parameters", "a model");
}

}  // namespace

Llm Assemble(const Blueprint& blueprint, const std::string& file) {
  if (blueprint.layers.empty()) throw BadInput({file, "num_hidden_layers"}, "is 0", "at least one layer");
  for (size_t i = 0; i < blueprint.layers.size(); ++i) {
    const Where where{file, "layer " + std::to_string(i) + ": "};
    CheckAttention(blueprint.layers[i].layer.self, where);
    CheckAttention(blueprint.layers[i].layer.cross, where);
    CheckSharing(blueprint.layers, i, file);
  }
  Llm llm = Assembler(blueprint).Run();
  CheckSizes(llm, file);
  return llm;
}

}  // namespace ropeline
