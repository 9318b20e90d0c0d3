// Attention by ggml_flash_attn_ext and by our kernels on the same numbers, and what each should give: double
// references that know the roundings each one means to make.
#ifndef ROPELINE_BENCH_PEER_CROSS_CHECK_ATTENTION_H_
#define ROPELINE_BENCH_PEER_CROSS_CHECK_ATTENTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/peer/cross_check.h"
#include "bench/peer/ggml_session.h"
#include "kernels/attention_bias.h"
#include "kernels/attention_reference.h"
#include "kernels/kv_cache.h"

namespace ropeline {

struct AttentionCase {
  KvFormat format = KvFormat::kF32;  // f32, f16, q8_0 or q4_0
  size_t n = 0, n_q = 1;             // the queries are the last n_q of n tokens
  size_t n_heads = 0, n_kv_heads = 0, d_head = 0;
  bool alibi = false;
  float soft_cap = 0;
  size_t window = 0, first_kept = 0;  // AttentionBias::window and sinks
  bool sink_logits = false;           // one logit for each head that takes its share and has no value

  size_t Group() const { return n_heads / n_kv_heads; }
  std::string Text() const;
};

class AttentionInputs {
 public:
  explicit AttentionInputs(const AttentionCase& c);

  const AttentionCase& Case() const { return case_; }
  const AttentionBias& Bias() const { return bias_; }
  float Scale() const { return scale_; }
  const float* Query(size_t t, size_t head) const {
    return q.data() + (t * case_.n_heads + head) * case_.d_head;
  }

  std::vector<float> q, k, v;  // [n_q, n_heads, d], [n, n_kv_heads, d]
  std::vector<float> slopes, logits;
  KvCache cache;  // ours, with k and v in it

 private:
  AttentionCase case_;
  AttentionBias bias_;
  float scale_;
};

// [n_q, n_heads, d_head]. Ours: AttendPrefill, for one query Attend.
std::vector<float> AttentionByUs(const AttentionInputs& in);

struct GgmlResult {
  std::vector<float> out;
  // ggml's cache as numbers, in double: as ReferenceCache has ours.
  std::vector<double> keys, values;  // [n_kv_heads, n, d]
};
// Nothing where the library lacks what the case asks for.
std::optional<GgmlResult> AttentionByGgml(const std::shared_ptr<const GgmlLibrary>& library,
                                          const AttentionInputs& in);

// How ggml's CPU code computes one row (ggml_compute_forward_flash_attn_ext_f16 in ggml-cpu/ops.cpp).
enum class GgmlRounding {
  kNone,               // f32 keys; f16 keys of prompts in tiles of queries: everything in f32
  kHalf,               // f16: q is rounded to f16, and so is the sum of weighted values at every key
  kQueryInWholeParts,  // q8_0, q4_0: q is rounded to q8_0
};
std::vector<GgmlRounding> PossibleRoundings(KvFormat format);

// Of f32 sums of scores, weights and values, each within [−1, 1): a few times
// what was seen.
inline constexpr double kAllowedOfSums = 2e-6;

struct ExpectedRow {
  std::vector<double> out;      // [d_head]
  std::vector<double> allowed;  // how far ggml's may be from it
};
ExpectedRow ExpectedOfGgml(const AttentionInputs& in, const GgmlResult& result, GgmlRounding rounding,
                           size_t t, size_t head);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_CROSS_CHECK_ATTENTION_H_
