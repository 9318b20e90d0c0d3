#include "model/gguf_adjust.h"

#include <algorithm>

#include "model/hf_keys.h"

namespace ropeline {
namespace {

void SetEncoding(const char* encoding, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    Attention& self = layer.layer.self;
    if (self.kind != AttentionKind::kNone) self.position = {.encoding = encoding};
  }
}

bool IsWindow(const LayerPlan& layer) { return layer.layer.self.limited(); }

// The last layers read K and V of the last layer of their kind before them.
void ShareLast(const GgufKeys& keys, uint64_t shared, Blueprint* model) {
  const uint64_t n = model->layers.size();
  const Where where = keys.WhereIs("attention.shared_kv_layers");
  if (shared >= n) {
    throw BadInput(where, "is " + std::to_string(shared), "fewer than the " + std::to_string(n) + " layers");
  }
  for (uint64_t i = n - shared; i < n; ++i) {
    LayerPlan& layer = model->layers[i];
    for (uint64_t j = 0; j < n - shared; ++j) {
      if (IsWindow(model->layers[j]) == IsWindow(layer))
        layer.layer.self.shares_kv_with = static_cast<int>(j);
    }
    if (layer.layer.self.shares_kv_with < 0) {
      throw BadInput(where, "leaves layer " + std::to_string(i) + " none of its kind to share with",
                     "layers of each kind before the shared ones");
    }
  }
}

constexpr GgufKey kSharedKv{"attention.shared_kv_layers", 0, kMostLayers};

}  // namespace

// The 13B has ALiBi, and no key that says so.
void AdjustBaichuan(const GgufKeys&, Blueprint* model) {
  if (model->layers.size() == 40) SetEncoding("alibi", model);
}

// MPT and Jais: ALiBi unless its bias is 0; then positions are learned.
void AdjustAlibiOrLearned(const GgufKeys& keys, Blueprint* model) {
  if (keys.FindNumber("attention.max_alibi_bias").value_or(8) > 0) return;
  SetEncoding("", model);
  model->llm.input_position = {.encoding = "learned"};
  model->llm.hard_context_limit = model->llm.max_context.has_value();
}

// Falcon with KV heads of its own (40B, 180B) has two norms beside each other, the 7B one.
void AdjustFalcon(const GgufKeys&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    if (layer.layer.self.n_kv_heads == 1) layer.norm_elements /= 2;
  }
}

// Early files lack the window: llama.cpp knew it by the shape. A window of the whole context is none.
void AdjustPhi3(const GgufKeys& keys, Blueprint* model) {
  const uint64_t context = model->llm.max_context.value_or(0);
  if (keys.Has("attention.sliding_window") || context != 4096) return;
  if (model->layers.size() != 32 && model->layers.size() != 40) return;
  for (LayerPlan& layer : model->layers) {
    layer.layer.self.kind = AttentionKind::kWindow;
    layer.layer.self.window = 2047;
  }
  keys.NoteFilled("attention.sliding_window", "2047");
}

// GGUF has no key for the window of these; the published configs have one.
void AdjustStarCoder2(const GgufKeys& keys, Blueprint* model) {
  if (keys.Has("attention.sliding_window")) return;
  model->llm.warnings.emplace_back(
      "starcoder2: published configs have a window of 4096, which the file does not say; counted as full");
}

void AdjustGemma3n(const GgufKeys& keys, Blueprint* model) {
  const uint64_t n = model->layers.size();
  if (!keys.Has(kSharedKv.name))
    keys.NoteFilled(kSharedKv.name, std::to_string(n - std::min<uint64_t>(n, 20)));
  ShareLast(keys, keys.CountOr(kSharedKv, n - std::min<uint64_t>(n, 20)), model);
}

void AdjustGemma4(const GgufKeys& keys, Blueprint* model) {
  ShareLast(keys, keys.CountOr(kSharedKv, 0), model);
}

// Where a model of 64 layers has windows, the smaller one has none unless its file says so.
void AdjustExaone4(const GgufKeys& keys, Blueprint* model) {
  if (keys.Has("attention.sliding_window") || model->layers.size() == 64) return;
  for (LayerPlan& layer : model->layers) {
    Attention& self = layer.layer.self;
    self.kind = AttentionKind::kFull;
    self.window = 0;
    self.position = model->layers.front().layer.self.position;
  }
}

// A window of 0 says that no layer is chunked, and that all rotate.
void AdjustLlama4(const GgufKeys& keys, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    FeedForward& ffn = layer.layer.ffn;
    if (ffn.kind == FfnKind::kMoe && ffn.shared_width == 0)
      ffn.n_shared = 1, ffn.shared_width = ffn.expert_width;
  }
  if (keys.CountOr({"attention.sliding_window", 0, kMostTokens}, 1) > 0) return;
  for (LayerPlan& layer : model->layers)
    layer.layer.self.position = model->layers.front().layer.self.position;
}

// Granite's switch for the rotation is a key about something else.
void AdjustGranite(const GgufKeys& keys, Blueprint* model) {
  if (!keys.FindBool("rope.scaling.finetuned").value_or(true)) SetEncoding("", model);
}

// Q is doubled by a gate on the output of the full layers.
void AdjustQwenHybrid(const GgufKeys&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    const Attention& self = layer.layer.self;
    if (self.kind != AttentionKind::kNone) layer.self.gate_rows = self.n_heads * self.d_head_v;
  }
}

void AdjustSinks(const GgufKeys&, Blueprint* model) {
  for (LayerPlan& layer : model->layers) {
    layer.layer.self.sinks = true;
    layer.other_elements += layer.layer.self.n_heads;
    layer.ffn.expert_bias = true;
    layer.ffn.router_elements = layer.layer.ffn.n_experts;
  }
}

// The encoder has block_count layers and the decoder as many where decoder_block_count does not say.
void AdjustT5(const GgufKeys& keys, Blueprint* model) {
  const LayerPlan plan = model->layers.front();
  const uint64_t n_encoder = model->layers.size();
  const uint64_t n_decoder = keys.architecture() == "t5encoder"
                                 ? 0
                                 : keys.CountOr({"decoder_block_count", 1, kMostLayers}, n_encoder);
  const uint64_t buckets = keys.CountOr({"attention.relative_buckets_count", 1, kMostWidth}, 32);
  model->layers.assign(n_encoder + n_decoder, plan);
  for (uint64_t i = 0; i < model->layers.size(); ++i) {
    LayerPlan& layer = model->layers[i];
    if (i == 0 || i == n_encoder) {
      layer.matrices.push_back({MatrixRole::kRelativeBias, buckets, layer.layer.self.n_heads});
    }
    if (i < n_encoder) {
      layer.layer.stack = Stack::kEncoder;
      layer.layer.self.causal = false;
      continue;
    }
    layer.layer.cross = layer.layer.self;
    layer.layer.cross.kind = AttentionKind::kCross;
    layer.layer.cross.causal = false;
    layer.layer.cross.position = {};
    layer.cross = layer.self;
    layer.norm_elements += model->llm.d_model;
  }
  model->other_elements = (n_decoder > 0 ? 2 : 1) * model->llm.d_model;
  model->llm.max_context.reset();  // the length of training, and no limit
}

// Segment table and norm behind the embedding; nothing is generated.
void AdjustBert(const GgufKeys& keys, Blueprint* model) {
  const auto types = keys.file().metadata.FindCount("tokenizer.ggml.token_type_count");
  if (types) model->matrices.push_back({MatrixRole::kTokenTypeTable, *types, model->llm.d_model});
  model->has_head = false;
}

}  // namespace ropeline
