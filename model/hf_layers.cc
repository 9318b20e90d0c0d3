#include "model/hf_layers.h"

#include <cmath>
#include <map>

#include "model/hf_experts.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

constexpr HfFlag kUseWindow{"use_sliding_window", false};
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kChunked = "chunked_attention";

bool IsRotary(const Recipe& recipe) { return std::string_view(recipe.encoding).starts_with("rope_"); }

// Names that files use for layers with attention over everything.
bool IsFull(const std::string& type) { return type == kFull || type == "attention" || type == "global"; }

bool Slides(const HfConfig& config, WindowRule rule, size_t i) {
  if (rule == WindowRule::kIgnore || !config.FindCount(kHfWindow)) return false;
  switch (rule) {
    case WindowRule::kIgnore:
      return false;
    case WindowRule::kAll:
      return config.Is({"use_sliding_window", true});
    case WindowRule::kQwen:
      return config.Is(kUseWindow) && i >= config.CountOr(kHfMaxWindowLayers, 0);
    case WindowRule::kEven:
      return i % 2 == 0;
    case WindowRule::kAllButNth: {
      const auto pattern = config.Find(kHfWindowPattern);
      if (!pattern || !pattern->is_string()) return (i + 1) % config.Count(kHfWindowPattern) != 0;
      const std::string letters = pattern->String();  // EXAONE 4: "LLLG"
      return !letters.empty() && letters[i % letters.size()] == 'L';
    }
  }
  return false;
}

// DeepSeek-V2 with yarn: the softmax scale takes the square of 0.1·mscale_all_dim·ln(factor) + 1.
void ScaleScores(Position* position) {
  const RopeParameters& rope = position->rope;
  if (rope.type != RopeType::kYarn || !rope.mscale_all_dim || rope.factor <= 1) return;
  const double mscale = 0.1 * *rope.mscale_all_dim * std::log(rope.factor) + 1;
  position->score_factor = mscale * mscale;
}

struct Filler {
  const HfConfig& config;
  const Recipe& recipe;
  Blueprint model{};
  LayerPlan plan{};
  uint64_t d_ffn = 0;

  void Sizes() {
    Llm& llm = model.llm;
    llm.d_model = config.Count(kHfModel);
    llm.vocabulary = config.Count(kHfVocabulary);
    llm.max_context = config.FindCount(kHfMaxContext);
    const auto tied = config.Find(HfKey{recipe.tied.names});
    const auto outer = config.root().FindBool("tie_word_embeddings");
    llm.tied_embeddings = tied ? tied->Bool() : outer.value_or(recipe.tied.otherwise);
    if (!tied && !outer) config.NoteFilled("tie_word_embeddings", recipe.tied.otherwise ? "true" : "false");
  }

  uint64_t HeadDim(uint64_t n_heads) {
    if (const auto d_head = config.FindCount(kHfHeadDim)) return *d_head;
    if (model.llm.d_model % n_heads == 0) return model.llm.d_model / n_heads;
    throw BadInput(
        config.Find(kHfHeads)->where(),
        std::to_string(n_heads) + " heads do not divide hidden_size " + std::to_string(model.llm.d_model),
        "heads that do, or a head_dim");
  }

  void AttentionTemplate() {
    Attention& self = plan.layer.self;
    self.kind = AttentionKind::kFull;
    self.n_heads = config.Count(kHfHeads);
    self.n_kv_heads = config.CountOr(kHfKvHeads, self.n_heads);
    if (config.Find(kHfKvRank)) {
      Latent(&self);
    } else {
      self.d_head_k = HeadDim(self.n_heads);
      const uint64_t d_v = config.CountOr(kHfValueDim, 0);
      self.d_head_v = d_v > 0 ? d_v : self.d_head_k;
    }
    AttentionPlan& own = plan.self;
    own.fused_qkv = recipe.fused_qkv;
    own.q_bias = own.k_bias = own.v_bias = config.Is(recipe.qkv_bias);
    own.o_bias = config.Is(recipe.o_bias);
    if (!config.Is(recipe.has_qk_norm)) return;
    const bool heads = recipe.qk_norm == QkNorm::kWidth;
    if (recipe.qk_norm == QkNorm::kNone) return;
    own.q_norm = self.d_head_k * (heads ? self.n_heads : 1);
    own.k_norm = self.d_head_k * (heads ? self.n_kv_heads : 1);
  }

  // num_key_value_heads is not the cache's: K and V are of all heads, from one latent row.
  void Latent(Attention* self) {
    self->kind = AttentionKind::kMla;
    self->n_kv_heads = self->n_heads;
    self->latent = {config.CountOr(kHfQRank, 0), config.Count(kHfKvRank), config.Count(kHfNopeDim),
                    config.Count(kHfRopeDim)};
    self->d_head_k = self->latent.d_nope + self->latent.d_rope;
    const uint64_t d_v = config.CountOr(kHfValueDim, 0);
    self->d_head_v = d_v > 0 ? d_v : model.llm.d_model / self->n_heads;
  }

  void FfnTemplate() {
    const auto width = config.Find(kHfFfn);
    if (width && !width->is_array()) d_ffn = CountIn(*width, kHfFfn);
    if (d_ffn == 0) d_ffn = recipe.ffn_times * model.llm.d_model;
    plan.layer.ffn = {.kind = recipe.gated ? FfnKind::kGated : FfnKind::kMlp, .width = d_ffn};
    plan.ffn.gated = recipe.gated;
    plan.ffn.bias = config.Is(recipe.ffn_bias);
    plan.ffn.shared_router = recipe.shared_router;
  }

  Position RopeOf(const std::string& type) {
    const Attention& self = plan.layer.self;
    const bool latent = self.kind == AttentionKind::kMla;
    const RopeDefaults defaults{recipe.encoding, recipe.theta, latent ? 1 : recipe.rotary_share};
    std::string warning;
    Position position = ReadRope(config, defaults, type, latent ? self.latent.d_rope : self.d_head_k,
                                 model.llm.max_context, &warning);
    if (latent && position.rope.d_rot != self.latent.d_rope) position.rope.d_rot = self.latent.d_rope;
    if (latent) ScaleScores(&position);
    if (!warning.empty() && model.llm.warnings.empty()) model.llm.warnings.push_back(warning);
    return position;
  }

  void Layers() {
    const uint64_t n = config.Count(kHfLayers);
    const std::vector<std::string> types = LayerTypes(config, recipe.windows, n);
    std::map<std::string, Position> positions;
    for (const std::string& type : types) {
      LayerPlan layer = plan;
      Attention& self = layer.layer.self;
      if (type == kSliding || type == kChunked) {
        const HfKey& key = type == kSliding ? kHfWindow : kHfChunk;
        const uint64_t window = config.Count(key);
        if (!model.llm.max_context || window < *model.llm.max_context) {
          self.kind = type == kSliding ? AttentionKind::kWindow : AttentionKind::kChunked;
          self.window = window;
        }
      } else if (!IsFull(type)) {
        self = {};
        layer.layer.recurrent.form = kUnsaidForm;
      }
      if (IsRotary(recipe) && self.kind != AttentionKind::kNone) {
        if (positions.count(type) == 0) positions[type] = RopeOf(type);
        self.position = positions[type];
      }
      model.layers.push_back(std::move(layer));
    }
  }

  // Learned positions are a table with a row for each; a score bias is every layer's.
  void OtherPosition() {
    if (IsRotary(recipe) || *recipe.encoding == '\0') return;
    if (std::string_view(recipe.encoding) == "learned") {
      if (!model.llm.max_context) config.Missing(kHfMaxContext, "the rows of the position table");
      model.llm.input_position = {.encoding = "learned"};
      model.llm.hard_context_limit = true;
      model.matrices.push_back({MatrixRole::kPositionTable, *model.llm.max_context, model.llm.d_model});
      return;
    }
    for (LayerPlan& layer : model.layers) {
      if (layer.layer.self.kind != AttentionKind::kNone)
        layer.layer.self.position = {.encoding = recipe.encoding};
    }
  }

  Blueprint Fill() {
    Sizes();
    const uint64_t norm = NormElements(recipe, config, model.llm.d_model);
    plan.norm_elements = recipe.norms * norm;
    model.other_elements = (recipe.final_norm ? norm : 0) + (recipe.embedding_norm ? norm : 0);
    if (config.Is(recipe.head_bias)) model.head_bias_elements = model.llm.vocabulary;
    if (recipe.attention) AttentionTemplate();
    FfnTemplate();
    Layers();
    OtherPosition();
    ReadExperts(config, d_ffn, &model);
    return std::move(model);
  }
};

}  // namespace

std::vector<std::string> LayerTypes(const HfConfig& config, WindowRule rule, size_t n_layers) {
  const auto list = config.Find(kHfLayerTypes);
  if (list && list->is_array()) {
    std::vector<std::string> types = *config.FindStrings(kHfLayerTypes, n_layers);
    types.resize(n_layers);
    return types;
  }
  std::vector<std::string> types(n_layers, kFull);
  for (size_t i = 0; i < n_layers; ++i) {
    if (Slides(config, rule, i)) types[i] = kSliding;
  }
  return types;
}

Blueprint FillBlueprint(const HfConfig& config, const HfFamily& family) {
  return Filler{config, family.recipe}.Fill();
}

uint64_t NormElements(const Recipe& recipe, const HfConfig& config, uint64_t d_model) {
  if (recipe.norm == NormForm::kNone) return 0;
  return recipe.norm == NormForm::kWeightAndBias || config.Is(recipe.norm_bias) ? 2 * d_model : d_model;
}

}  // namespace ropeline
