// Level `engine` of a prediction: what a real engine will take, from its profile. Of the model that was
// calibrated by its curve; of any other by the profile's rates, with a range that says so.
#ifndef ROPELINE_MODEL_ENGINE_ENGINE_PREDICT_H_
#define ROPELINE_MODEL_ENGINE_ENGINE_PREDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/engine/engine.h"
#include "model/predict.h"
#include "model/weight_format.h"

namespace ropeline {

// The profile's configuration nearest to what is asked: the model first, then threads, then KV types.
const EngineConfig& NearestConfig(const Engine& engine, const PredictRequest& request);

// The profile's CPU and the machine's are both known and differ: its times are no share of these limits.
// request.engine is not nullptr.
bool OfAnotherMachine(const PredictRequest& request);

// Seconds per token of a step at that depth, and of a prompt of that many tokens from an empty cache in
// chunks (0: 512, llama.cpp's -ub), whose errors are taken as one.
Estimate CurveDecodeSeconds(const Curve& curve, uint64_t context);
Estimate CurvePrefillSeconds(const Curve& curve, uint64_t context, uint64_t chunk);

// request.engine nullptr: missing an engine profile.
Level<DecodeLevel> EngineDecode(const PredictRequest& request, const WeightLayout& weights, uint64_t context);
Level<PrefillLevel> EnginePrefill(const PredictRequest& request, const WeightLayout& weights,
                                  uint64_t context);

// Where the profile is not of what is asked, and its own flags.
std::vector<std::string> EngineWarnings(const PredictRequest& request);

// How the engine stands to the limit and to this suite's kernels, a sentence per phase; "" without a profile.
std::string EngineVerdict(const PredictRequest& request, const Prediction& prediction);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ENGINE_PREDICT_H_
