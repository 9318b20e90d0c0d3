// Presets that are kept as their publisher's config.json: the keys that shape them, for the reader of
// read_hf_config.h.
#ifndef ROPELINE_MODEL_PRESET_CONFIGS_H_
#define ROPELINE_MODEL_PRESET_CONFIGS_H_

#include <span>

namespace ropeline {

struct PresetConfig {
  const char* name;
  const char* source;
  const char* config;  // JSON
};

std::span<const PresetConfig> PresetConfigs();

}  // namespace ropeline

#endif  // ROPELINE_MODEL_PRESET_CONFIGS_H_
