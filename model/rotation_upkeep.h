// What it costs that a rotary cache holds positions: when tokens go, and when the scaling factor changes. All
// layers, one sequence, for a model's context and threads, from rows of families attention and kv_cache.
// Empty for a model without rotation and where the rows were not measured.
#ifndef ROPELINE_MODEL_ROTATION_UPKEEP_H_
#define ROPELINE_MODEL_ROTATION_UPKEEP_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/predict.h"

namespace ropeline {

inline constexpr size_t kEvictGap = 32;  // tokens that go at once: one block of the cache

// Keys turned back when the tokens behind a gap close up, against keys that stay unrotated and are turned in
// every step. After `steps` decode steps between two evictions, turning at the eviction is the cheaper way.
struct TurnBreakEven {
  std::string format;
  double turning_ms = 0;   // more in every step: attention/decode_unrotated − attention/decode, at one n
  double evicting_ms = 0;  // kv_cache/evict/…/gap:32, keys turned
  // kv_cache/evict_position_free: what an unrotated cache pays at the eviction. Nothing where not measured;
  // then it counts as free, and `steps` is the most that it can be.
  std::optional<double> moving_ms;
  std::optional<double> steps;  // (evicting − moving) ÷ turning; nothing: turning costs nothing in a step
  std::vector<std::string> rows;  // decode_unrotated, decode, evict, evict_position_free
};

// Every key turned from one schedule to another (kv_cache/reschedule), against computing the cache again.
// Only the first layer's keys are then what prefill gives (kernels/kv_reschedule.h).
struct Reschedule {
  std::string format;
  double ms = 0;
  std::string row;
  double prefill_limit_seconds = 0;
  std::optional<double> prefill_kernels_seconds;
};

struct RotationUpkeep {
  std::vector<TurnBreakEven> turns;
  std::vector<Reschedule> reschedules;
  bool empty() const { return turns.empty() && reschedules.empty(); }
};

// Formats in the order of KvFormatNames. A row of the nearest n is scaled by the bytes that its kernel
// counts.
RotationUpkeep RotationUpkeepOf(const PredictRequest& request);

nlohmann::ordered_json RotationUpkeepJson(const RotationUpkeep& upkeep);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ROTATION_UPKEEP_H_
