#include "model/thread_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ropeline {
namespace {

// Of times that are that close the machine's noise decides: fewer threads leave it free for others.
constexpr double kAlike = 1.02;

struct Best {
  int threads = 1;
  double loss = 0;
};

Best BestOf(const std::vector<ThreadChoice>& choices, double ThreadChoice::*time) {
  const auto less = [&](const ThreadChoice& a, const ThreadChoice& b) { return a.*time < b.*time; };
  const double fastest = (*std::min_element(choices.begin(), choices.end(), less)).*time;
  const double slowest = (*std::max_element(choices.begin(), choices.end(), less)).*time;
  const auto first = std::find_if(choices.begin(), choices.end(), [&](const ThreadChoice& choice) {
    return choice.*time <= kAlike * fastest;
  });
  return {first->threads, slowest / fastest - 1};
}

}  // namespace

ThreadAdvice AdviseThreads(PredictRequest request) {
  ThreadAdvice advice;
  std::vector<ThreadChoice> limits, kernels;
  for (const int threads : request.machine->Threads()) {
    request.threads = threads;
    const Prediction p = Predict(request);
    limits.push_back({threads, p.decode.limit.value->ms_per_token, p.prefill.limit.value->seconds});
    if (!p.decode.kernels.value || !p.prefill.kernels.value) continue;
    kernels.push_back({threads, p.decode.kernels.value->ms_per_token, p.prefill.kernels.value->seconds});
  }
  advice.level = kernels.size() == limits.size() && !kernels.empty() ? "kernels" : "limit";
  advice.choices = advice.level == "kernels" ? kernels : limits;
  if (advice.choices.empty()) return advice;
  const Best decode = BestOf(advice.choices, &ThreadChoice::decode_ms);
  const Best prefill = BestOf(advice.choices, &ThreadChoice::prefill_seconds);
  advice.decode_threads = decode.threads;
  advice.decode_loss = decode.loss;
  advice.prefill_threads = prefill.threads;
  advice.prefill_loss = prefill.loss;
  return advice;
}

nlohmann::ordered_json ThreadAdviceJson(const ThreadAdvice& advice) {
  nlohmann::ordered_json json{{"level", advice.level}};
  json["choices"] = nlohmann::ordered_json::array();
  for (const ThreadChoice& choice : advice.choices) {
    json["choices"].push_back({{"threads", choice.threads},
                               {"decode_ms", choice.decode_ms},
                               {"prefill_seconds", choice.prefill_seconds}});
  }
  if (advice.choices.size() > 1) {
    json["decode"] = {{"threads", advice.decode_threads}, {"loss_of_the_worst", advice.decode_loss}};
    json["prefill"] = {{"threads", advice.prefill_threads}, {"loss_of_the_worst", advice.prefill_loss}};
  }
  return json;
}

std::string ThreadAdviceText(const ThreadAdvice& advice) {
  if (advice.choices.size() < 2) return "";
  const auto threads = [](int count) { return fmt::format("{} thread{}", count, count == 1 ? "" : "s"); };
  return fmt::format(
      "Threads (level {}): {} for decode, {} for prefill; the worst of the counts measured here costs "
      "{:.0f} % more time in decode and {:.0f} % in prefill.",
      advice.level, threads(advice.decode_threads), threads(advice.prefill_threads), 100 * advice.decode_loss,
      100 * advice.prefill_loss);
}

}  // namespace ropeline
