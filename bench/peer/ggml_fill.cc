#include "bench/peer/ggml_fill.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/convert.h"
#include "kernels/hash.h"

namespace ropeline {

void EncodeRows(const GgmlLibrary& library, ggml::Type type, const float* in, size_t columns, size_t rows,
                void* out) {
  switch (type) {
    case ggml::Type::kF32:
      std::memcpy(out, in, 4 * columns * rows);
      return;
    case ggml::Type::kF16:
      ConvertElements(in, columns * rows, Dtype::kF16, out);
      return;
    case ggml::Type::kBf16:
      ConvertElements(in, columns * rows, Dtype::kBf16, out);
      return;
    default:
      library.Functions().ggml_quantize_chunk(type, in, out, 0, static_cast<int64_t>(rows),
                                              static_cast<int64_t>(columns), nullptr);
  }
}

void FillRows(const GgmlLibrary& library, ggml::Type type, size_t columns, size_t rows, size_t seed,
              void* out, size_t distinct) {
  const size_t fresh = std::min(rows, distinct);
  std::vector<float> numbers(fresh * columns);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = HashToFloat(i, seed);
  EncodeRows(library, type, numbers.data(), columns, fresh, out);
  const size_t row_bytes = library.Functions().ggml_row_size(type, static_cast<int64_t>(columns));
  char* const bytes = static_cast<char*>(out);
  for (size_t row = fresh; row < rows; row += fresh) {
    std::memcpy(bytes + row * row_bytes, bytes, std::min(fresh, rows - row) * row_bytes);
  }
}

}  // namespace ropeline
