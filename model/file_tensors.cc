#include "model/file_tensors.h"

#include <filesystem>

#include "model/bad_input.h"
#include "model/gguf_file.h"
#include "model/safetensors.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

std::vector<FileTensor> GgufTensors(const std::string& path) {
  std::vector<FileTensor> tensors;
  for (const GgufTensor& tensor : ReadGgufFile(path).tensors) {
    tensors.push_back({tensor.name,
                       {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims},
                       tensor.type->name,
                       tensor.bytes});
  }
  return tensors;
}

}  // namespace

std::optional<std::string> FindGgufIn(const std::string& folder) {
  std::error_code error;
  std::optional<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    const bool later_shard =
        name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (later_shard) continue;
    if (found) {
      throw BadInput({folder, ""}, "holds several models: " + found->filename().string() + ", " + name,
                     "one of the files");
    }
    found = entry.path();
  }
  return found ? std::optional(found->string()) : std::nullopt;
}

std::vector<FileTensor> TensorsOf(const std::string& what) {
  std::error_code error;
  if (!fs::is_directory(what, error)) {
    return LooksLikeGguf(what) ? GgufTensors(what) : std::vector<FileTensor>{};
  }
  if (const auto folder = FindSafetensors(what)) {
    std::vector<FileTensor> tensors;
    for (const SafetensorsTensor& tensor : folder->tensors) {
      tensors.push_back({tensor.name, tensor.shape, tensor.dtype, tensor.bytes});
    }
    return tensors;
  }
  const auto gguf = FindGgufIn(what);
  return gguf ? GgufTensors(*gguf) : std::vector<FileTensor>{};
}

}  // namespace ropeline
