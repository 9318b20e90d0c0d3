#include "model/engine/run_header.h"

#include <algorithm>
#include <filesystem>

#include "model/bad_input.h"
#include "model/engine/loose_number.h"
#include "model/engine/run_words.h"

namespace ropeline {
namespace {

constexpr std::string_view kHeaderFields[] = {
    "build_commit", "build_number", "cpu_info",       "model_type",  "model_filename",  "model_name",
    "ftype",        "model_size",   "model_n_params", "n_threads",   "n_threads_batch", "type_k",
    "type_v",       "flash_attn",   "mla_attn",       "n_ubatch",    "title",           "backends",
    "n_gpu_layers", "devices",      "table",          "command_path"};

// Columns and keys that only ik_llama.cpp writes, and that only llama.cpp does.
constexpr std::string_view kIkFields[] = {"mla_attn", "amb", "fmoe", "rtr", "mqkv", "ger", "ser"};
constexpr std::string_view kLlamaCppFields[] = {"n_depth", "cpu_mask", "n_cpu_moe", "is_tg_separate"};

// Backends that compute on the CPU.
constexpr std::string_view kCpuBackends[] = {"cpu", "blas", "openblas", "accelerate", "zendnn", "none", ""};

// What older versions of llama-bench wrote instead of "backends": a yes or no each.
constexpr std::string_view kGpuFlags[] = {"cuda", "vulkan", "kompute", "metal", "sycl", "gpu_blas", "opencl"};

bool HasAny(const BenchRecord& record, const auto& names) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view name) { return record.Has(name); });
}

std::optional<int> FindInt(const BenchRecord& record, std::string_view name, uint64_t most) {
  const std::optional<uint64_t> count = LooseCount(record.Get(name));
  if (!count || *count > most) return std::nullopt;
  return static_cast<int>(*count);
}

std::optional<int> FindThreads(const BenchRecord& record, std::string_view name) {
  const std::optional<int> threads = FindInt(record, name, kMaxThreads);
  return threads == 0 ? std::nullopt : threads;
}

std::string ModelName(const BenchRecord& record) {
  for (const std::string_view name : {"model_type", "model_name"}) {
    if (!record.Get(name).empty()) return OneLine(record.Get(name), 200);
  }
  std::string_view file = record.Get("model_filename");
  const size_t slash = file.find_last_of("/\\");
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (file.size() > 5 && LowerCase(file.substr(file.size() - 5)) == ".gguf") file.remove_suffix(5);
  return OneLine(file, 200);
}

std::string EngineName(const BenchRecord& record) {
  for (const std::string_view name : {"title", "command_path"}) {
    const std::string lower = LowerCase(record.Get(name));
    if (lower.find("ik_llama") != std::string::npos) return "ik_llama.cpp";
    if (lower.find("llama.cpp") != std::string::npos) return "llama.cpp";
  }
  if (HasAny(record, kIkFields)) return "ik_llama.cpp";
  return HasAny(record, kLlamaCppFields) ? "llama.cpp" : "";
}

// The backend that is no CPU's; "" where there is none, nothing where no backend is named.
std::optional<std::string> GpuBackend(const BenchRecord& record) {
  if (LowerCase(record.Get("devices")) == "none") return "";
  if (record.Has("backends")) {
    std::string_view rest = record.Get("backends");
    for (;;) {
      const size_t end = std::min(rest.find_first_of(",+/"), rest.size());
      const std::string_view name = Trim(rest.substr(0, end));
      const std::string lower = LowerCase(name);
      if (std::find(std::begin(kCpuBackends), std::end(kCpuBackends), lower) == std::end(kCpuBackends))
        return OneLine(name, 40);
      if (end == rest.size()) return "";
      rest.remove_prefix(end + 1);
    }
  }
  bool named = record.Has("blas");
  for (const std::string_view name : kGpuFlags) {
    if (record.Get(name) == "1") return std::string(name);
    named = named || record.Has(name);
  }
  return named ? std::optional<std::string>("") : std::nullopt;
}

// "llama.cpp Vulkan": a heading that names a GPU's interface and no CPU.
std::string GpuInTitle(std::string_view title) {
  const std::string lower = LowerCase(title);
  if (lower.find("cpu") != std::string::npos || lower.find("without") != std::string::npos) return "";
  for (const std::string_view name : {"cuda", "vulkan", "metal", "rocm", "sycl"}) {
    if (lower.find(name) != std::string::npos) return std::string(name);
  }
  return "";
}

}  // namespace

bool IsHeaderField(std::string_view name) {
  return std::find(std::begin(kHeaderFields), std::end(kHeaderFields), name) != std::end(kHeaderFields) ||
         std::find(std::begin(kGpuFlags), std::end(kGpuFlags), name) != std::end(kGpuFlags);
}

EngineRun RunHeader(const BenchRecord& record, RecordKind kind, bool decimal_comma, const std::string& file) {
  EngineRun run;
  run.file = file;
  run.tool = kind == RecordKind::kLlamaBench   ? "llama-bench"
             : kind == RecordKind::kSweepBench ? "sweep-bench"
                                               : "batched-bench";
  run.engine = EngineName(record);
  run.version = OneLine(record.Get("build_commit"), 60);
  const std::string number = OneLine(record.Get("build_number"), 20);
  if (!number.empty()) run.version += run.version.empty() ? number : " (" + number + ")";
  run.title = OneLine(record.Get("title"), 200);
  run.cpu = OneLine(record.Get("cpu_info"), 200);
  run.model = ModelName(record);
  for (const std::string_view name : {"ftype", "model_type", "model_filename"}) {
    if (run.weight_format.empty()) run.weight_format = FileTypeIn(record.Get(name));
    if (!run.bits_per_weight) run.bits_per_weight = BitsPerWeight(record.Get(name));
  }
  run.model_bytes = LooseAmount(record.Get("model_size"), decimal_comma);
  run.model_params = LooseAmount(record.Get("model_n_params"), decimal_comma);
  run.threads = FindThreads(record, "n_threads");
  run.threads_batch = FindThreads(record, "n_threads_batch");
  if (run.threads_batch == run.threads) run.threads_batch.reset();
  run.type_k = OneCacheType(record.Get("type_k")).value_or("");
  run.type_v = OneCacheType(record.Get("type_v")).value_or("");
  run.flash_attention = YesOrNo(record.Get("flash_attn"));
  run.mla = FindInt(record, "mla_attn", 9);
  run.ubatch = LooseCount(record.Get("n_ubatch"));
  // sweep-bench's prompt is one micro-batch.
  if (kind == RecordKind::kSweepBench) run.ubatch = LooseCount(record.Get("pp"));
  return run;
}

std::string OffCpu(const BenchRecord& record, RunPhase phase) {
  const std::optional<std::string> backend = GpuBackend(record);
  const std::string_view layers = record.Get("n_gpu_layers");
  if (backend) {
    if (backend->empty()) return "";
    if (layers != "0") return "ran on a GPU (" + *backend + ")";
    // llama.cpp moves the products of a large batch to the GPU even with no layer on it.
    const bool prompt_too = phase != RunPhase::kDecode && record.Get("no_op_offload") != "1";
    return prompt_too ? "with " + *backend + " as backend a prompt's products may run on the GPU" : "";
  }
  // -1 and 999 are defaults, which mean nothing where there is no GPU.
  const std::optional<uint64_t> count = LooseCount(layers);
  if (count && *count > 0 && *count != 999) return "ran with layers on a GPU (n_gpu_layers)";
  const std::string titled = GpuInTitle(record.Get("title"));
  return titled.empty() ? "" : "ran on a GPU, says the heading (" + titled + ")";
}

}  // namespace ropeline
