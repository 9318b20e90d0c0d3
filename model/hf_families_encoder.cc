// Encoders, and models of an encoder and a decoder: T5, T5Gemma, BART, Whisper, BERT, ModernBERT.
#include "model/hf_family.h"
#include "model/hf_layers.h"
#include "model/hf_rope.h"

namespace ropeline {
namespace {

void MakeEncoder(LayerPlan* layer) {
  layer->layer.stack = Stack::kEncoder;
  layer->layer.self.causal = false;
}

// Cross attention of the decoder's own heads and widths, without position.
void AddCrossAttention(LayerPlan* layer) {
  layer->layer.cross = layer->layer.self;
  layer->layer.cross.kind = AttentionKind::kCross;
  layer->layer.cross.window = 0;
  layer->layer.cross.causal = false;
  layer->layer.cross.position = {};
  layer->cross = layer->self;
}

// The relative bias table stands in the first layer of each stack (umT5: in every layer).
void T5(const HfConfig& config, Blueprint* model) {
  const LayerPlan plan = model->layers.front();
  const uint64_t d_model = model->llm.d_model, n_encoder = model->layers.size();
  const uint64_t n_decoder = config.CountOr({"num_decoder_layers", 1, kMostLayers}, n_encoder);
  const uint64_t buckets = config.CountOr({"relative_attention_num_buckets", 1, kMostWidth}, 32);
  const bool every = config.ModelType() == "umt5";
  const auto form = config.text().FindString("feed_forward_proj");
  model->layers.clear();
  for (uint64_t i = 0; i < n_encoder + n_decoder; ++i) {
    LayerPlan layer = plan;
    layer.ffn.gated = form && form->starts_with("gated");
    layer.layer.ffn.kind = layer.ffn.gated ? FfnKind::kGated : FfnKind::kMlp;
    if (every || i == 0 || i == n_encoder) {
      layer.matrices.push_back({MatrixRole::kRelativeBias, buckets, layer.layer.self.n_heads});
    }
    if (i < n_encoder) {
      MakeEncoder(&layer);
    } else {
      AddCrossAttention(&layer);
      layer.norm_elements += d_model;
    }
    model->layers.push_back(std::move(layer));
  }
  model->other_elements = 2 * d_model;  // a final norm for each stack
  model->llm.max_context.reset();       // n_positions is the length of training, and no limit
}

constexpr const char* kGemmaStack =
    R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":8192,
        "sliding_window":4096})";
constexpr HfFamily kT5GemmaEncoder{.model_types = "t5gemma",
                                   .defaults = kGemmaStack,
                                   .recipe = {.norms = 4, .tied = kHfTied, .windows = WindowRule::kEven}};

// Two Gemma 2 of the same width with an embedding each; the decoder's cross attention has two norms more.
void T5Gemma(const HfConfig& config, Blueprint* model) {
  const auto part = config.root().Find("encoder");
  if (!part || !part->is_object()) {
    throw BadInput({config.root().where().file, "encoder"}, "is missing", "the encoder's configuration");
  }
  const HfConfig of_encoder(config.root(), *part, "t5gemma's encoder", kGemmaStack);
  Blueprint encoder = FillBlueprint(of_encoder, kT5GemmaEncoder);
  if (std::string filled = of_encoder.FilledWarning(); !filled.empty()) {
    model->llm.warnings.push_back(std::move(filled));
  }
  const uint64_t d_model = model->llm.d_model;
  if (encoder.llm.d_model != d_model) {
    throw BadInput({part->where().file, "encoder.hidden_size"}, "is " + std::to_string(encoder.llm.d_model),
                   "the decoder's, " + std::to_string(d_model));
  }
  for (LayerPlan& layer : encoder.layers) MakeEncoder(&layer);
  for (LayerPlan& layer : model->layers) {
    AddCrossAttention(&layer);
    layer.norm_elements += 2 * d_model;
  }
  model->layers.insert(model->layers.begin(), encoder.layers.begin(), encoder.layers.end());
  model->matrices.push_back({MatrixRole::kPerLayerEmbedding, encoder.llm.vocabulary, d_model});
  model->other_elements += encoder.other_elements;
}

// Counts of the encoder and decoder under names of their own; num_hidden_layers is the encoder's.
struct TwoStacks {
  uint64_t n_encoder, n_decoder;
  LayerPlan encoder, decoder;
};

TwoStacks StacksOf(const HfConfig& config, const Blueprint& model) {
  const LayerPlan plan = model.layers.front();
  const uint64_t d_model = model.llm.d_model;
  TwoStacks stacks{config.CountOr({"encoder_layers", 1, kMostLayers}, model.layers.size()),
                   config.CountOr({"decoder_layers", 1, kMostLayers}, model.layers.size()), plan, plan};
  const auto set = [&](LayerPlan* layer, const HfKey& heads, const HfKey& width) {
    Attention& self = layer->layer.self;
    self.n_heads = self.n_kv_heads = config.CountOr(heads, self.n_heads);
    self.d_head_k = self.d_head_v = d_model / self.n_heads;
    layer->layer.ffn.width = config.CountOr(width, layer->layer.ffn.width);
  };
  set(&stacks.encoder, {"encoder_attention_heads", 1, kMostHeads}, {"encoder_ffn_dim", 1, kMostWidth});
  set(&stacks.decoder, {"decoder_attention_heads", 1, kMostHeads}, {"decoder_ffn_dim", 1, kMostWidth});
  MakeEncoder(&stacks.encoder);
  AddCrossAttention(&stacks.decoder);
  stacks.decoder.norm_elements += 2 * d_model;
  return stacks;
}

void Fill(const TwoStacks& stacks, Blueprint* model) {
  model->layers.assign(stacks.n_encoder, stacks.encoder);
  model->layers.insert(model->layers.end(), stacks.n_decoder, stacks.decoder);
}

// Two convolutions over the spectrum, a table of sinusoids for the encoder's 1500 positions, learned ones for
// the decoder; K projections have no bias.
void Whisper(const HfConfig& config, Blueprint* model) {
  TwoStacks stacks = StacksOf(config, *model);
  const uint64_t d_model = model->llm.d_model, bins = config.CountOr({"num_mel_bins", 1, kMostWidth}, 80);
  const uint64_t source = config.CountOr({"max_source_positions", 1, kMostTokens}, 1500);
  const uint64_t target = config.CountOr({"max_target_positions", 1, kMostTokens}, 448);
  stacks.encoder.self.k_bias = stacks.decoder.self.k_bias = stacks.decoder.cross.k_bias = false;
  stacks.decoder.layer.cross.source_tokens = source;
  Fill(stacks, model);
  model->llm.max_context = target;
  model->matrices = {{MatrixRole::kPositionTable, target, d_model},
                     {MatrixRole::kPositionTable, source, d_model},
                     {MatrixRole::kProjection, d_model, 3 * bins},
                     {MatrixRole::kProjection, d_model, 3 * d_model}};
  model->other_elements = 4 * d_model + 2 * d_model;  // two final norms, biases of the convolutions
}

// BART: position tables of two more rows, a norm after each embedding; mBART adds a final norm to each stack.
void Bart(const HfConfig& config, Blueprint* model) {
  Fill(StacksOf(config, *model), model);
  for (Matrix& matrix : model->matrices) matrix.rows += 2;
  model->matrices.push_back(model->matrices.front());
  const bool final_norms = config.ModelType() == "mbart";
  model->other_elements = (final_norms ? 8 : 4) * model->llm.d_model;
}

bool IsMaskedLm(const HfConfig& config) {
  const auto architectures = config.root().Find("architectures");
  return architectures && architectures->is_array() && !architectures->Items().empty() &&
         architectures->Items().front().String().ends_with("ForMaskedLM");
}

// Position and segment tables with a norm behind them; no cache, whatever use_cache says. The pooler is that
// of BertModel; a masked-LM head has a transform of its own.
void Bert(const HfConfig& config, Blueprint* model) {
  const uint64_t d_model = model->llm.d_model;
  const bool masked_lm = IsMaskedLm(config);
  const std::string type = config.ModelType();
  if (type != "distilbert") {
    model->matrices.push_back(
        {MatrixRole::kTokenTypeTable, config.CountOr({"type_vocab_size", 1}, 2), d_model});
  }
  if (!masked_lm && type != "distilbert") {
    model->matrices.push_back({MatrixRole::kPooler, d_model, d_model});
    model->other_elements += d_model;
  }
  model->has_head = masked_lm;
  if (masked_lm) {
    model->matrices.push_back({MatrixRole::kProjection, d_model, d_model});
    model->other_elements += 3 * d_model;
    model->head_bias_elements = model->llm.vocabulary;
  }
  for (LayerPlan& layer : model->layers) MakeEncoder(&layer);
  // RoBERTa's first position is 2.
  const bool offset = type == "roberta" || type == "xlm-roberta" || type == "camembert";
  if (offset && model->llm.max_context.value_or(0) > 2) *model->llm.max_context -= 2;
  model->llm.warnings.emplace_back("an encoder keeps no keys and values");
}

// Every n-th layer sees all, from the first on, the others local_attention tokens around; each kind turns
// from a base of its own. Layer 0 has no norm before its attention.
void ModernBert(const HfConfig& config, Blueprint* model) {
  const uint64_t d_model = model->llm.d_model;
  const uint64_t every = config.Count({"global_attn_every_n_layers", 1, kMostLayers});
  const uint64_t local = config.Count({"local_attention", 2, kMostTokens});
  const double wide = config.FindNumber({"global_rope_theta"}).value_or(160000);
  const double narrow = config.FindNumber({"local_rope_theta"}).value_or(wide);
  const bool listed = config.Find(kHfLayerTypes).has_value();
  for (size_t i = 0; i < model->layers.size(); ++i) {
    Attention& self = model->layers[i].layer.self;
    const bool full = listed ? self.kind == AttentionKind::kFull : i % every == 0;
    if (!full) {
      self.kind = AttentionKind::kWindow;
      self.window = local / 2;
    }
    if (!HasRopeByLayerType(config)) self.position = PlainRope(self.position, full ? wide : narrow);
    MakeEncoder(&model->layers[i]);
  }
  const uint64_t norm = model->layers.front().norm_elements / 2;
  model->layers.front().norm_elements -= norm;
  model->has_head = IsMaskedLm(config);
  if (model->has_head) {
    model->matrices.push_back({MatrixRole::kProjection, d_model, d_model});
    model->other_elements += norm + (config.Is({"classifier_bias", false}) ? d_model : 0);
    if (config.Is({"decoder_bias", true})) model->head_bias_elements = model->llm.vocabulary;
  }
  model->llm.warnings.emplace_back("an encoder keeps no keys and values");
}

constexpr Recipe kBert{.norm = NormForm::kWeightAndBias,
                       .final_norm = false,
                       .embedding_norm = true,
                       .qkv_bias = kHfYes,
                       .o_bias = kHfYes,
                       .gated = false,
                       .ffn_bias = kHfYes,
                       .tied = kHfTied,
                       .encoding = "learned"};
constexpr Recipe kBart{.norm = NormForm::kWeightAndBias,
                       .qkv_bias = kHfYes,
                       .o_bias = kHfYes,
                       .gated = false,
                       .ffn_bias = kHfYes,
                       .tied = kHfTied,
                       .encoding = "learned"};

constexpr HfFamily kFamilies[] = {
    {"t5 mt5 umt5",
     "T5For MT5For UMT5For",
     R"({"vocab_size":32128,"hidden_size":512,"num_hidden_layers":6,"num_attention_heads":8,"head_dim":64,
         "intermediate_size":2048})",
     {.qkv_bias = kHfNo,
      .o_bias = kHfNo,
      .gated = false,
      .ffn_bias = kHfNo,
      .tied = kHfTied,
      .encoding = "t5_bias"},
     T5},
    {"t5gemma t5_gemma_module",
     "T5GemmaFor",
     kGemmaStack,
     {.norms = 4, .tied = kHfTied, .windows = WindowRule::kEven},
     T5Gemma},
    {"modernbert",
     "ModernBertModel ModernBertFor",
     R"({"vocab_size":50368,"hidden_size":768,"intermediate_size":1152,"num_hidden_layers":22,
         "num_attention_heads":12,"max_position_embeddings":8192,"global_attn_every_n_layers":3,
         "local_attention":128})",
     {.norm_bias = {"norm_bias", false},
      .embedding_norm = true,
      .fused_qkv = true,
      .tied = kHfTied,
      .theta = 160000},
     ModernBert},
    {"whisper", "WhisperFor", R"({"vocab_size":51865,"max_position_embeddings":448})", kBart, Whisper},
    {"bart mbart", "BartFor MBartFor", R"({"vocab_size":50265,"max_position_embeddings":1024})", kBart, Bart},
    {"bert roberta xlm-roberta camembert distilbert", "BertModel BertFor RobertaModel RobertaFor XLMRoberta",
     R"({"vocab_size":30522,"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,
         "intermediate_size":3072,"max_position_embeddings":512})",
     kBert, Bert},
};

}  // namespace

std::span<const HfFamily> EncoderFamilies() { return kFamilies; }

}  // namespace ropeline
