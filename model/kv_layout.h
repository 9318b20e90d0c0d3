// What a model keeps of the past: keys and values, per layer, in a storage format. All figures are for one
// sequence.
#ifndef ROPELINE_MODEL_KV_LAYOUT_H_
#define ROPELINE_MODEL_KV_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/block_format.h"
#include "model/llm.h"

namespace ropeline {

std::vector<std::string> KvFormatNames();  // f32, f16, bf16, q8_0, q4_0, kivi4

// Throws BadInput, which lists the formats.
const BlockFormat& FindKvFormat(std::string_view name, const Where& where);

// Bytes of one token's K and V in one layer; each head's row takes a whole number of blocks.
uint64_t KvBytesPerToken(const Attention& attention, const BlockFormat& format);

// What an engine sets aside. llama.cpp rounds the context up to 256 tokens (flash attention, February 2025),
// and an engine that knows no windows keeps all tokens of a window layer.
struct KvAllocation {
  uint64_t pad_tokens = 256;
  bool windows_kept_full = true;
};

struct KvLayer {
  int layer = 0;  // index into Llm::layers
  AttentionKind kind = AttentionKind::kFull;
  uint64_t bytes_per_token = 0;                // K and V, each head's row a whole number of blocks
  uint64_t bytes_per_token_beyond_window = 0;  // 0 for a window layer: it grows no further
  uint64_t bytes_at_context = 0;               // the growing cache, windows honoured
  uint64_t constant_bytes = 0;                 // cross attention: K and V of the encoder's tokens
  uint64_t allocated_bytes = 0;                // as the policy says, constant_bytes included
  uint64_t read_bytes_per_step = 0;            // one decode step at that context
};

struct KvLayout {
  std::vector<KvLayer> layers;  // those that keep something
  KvLayer total;                // sums; layer and kind have no meaning
};

// `context` tokens in the cache, the current one included. An encoder-decoder has `context` tokens in its
// encoder and `context` in its decoder.
KvLayout LayOutKv(const Llm& llm, const BlockFormat& format, uint64_t context,
                  const KvAllocation& allocation = {});

}  // namespace ropeline

#endif  // ROPELINE_MODEL_KV_LAYOUT_H_
