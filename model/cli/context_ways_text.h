// `predict --ways` for people: what long context costs here, way by way, and what a rotary cache's positions
// cost to keep.
#ifndef ROPELINE_MODEL_CLI_CONTEXT_WAYS_TEXT_H_
#define ROPELINE_MODEL_CLI_CONTEXT_WAYS_TEXT_H_

#include <string>
#include <vector>

#include "model/context_ways.h"
#include "model/rotation_upkeep.h"

namespace ropeline {

std::string ContextWaysText(const PredictRequest& request, const std::vector<ContextWay>& ways,
                            const RotationUpkeep& upkeep);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_CONTEXT_WAYS_TEXT_H_
