// What is odd about a curve: reasons to widen one's doubt, each with its figures.
#ifndef ROPELINE_MODEL_ENGINE_CURVE_FLAGS_H_
#define ROPELINE_MODEL_ENGINE_CURVE_FLAGS_H_

#include <vector>

#include "model/engine/curve.h"
#include "model/engine/engine.h"

namespace ropeline {

std::vector<EngineFlag> FlagsOf(const CurveFit& fit);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_CURVE_FLAGS_H_
