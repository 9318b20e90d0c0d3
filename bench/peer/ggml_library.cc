#include "bench/peer/ggml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace ropeline {

namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected = "a llama.cpp build with libggml-base.so and libggml-cpu*.so";

bool IsLibrary(const fs::path& path, const std::string& stem) {
  const std::string name = path.filename().string();
  return name.compare(0, stem.size(), stem) == 0 && name.find(".so") != std::string::npos;
}

// The folder with libggml-base.so: `folder` itself or the first below it, in the order of names.
fs::path FindFolder(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw PeerUnusable(fmt::format("--ggml: {}: no such folder, expected {}", folder, kExpected));
  }
  std::vector<fs::path> found;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator(folder, options, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it.depth() > 5) it.disable_recursion_pending();
    if (IsLibrary(it->path(), "libggml-base.so")) found.push_back(it->path().parent_path());
  }
  if (found.empty()) {
    throw PeerUnusable(fmt::format("--ggml: {}: no libggml-base.so in it, expected {}", folder, kExpected));
  }
  std::sort(found.begin(), found.end());
  return found.front();
}

// Files of that stem, shortest name first: libggml-base.so before libggml-base.so.0.
std::vector<fs::path> Libraries(const fs::path& folder, const std::string& stem) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (IsLibrary(entry.path(), stem)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename().string(), right = b.filename().string();
    return std::pair(left.size(), left) < std::pair(right.size(), right);
  });
  return paths;
}

void* OpenLibrary(const fs::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::string reason = dlerror();
    // The linker's text starts with the path.
    const size_t colon = reason.find(": ");
    if (colon != std::string::npos) reason = reason.substr(colon + 2);
    throw PeerUnusable(
        fmt::format("--ggml: {}: cannot be opened ({}), expected {}", path.string(), reason, kExpected));
  }
  return library;
}

template <class Function>
void Bind(void* library, const fs::path& path, const char* name, bool required, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && required) {
    throw PeerUnusable(fmt::format("--ggml: {}: no function {}, expected a llama.cpp of 2025 or later",
                                   path.string(), name));
  }
}

std::string VariantOf(const fs::path& path) {
  std::string name = path.filename().string();
  name = name.substr(0, name.find(".so"));
  const std::string prefix = "libggml-cpu-";
  return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : "cpu";
}

// A library for one kind of CPU, and how well it suits this one.
struct CpuLibrary {
  void* library = nullptr;
  fs::path path;
  int score = 0;
};

CpuLibrary BestVariant(const fs::path& folder) {
  CpuLibrary best;
  std::string refused;
  for (const fs::path& path : Libraries(folder, "libggml-cpu")) {
    void* library;
    try {
      library = OpenLibrary(path);
    } catch (const PeerUnusable& error) {
      refused = error.what();
      continue;
    }
    // A build for one CPU has no score: it is taken where there is nothing else.
    const auto score = reinterpret_cast<int (*)()>(dlsym(library, "ggml_backend_score"));
    const int points = score == nullptr ? 1 : score();
    if (points > best.score) best = {library, path, points};
  }
  if (best.library == nullptr) {
    throw PeerUnusable(refused.empty()
                           ? fmt::format("--ggml: {}: no libggml-cpu*.so for this CPU, expected {}",
                                         folder.string(), kExpected)
                           : refused);
  }
  return best;
}

}  // namespace

std::shared_ptr<const GgmlLibrary> GgmlLibrary::Open(const std::string& folder) {
  const fs::path found = FindFolder(folder);
  const fs::path base_path = Libraries(found, "libggml-base.so").front();
  void* base = OpenLibrary(base_path);
  const CpuLibrary cpu = BestVariant(found);
  std::shared_ptr<GgmlLibrary> ours(new GgmlLibrary);
  ggml::Api& api = ours->api_;
#define ROPELINE_GGML_BIND_BASE(required, result, name, parameters) \
  Bind(base, base_path, #name, required, &api.name);
  ROPELINE_GGML_BASE(ROPELINE_GGML_BIND_BASE)
#undef ROPELINE_GGML_BIND_BASE
#define ROPELINE_GGML_BIND_CPU(required, result, name, parameters) \
  Bind(cpu.library, cpu.path, #name, required, &api.name);
  ROPELINE_GGML_CPU(ROPELINE_GGML_BIND_CPU)
#undef ROPELINE_GGML_BIND_CPU
  api.ggml_log_set([](int, const char*, void*) {}, nullptr);
  ggml::Registration* registration = api.ggml_backend_init();
  if (registration == nullptr || registration->api_version != ggml::kBackendApiVersion) {
    throw PeerUnusable(fmt::format("--ggml: {}: backend interface version {}, expected {}", cpu.path.string(),
                                   registration == nullptr ? 0 : registration->api_version,
                                   ggml::kBackendApiVersion));
  }
  ours->version_ = api.ggml_version != nullptr ? api.ggml_version() : "unknown";
  ours->commit_ = api.ggml_commit != nullptr ? api.ggml_commit() : "";
  ours->variant_ = VariantOf(cpu.path);
  ours->device_ = api.ggml_backend_reg_dev_get(registration, 0);
  using ExtraTypes = ggml::BufferType** (*)(ggml::Device*);
  const auto extra = reinterpret_cast<ExtraTypes>(
      api.ggml_backend_reg_get_proc_address(registration, "ggml_backend_dev_get_extra_bufts"));
  if (extra != nullptr) {
    for (ggml::BufferType** type = extra(ours->device_); type != nullptr && *type != nullptr; ++type) {
      ours->extra_.push_back(*type);
    }
  }
  return ours;
}

}  // namespace ropeline
