// The geometry of a language model: what it stores, what it caches and what it computes, layer by layer, so
// that every total is a sum. Filled by presets (presets.h) and by the readers of config.json, params.json and
// GGUF.
#ifndef ROPELINE_MODEL_LLM_H_
#define ROPELINE_MODEL_LLM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/rope_schedule.h"
#include "model/block_format.h"

namespace ropeline {

enum class AttentionKind {
  kNone,     // no attention here
  kFull,     // every token up to this one (causal), or every token
  kWindow,   // the last `window` tokens
  kChunked,  // the tokens of this one's chunk of `window`: the cache restarts at each border
  kMla,      // every token, from one latent row of kv_lora_rank + d_rope per token (multi-head latent)
  kCross,    // the encoder's tokens; K and V are made once per sequence
};
// "none", "full", "window", "chunked", "mla", "cross".
const char* AttentionKindName(AttentionKind kind);

// Where and how position enters. `encoding` is a name in kernels/registry.h; "" means none. A rotary encoding
// is rope_half or rope_interleaved by its pairs, and partial where d_rot is less than the head.
struct Position {
  std::string encoding{};
  RopeParameters rope{};    // rotary only
  double score_factor = 1;  // factor of the softmax scale beyond 1/√d (yarn with mscale_all_dim); rotary only

  bool empty() const { return encoding.empty(); }
  double rope_theta() const { return rope.base; }  // 0 where not rotary
  uint64_t d_rot() const { return rope.d_rot; }    // 0 where not rotary
  const char* rope_scaling() const;                // name of the schedule; "" for none and the default
};

Position RotaryPosition(const char* encoding, double base, uint64_t d_head, uint64_t d_rot);

// Widths of multi-head latent attention. DeepSeek-V2 (2024), section 2.1.
struct LatentWidths {
  uint64_t q_lora_rank = 0;  // 0: a plain Q projection
  uint64_t kv_lora_rank = 0;
  uint64_t d_nope = 0;  // of a head's Q and K, not rotated
  uint64_t d_rope = 0;  // rotated; K's is shared by all heads
};

struct Attention {
  AttentionKind kind = AttentionKind::kNone;
  uint64_t n_heads = 0;
  uint64_t n_kv_heads = 0;  // kMla: as expanded, = n_heads
  uint64_t d_head_k = 0;    // width of one head's Q and K; kMla: d_nope + d_rope
  uint64_t d_head_v = 0;    // width of one head's V
  // kWindow: tokens seen, this one included, and where not causal as many on the other side; kChunked: tokens
  // of a chunk.
  uint64_t window = 0;
  bool causal = true;       // false: an encoder, which sees all and caches nothing
  Position position{};      // score bias or rotation
  LatentWidths latent{};    // kMla
  int shares_kv_with = -1;  // index of the layer whose K and V this one reads; -1: its own
  // kCross: tokens of the source; nothing: as many as the context.
  std::optional<uint64_t> source_tokens{};
  bool sinks = false;  // a learned logit per head beside the scores (counted in vectors)

  // (query, key) pairs of a pass over n tokens: n²/2 causal, w·n − w²/2 beyond a window of w, whole chunks of
  // w²/2 and the rest, n² otherwise, n² − (n − w)² beyond a window. This counts half of the diagonal, as the
  // article's and DESIGN's 2·N²·d_head·n_heads·n_layers does; the exact n·(n+1)/2 is larger by 1/n.
  double Pairs(double n) const;
  // Keys that the token after n−1 others sees, at most: n, or the window. A chunk counts as full beyond its
  // first border (at most w; w/2 on average). Cross attention: the encoder's tokens, n where not fixed.
  double Keys(double n) const;
  // Two flops for each of QKᵀ (d_head_k) and PV (d_head_v), per head and pair. kMla: as decoding from the
  // latent does, absorbed: kv_lora_rank + d_rope and kv_lora_rank.
  double FlopsPerPair() const;
  // The same with K and V expanded to heads; differs for kMla only, whose prefill does so.
  double ExpandedFlopsPerPair() const;

  bool caches() const { return kind != AttentionKind::kNone && causal && shares_kv_with < 0; }
  bool limited() const { return kind == AttentionKind::kWindow || kind == AttentionKind::kChunked; }
  // Elements that one token adds to the cache: of all KV heads; kMla: the latent row, V being a view of it.
  uint64_t KElements() const;
  uint64_t VElements() const;
};

// A layer's state of constant size: Mamba, gated delta net, linear attention. Elements per sequence.
struct RecurrentState {
  std::string form{};  // "mamba", "mamba2", "gated_delta_net" …; "" none
  uint64_t state_elements = 0;
  uint64_t conv_elements = 0;  // the last columns of its causal convolution

  bool empty() const { return form.empty(); }
};

enum class FfnKind { kNone, kMlp, kGated, kMoe };
const char* FfnKindName(FfnKind kind);  // "none", "mlp", "gated", "moe"

// kMlp: two matrices; kGated: three; kMoe: experts of either form and what runs beside them.
struct FeedForward {
  FfnKind kind = FfnKind::kNone;
  uint64_t width = 0;  // kMlp, kGated
  uint64_t n_experts = 0;
  uint64_t n_active = 0;  // experts per token
  uint64_t n_shared = 0;  // experts that every token takes
  uint64_t expert_width = 0;
  uint64_t shared_width = 0;  // of all shared experts together
};

enum class Stack { kDecoder, kEncoder };

struct Layer {
  Stack stack = Stack::kDecoder;
  Attention self;
  Attention cross;             // kind kNone unless this decoder layer reads an encoder
  RecurrentState recurrent{};  // instead of self attention, or beside it
  FeedForward ffn{};

  // Kind of what mixes tokens here: that of self, "recurrent", or of cross where there is nothing else.
  const char* Kind() const;
};

enum class MatrixRole {
  kTokenEmbedding,     // gathered; with tied_embeddings it is the output matrix too
  kPositionTable,      // gathered: learned positions
  kTokenTypeTable,     // gathered: BERT's segments
  kRelativeBias,       // gathered: T5's buckets
  kPerLayerEmbedding,  // gathered: one row per token for every layer (Gemma 3n and 4), or for an encoder
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnQkv,  // the three in one matrix
  kAttnGate,
  kAttnOutput,
  kAttnQA,   // MLA: d_model → q_lora_rank
  kAttnQB,   // MLA: q_lora_rank → heads
  kAttnKvA,  // MLA: d_model → kv_lora_rank + d_rope
  kAttnKvB,  // MLA: kv_lora_rank → heads' K and V
  kCrossQ,
  kCrossK,  // applied to the encoder's output, once per sequence
  kCrossV,  // the same
  kCrossOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kRouter,
  kExpertGate,  // count = experts, active = those that a token takes
  kExpertUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kRecurrentIn,
  kRecurrentConv,        // [channels, kernel]
  kRecurrentParameters,  // projections to dt, B, C, decay and the like
  kRecurrentOut,
  kProjection,  // any other, applied to each token
  kPooler,      // applied once per sequence
  kOutput,      // LM head; absent with tied_embeddings
};

// What the model's own files hold of a matrix. format is nullptr where the bytes are of several formats.
struct StoredMatrix {
  uint64_t bytes = 0;  // of all `count`
  const BlockFormat* format = nullptr;
};

// `count` matrices [rows, cols]; a row of cols elements is contiguous (cols is the input's width).
struct Matrix {
  MatrixRole role;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t count = 1;
  int layer = -1;                        // index into layers; -1 outside them
  std::optional<uint64_t> active{};      // of count, used for one token; nothing: all
  std::optional<StoredMatrix> stored{};  // nothing where no file says

  uint64_t Elements() const { return rows * cols * count; }
  uint64_t ActiveElements() const { return rows * cols * active.value_or(count); }
};

// Norm weights and biases, one entry per layer or place.
struct Vector {
  uint64_t elements = 0;
  int layer = -1;
  std::optional<uint64_t> active{};        // elements used for one token; nothing: all
  std::optional<uint64_t> stored_bytes{};  // nothing where no file says

  uint64_t ActiveElements() const { return active.value_or(elements); }
};

// In which passes a matrix takes part.
struct MatrixUse {
  bool decode = false;        // read in each decode step, 2 flops per active element and token
  bool prefill_each = false;  // applied to each of the prompt's tokens
  bool prefill_last = false;  // applied to the last token only: the LM head
};

// The weights in the model's own files: GGUF or safetensors.
struct StoredWeights {
  uint64_t tensor_bytes = 0;  // all tensors; tied embeddings once
  uint64_t other_bytes = 0;   // of these, tensors that are none of matrices and vectors: towers, tables
  uint64_t file_bytes = 0;    // the files, with headers and vocabulary
  std::vector<std::pair<std::string, uint64_t>> bytes_by_format{};  // largest first
};

struct Llm {
  std::string name;
  std::string source;        // where the geometry was published
  std::string model_type{};  // as the file names it; "" for presets
  uint64_t d_model = 0;
  uint64_t vocabulary = 0;  // 0 unknown
  bool tied_embeddings = false;
  std::vector<Layer> layers;  // encoder first
  std::vector<Matrix> matrices;
  std::vector<Vector> vectors;
  // Known only as a total (no matrices): every parameter then counts as a matrix element applied to each
  // token.
  std::optional<uint64_t> params_given;
  // Set where a file gives the weights; then matrices and vectors have their stored bytes too.
  std::optional<StoredWeights> stored{};
  Position input_position;              // placement input add; "" none
  std::optional<uint64_t> max_context;  // published; nothing where there is no such figure
  bool hard_context_limit = false;      // true: positions beyond max_context do not exist (a table's rows)
  std::vector<std::string> warnings;    // what a user of the numbers must know

  bool EncoderDecoder() const;
  uint64_t NumLayers(Stack stack) const;
  // The decoder's first layer with self attention: the shape quoted for the whole model. nullptr where there
  // is none.
  const Attention* MainAttention() const;
  // The position encoding of the model: the input's, else the first that a layer of the decoder has, else
  // empty.
  const Position& MainPosition() const;
  MatrixUse UseOf(const Matrix& matrix) const;

  uint64_t ParamsTotal() const;   // tied embeddings once
  uint64_t ParamsActive() const;  // total less the experts that a token does not take; embeddings included
  // Active elements of matrices with that use; all parameters where only params_given is known (none for
  // prefill_last).
  uint64_t ElementsUsed(bool MatrixUse::*use) const;
};

// The model as an engine without latent attention runs it: kMla becomes kFull with K and V of every head.
Llm WithExpandedLatent(Llm llm);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LLM_H_
