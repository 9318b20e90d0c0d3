#include "model/gguf_layers.h"

#include <algorithm>

#include "model/gguf_rope.h"
#include "model/hf_keys.h"

namespace ropeline {
namespace {

constexpr GgufKey kHeads{"attention.head_count", 0, kMostHeads};
constexpr GgufKey kKvHeads{"attention.head_count_kv", 0, kMostHeads};
constexpr GgufKey kKeyLength{"attention.key_length", 1, kMostWidth};
constexpr GgufKey kValueLength{"attention.value_length", 1, kMostWidth};
constexpr GgufKey kWindow{"attention.sliding_window", 0, kMostTokens};
constexpr const char* kPattern = "attention.sliding_window_pattern";
constexpr GgufKey kFfn{"feed_forward_length", 0, kMostWidth};
constexpr GgufKey kExperts{"expert_count", 0, kMostExperts};

bool IsRotary(const GgufArch& arch) { return std::string_view(arch.encoding).starts_with("rope_"); }

class Filler {
 public:
  Filler(const GgufKeys& keys, const GgufArch& arch, const Recipe& recipe)
      : keys_(keys), arch_(arch), recipe_(recipe) {}

  Blueprint Run() {
    Sizes();
    ReadHeads();
    ReadWindows();
    ffn_ = keys_.FindCounts(kFfn, n_).value_or(std::vector<uint64_t>(n_, 0));
    n_experts_ = keys_.CountOr(kExperts, 0);
    for (i_ = 0; i_ < n_; ++i_) {
      plan_ = {};
      AddLayer();
      model_.layers.push_back(std::move(plan_));
    }
    InputPosition();
    return std::move(model_);
  }

 private:
  void Sizes() {
    Llm& llm = model_.llm;
    const uint64_t all = keys_.Count({"block_count", 1, kMostLayers});
    const uint64_t extra = keys_.CountOr({"nextn_predict_layers", 0, kMostLayers}, 0);
    if (extra >= all) {
      throw BadInput(keys_.WhereIs("nextn_predict_layers"), "is " + std::to_string(extra),
                     "fewer than block_count");
    }
    if (extra > 0) llm.warnings.emplace_back("the layers of multi-token prediction are not counted");
    n_ = all - extra;
    llm.d_model = keys_.Count({"embedding_length", 1, kMostWidth});
    llm.max_context = keys_.FindCount({"context_length", 1, kMostTokens});
    const auto tokens = keys_.file().metadata.FindLength("tokenizer.ggml.tokens");
    llm.vocabulary = keys_.CountOr({"vocab_size", 1}, tokens.value_or(0));
    if (const GgufTensor* embedding = keys_.FindTensor("token_embd.weight"))
      llm.vocabulary = embedding->dims[1];
    llm.tied_embeddings = recipe_.tied.otherwise;
    norm_ = recipe_.norm == NormForm::kNone            ? 0
            : recipe_.norm == NormForm::kWeightAndBias ? 2 * llm.d_model
                                                       : llm.d_model;
    model_.other_elements = (recipe_.final_norm ? norm_ : 0) + (recipe_.embedding_norm ? norm_ : 0);
  }

  void ReadHeads() {
    const auto heads = keys_.FindCounts(kHeads, n_);
    const bool needed = arch_.states != StateLayers::kAll;
    if (!heads && needed) keys_.Missing(kHeads.name, "a number of heads");
    heads_ = heads.value_or(std::vector<uint64_t>(n_, 0));
    const auto kv_heads = keys_.FindCounts(kKvHeads, n_);
    kv_heads_ = kv_heads.value_or(heads_);
    if (!kv_heads && needed) keys_.NoteFilled(kKvHeads.name, "as many as heads");
    for (uint64_t i = 0; i < n_; ++i) {
      if (kv_heads_[i] == 0 || heads_[i] % kv_heads_[i] == 0) continue;
      throw BadInput(keys_.WhereIs(kKvHeads.name),
                     std::to_string(heads_[i]) + " heads of layer " + std::to_string(i) +
                         " do not divide by " + std::to_string(kv_heads_[i]),
                     "heads that are a multiple of the KV heads");
    }
    const auto some = std::find_if(heads_.begin(), heads_.end(), [](uint64_t n) { return n > 0; });
    if (some != heads_.end()) ReadWidths(*some);
  }

  void ReadWidths(uint64_t n_heads) {
    const auto d_k = keys_.FindCount(kKeyLength), d_v = keys_.FindCount(kValueLength);
    const uint64_t d_model = model_.llm.d_model;
    if ((!d_k || !d_v) && d_model % n_heads != 0) {
      throw BadInput(
          keys_.WhereIs(kHeads.name),
          std::to_string(n_heads) + " heads do not divide embedding_length " + std::to_string(d_model),
          "heads that do, or attention.key_length and value_length");
    }
    d_k_ = d_k ? *d_k : d_model / n_heads;
    d_v_ = d_v ? *d_v : d_model / n_heads;
    window_d_k_ = keys_.CountOr({"attention.key_length_swa", 1, kMostWidth}, d_k_);
    window_d_v_ = keys_.CountOr({"attention.value_length_swa", 1, kMostWidth}, d_v_);
  }

  // Which layers see a window: the file's list, its period, or the architecture's.
  void ReadWindows() {
    windowed_.assign(n_, false);
    window_ = keys_.CountOr(kWindow, arch_.window);
    if (window_ == 0) return;
    if (!keys_.Has(kWindow.name)) keys_.NoteFilled(kWindow.name, std::to_string(window_));
    const GgufValue* pattern = keys_.file().metadata.Find(keys_.architecture() + "." + kPattern);
    if (pattern != nullptr && pattern->is_array) {
      const auto list = *keys_.FindCounts({kPattern}, n_);
      for (uint64_t i = 0; i < n_; ++i) windowed_[i] = list[i] != 0;
      return;
    }
    const uint64_t period =
        pattern != nullptr ? keys_.Count({kPattern, 0, kMostLayers}) : arch_.window_period;
    for (uint64_t i = 0; i < n_; ++i) {
      windowed_[i] = period == 0 || i % period != (arch_.full_first ? 0 : period - 1);
    }
    if (pattern == nullptr && arch_.window_period > 0) keys_.NoteFilled(kPattern, std::to_string(period));
  }

  bool HasState() const {
    const bool no_kv = kv_heads_[i_] == 0;
    switch (arch_.states) {
      case StateLayers::kNone:
        return false;
      case StateLayers::kAll:
      case StateLayers::kBeside:
        return true;
      case StateLayers::kNoKvHeads:
        return no_kv;
      case StateLayers::kNoKvNorFfn:
        return no_kv && ffn_[i_] == 0;
      case StateLayers::kAllButNth: {
        constexpr GgufKey kList{"attention.recurrent_layers", 0, 1};
        if (const auto list = keys_.FindCounts(kList, n_)) return (*list)[i_] != 0;
        return (i_ + 1) % keys_.CountOr({"full_attention_interval", 1, kMostLayers}, 4) != 0;
      }
    }
    return false;
  }

  void AddLayer() {
    const bool state = HasState();
    plan_.norm_elements = recipe_.norms * norm_;
    if (kv_heads_[i_] > 0 && heads_[i_] > 0 && (!state || arch_.states == StateLayers::kBeside))
      AddAttention();
    if (state) AddGgufState(keys_, arch_.form, model_.llm.d_model, &plan_);
    AddFfn();
  }

  void AddAttention() {
    Attention& self = plan_.layer.self;
    const bool window = windowed_[i_] && window_ < model_.llm.max_context.value_or(kMostTokens);
    self.kind = !window         ? AttentionKind::kFull
                : arch_.chunked ? AttentionKind::kChunked
                                : AttentionKind::kWindow;
    self.window = window ? window_ : 0;
    self.causal = keys_.FindBool("attention.causal").value_or(arch_.causal);
    const bool pools = keys_.Has("pooling_type") || keys_.architecture().find("bert") != std::string::npos;
    if (!self.causal && pools) plan_.layer.stack = Stack::kEncoder;
    self.sinks = keys_.OfLayer(i_, "attn_sinks") != nullptr;
    self.n_heads = heads_[i_];
    self.n_kv_heads = kv_heads_[i_];
    self.d_head_k = windowed_[i_] ? window_d_k_ : d_k_;
    self.d_head_v = windowed_[i_] ? window_d_v_ : d_v_;
    const bool latent = arch_.latent && keys_.Has("attention.kv_lora_rank");
    if (latent) Latent(&self);
    AddPosition(latent, &self);
    AttentionPlan& own = plan_.self;
    own.fused_qkv = recipe_.fused_qkv;
    own.q_bias = own.k_bias = own.v_bias = recipe_.qkv_bias.otherwise;
    own.o_bias = recipe_.o_bias.otherwise;
    if (recipe_.qk_norm == QkNorm::kNone || !recipe_.has_qk_norm.otherwise) return;
    const bool of_heads = recipe_.qk_norm == QkNorm::kWidth;
    own.q_norm = self.d_head_k * (of_heads ? self.n_heads : 1);
    own.k_norm = self.d_head_k * (of_heads ? self.n_kv_heads : 1);
  }

  // key_length_mla tells a file of 2025 and later, which caches the latent row: key_length and head_count_kv
  // are the row's. Before, they were the expanded heads', and so was the cache.
  void Latent(Attention* self) {
    const uint64_t d_rope = keys_.Count({"rope.dimension_count", 0, kMostWidth});
    self->kind = AttentionKind::kMla;
    self->n_kv_heads = self->n_heads;
    self->d_head_k = keys_.CountOr({"attention.key_length_mla", 1, kMostWidth}, self->d_head_k);
    self->d_head_v = keys_.CountOr({"attention.value_length_mla", 1, kMostWidth}, self->d_head_v);
    if (d_rope > self->d_head_k) {
      throw BadInput(keys_.WhereIs("rope.dimension_count"), "is " + std::to_string(d_rope),
                     "at most the head's " + std::to_string(self->d_head_k));
    }
    self->latent = {keys_.CountOr({"attention.q_lora_rank", 0, kMostWidth}, 0),
                    keys_.Count({"attention.kv_lora_rank", 1, kMostWidth}), self->d_head_k - d_rope, d_rope};
  }

  void AddPosition(bool latent, Attention* self) {
    const bool full = !windowed_[i_];
    if (arch_.turning == TurningLayers::kWindowsOnly && full) return;
    if (arch_.turning == TurningLayers::kNotEveryFourth && (i_ + 1) % 4 == 0) return;
    if (IsRotary(arch_)) {
      self->position = ReadGgufRope(keys_, arch_, !full, self->d_head_k, latent, model_.llm.max_context);
    } else if (*arch_.encoding != '\0' && std::string_view(arch_.encoding) != "learned") {
      self->position = {.encoding = arch_.encoding};
    }
  }

  void InputPosition() {
    if (std::string_view(arch_.encoding) != "learned") return;
    Llm& llm = model_.llm;
    if (!llm.max_context) keys_.Missing("context_length", "the rows of the position table");
    llm.input_position = {.encoding = "learned"};
    llm.hard_context_limit = true;
    model_.matrices.push_back({MatrixRole::kPositionTable, *llm.max_context, llm.d_model});
  }

  bool HasExperts() const {
    if (n_experts_ == 0) return false;
    if (keys_.has_tensors()) {
      return keys_.OfLayer(i_, "ffn_down_exps") != nullptr || keys_.OfLayer(i_, "ffn_down.0") != nullptr;
    }
    if (i_ < keys_.CountOr({"leading_dense_block_count", 0, kMostLayers}, 0)) return false;
    if (arch_.states == StateLayers::kNoKvNorFfn && ffn_[i_] == 0) return false;
    const uint64_t every = keys_.CountOr({"moe_every_n_layers", 0, kMostLayers}, 0);
    if (every > 0) return i_ % every == 1;
    const uint64_t step = keys_.CountOr({"interleave_moe_layer_step", 0, kMostLayers}, 1);
    if (step > 1) return (i_ + 1) % step == 0;
    return keys_.architecture() != "jamba" || i_ % 2 == 1;
  }

  void AddFfn() {
    FeedForward& ffn = plan_.layer.ffn;
    ffn.width = ffn_[i_];
    plan_.ffn.gated = recipe_.gated;
    plan_.ffn.bias = recipe_.ffn_bias.otherwise;
    plan_.ffn.shared_router = recipe_.shared_router;
    if (const GgufTensor* down = keys_.OfLayer(i_, "ffn_down")) {
      const GgufTensor* up = keys_.OfLayer(i_, "ffn_up");
      ffn.width = down->dims[0];
      plan_.ffn.gated =
          keys_.OfLayer(i_, "ffn_gate") != nullptr || (up != nullptr && up->dims[1] >= 2 * ffn.width);
    }
    const bool experts = HasExperts();
    if (ffn.width > 0) ffn.kind = plan_.ffn.gated ? FfnKind::kGated : FfnKind::kMlp;
    if (!experts) return;
    // The dense part runs beside the experts only where the file has one.
    const bool beside = keys_.OfLayer(i_, "ffn_down") != nullptr;
    Experts(&ffn);
    if (!beside) ffn.width = 0;
  }

  void Experts(FeedForward* ffn) {
    ffn->kind = FfnKind::kMoe;
    ffn->n_experts = n_experts_;
    ffn->n_active = keys_.Count({"expert_used_count", 1, n_experts_});
    ffn->expert_width = keys_.CountOr({"expert_feed_forward_length", 0, kMostWidth}, 0);
    if (ffn->expert_width == 0) ffn->expert_width = ffn_[i_];
    ffn->n_shared = keys_.CountOr({"expert_shared_count", 0, kMostExperts}, 0);
    const uint64_t shared = keys_.CountOr({"expert_shared_feed_forward_length", 0, kMostWidth}, 0);
    ffn->shared_width = shared > 0 ? shared : ffn->n_shared * ffn->expert_width;
    const GgufTensor* down = keys_.OfLayer(i_, "ffn_down_exps");
    if (down == nullptr) down = keys_.OfLayer(i_, "ffn_down.0");
    if (down != nullptr) ffn->expert_width = down->dims[0];
    if (const GgufTensor* of_shared = keys_.OfLayer(i_, "ffn_down_shexp"))
      ffn->shared_width = of_shared->dims[0];
    if (ffn->shared_width > 0 && ffn->n_shared == 0) ffn->n_shared = 1;
    plan_.ffn.gated = keys_.OfLayer(i_, "ffn_gate_exps") != nullptr || recipe_.gated;
    if (ffn->expert_width == 0) keys_.Missing("expert_feed_forward_length", "the width of an expert");
  }

  const GgufKeys& keys_;
  const GgufArch& arch_;
  const Recipe& recipe_;
  Blueprint model_;
  LayerPlan plan_;
  uint64_t n_ = 0, i_ = 0;  // layers, the current one
  uint64_t norm_ = 0;       // elements of one norm
  std::vector<uint64_t> heads_, kv_heads_, ffn_;
  std::vector<bool> windowed_;
  uint64_t window_ = 0;
  uint64_t d_k_ = 0, d_v_ = 0, window_d_k_ = 0, window_d_v_ = 0;
  uint64_t n_experts_ = 0;
};

}  // namespace

Blueprint FillGgufBlueprint(const GgufKeys& keys, const GgufArch& arch, const Recipe& recipe) {
  return Filler(keys, arch, recipe).Run();
}

}  // namespace ropeline
