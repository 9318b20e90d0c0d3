// The header of a GGUF file: metadata and the table of tensors (ggml's docs/gguf.md), versions 2 and 3, both
// byte orders, one file or all of its shards. Weights are never read: a file of 40 GB takes milliseconds.
#ifndef ROPELINE_MODEL_GGUF_FILE_H_
#define ROPELINE_MODEL_GGUF_FILE_H_

#include <array>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "model/block_format.h"
#include "model/gguf_metadata.h"

namespace ropeline {

struct GgufTensor {
  std::string name;
  uint32_t n_dims = 0;
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is contiguous: a row's elements
  const BlockFormat* type = nullptr;
  uint32_t shard = 0;   // index into GgufFile::shards
  uint64_t offset = 0;  // from the start of its shard's tensor data
  uint64_t bytes = 0;   // without padding

  uint64_t Elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct GgufShard {
  std::string path;
  uint64_t data_start = 0;  // byte where the tensor data begin
};

struct GgufFile {
  explicit GgufFile(const std::string& path) : metadata(path) {}

  uint32_t version = 0;
  bool big_endian = false;
  uint64_t alignment = 32;    // of tensor data, bytes
  uint64_t file_bytes = 0;    // of all shards
  uint64_t header_bytes = 0;  // of all shards, padding included
  std::vector<GgufShard> shards;
  GgufMetadata metadata;            // the first shard's
  std::vector<GgufTensor> tensors;  // of all shards, in the files' order
  bool data_present = true;         // false: the file ends with its header, the data are elsewhere

  uint64_t TensorBytes() const;  // without padding
};

// True where the file begins with GGUF's magic number or its name ends in .gguf.
bool LooksLikeGguf(const std::string& path);

// Throws BadInput where the file, or a shard, is missing, cut off or does not make sense; the key or the
// tensor is named. `path` may be any shard.
GgufFile ReadGgufFile(const std::string& path);

// One file alone, from a stream of `size` bytes; split.* keys have no meaning here. `path` is for messages.
GgufFile ParseGguf(std::istream& in, uint64_t size, const std::string& path);

// The values of a small f32 tensor: a table of frequencies, the only data that are ever read. Nothing where
// the data are not there, of another type, more than 4096 or not all above 0.
std::optional<std::vector<double>> ReadSmallTensor(const GgufFile& file, const GgufTensor& tensor);

// Throws BadInput where two tensors have one name.
void CheckTensorNames(const GgufFile& file);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_FILE_H_
