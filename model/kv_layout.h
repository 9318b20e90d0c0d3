// What a model keeps of the past: keys and values, per layer, in a storage format, and states of constant
// size. All figures are for one sequence.
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

// f32, f16, bf16, fp8, q8_0, q5_1, q5_0, q4_1, q4_0, kivi4, int4_g32, int4_g64, int4_g128
std::vector<std::string> KvFormatNames();

// Throws BadInput, which lists the formats.
const BlockFormat& FindKvFormat(std::string_view name, const Where& where);

// K and V may be stored differently. Recurrent states are f32, as llama.cpp and Mamba's own code keep them.
struct KvFormats {
  BlockFormat k = kBlockF16, v = kBlockF16;
  BlockFormat state = kBlockF32;

  KvFormats() = default;
  KvFormats(const BlockFormat& both) : k(both), v(both) {}  // NOLINT: one format is the usual case
  KvFormats(const BlockFormat& k_format, const BlockFormat& v_format) : k(k_format), v(v_format) {}

  bool same() const { return std::string_view(k.name) == v.name; }
  std::string Name() const;  // "f16", or "q8_0/q4_0" for K and V
  // Of K and V together where both are equally wide.
  double BitsPerElement() const { return (k.BitsPerElement() + v.BitsPerElement()) / 2; }
};

// "q8_0", or "q8_0/q4_0" for K and V.
KvFormats ParseKvFormats(std::string_view text, const Where& where);

// Bytes of one token's K and V in one layer; each head's row takes a whole number of blocks. MLA: the latent
// row, in K's format.
uint64_t KvBytesPerToken(const Attention& attention, const KvFormats& formats);

// What an engine sets aside. llama.cpp rounds the context up to 256 tokens (flash attention, February 2025),
// and an engine that knows no windows keeps all tokens of a window layer. An engine without latent attention
// keeps MLA's keys and values of every head.
struct KvAllocation {
  uint64_t pad_tokens = 256;  // paged caches: the block size, 16 in vLLM
  bool windows_kept_full = true;
  bool latent_expanded = false;
};

struct KvLayer {
  int layer = 0;                               // index into Llm::layers
  const char* kind = "";                       // Layer::Kind
  int shares_kv_with = -1;                     // layer whose K and V it reads; it keeps none itself
  uint64_t elements_per_token = 0;             // K and V, before any window is full
  uint64_t expanded_elements_per_token = 0;    // MLA: K and V of every head; 0 for others
  uint64_t bytes_per_token = 0;                // K and V, each head's row a whole number of blocks
  uint64_t bytes_per_token_beyond_window = 0;  // 0 for a window or chunk: it grows no further
  uint64_t bytes_at_context = 0;               // the growing cache, windows honoured
  uint64_t state_elements = 0;                 // recurrent state and convolution
  uint64_t cross_elements = 0;                 // K and V of the encoder's tokens
  uint64_t state_bytes = 0;
  uint64_t cross_bytes = 0;
  uint64_t constant_bytes = 0;       // both of them
  uint64_t allocated_bytes = 0;      // as the policy says, constant_bytes included
  uint64_t read_bytes_per_step = 0;  // one decode step at that context
  // Beyond every window the cache is intercept_bytes + bytes_per_token_beyond_window · tokens.
  uint64_t intercept_bytes = 0;
};

struct KvLayout {
  std::vector<KvLayer> layers;  // those that keep or read something
  KvLayer total;                // sums; layer, kind and shares_kv_with have no meaning
};

// `context` tokens in the cache, the current one included. An encoder-decoder whose source has no length of
// its own has `context` tokens in its encoder and `context` in its decoder. A figure beyond 2^64 is
// impossible below 2^24 tokens.
KvLayout LayOutKv(const Llm& llm, const KvFormats& formats, uint64_t context,
                  const KvAllocation& allocation = {});

}  // namespace ropeline

#endif  // ROPELINE_MODEL_KV_LAYOUT_H_
