// Tensors in memory of ours, and one graph over them that ggml's own threads run.
//
// Shapes are ggml's: {columns, rows, …}, the first dimension contiguous. A tensor of heads is {d_head,
// n_heads, n}, which is [n, n_heads, d_head] in this suite's order.
#ifndef ROPELINE_BENCH_PEER_GGML_SESSION_H_
#define ROPELINE_BENCH_PEER_GGML_SESSION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/peer/ggml_library.h"
#include "kernels/memory.h"

namespace ropeline {

// Arguments of ggml_rope_ext. Angle of pair i at position p: interpolated by freq_scale and YaRN's ramp
// (ggml.c, ggml_rope_yarn_corr_dims and rope_yarn in ggml-cpu/ops.cpp).
struct GgmlRope {
  ggml::RopeMode mode = ggml::RopeMode::kNeox;
  int d_rot = 0;
  int original_context = 0;  // YaRN's
  float base = 10000;
  float freq_scale = 1;   // 1/s
  float ext_factor = 0;   // YaRN: 1
  float attn_factor = 1;  // cos and sin times this
  float beta_fast = 32, beta_slow = 1;
};

// Arguments of ggml_flash_attn_ext beside its tensors.
struct GgmlAttention {
  float scale = 1;
  float max_bias = 0;  // ALiBi's; the mask then holds −distance
  float soft_cap = 0;  // 0 none
};

class GgmlSession {
 public:
  // Runs on one thread for each CPU of `cpus`, kept on it; at least one. `operations`: how many there will be
  // in the graph, each with up to 4 nodes and 8 tensors; ggml ends the process where it has more.
  GgmlSession(std::shared_ptr<const GgmlLibrary> library, const std::vector<int>& cpus,
              size_t operations = 64);
  ~GgmlSession();
  GgmlSession(const GgmlSession&) = delete;
  GgmlSession& operator=(const GgmlSession&) = delete;

  // A new tensor, zero, 64-byte aligned in huge pages. Throws std::bad_alloc.
  ggml::Tensor* New(ggml::Type type, int64_t columns, int64_t rows = 1, int64_t depth = 1);
  // A matrix that products may read in a layout of their own: `rows` rows of bytes as ggml_quantize_chunk
  // makes them. nullptr where the layout has no such product.
  ggml::Tensor* NewRepacked(ggml::BufferType* layout, ggml::Type type, int64_t columns, int64_t rows,
                            const void* bytes);
  void* Data(const ggml::Tensor* tensor) const;
  float* Floats(const ggml::Tensor* tensor) const { return static_cast<float*>(Data(tensor)); }
  size_t Bytes(const ggml::Tensor* tensor) const;

  // {a, b, c} seen as {a, c, b}: heads before tokens, as attention wants them.
  ggml::Tensor* HeadsFirst(ggml::Tensor* tensor);

  // Each adds a node to the graph and returns its result.
  ggml::Tensor* RopeInPlace(ggml::Tensor* heads, ggml::Tensor* positions, const GgmlRope& rope,
                            ggml::Tensor* frequency_factors = nullptr);
  // q {d, n_heads, n_q} f32, k and v {d, n_kv_heads, n}, mask {n, n_q} f16 or nullptr, sinks {n_heads} f32 or
  // nullptr. Result {d, n_heads, n_q} f32. nullptr where this library has no sinks.
  ggml::Tensor* Attend(ggml::Tensor* q, ggml::Tensor* k, ggml::Tensor* v, ggml::Tensor* mask,
                       const GgmlAttention& attention, ggml::Tensor* sinks = nullptr);
  ggml::Tensor* SoftMax(ggml::Tensor* scores, ggml::Tensor* mask, float scale, float max_bias);
  ggml::Tensor* AddInPlace(ggml::Tensor* to, ggml::Tensor* what);
  ggml::Tensor* GetRows(ggml::Tensor* table, ggml::Tensor* rows);
  // matrix {columns, rows}, x {columns, n} f32; result {rows, n} f32.
  ggml::Tensor* MulMat(ggml::Tensor* matrix, ggml::Tensor* x);

  // Idle threads of ggml spin for a while: they are there between these two only. The calling thread is one
  // of them and is kept on a CPU from here on. Compute starts them where nobody has.
  void StartThreads();
  void StopThreads();
  // Runs all nodes in the order added. Throws PeerUnusable where ggml reports a failure.
  void Compute();

  const GgmlLibrary& Library() const { return *library_; }

 private:
  char* Room(size_t bytes);
  ggml::Tensor* Place(ggml::Tensor* tensor);
  ggml::Tensor* Node(ggml::Tensor* result);

  std::shared_ptr<const GgmlLibrary> library_;
  const ggml::Api& api_;
  const std::vector<int> cpus_;
  Mapping headers_;
  ggml::Context* context_ = nullptr;
  ggml::Graph* graph_ = nullptr;
  ggml::Backend* backend_ = nullptr;
  ggml::Threadpool* threads_ = nullptr;
  std::vector<Mapping> memory_;
  char* free_ = nullptr;  // what is left of the last of memory_
  size_t free_bytes_ = 0;
  std::vector<ggml::Buffer*> buffers_;
};

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_GGML_SESSION_H_
