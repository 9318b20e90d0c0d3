// Matrix products of Debian's libraries, as far as this build has them.
#ifndef ROPELINE_BENCH_PEER_BLAS_H_
#define ROPELINE_BENCH_PEER_BLAS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ropeline {

// y = W x for n vectors: x [n, cols], W [rows, cols], y [n, rows], in memory of its own.
struct BlasProduct {
  size_t rows, cols, n;
  int threads;
  size_t matrices;  // that calls take in turn
};

struct BlasLibrary {
  std::string name;     // "openblas", "onednn"
  std::string version;  // "0.3.21"
  std::string kernels;  // what it chose for this CPU: "SkylakeX"
  std::vector<std::string> dtypes;
  // Makes operands and returns the call that computes a product once.
  std::function<std::function<void()>(const std::string& dtype, const BlasProduct&)> make;

  std::string PeerName() const { return name + "-" + version; }
};

const std::vector<BlasLibrary>& BlasLibraries();

// Why the build has none of that name; "" where it has.
std::string BlasMissing(const std::string& name);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_PEER_BLAS_H_
