#include "model/gguf_file.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "model/bounded_reader.h"
#include "model/ggml_type.h"

namespace ropeline {
namespace {

// A real header is below 20 MB, with some 50 keys and at most 70,000 tensors (384 experts in files of their
// own). These limits bound the time and the memory that a hostile one can take.
constexpr uint64_t kMostHeaderBytes = uint64_t{64} << 20;
constexpr uint64_t kMostKeys = 1 << 11;
constexpr uint64_t kMostTensors = 1 << 17;
constexpr uint64_t kMostNameBytes = 255;
constexpr uint64_t kKeptTextBytes = 4096;
constexpr uint64_t kKeptElements = 4096;  // of an array of numbers: one for each layer

constexpr const char* kExpectedFile = "a GGUF file";

class GgufParser {
 public:
  GgufParser(std::istream& in, uint64_t size, const std::string& path)
      : path_(path), reader_(in, size, kMostHeaderBytes), file_(path) {}

  GgufFile Parse() {
    Preamble();
    for (uint64_t i = 0; i < n_keys_; ++i) KeyAndValue(i);
    Alignment();
    for (uint64_t i = 0; i < n_tensors_; ++i) file_.tensors.push_back(Tensor(i));
    CheckTensorNames(file_);
    DataWithinFile();
    return std::move(file_);
  }

 private:
  Where At(std::string_view key) const { return {path_, std::string(key)}; }

  void Preamble() {
    if (reader_.Left() < 4) {
      throw BadInput(At(""), "holds " + std::to_string(reader_.size()) + " bytes", kExpectedFile);
    }
    const std::string magic = reader_.ReadText(4, At("magic"));
    if (magic != "GGUF") {
      throw BadInput(At("magic"), "is " + Quoted(magic), "\"GGUF\" as a GGUF file's first bytes");
    }
    auto version = static_cast<uint32_t>(reader_.ReadUnsigned(4, At("version")));
    if (version != 0 && (version & 0xffff) == 0) {  // written in the other byte order
      file_.big_endian = true;
      reader_.set_big_endian(true);
      version = version >> 24 | (version >> 8 & 0xff00);
    }
    if (version != 2 && version != 3) {
      throw BadInput(At("version"), "is " + std::to_string(version), "2 or 3; convert the model again");
    }
    file_.version = version;
    // The smallest tensor and the smallest key and value take 24 and 13 bytes.
    n_tensors_ = HowMany("tensor_count", kMostTensors, 24);
    n_keys_ = HowMany("metadata_kv_count", kMostKeys, 13);
  }

  uint64_t HowMany(std::string_view key, uint64_t most, uint64_t least_bytes) {
    const uint64_t count = reader_.ReadUnsigned(8, At(key));
    if (count > most || count * least_bytes > reader_.Left()) {
      throw BadInput(At(key), "is " + std::to_string(count),
                     "at most " + std::to_string(std::min(most, reader_.Left() / least_bytes)) +
                         " in a file of " + std::to_string(reader_.size()) + " bytes");
    }
    return count;
  }

  std::string Name(const std::string& what, uint64_t most) {
    const uint64_t bytes = reader_.ReadUnsigned(8, At(what));
    if (bytes > most) {
      throw BadInput(At(what), "has a name of " + std::to_string(bytes) + " bytes",
                     "at most " + std::to_string(most));
    }
    return reader_.ReadText(bytes, At(what));
  }

  GgufType Type(const std::string& key) {
    const uint64_t number = reader_.ReadUnsigned(4, At(key));
    if (number >= kGgufTypes) {
      throw BadInput(At(key), "has value type " + std::to_string(number), "a type from 0 to 12");
    }
    return static_cast<GgufType>(number);
  }

  void KeyAndValue(uint64_t i) {
    const std::string key = Name("key " + std::to_string(i + 1) + " of " + std::to_string(n_keys_), 65535);
    GgufValue value;
    value.type = Type(key);
    if (value.type == GgufType::kArray) {
      value.is_array = true;
      value.type = Type(key);
      if (value.type == GgufType::kArray)
        throw BadInput(At(key), "is an array of arrays", "an array of values");
      value.count = reader_.ReadUnsigned(8, At(key));
      Array(key, &value);
    } else if (value.type == GgufType::kString) {
      value.count = reader_.ReadUnsigned(8, At(key));
      value.kept = value.count <= kKeptTextBytes;
      if (value.kept) {
        value.text = reader_.ReadText(value.count, At(key));
      } else {
        reader_.Skip(value.count, At(key));
      }
    } else {
      value.kept = true;
      value.numbers.push_back(Number(key, value.type));
    }
    file_.metadata.Add(key, std::move(value));
  }

  void Array(const std::string& key, GgufValue* value) {
    const bool strings = value->type == GgufType::kString;
    const auto least_bytes = static_cast<uint64_t>(strings ? 8 : GgufTypeBytes(value->type));
    if (value->count > reader_.Left() / least_bytes) {
      throw BadInput(At(key), "is an array of " + std::to_string(value->count) + " elements",
                     "at most the " + std::to_string(reader_.Left()) + " bytes that the file has left");
    }
    if (strings) {
      const Where where = At(key);
      for (uint64_t i = 0; i < value->count; ++i) reader_.Skip(reader_.ReadUnsigned(8, where), where);
    } else if (value->count <= kKeptElements) {
      value->kept = true;
      for (uint64_t i = 0; i < value->count; ++i) value->numbers.push_back(Number(key, value->type));
    } else {
      reader_.Skip(value->count * least_bytes, At(key));
    }
  }

  double Number(const std::string& key, GgufType type) {
    const uint64_t bits = reader_.ReadUnsigned(GgufTypeBytes(type), At(key));
    switch (type) {
      case GgufType::kI8:
        return static_cast<int8_t>(bits);
      case GgufType::kI16:
        return static_cast<int16_t>(bits);
      case GgufType::kI32:
        return static_cast<int32_t>(bits);
      case GgufType::kI64:
        return static_cast<double>(static_cast<int64_t>(bits));
      case GgufType::kF32:
        return std::bit_cast<float>(static_cast<uint32_t>(bits));
      case GgufType::kF64:
        return std::bit_cast<double>(bits);
      default:
        return static_cast<double>(bits);
    }
  }

  void Alignment() {
    constexpr const char* kKey = "general.alignment";
    file_.alignment = file_.metadata.FindCount(kKey).value_or(32);
    if (!std::has_single_bit(file_.alignment) || file_.alignment > (1 << 30)) {
      throw BadInput(At(kKey), "is " + std::to_string(file_.alignment), "a power of two");
    }
  }

  GgufTensor Tensor(uint64_t i) {
    GgufTensor tensor;
    tensor.name =
        Name("tensor " + std::to_string(i + 1) + " of " + std::to_string(n_tensors_), kMostNameBytes);
    const Where where = At(tensor.name);
    const uint64_t n_dims = reader_.ReadUnsigned(4, where);
    if (n_dims > tensor.dims.size()) {
      throw BadInput(where, "has " + std::to_string(n_dims) + " dimensions", "at most 4");
    }
    tensor.n_dims = static_cast<uint32_t>(n_dims);
    uint64_t elements = 1;
    for (uint64_t d = 0; d < n_dims; ++d) {
      const uint64_t dim = reader_.ReadUnsigned(8, where);
      constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 8;
      if (dim == 0 || dim > kMost / elements) {
        throw BadInput(where, "has dimension " + std::to_string(d) + " of " + std::to_string(dim),
                       "at least 1 and a tensor of less than 2^60 elements");
      }
      tensor.dims[d] = dim;
      elements *= dim;
    }
    const uint64_t type = reader_.ReadUnsigned(4, where);
    tensor.type = FindGgmlType(static_cast<uint32_t>(type));
    if (tensor.type == nullptr) {
      throw BadInput(where, "is of type " + std::to_string(type), "a type that ggml has");
    }
    if (!tensor.type->Fits(tensor.dims[0])) {
      throw BadInput(
          where, "has rows of " + std::to_string(tensor.dims[0]) + " elements of type " + tensor.type->name,
          "a multiple of " + std::to_string(tensor.type->block_elements));
    }
    tensor.bytes = elements / tensor.type->block_elements * tensor.type->block_bytes;
    tensor.offset = reader_.ReadUnsigned(8, where);
    if (tensor.offset % file_.alignment != 0) {
      throw BadInput(where, "has offset " + std::to_string(tensor.offset),
                     "a multiple of the alignment " + std::to_string(file_.alignment));
    }
    return tensor;
  }

  // A header alone, as tools that read models from afar store it, is accepted; data cut off are not.
  void DataWithinFile() {
    constexpr uint64_t kMostBytes = uint64_t{1} << 60;
    uint64_t total = 0;
    for (const GgufTensor& tensor : file_.tensors) {
      if (tensor.bytes > kMostBytes - total) {
        throw BadInput(At(tensor.name), "makes the tensors larger than 2^60 bytes", "a model that exists");
      }
      total += tensor.bytes;
    }
    file_.file_bytes = reader_.size();
    const uint64_t end = reader_.position();
    file_.header_bytes = (end + file_.alignment - 1) / file_.alignment * file_.alignment;
    file_.shards = {{path_, file_.header_bytes}};
    file_.data_present = file_.tensors.empty() || reader_.size() > file_.header_bytes;
    if (!file_.data_present) return;
    for (const GgufTensor& tensor : file_.tensors) {
      const uint64_t room = reader_.size() - file_.header_bytes;
      if (tensor.offset > room || tensor.bytes > room - tensor.offset) {
        throw BadInput(At(tensor.name),
                       "takes " + std::to_string(tensor.bytes) + " bytes from byte " +
                           std::to_string(tensor.offset) + " of the tensor data on, which is cut off after " +
                           std::to_string(room),
                       "the whole file");
      }
    }
  }

  const std::string path_;
  BoundedReader reader_;
  GgufFile file_;
  uint64_t n_tensors_ = 0;
  uint64_t n_keys_ = 0;
};

}  // namespace

uint64_t GgufFile::TensorBytes() const {
  uint64_t total = 0;
  for (const GgufTensor& tensor : tensors) total += tensor.bytes;
  return total;
}

void CheckTensorNames(const GgufFile& file) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : file.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->name < b->name; });
  const auto twice =
      std::adjacent_find(order.begin(), order.end(),
                         [](const GgufTensor* a, const GgufTensor* b) { return a->name == b->name; });
  if (twice != order.end()) {
    throw BadInput(file.metadata.WhereIs((*twice)->name), "is there twice", "each tensor once");
  }
}

GgufFile ParseGguf(std::istream& in, uint64_t size, const std::string& path) {
  return GgufParser(in, size, path).Parse();
}

}  // namespace ropeline
