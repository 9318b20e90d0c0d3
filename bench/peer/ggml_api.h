// What this suite uses of ggml's C interface, declared here so that no ggml header is needed to build: opaque
// tensors, and a table of functions that GgmlLibrary fills from the shared libraries of a llama.cpp build.
// Facts from ggml/include/ggml.h, ggml-backend.h and ggml-cpu.h of llama.cpp (backend interface version 2).
#ifndef ROPELINE_BENCH_PEER_GGML_API_H_
#define ROPELINE_BENCH_PEER_GGML_API_H_

#include <cstddef>
#include <cstdint>

namespace ropeline::ggml {

struct Context;
struct Tensor;
struct Graph;
struct Backend;
struct Buffer;
struct BufferType;
struct Device;
struct Threadpool;

// What a backend registers; its first field tells the interface's version.
struct Registration {
  int api_version;
};
constexpr int kBackendApiVersion = 2;

struct InitParams {
  size_t mem_size;
  void* mem_buffer;
  bool no_alloc;
};

constexpr int kMostThreads = 512;
struct ThreadpoolParams {
  bool cpumask[kMostThreads];  // all false: the process's affinity
  int n_threads;
  int priority;
  uint32_t poll;    // 0 … 100: how long idle threads spin
  bool strict_cpu;  // one CPU of the mask each
  bool paused;
};

enum class Type : int {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ6_K = 14,
  kI32 = 26,
  kBf16 = 30,
};

enum class RopeMode : int { kNormal = 0, kNeox = 2 };  // pairs (2i, 2i+1); pairs (i, i + d/2)

constexpr int kPrecisionF32 = 10;
constexpr int kStatusSuccess = 0;

// Functions of libggml-base. X(required, result, name, parameters)
#define ROPELINE_GGML_BASE(X)                                                                                \
  X(true, Context*, ggml_init, (InitParams))                                                                 \
  X(true, void, ggml_free, (Context*))                                                                       \
  X(false, const char*, ggml_version, ())                                                                    \
  X(false, const char*, ggml_commit, ())                                                                     \
  X(true, void, ggml_log_set, (void (*)(int, const char*, void*), void*))                                    \
  X(true, size_t, ggml_nbytes, (const Tensor*))                                                              \
  X(true, size_t, ggml_row_size, (Type, int64_t))                                                            \
  X(true, const char*, ggml_type_name, (Type))                                                               \
  X(true, size_t, ggml_tensor_overhead, ())                                                                  \
  X(true, size_t, ggml_graph_overhead_custom, (size_t, bool))                                                \
  X(true, Tensor*, ggml_new_tensor_4d, (Context*, Type, int64_t, int64_t, int64_t, int64_t))                 \
  X(true, Tensor*, ggml_permute, (Context*, Tensor*, int, int, int, int))                                    \
  X(true, void*, ggml_get_data, (const Tensor*))                                                             \
  X(true, Tensor*, ggml_add_inplace, (Context*, Tensor*, Tensor*))                                           \
  X(true, Tensor*, ggml_get_rows, (Context*, Tensor*, Tensor*))                                              \
  X(true, Tensor*, ggml_mul_mat, (Context*, Tensor*, Tensor*))                                               \
  X(true, Tensor*, ggml_soft_max_ext, (Context*, Tensor*, Tensor*, float, float))                            \
  X(true, Tensor*, ggml_rope_ext_inplace,                                                                    \
    (Context*, Tensor*, Tensor*, Tensor*, int, RopeMode, int, float, float, float, float, float, float))     \
  X(true, Tensor*, ggml_flash_attn_ext, (Context*, Tensor*, Tensor*, Tensor*, Tensor*, float, float, float)) \
  X(false, void, ggml_flash_attn_ext_set_prec, (Tensor*, int))                                               \
  X(false, void, ggml_flash_attn_ext_add_sinks, (Tensor*, Tensor*))                                          \
  X(true, size_t, ggml_quantize_chunk, (Type, const float*, void*, int64_t, int64_t, int64_t, const float*)) \
  X(true, Graph*, ggml_new_graph_custom, (Context*, size_t, bool))                                           \
  X(true, void, ggml_build_forward_expand, (Graph*, Tensor*))                                                \
  X(true, ThreadpoolParams, ggml_threadpool_params_default, (int))                                           \
  X(true, void, ggml_backend_free, (Backend*))                                                               \
  X(true, int, ggml_backend_graph_compute, (Backend*, Graph*))                                               \
  X(true, int, ggml_backend_tensor_alloc, (Buffer*, Tensor*, void*))                                         \
  X(true, void, ggml_backend_tensor_set, (Tensor*, const void*, size_t, size_t))                             \
  X(true, void, ggml_backend_buffer_free, (Buffer*))                                                         \
  X(true, void*, ggml_backend_buffer_get_base, (Buffer*))                                                    \
  X(true, const char*, ggml_backend_buft_name, (BufferType*))                                                \
  X(true, Buffer*, ggml_backend_buft_alloc_buffer, (BufferType*, size_t))                                    \
  X(true, size_t, ggml_backend_buft_get_alloc_size, (BufferType*, const Tensor*))                            \
  X(true, Device*, ggml_backend_reg_dev_get, (Registration*, size_t))                                        \
  X(true, void*, ggml_backend_reg_get_proc_address, (Registration*, const char*))                            \
  X(true, bool, ggml_backend_dev_supports_op, (Device*, const Tensor*))                                      \
  X(true, Buffer*, ggml_backend_cpu_buffer_from_ptr, (void*, size_t))

// Functions of a libggml-cpu variant.
#define ROPELINE_GGML_CPU(X)                                              \
  X(true, Registration*, ggml_backend_init, ())                           \
  X(true, Backend*, ggml_backend_cpu_init, ())                            \
  X(true, void, ggml_backend_cpu_set_n_threads, (Backend*, int))          \
  X(true, void, ggml_backend_cpu_set_threadpool, (Backend*, Threadpool*)) \
  X(true, Threadpool*, ggml_threadpool_new, (ThreadpoolParams*))          \
  X(true, void, ggml_threadpool_free, (Threadpool*))

// Pointers of the names above; those not required may be null.
struct Api {
#define ROPELINE_GGML_POINTER(required, result, name, parameters) result(*name) parameters = nullptr;
  ROPELINE_GGML_BASE(ROPELINE_GGML_POINTER)
  ROPELINE_GGML_CPU(ROPELINE_GGML_POINTER)
#undef ROPELINE_GGML_POINTER
};

}  // namespace ropeline::ggml

#endif  // ROPELINE_BENCH_PEER_GGML_API_H_
