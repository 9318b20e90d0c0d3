// The KV caches of an executed step, one for each layer, filled to a depth without a prefill.
#ifndef ROPELINE_BENCH_STEP_STEP_CACHES_H_
#define ROPELINE_BENCH_STEP_STEP_CACHES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/step/step_plan.h"
#include "kernels/kv_cache.h"

namespace ropeline {

class StepCaches {
 public:
  // Takes the memory of `capacity` tokens and touches none of it. Throws std::bad_alloc.
  StepCaches(const StepPlan& plan, KvFormat format, size_t capacity);

  KvFormat format() const { return format_; }
  size_t capacity() const { return capacity_; }
  KvCache& Layer(size_t i) { return *layers_[i]; }
  const KvCache& Layer(size_t i) const { return *layers_[i]; }

  // Writes tokens [0, n rounded up to 32) of the KV heads that belong to part `part` of `parts`: 256 distinct
  // ones of numbers in [−1, 1), again and again. Leaves the numbers of tokens to SetTokens.
  void Fill(size_t part, size_t parts, size_t n);
  // In all layers. Not while another thread reads or writes them.
  void SetTokens(size_t n);
  // After Fill: as SetTokens, with an unfinished last block where the format has such (kivi4).
  void FilledTo(size_t n);

 private:
  KvFormat format_;
  size_t capacity_;
  std::vector<std::unique_ptr<KvCache>> layers_;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_STEP_STEP_CACHES_H_
