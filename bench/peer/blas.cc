#include "bench/peer/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "kernels/hash.h"
#include "kernels/memory.h"

#ifdef ROPELINE_HAVE_OPENBLAS
#include <cblas.h>
#endif
#ifdef ROPELINE_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

// OpenMP's, in the library that oneDNN was built with. Its header comes with one compiler only.
extern "C" void omp_set_num_threads(int threads);
#endif

namespace ropeline {

namespace {

#if defined(ROPELINE_HAVE_OPENBLAS) || defined(ROPELINE_HAVE_ONEDNN)
Mapping Operand(size_t bytes) { return Mapping(std::max<size_t>(bytes, 64), Pages::kHuge); }

void FillFloats(size_t elements, size_t seed, void* out) {
  for (size_t i = 0; i < elements; ++i) static_cast<float*>(out)[i] = HashToFloat(i, seed);
}
#endif

#ifdef ROPELINE_HAVE_OPENBLAS
std::function<void()> OpenBlasProduct(const std::string&, const BlasProduct& shape) {
  struct Operands {
    std::vector<Mapping> weights;
    Mapping x, y;
    size_t next = 0;
  };
  auto operands = std::make_shared<Operands>();
  for (size_t i = 0; i < shape.matrices; ++i) {
    operands->weights.push_back(Operand(4 * shape.rows * shape.cols));
    FillFloats(shape.rows * shape.cols, 1, operands->weights.back().Data());
  }
  operands->x = Operand(4 * shape.n * shape.cols);
  operands->y = Operand(4 * shape.n * shape.rows);
  FillFloats(shape.n * shape.cols, 2, operands->x.Data());
  return [shape, operands] {
    openblas_set_num_threads(shape.threads);
    const int rows = static_cast<int>(shape.rows), cols = static_cast<int>(shape.cols),
              n = static_cast<int>(shape.n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, rows, cols, 1,
                static_cast<const float*>(operands->x.Data()), cols,
                static_cast<const float*>(operands->weights[operands->next].Data()), cols, 0,
                static_cast<float*>(operands->y.Data()), rows);
    operands->next = (operands->next + 1) % shape.matrices;
  };
}

BlasLibrary OpenBlas() {
  // "OpenBLAS 0.3.21 DYNAMIC_ARCH …"
  std::string version = openblas_get_config();
  version = version.substr(version.find(' ') + 1);
  return {
      "openblas", version.substr(0, version.find(' ')), openblas_get_corename(), {"f32"}, OpenBlasProduct};
}
#endif

#ifdef ROPELINE_HAVE_ONEDNN
void Rearrange(const dnnl::memory& from, const dnnl::memory& to, dnnl::stream* stream) {
  dnnl::memory in = from, out = to;
  dnnl::reorder(in, out).execute(*stream, in, out);
}

// The library chooses the layout of the weights, as engines let it: they are rearranged once, before any
// call.
std::function<void()> OneDnnProduct(const std::string& dtype, const BlasProduct& shape) {
  using dnnl::memory;
  const auto type = dtype == "f32"    ? memory::data_type::f32
                    : dtype == "bf16" ? memory::data_type::bf16
                                      : memory::data_type::s8;
  const auto source_type = dtype == "int8" ? memory::data_type::u8 : type;
  const auto result_type = dtype == "int8" ? memory::data_type::s32 : memory::data_type::f32;
  const auto n = static_cast<memory::dim>(shape.n), cols = static_cast<memory::dim>(shape.cols),
             rows = static_cast<memory::dim>(shape.rows);
  struct State {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    dnnl::matmul product;
    std::vector<std::unordered_map<int, memory>> arguments;  // by matrix
    size_t next = 0;
  };
  auto state = std::make_shared<State>();
  omp_set_num_threads(shape.threads);
  const memory::desc x({n, cols}, source_type, memory::format_tag::ab);
  const memory::desc any({cols, rows}, type, memory::format_tag::any);
  const memory::desc y({n, rows}, result_type, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc primitive(state->engine, x, any, y);
#else
  const dnnl::matmul::primitive_desc primitive(dnnl::matmul::desc(x, any, y), state->engine);
#endif
  state->product = dnnl::matmul(primitive);
  const memory plain({{cols, rows}, memory::data_type::f32, memory::format_tag::ba}, state->engine);
  FillFloats(shape.rows * shape.cols, 1, plain.get_data_handle());
  const memory plain_x({{n, cols}, memory::data_type::f32, memory::format_tag::ab}, state->engine);
  FillFloats(shape.n * shape.cols, 2, plain_x.get_data_handle());
  const memory source(x, state->engine), result(y, state->engine);
  Rearrange(plain_x, source, &state->stream);
  for (size_t i = 0; i < shape.matrices; ++i) {
    const memory weights(primitive.weights_desc(), state->engine);
    Rearrange(plain, weights, &state->stream);
    state->arguments.push_back({{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}});
  }
  state->stream.wait();
  return [state, shape] {
    omp_set_num_threads(shape.threads);
    state->product.execute(state->stream, state->arguments[state->next]);
    state->stream.wait();
    state->next = (state->next + 1) % shape.matrices;
  };
}

BlasLibrary OneDnn() {
  const dnnl_version_t* version = dnnl_version();
  return {"onednn",
          fmt::format("{}.{}.{}", version->major, version->minor, version->patch),
          "",
          {"f32", "bf16", "int8"},
          OneDnnProduct};
}
#endif

}  // namespace

const std::vector<BlasLibrary>& BlasLibraries() {
  static const auto* const libraries = new std::vector<BlasLibrary>{
#ifdef ROPELINE_HAVE_OPENBLAS
      OpenBlas(),
#endif
#ifdef ROPELINE_HAVE_ONEDNN
      OneDnn(),
#endif
  };
  return *libraries;
}

std::string BlasMissing(const std::string& name) {
  for (const BlasLibrary& library : BlasLibraries()) {
    if (library.name == name) return "";
  }
  return name + " was not installed when this program was built (scripts/setup.sh installs it)";
}

}  // namespace ropeline
