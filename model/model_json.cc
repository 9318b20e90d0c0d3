#include "model/model_json.h"

#include <nlohmann/json.hpp>

#include "kernels/registry.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

void AddWidths(const Attention& attention, Json* json) {
  (*json)["n_heads"] = attention.n_heads;
  (*json)["n_kv_heads"] = attention.n_kv_heads;
  (*json)["d_head_k"] = attention.d_head_k;
  (*json)["d_head_v"] = attention.d_head_v;
  if (attention.limited()) (*json)["window"] = attention.window;
  if (attention.shares_kv_with >= 0) (*json)["shares_kv_with"] = attention.shares_kv_with;
  if (attention.kind == AttentionKind::kMla) {
    (*json)["latent"] = {{"q_lora_rank", attention.latent.q_lora_rank},
                         {"kv_lora_rank", attention.latent.kv_lora_rank},
                         {"d_nope", attention.latent.d_nope},
                         {"d_rope", attention.latent.d_rope}};
  }
}

Json FfnJson(const FeedForward& ffn) {
  Json json = {{"kind", FfnKindName(ffn.kind)}};
  if (ffn.width > 0) json["width"] = ffn.width;
  if (ffn.kind != FfnKind::kMoe) return json;
  json["n_experts"] = ffn.n_experts;
  json["n_active"] = ffn.n_active;
  json["n_shared"] = ffn.n_shared;
  json["expert_width"] = ffn.expert_width;
  json["shared_width"] = ffn.shared_width;
  return json;
}

// The weights in the model's own files; null where no file says.
Json StoredJson(const std::optional<StoredWeights>& stored) {
  if (!stored) return nullptr;
  Json by_format = Json::object();
  for (const auto& [format, bytes] : stored->bytes_by_format) by_format[format] = bytes;
  return {{"tensor_bytes", stored->tensor_bytes},
          {"other_bytes", stored->other_bytes},
          {"file_bytes", stored->file_bytes},
          {"bytes_by_format", by_format}};
}

}  // namespace

Json PositionJson(const Position& position) {
  if (position.empty()) return nullptr;
  const Encoding* encoding = FindEncoding(position.encoding);
  Json json = {{"placement", encoding != nullptr ? Json(PlacementName(encoding->placement)) : Json(nullptr)},
               {"encoding", position.encoding}};
  if (position.rope_theta() > 0) {
    json["rope_theta"] = position.rope_theta();
    json["d_rot"] = position.d_rot();
    json["rope_scaling"] = TextOrNull(position.rope_scaling());
  }
  return json;
}

Json ModelJson(const Llm& llm) {
  const Attention* main = llm.MainAttention();
  const auto of = [&](uint64_t Attention::*field) {
    return main != nullptr ? Json(main->*field) : Json(nullptr);
  };
  return {{"name", llm.name},
          {"n_layers", llm.NumLayers(Stack::kDecoder)},
          {"n_heads", of(&Attention::n_heads)},
          {"n_kv_heads", of(&Attention::n_kv_heads)},
          {"d_head", of(&Attention::d_head_k)},
          {"d_model", llm.d_model},
          {"params_total", llm.ParamsTotal()},
          {"params_active", llm.ParamsActive()},
          {"position", PositionJson(llm.MainPosition())},
          {"n_encoder_layers", llm.NumLayers(Stack::kEncoder)},
          {"max_context", OrNull(llm.max_context)},
          {"hard_context_limit", llm.hard_context_limit},
          {"source", llm.source},
          {"model_type", TextOrNull(llm.model_type)},
          {"vocabulary", llm.vocabulary},
          {"tied_embeddings", llm.tied_embeddings},
          {"stored_weights", StoredJson(llm.stored)}};
}

Json LayersJson(const Llm& llm) {
  const std::vector<LayerParams> params = ParamsByLayer(llm);
  Json json = Json::array();
  for (size_t i = 0; i < llm.layers.size(); ++i) {
    const Layer& layer = llm.layers[i];
    Json entry = {{"layer", i},
                  {"stack", layer.stack == Stack::kEncoder ? "encoder" : "decoder"},
                  {"kind", layer.Kind()}};
    if (layer.self.kind != AttentionKind::kNone) {
      AddWidths(layer.self, &entry);
      entry["position"] = PositionJson(layer.self.position);
    }
    if (layer.cross.kind != AttentionKind::kNone) {
      Json cross = {{"source_tokens", OrNull(layer.cross.source_tokens)}};
      AddWidths(layer.cross, &cross);
      entry["cross"] = cross;
    }
    if (!layer.recurrent.empty()) {
      entry["recurrent"] = {{"form", layer.recurrent.form},
                            {"state_elements", layer.recurrent.state_elements},
                            {"conv_elements", layer.recurrent.conv_elements}};
    }
    entry["ffn"] = FfnJson(layer.ffn);
    entry["params_total"] = params[i].total;
    entry["params_active"] = params[i].active;
    json.push_back(entry);
  }
  return json;
}

Json KvJson(const KvFormats& formats, const KvLayout& kv, const KvAllocation& allocation) {
  const auto fields = [](const KvLayer& layer) {
    return Json{{"bytes_per_token", layer.bytes_per_token},
                {"bytes_per_token_beyond_window", layer.bytes_per_token_beyond_window},
                {"bytes_at_context", layer.bytes_at_context},
                {"constant_bytes", layer.constant_bytes},
                {"state_bytes", layer.state_bytes},
                {"cross_bytes", layer.cross_bytes},
                {"allocated_bytes", layer.allocated_bytes},
                {"read_bytes_per_step", layer.read_bytes_per_step},
                {"intercept_bytes", layer.intercept_bytes},
                {"elements_per_token", layer.elements_per_token},
                {"expanded_elements_per_token", layer.expanded_elements_per_token},
                {"state_elements", layer.state_elements},
                {"cross_elements", layer.cross_elements}};
  };
  Json json = fields(kv.total);
  json["format"] = formats.Name();
  json["allocation"] = {{"pad_tokens", allocation.pad_tokens},
                        {"windows_kept_full", allocation.windows_kept_full},
                        {"latent_expanded", allocation.latent_expanded}};
  json["layers"] = Json::array();
  for (const KvLayer& layer : kv.layers) {
    Json entry = {{"layer", layer.layer}, {"kind", layer.kind}};
    if (layer.shares_kv_with >= 0) entry["shares_kv_with"] = layer.shares_kv_with;
    entry.update(fields(layer));
    json["layers"].push_back(entry);
  }
  return json;
}

std::vector<LayerParams> ParamsByLayer(const Llm& llm) {
  std::vector<LayerParams> params(llm.layers.size());
  for (const Matrix& matrix : llm.matrices) {
    if (matrix.layer < 0) continue;
    params[static_cast<size_t>(matrix.layer)].total += matrix.Elements();
    params[static_cast<size_t>(matrix.layer)].active += matrix.ActiveElements();
  }
  for (const Vector& vector : llm.vectors) {
    if (vector.layer < 0) continue;
    params[static_cast<size_t>(vector.layer)].total += vector.elements;
    params[static_cast<size_t>(vector.layer)].active += vector.ActiveElements();
  }
  return params;
}

}  // namespace ropeline
