// A prediction for people: the answer first, then how it comes about.
#ifndef ROPELINE_MODEL_CLI_PREDICT_TEXT_H_
#define ROPELINE_MODEL_CLI_PREDICT_TEXT_H_

#include <string>
#include <vector>

#include "model/predict.h"

namespace ropeline {

std::string PredictionText(const PredictRequest& request, const Prediction& prediction,
                           const std::vector<CurvePoint>& curve);

// "name, AVX3_DL, 2 threads, measured 2025-01-01": the machine as it stands under "Inputs"; shared with
// compare.
std::string MachineText(const Machine& machine, int threads);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_PREDICT_TEXT_H_
