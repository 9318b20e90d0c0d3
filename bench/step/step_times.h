// What the time of a step went to, by the terms that the model predicts (model/limit_terms.h).
#ifndef ROPELINE_BENCH_STEP_STEP_TIMES_H_
#define ROPELINE_BENCH_STEP_STEP_TIMES_H_

#include <array>
#include <chrono>
#include <cstddef>

namespace ropeline {

enum class StepTerm {
  kEmbedding,         // rows of the embedding, numbers again
  kWeights,           // products of the layers' matrices, activations made ready for them included
  kPositionEncoding,  // rotation; rows added at the input. A score bias is inside attention
  kCacheAppend,
  kAttention,
  kSmallOperations,  // norms, activation, residuals, biases
  kLmHead,           // the last product and the choice of a token
  kSynchronisation,  // waiting for other threads
};
inline constexpr std::array kAllStepTerms = {StepTerm::kEmbedding,        StepTerm::kWeights,
                                             StepTerm::kPositionEncoding, StepTerm::kCacheAppend,
                                             StepTerm::kAttention,        StepTerm::kSmallOperations,
                                             StepTerm::kLmHead,           StepTerm::kSynchronisation};

// "embedding", "weights" (of a prefill: "linear"), "position_encoding", "cache_append", "attention",
// "small_operations", "lm_head", "synchronisation".
const char* StepTermName(StepTerm term, bool prefill);

// A thread's clock: time since the last call goes to the term named.
class StepTimes {
 public:
  void Start() { last_ = Clock::now(); }
  void Charge(StepTerm term) {
    const Clock::time_point now = Clock::now();
    spent_[static_cast<size_t>(term)] += now - last_;
    last_ = now;
  }
  double Seconds(StepTerm term) const {
    return std::chrono::duration<double>(spent_[static_cast<size_t>(term)]).count();
  }
  double TotalSeconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_{};
  std::array<Clock::duration, kAllStepTerms.size()> spent_{};
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_TIMES_H_
