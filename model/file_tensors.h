// The tensors of a model's files, one by one.
#ifndef ROPELINE_MODEL_FILE_TENSORS_H_
#define ROPELINE_MODEL_FILE_TENSORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

struct FileTensor {
  std::string name;
  std::vector<uint64_t> shape;  // as the file has it: GGUF the contiguous dimension first, safetensors last
  std::string format;
  uint64_t bytes = 0;
};

// The GGUF model in a folder, its first file where it is in shards; nothing where there is none. Throws
// BadInput where there are several.
std::optional<std::string> FindGgufIn(const std::string& folder);

// Of `what` as OpenModel takes it: a .gguf file's, or those of a folder's safetensors or .gguf file. Empty
// where there are none. Throws BadInput where a file does not make sense.
std::vector<FileTensor> TensorsOf(const std::string& what);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FILE_TENSORS_H_
