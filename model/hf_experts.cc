#include "model/hf_experts.h"

#include <algorithm>

namespace ropeline {
namespace {

constexpr HfKey kExpertPeriod{"expert_layer_period", 1, kMostLayers};
constexpr HfKey kExpertOffset{"expert_layer_offset", 0, kMostLayers};
constexpr HfKey kExpertList{"moe_layers moe_layers_enum", 0, kMostLayers};
constexpr HfKey kExpertStart{"moe_layer_start_index", 0, kMostLayers};
constexpr HfKey kExpertEnd{"moe_layer_end_index", 0, kMostLayers};
constexpr HfKey kExpertInterval{"moe_layer_interval", 1, kMostLayers};

// A list of layers: JSON numbers, or "3,4,5" in a string.
std::vector<uint64_t> LayerList(const JsonView& list, const HfKey& key) {
  std::vector<uint64_t> layers;
  if (list.is_array()) {
    for (const JsonView& item : list.Items()) layers.push_back(CountIn(item, key));
    return layers;
  }
  uint64_t number = 0;
  bool digits = false;
  for (const char c : list.String() + ",") {
    if (c >= '0' && c <= '9') {
      number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(c - '0'), kMostLayers);
      digits = true;
    } else if (digits) {
      layers.push_back(number);
      number = 0;
      digits = false;
    }
  }
  return layers;
}

// Hunyuan gives one figure per layer; all are equal in published files.
std::optional<uint64_t> CountOrFirst(const HfConfig& config, const HfKey& key) {
  const auto found = config.Find(key);
  if (!found) return std::nullopt;
  if (!found->is_array()) return CountIn(*found, key);
  const auto items = found->Items();
  if (items.empty()) return std::nullopt;
  return CountIn(items.front(), key);
}

}  // namespace

std::vector<bool> ExpertLayers(const HfConfig& config, size_t n_layers) {
  std::vector<bool> layers(n_layers, true);
  const auto keep = [&](const auto& rule) {
    for (size_t i = 0; i < n_layers; ++i) layers[i] = layers[i] && rule(i);
  };
  if (const auto list = config.Find(kExpertList)) {
    const std::vector<uint64_t> chosen = LayerList(*list, kExpertList);
    keep([&](size_t i) { return std::find(chosen.begin(), chosen.end(), i) != chosen.end(); });
    return layers;
  }
  if (const auto every = config.Find(kHfMoeEvery); every && every->is_array()) {
    const auto flags = config.FindCounts(HfKey{kHfMoeEvery.names, 0, 1}, n_layers);
    keep([&](size_t i) { return (*flags)[i] != 0; });
  } else if (const uint64_t step = config.CountOr(kHfMoeEvery, 1); step > 1) {
    keep([&](size_t i) { return i % step == 0; });
  }
  const uint64_t dense = config.CountOr(kHfFirstDense, 0);
  keep([&](size_t i) { return i >= dense; });
  const uint64_t step = config.CountOr(kHfSparseStep, 1);
  keep([&](size_t i) { return step > 0 && (i + 1) % step == 0; });
  if (const auto list = config.Find(kHfDenseLayers)) {
    const std::vector<uint64_t> excluded = LayerList(*list, HfKey{kHfDenseLayers.names, 0, kMostLayers});
    keep([&](size_t i) { return std::find(excluded.begin(), excluded.end(), i) == excluded.end(); });
  }
  if (const auto period = config.FindCount(kExpertPeriod)) {
    const uint64_t offset = config.CountOr(kExpertOffset, 0);
    keep([&](size_t i) { return i % *period == offset % *period; });
  }
  if (const auto interval = config.FindCount(kExpertInterval)) {  // ERNIE 4.5
    const uint64_t start = config.CountOr(kExpertStart, 0);
    const auto end = config.Find(kExpertEnd);
    const uint64_t last = end && !end->is_array() ? config.CountOr(kExpertEnd, n_layers - 1) : n_layers - 1;
    keep([&](size_t i) { return (i + 1) % *interval == 0 && i >= start && i <= last; });
  }
  return layers;
}

void ReadExperts(const HfConfig& config, uint64_t d_ffn, Blueprint* model) {
  const uint64_t n_experts = CountOrFirst(config, kHfExperts).value_or(0);
  if (n_experts <= 1) return;
  const auto n_active = CountOrFirst(config, kHfTopK);
  if (!n_active) config.Missing(kHfTopK, "how many experts a token takes");
  if (*n_active > n_experts) {
    throw BadInput(config.Find(kHfTopK)->where(),
                   "is " + std::to_string(*n_active) + " of " + std::to_string(n_experts) + " experts",
                   "at most that many");
  }
  FeedForward moe{.kind = FfnKind::kMoe, .n_experts = n_experts, .n_active = *n_active};
  const auto width = CountOrFirst(config, kHfExpertWidth);
  moe.expert_width = width.value_or(d_ffn);
  if (moe.expert_width == 0) config.Missing(kHfExpertWidth, "the width of an expert");
  moe.n_shared = CountOrFirst(config, kHfSharedExperts).value_or(0);
  moe.shared_width = moe.n_shared * moe.expert_width;
  if (const auto shared = config.FindCount(kHfSharedWidth)) {
    moe.shared_width = *shared;
    moe.n_shared = *shared > 0 ? std::max<uint64_t>(moe.n_shared, 1) : 0;
  }
  const std::vector<bool> layers = ExpertLayers(config, model->layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] && model->layers[i].layer.ffn.kind != FfnKind::kNone) model->layers[i].layer.ffn = moe;
  }
}

}  // namespace ropeline
