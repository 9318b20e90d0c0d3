#include "bench/peer/ggml_session.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace ropeline {

namespace {

constexpr size_t kNodes = 4, kTensors = 8;  // of an operation
constexpr size_t kFixedTensors = 64;        // that operations share

}  // namespace

GgmlSession::GgmlSession(std::shared_ptr<const GgmlLibrary> library, const std::vector<int>& cpus,
                         size_t operations)
    : library_(std::move(library)), api_(library_->Functions()), cpus_(cpus) {
  const size_t most_nodes = kNodes * operations + kFixedTensors;
  const size_t most_tensors = kTensors * operations + kFixedTensors;
  const size_t bytes =
      most_tensors * api_.ggml_tensor_overhead() + api_.ggml_graph_overhead_custom(most_nodes, false);
  headers_ = Mapping(bytes, Pages::kSmall);
  context_ = api_.ggml_init({bytes, headers_.Data(), /*no_alloc=*/true});
  graph_ = api_.ggml_new_graph_custom(context_, most_nodes, false);
  backend_ = api_.ggml_backend_cpu_init();
  if (context_ == nullptr || graph_ == nullptr || backend_ == nullptr) {
    throw PeerUnusable("--ggml: cannot make a context, expected memory for one");
  }
}

void GgmlSession::StartThreads() {
  const int count = std::max(1, static_cast<int>(cpus_.size()));
  ggml::ThreadpoolParams params = api_.ggml_threadpool_params_default(count);
  for (const int cpu : cpus_) {
    if (cpu >= 0 && cpu < ggml::kMostThreads) params.cpumask[cpu] = true;
  }
  params.strict_cpu = true;
  threads_ = api_.ggml_threadpool_new(&params);
  if (threads_ == nullptr) throw PeerUnusable("--ggml: cannot make threads, expected room for them");
  api_.ggml_backend_cpu_set_n_threads(backend_, count);
  api_.ggml_backend_cpu_set_threadpool(backend_, threads_);
}

void GgmlSession::StopThreads() {
  if (threads_ == nullptr) return;
  api_.ggml_backend_cpu_set_threadpool(backend_, nullptr);
  api_.ggml_threadpool_free(threads_);
  threads_ = nullptr;
}

GgmlSession::~GgmlSession() {
  StopThreads();
  if (backend_ != nullptr) api_.ggml_backend_free(backend_);
  for (ggml::Buffer* buffer : buffers_) api_.ggml_backend_buffer_free(buffer);
  if (context_ != nullptr) api_.ggml_free(context_);
}

// Small tensors share a huge page.
char* GgmlSession::Room(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes > free_bytes_) {
    const size_t fresh = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    memory_.emplace_back(fresh, Pages::kHuge);
    free_ = static_cast<char*>(memory_.back().Data());
    free_bytes_ = fresh;
  }
  char* const room = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  return room;
}

ggml::Tensor* GgmlSession::Place(ggml::Tensor* tensor) {
  constexpr size_t kLine = 64, kPage = 4096;
  const size_t bytes = (api_.ggml_nbytes(tensor) + kLine - 1) / kLine * kLine;
  // Streams that share their low 12 address bits collide: each tensor starts at another line of a page.
  const size_t offset = buffers_.size() * 5 * kLine % kPage;
  char* const at = Room((bytes + kPage - 1) / kPage * kPage + kPage) + offset;
  std::memset(at, 0, bytes);
  buffers_.push_back(api_.ggml_backend_cpu_buffer_from_ptr(at, bytes));
  if (buffers_.back() == nullptr ||
      api_.ggml_backend_tensor_alloc(buffers_.back(), tensor, at) != ggml::kStatusSuccess) {
    throw PeerUnusable("--ggml: cannot place a tensor in memory of ours, expected a buffer from a pointer");
  }
  return tensor;
}

ggml::Tensor* GgmlSession::New(ggml::Type type, int64_t columns, int64_t rows, int64_t depth) {
  return Place(api_.ggml_new_tensor_4d(context_, type, columns, rows, depth, 1));
}

ggml::Tensor* GgmlSession::NewRepacked(ggml::BufferType* layout, ggml::Type type, int64_t columns,
                                       int64_t rows, const void* bytes) {
  ggml::Tensor* matrix = api_.ggml_new_tensor_4d(context_, type, columns, rows, 1, 1);
  const size_t room = api_.ggml_backend_buft_get_alloc_size(layout, matrix);
  ggml::Buffer* buffer = api_.ggml_backend_buft_alloc_buffer(layout, room);
  if (buffer == nullptr) return nullptr;
  buffers_.push_back(buffer);
  void* const base = api_.ggml_backend_buffer_get_base(buffer);
  if (api_.ggml_backend_tensor_alloc(buffer, matrix, base) != ggml::kStatusSuccess) return nullptr;
  ggml::Tensor* x = api_.ggml_new_tensor_4d(context_, ggml::Type::kF32, columns, 1, 1, 1);
  if (!api_.ggml_backend_dev_supports_op(library_->CpuDevice(), api_.ggml_mul_mat(context_, matrix, x))) {
    return nullptr;
  }
  constexpr uintptr_t kHugePage = 2 << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(base) + room) / kHugePage * kHugePage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  api_.ggml_backend_tensor_set(matrix, bytes, 0, api_.ggml_nbytes(matrix));
  return matrix;
}

void* GgmlSession::Data(const ggml::Tensor* tensor) const { return api_.ggml_get_data(tensor); }
size_t GgmlSession::Bytes(const ggml::Tensor* tensor) const { return api_.ggml_nbytes(tensor); }

ggml::Tensor* GgmlSession::HeadsFirst(ggml::Tensor* tensor) {
  return api_.ggml_permute(context_, tensor, 0, 2, 1, 3);
}

ggml::Tensor* GgmlSession::Node(ggml::Tensor* result) {
  api_.ggml_build_forward_expand(graph_, result);
  return result;
}

ggml::Tensor* GgmlSession::RopeInPlace(ggml::Tensor* heads, ggml::Tensor* positions, const GgmlRope& rope,
                                       ggml::Tensor* frequency_factors) {
  return Node(api_.ggml_rope_ext_inplace(context_, heads, positions, frequency_factors, rope.d_rot, rope.mode,
                                         rope.original_context, rope.base, rope.freq_scale, rope.ext_factor,
                                         rope.attn_factor, rope.beta_fast, rope.beta_slow));
}

ggml::Tensor* GgmlSession::Attend(ggml::Tensor* q, ggml::Tensor* k, ggml::Tensor* v, ggml::Tensor* mask,
                                  const GgmlAttention& attention, ggml::Tensor* sinks) {
  if (sinks != nullptr && api_.ggml_flash_attn_ext_add_sinks == nullptr) return nullptr;
  ggml::Tensor* out = api_.ggml_flash_attn_ext(context_, HeadsFirst(q), HeadsFirst(k), HeadsFirst(v), mask,
                                               attention.scale, attention.max_bias, attention.soft_cap);
  if (sinks != nullptr) api_.ggml_flash_attn_ext_add_sinks(out, sinks);
  // As llama.cpp asks for it.
  if (api_.ggml_flash_attn_ext_set_prec != nullptr) {
    api_.ggml_flash_attn_ext_set_prec(out, ggml::kPrecisionF32);
  }
  return Node(Place(out));
}

ggml::Tensor* GgmlSession::SoftMax(ggml::Tensor* scores, ggml::Tensor* mask, float scale, float max_bias) {
  return Node(Place(api_.ggml_soft_max_ext(context_, scores, mask, scale, max_bias)));
}

ggml::Tensor* GgmlSession::AddInPlace(ggml::Tensor* to, ggml::Tensor* what) {
  return Node(api_.ggml_add_inplace(context_, to, what));
}

ggml::Tensor* GgmlSession::GetRows(ggml::Tensor* table, ggml::Tensor* rows) {
  return Node(Place(api_.ggml_get_rows(context_, table, rows)));
}

ggml::Tensor* GgmlSession::MulMat(ggml::Tensor* matrix, ggml::Tensor* x) {
  return Node(Place(api_.ggml_mul_mat(context_, matrix, x)));
}

void GgmlSession::Compute() {
  if (threads_ == nullptr) StartThreads();
  const int status = api_.ggml_backend_graph_compute(backend_, graph_);
  if (status != ggml::kStatusSuccess) {
    throw PeerUnusable(
        fmt::format("--ggml: a graph failed with status {}, expected {}", status, ggml::kStatusSuccess));
  }
}

}  // namespace ropeline
