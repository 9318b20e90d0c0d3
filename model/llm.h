// The geometry of a language model: what it stores, what it caches and what it computes, layer by layer, so
// that every total is a sum. Filled by presets (presets.h); readers of config.json and GGUF fill the same
// struct.
#ifndef ROPELINE_MODEL_LLM_H_
#define ROPELINE_MODEL_LLM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

enum class AttentionKind {
  kNone,    // no attention here
  kFull,    // every token up to this one (causal), or every token
  kWindow,  // the last `window` tokens
  kCross,   // the encoder's tokens; K and V are made once per sequence
};
const char* AttentionKindName(AttentionKind kind);  // "none", "full", "window", "cross"

// Where and how position enters. `encoding` is a name in kernels/registry.h; "" means none.
struct Position {
  std::string encoding{};
  double rope_theta = 0;       // base of a rotary encoding; 0 for others
  uint64_t d_rot = 0;          // rotary: rotated dimensions of a head, ≤ d_head_k; 0 for others
  std::string rope_scaling{};  // rotary: name of the schedule the checkpoint uses ("llama3"); "" none

  bool empty() const { return encoding.empty(); }
};

struct Attention {
  AttentionKind kind = AttentionKind::kNone;
  uint64_t n_heads = 0;
  uint64_t n_kv_heads = 0;
  uint64_t d_head_k = 0;  // width of one head's Q and K
  uint64_t d_head_v = 0;  // width of one head's V
  uint64_t window = 0;    // kWindow: tokens seen, this one included
  bool causal = true;     // false: an encoder, which sees all and caches nothing
  Position position{};    // score bias or rotation

  // (query, key) pairs of a pass over n tokens: n²/2 causal, w·n − w²/2 beyond a window of w, n² otherwise.
  // This counts half of the diagonal, as the article's and DESIGN's 2·N²·d_head·n_heads·n_layers does; the
  // exact n·(n+1)/2 is larger by 1/n.
  double Pairs(double n) const;
  // Keys that the token after n−1 others sees: n, or the window. Cross attention: n is the encoder's tokens.
  double Keys(double n) const;
  // Two flops for each of QKᵀ (d_head_k) and PV (d_head_v), per head and pair.
  double FlopsPerPair() const;
};

enum class Stack { kDecoder, kEncoder };

struct Layer {
  Stack stack = Stack::kDecoder;
  Attention self;
  Attention cross;  // kind kNone unless this decoder layer reads an encoder
};

enum class MatrixRole {
  kTokenEmbedding,  // gathered; with tied_embeddings it is the output matrix too
  kPositionTable,   // gathered: learned positions
  kRelativeBias,    // gathered: T5's buckets
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnQkv,  // the three in one matrix
  kAttnOutput,
  kCrossQ,
  kCrossK,  // applied to the encoder's output, once per sequence
  kCrossV,  // the same
  kCrossOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kOutput,  // LM head; absent with tied_embeddings
};

// `count` matrices [rows, cols]; a row of cols elements is contiguous (cols is the input's width).
struct Matrix {
  MatrixRole role;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t count = 1;
  int layer = -1;  // index into layers; -1 outside them

  uint64_t Elements() const { return rows * cols * count; }
};

// Norm weights and biases, one entry per layer or place.
struct Vector {
  uint64_t elements = 0;
  int layer = -1;
};

// In which passes a matrix takes part.
struct MatrixUse {
  bool decode = false;        // read in each decode step, 2 flops per element and token
  bool prefill_each = false;  // applied to each of the prompt's tokens
  bool prefill_last = false;  // applied to the last token only: the LM head
};

struct Llm {
  std::string name;
  std::string source;  // where the geometry was published
  uint64_t d_model = 0;
  uint64_t vocabulary = 0;  // 0 unknown
  bool tied_embeddings = false;
  std::vector<Layer> layers;  // encoder first
  std::vector<Matrix> matrices;
  std::vector<Vector> vectors;
  // Known only as a total (no matrices): every parameter then counts as a matrix element applied to each
  // token.
  std::optional<uint64_t> params_given;
  Position input_position;              // placement input add; "" none
  std::optional<uint64_t> max_context;  // published; nothing where there is no such figure
  bool hard_context_limit = false;      // true: positions beyond max_context do not exist (a table's rows)
  std::vector<std::string> warnings;    // what a user of the numbers must know

  bool EncoderDecoder() const;
  uint64_t NumLayers(Stack stack) const;
  // The decoder's first layer with self attention: the shape quoted for the whole model. nullptr where there
  // is none.
  const Attention* MainAttention() const;
  // The position encoding of the model: the input's, else the main attention's, else empty.
  const Position& MainPosition() const;
  MatrixUse UseOf(const Matrix& matrix) const;

  uint64_t ParamsTotal() const;  // tied embeddings once
  // Elements of matrices with that use; all parameters where only params_given is known (none for
  // prefill_last).
  uint64_t ElementsUsed(bool MatrixUse::*use) const;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_LLM_H_
