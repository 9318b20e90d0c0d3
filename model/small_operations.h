// What a pass does between its products, all in f32: norms, the activation of a feed-forward layer, residual
// adds. Together about a hundredth of a pass, so that one form stands for all: a norm before whatever mixes
// tokens, before cross attention, before the feed-forward layer and before the LM head (models that norm
// after them, too, or run both side by side, do one more or less); a sum into the residual stream after each.
//
// Rows, whose rate per element is taken from the nearest n:
//   linear/rms_norm/f32/<target>/n:N/d:D/cache:hot/threads:T   n 1 at one thread only: each thread of a
//   decode
//                                                              step norms the whole vector for itself
//   linear/swiglu/f32/<target>/n:N/d:D/cache:hot/threads:T     an activation without gate: by bytes
//   linear/residual/f32/<target>/n:N/d:D/cache:hot/threads:T
#ifndef ROPELINE_MODEL_SMALL_OPERATIONS_H_
#define ROPELINE_MODEL_SMALL_OPERATIONS_H_

#include <optional>
#include <vector>

#include "kernels/cost.h"
#include "model/kernel_rates.h"
#include "model/llm.h"
#include "model/machine.h"

namespace ropeline {

// Elements of one token in a pass over a stack.
struct SmallElements {
  double normed = 0;
  double gated = 0;      // of the activation, with a gate beside it
  double activated = 0;  // without
  double added = 0;
};
SmallElements SmallElementsOf(const Llm& llm, Stack stack);

// By the costs of kernels/rms_norm.h, swiglu.h and residual.h; weights of the norms are those of the model's.
Cost SmallCost(const SmallElements& elements, double tokens);

class SmallRates {
 public:
  SmallRates(const Machine& machine, int threads);

  // Of `tokens` at a time; nothing where one of the three was not measured.
  std::optional<KernelTime> Time(const SmallElements& elements, double tokens) const;

 private:
  struct Point {
    double n = 1, ns_per_element = 0;
    std::string row;
  };
  std::vector<Point> norm_, gate_, add_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_SMALL_OPERATIONS_H_
