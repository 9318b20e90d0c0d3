// JSON of a model and of what it keeps, as `predict` and `inspect` print it. Keys are stable: add, never
// rename.
#ifndef ROPELINE_MODEL_MODEL_JSON_H_
#define ROPELINE_MODEL_MODEL_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "model/kv_layout.h"
#include "model/llm.h"

namespace ropeline {

nlohmann::ordered_json PositionJson(const Position& position);  // null where there is none
nlohmann::ordered_json ModelJson(const Llm& llm);
// One entry per layer: kinds, widths, feed-forward, parameters.
nlohmann::ordered_json LayersJson(const Llm& llm);
nlohmann::ordered_json KvJson(const KvFormats& formats, const KvLayout& kv, const KvAllocation& allocation);

// Parameters of one layer: its matrices and vectors.
struct LayerParams {
  uint64_t total = 0, active = 0;
};
std::vector<LayerParams> ParamsByLayer(const Llm& llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_MODEL_JSON_H_
