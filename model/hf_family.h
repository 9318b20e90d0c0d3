// One row per model family: what its configuration class defaults to, and how its layers are built. A new
// family is a row in one of the hf_families_*.cc files and a row in hf_families_test.cc.
#ifndef ROPELINE_MODEL_HF_FAMILY_H_
#define ROPELINE_MODEL_HF_FAMILY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "model/blueprint.h"
#include "model/hf_config.h"

namespace ropeline {

enum class NormForm { kNone, kWeight, kWeightAndBias };

// Norms on Q and K: over one head's width, over all heads' widths together, or a weight per head and width.
enum class QkNorm { kNone, kHead, kWidth };

// Which layers see a window, where the file has no list of layer types.
enum class WindowRule {
  kIgnore,    // the key has no effect
  kAll,       // every layer
  kQwen,      // with use_sliding_window: layers from max_window_layers on
  kEven,      // layers 0, 2, 4 …
  kAllButNth  // all but every n-th, n = sliding_window_pattern
};

inline constexpr HfFlag kHfYes{"", true};
inline constexpr HfFlag kHfNo{"", false};
inline constexpr HfFlag kHfTied{"tie_word_embeddings",
                                true};  // where the configuration class ties by default

struct Recipe {
  NormForm norm = NormForm::kWeight;
  HfFlag norm_bias{};  // adds the bias to kWeight
  uint64_t norms = 2;  // per layer
  bool final_norm = true;
  bool embedding_norm = false;

  bool fused_qkv = false;
  HfFlag qkv_bias{"attention_bias", false};
  HfFlag o_bias{"attention_bias", false};
  QkNorm qk_norm = QkNorm::kNone;
  HfFlag has_qk_norm{"", true};

  bool gated = true;
  HfFlag ffn_bias{"mlp_bias", false};
  uint64_t ffn_times = 0;  // width in d_model where no key gives it; 0: the key is needed

  HfFlag tied{"tie_word_embeddings", false};
  HfFlag head_bias{};

  const char* encoding = "rope_half";  // registry name; "" none
  double theta = 10000;
  double rotary_share = 1;  // of a head
  WindowRule windows = WindowRule::kIgnore;
  bool attention = true;  // false: no layer has any, and the head keys may be absent
  bool shared_router = false;
};

struct HfFamily {
  const char* model_types = "";    // separated by blanks; the first is the name
  const char* architectures = "";  // prefixes of architectures[0], where model_type is absent or another's
  const char* defaults = "{}";
  Recipe recipe{};
  // What the recipe cannot say. `model` is filled by then.
  void (*adjust)(const HfConfig& config, Blueprint* model) = nullptr;

  std::string Name() const {
    const std::string_view types = model_types;
    return std::string(types.substr(0, types.find(' ')));
  }
};

// nullptr where unknown. The type in the text part counts first, then the whole file's, then architectures.
const HfFamily* FindHfFamily(const nlohmann::json& root, const std::string& file);

std::span<const HfFamily> LlamaFamilies();
std::span<const HfFamily> WindowFamilies();
std::span<const HfFamily> GptFamilies();
std::span<const HfFamily> ExpertFamilies();
std::span<const HfFamily> LatentFamilies();
std::span<const HfFamily> HybridFamilies();
std::span<const HfFamily> EncoderFamilies();

uint64_t NormElements(const Recipe& recipe, const HfConfig& config, uint64_t d_model);

// What more than one family's adjust needs.

// Layers with no position where `rotates` says so; they keep their attention.
void DropPositions(Blueprint* model, const std::function<bool(size_t layer)>& drops);
// The last num_kv_shared_layers layers read K and V of the last layer before them that is of their kind;
// their own K and V matrices are in the published files, unused.
void ShareLastLayers(const HfConfig& config, Blueprint* model);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_FAMILY_H_
