// Bytes of a model's weights in a file format of llama.cpp. A format is a mix: which block format each tensor
// takes depends on its role, its layer and its width. The rules are those of llama.cpp's quantiser without an
// importance matrix (llama_tensor_get_type in src/llama-quant.cpp, February 2025):
//   - norms and biases stay f32, and so does a learned position table; T5's relative bias stays f16
//   - the output matrix, or the embedding where the two are tied, is q6_K in q4_0 and q4_k_m
//   - q4_k_m: attn_v and ffn_down are q6_K in the layers that get more bits (i < n/8, i ≥ 7n/8, or (i − n/8)
//   % 3 = 2, in
//     integers), a fused QKV is q5_K, the rest q4_K
//   - a row that is no multiple of the block falls back: q4_K → q5_0, q5_K → q5_1, q6_K → q8_0, and where 32
//   does not
//     divide it either, f16
// In an encoder-decoder, i and n are those of the matrix's own stack (llama.cpp counts both stacks in one and
// differs there by a few matrices).
#ifndef ROPELINE_MODEL_WEIGHT_FORMAT_H_
#define ROPELINE_MODEL_WEIGHT_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/block_format.h"
#include "model/llm.h"

namespace ropeline {

struct WeightMix {
  const char* name;
  double plain_bits;  // bits per weight where only a parameter count is known
  const BlockFormat* base;
  const BlockFormat* output;  // output matrix or tied embedding
  const BlockFormat* fused_qkv;
  const BlockFormat* more_bits;  // attn_v and ffn_down of the layers that get more bits
};

std::vector<std::string> WeightMixNames();

// Throws BadInput, which lists the formats.
const WeightMix& FindWeightMix(std::string_view name, const Where& where);

struct WeightTensor {
  Matrix matrix;
  const BlockFormat* format;
  uint64_t bytes;  // of all `count` matrices
};

struct WeightLayout {
  std::vector<WeightTensor> tensors;  // empty where only a parameter count is known
  uint64_t vector_bytes = 0;          // norms and biases, f32
  uint64_t total_bytes = 0;           // in memory; tied embeddings once
  uint64_t decode_bytes = 0;   // read in a decode step: all but gathered tables, encoder, cross K and V
  uint64_t prefill_bytes = 0;  // read in a prefill
  double bits_per_weight = 0;  // 8 · total_bytes / parameters
};

WeightLayout LayOutWeights(const Llm& llm, const WeightMix& mix);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_WEIGHT_FORMAT_H_
