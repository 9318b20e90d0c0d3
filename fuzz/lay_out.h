// What a fuzz target does with a model that was read: everything that prediction takes from it alone.
#ifndef ROPELINE_FUZZ_LAY_OUT_H_
#define ROPELINE_FUZZ_LAY_OUT_H_

#include "model/bad_input.h"
#include "model/kv_layout.h"
#include "model/llm.h"
#include "model/weight_format.h"

namespace ropeline {

inline void LayOut(const Llm& llm) {
  const Where where{"fuzz", ""};
  LayOutWeights(llm, ChooseWeightMix(llm, "", where));
  LayOutWeights(llm, FindWeightMix("q4_k_m", where));
  LayOutKv(llm, FindKvFormat("f16", where), 32768);
  llm.ParamsActive();
  llm.MainPosition();
}

}  // namespace ropeline

#endif  // ROPELINE_FUZZ_LAY_OUT_H_
