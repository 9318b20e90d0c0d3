// The weight formats of llama.cpp's files by name. A format is a mix: which block format each tensor takes
// depends on its role, its layer and its width. The rules are those of llama.cpp's quantiser without an
// importance matrix (llama_tensor_get_type in src/llama-quant.cpp, February 2025).
#ifndef ROPELINE_MODEL_WEIGHT_MIX_H_
#define ROPELINE_MODEL_WEIGHT_MIX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/block_format.h"
#include "model/llm.h"

namespace ropeline {

enum class Mix {
  kF32,
  kF16,
  kBf16,
  kQ80,
  kQ6K,
  kQ5KM,
  kQ5KS,
  kQ51,
  kQ50,
  kQ4KM,
  kQ4KS,
  kIq4Nl,
  kIq4Xs,
  kQ41,
  kQ40,
  kQ3KL,
  kQ3KM,
  kQ3KS,
  kQ2K,
  kStored,  // what the model's own files hold
};

struct WeightMix {
  const char* name;
  Mix mix;
  double plain_bits;        // bits per weight where only a parameter count is known
  const BlockFormat* base;  // of most tensors; nullptr for kStored
};

std::vector<std::string> WeightMixNames();

// Throws BadInput, which lists the formats.
const WeightMix& FindWeightMix(std::string_view name, const Where& where);

// The block format of each of llm.matrices, in their order. `mix` is not kStored.
//   - norms and biases stay f32, and so do learned positions, routers and convolutions; T5's relative bias
//     stays f16
//   - the output matrix, or the embedding where the two are tied, is q6_K in all mixes but q8_0 and the plain
//     ones
//   - attn_v and ffn_down get more bits, in some mixes in some layers only; so do attn_output and a fused QKV
//   - with 8 experts K and V are q8_0 and attn_output is q5_K; Falcon gets fewer bits, a model of 80 layers
//   with
//     grouped queries a q5_K attn_v
//   - a row that is no multiple of the block falls back: iq4_xs, q2_K and q3_K → iq4_nl, q4_K → q5_0,
//     q5_K → q5_1, q6_K → q8_0, and where 32 does not divide it either, f16
std::vector<const BlockFormat*> MatrixFormats(const Llm& llm, const WeightMix& mix);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WEIGHT_MIX_H_
