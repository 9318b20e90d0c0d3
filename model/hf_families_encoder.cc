// Encoders, and models of an encoder and a decoder: T5, BART, Whisper, BERT.
#include "model/hf_family.h"

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

// Position and segment tables with a norm behind them; no cache, whatever use_cache says. The pooler is that
// of BertModel; a masked-LM head has a transform of its own.
void Bert(const HfConfig& config, Blueprint* model) {
  const uint64_t d_model = model->llm.d_model;
  const auto architectures = config.root().Find("architectures");
  const std::string name = architectures && architectures->is_array() && !architectures->Items().empty()
                               ? architectures->Items().front().String()
                               : "";
  const bool masked_lm = name.ends_with("ForMaskedLM");
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
