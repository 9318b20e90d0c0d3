// What an attention kernel adds to its scores, or hides, while they are in registers or in the first-level
// cache.
#ifndef ROPELINE_KERNELS_ATTENTION_BIAS_H_
#define ROPELINE_KERNELS_ATTENTION_BIAS_H_

#include <cstddef>

namespace ropeline {

enum class BiasKind {
  kNone,
  kSlope,       // −slope_h · (q − k). ALiBi: Press et al. 2022, "Train short, test long", section 3
  kByDistance,  // a row of biases by distance, T5's buckets among them: Raffel et al. 2020, section 2.1
  kSoftCap,     // cap · tanh(score / cap): Gemma Team 2024, "Gemma 2", section 2
};

const char* BiasKindName(BiasKind kind);  // "none", "alibi", "t5", "soft_cap"

struct AttentionBias {
  BiasKind kind = BiasKind::kNone;
  const float* slopes = nullptr;  // kSlope [n_heads]
  // kByDistance: head h's bias of query q and key k is by_distance[h·stride + origin + k − q]; 16 floats
  // before and after those that are used may be read.
  const float* by_distance = nullptr;
  size_t stride = 0;
  size_t origin = 0;
  float cap = 0;  // kSoftCap, > 0

  // Keys that a query sees: those with q − k < window (0: all), and the first `sinks` ones whatever their
  // distance. Xiao et al. 2024, "Efficient streaming language models with attention sinks", section 3.2.
  size_t window = 0;
  size_t sinks = 0;
  // Not nullptr [n_heads]: a logit that takes its share of the softmax and has no value (OpenAI 2025,
  // "gpt-oss model card", section 2.2).
  const float* sink_logits = nullptr;
};

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_ATTENTION_BIAS_H_
