// One row per architecture of llama.cpp: what it does that its keys do not say (src/llama-model.cpp and
// src/models/*.cpp, 2023 to 2026). A new architecture is a row here and a row in read_gguf_test.cc.
#ifndef ROPELINE_MODEL_GGUF_ARCH_H_
#define ROPELINE_MODEL_GGUF_ARCH_H_

#include <cstdint>
#include <string_view>

#include "model/blueprint.h"
#include "model/gguf_keys.h"

namespace ropeline {

// Which layers turn by position.
enum class TurningLayers { kAll, kWindowsOnly, kNotEveryFourth };

// Which layers keep a state instead of keys and values.
enum class StateLayers {
  kNone,
  kAll,         // and have no attention
  kBeside,      // all, beside their attention
  kNoKvHeads,   // those of 0 KV heads
  kNoKvNorFfn,  // those of 0 KV heads and no feed-forward
  kAllButNth    // n = full_attention_interval, or 4; or the list attention.recurrent_layers
};
enum class StateForm { kNone, kMamba, kMamba2, kDeltaNet, kShortConv, kKimiDelta, kRwkv };

struct GgufArch {
  const char* names = "";              // separated by blanks
  const char* model_type = "";         // Hugging Face family whose norms and biases it has
  const char* encoding = "rope_half";  // registry name; "" none

  // Windows. With a period, all but every period-th layer see one, where the file does not list them;
  // without, and with a window in the file, all do.
  uint64_t window_period = 0;
  uint64_t window = 0;      // where the file has none; 0: then there are no windows
  bool full_first = false;  // the period's first layer is the full one, not its last
  bool chunked = false;
  double window_base = 0;        // of the rotation in window layers; 0: the other layers'
  bool window_unscaled = false;  // the context's extension is for full layers only
  TurningLayers turning = TurningLayers::kAll;

  StateLayers states = StateLayers::kNone;
  StateForm form = StateForm::kNone;

  bool causal = true;   // where attention.causal is absent
  bool latent = false;  // attention.kv_lora_rank counts
  void (*adjust)(const GgufKeys& keys, Blueprint* model) = nullptr;
};

const GgufArch* FindGgufArch(std::string_view name);  // nullptr where unknown

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_ARCH_H_
