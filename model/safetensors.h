// The headers of safetensors files: name, type, shape and bytes of every tensor, without reading a weight.
// Format: github.com/huggingface/safetensors, README.md: a u64 (little endian) with the length of a JSON
// text, the text, the data.
#ifndef ROPELINE_MODEL_SAFETENSORS_H_
#define ROPELINE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as in the file: "BF16", "F8_E4M3" …
  uint64_t elements = 1;
  uint64_t bytes = 0;
  std::vector<uint64_t> shape{};
};

struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;
  uint64_t file_bytes = 0;
};

// The weights of a folder.
struct SafetensorsFolder {
  // Of all files. Empty where there is an index whose files are not here: then only tensor_bytes is known.
  std::vector<SafetensorsTensor> tensors;
  uint64_t tensor_bytes = 0;
  uint64_t file_bytes = 0;  // 0 where the files are not here
  std::string source;       // the index's or the file's path
};

// Nothing where the folder holds neither an index nor a safetensors file. With an index, its files count and
// no others; without, model.safetensors, else every *.safetensors. Throws BadInput, which names the file and
// the tensor, where one does not make sense or some of an index's files are missing.
std::optional<SafetensorsFolder> FindSafetensors(const std::string& folder);

// One file from a stream of `size` bytes; `path` is for messages. A header alone is accepted, data that are
// cut off are not.
SafetensorsFile ParseSafetensors(std::istream& in, uint64_t size, const std::string& path);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_SAFETENSORS_H_
