// How many threads to give decode and prefill: the measured counts, each predicted.
#ifndef ROPELINE_MODEL_THREAD_ADVICE_H_
#define ROPELINE_MODEL_THREAD_ADVICE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/predict.h"

namespace ropeline {

struct ThreadChoice {
  int threads = 1;
  double decode_ms = 0;        // per token
  double prefill_seconds = 0;  // of the whole prompt
};

struct ThreadAdvice {
  // Level of both figures: `kernels` where the machine has its rows at every count, else `limit`.
  std::string level;
  std::vector<ThreadChoice> choices;            // ascending threads; fewer than two where there is no choice
  int decode_threads = 1, prefill_threads = 1;  // the fastest; of two within 2 % the fewer
  // Time of the worst choice ÷ time of the best − 1.
  double decode_loss = 0, prefill_loss = 0;
};

// `request.threads` has no say. Two typed figures hold for any count: no choices.
ThreadAdvice AdviseThreads(PredictRequest request);

nlohmann::ordered_json ThreadAdviceJson(const ThreadAdvice& advice);

// One sentence; "" where there is no choice.
std::string ThreadAdviceText(const ThreadAdvice& advice);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_THREAD_ADVICE_H_
