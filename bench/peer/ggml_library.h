// The shared libraries of a llama.cpp build, opened at run time: libggml-base and the libggml-cpu variant
// that scores best on this CPU, as ggml itself chooses (ggml_backend_load_best in ggml-backend-reg.cpp: each
// libggml-cpu-*.so has a ggml_backend_score, 0 where it cannot run).
#ifndef ROPELINE_BENCH_PEER_GGML_LIBRARY_H_
#define ROPELINE_BENCH_PEER_GGML_LIBRARY_H_

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/peer/ggml_api.h"

namespace ropeline {

// One line `--ggml: what is wrong, what was expected`.
class PeerUnusable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class GgmlLibrary {
 public:
  // `folder`: one that holds libggml-base.so, or a build tree or npm package with such a folder up to six
  // levels down. Throws PeerUnusable: nothing found, a file that is no library, a missing function, another
  // interface version, no variant for this CPU. The libraries stay open for the life of the process.
  static std::shared_ptr<const GgmlLibrary> Open(const std::string& folder);

  const ggml::Api& Functions() const { return api_; }
  const std::string& Version() const { return version_; }  // "0.25.1"; "unknown" before ggml had one
  const std::string& Commit() const { return commit_; }    // "" where the library does not tell
  const std::string& Variant() const { return variant_; }  // "icelake"; "cpu" of a build for one CPU
  // Layouts that matrices can be rearranged to for products (ggml's extra buffer types): "CPU_REPACK" …
  const std::vector<ggml::BufferType*>& ExtraBufferTypes() const { return extra_; }
  ggml::Device* CpuDevice() const { return device_; }
  std::string PeerName() const { return "ggml-" + version_; }  // as in row names

 private:
  GgmlLibrary() = default;

  ggml::Api api_;
  std::string version_, commit_, variant_;
  std::vector<ggml::BufferType*> extra_;
  ggml::Device* device_ = nullptr;
};

// Runs each operation that rows use on small tensors in a child process and compares with plain formulas.
// Empty where all agree, otherwise what is wrong: a library whose interface differs from what ggml_api.h says
// must not take the run down with it. Call before any thread is made.
std::string CheckGgmlInChild(const std::string& folder);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_GGML_LIBRARY_H_
