// Writes small GGUF files for tests: metadata, a table of tensors and, where asked, zeros for their data.
#ifndef ROPELINE_MODEL_FAKE_GGUF_H_
#define ROPELINE_MODEL_FAKE_GGUF_H_

#include <unistd.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

class FakeGguf {
 public:
  explicit FakeGguf(bool big_endian = false, uint32_t version = 3)
      : big_endian_(big_endian), version_(version) {}

  FakeGguf& U32(const std::string& key, uint32_t value) { return Key(key, 4).Put(keys_, value, 4); }
  FakeGguf& I32(const std::string& key, int32_t value) {
    return Key(key, 5).Put(keys_, static_cast<uint32_t>(value), 4);
  }
  FakeGguf& U16(const std::string& key, uint16_t value) { return Key(key, 2).Put(keys_, value, 2); }
  FakeGguf& U64(const std::string& key, uint64_t value) { return Key(key, 10).Put(keys_, value, 8); }
  FakeGguf& F32(const std::string& key, float value) {
    return Key(key, 6).Put(keys_, std::bit_cast<uint32_t>(value), 4);
  }
  FakeGguf& F64(const std::string& key, double value) {
    return Key(key, 12).Put(keys_, std::bit_cast<uint64_t>(value), 8);
  }
  FakeGguf& Bool(const std::string& key, bool value) { return Key(key, 7).Put(keys_, value ? 1 : 0, 1); }
  FakeGguf& Text(const std::string& key, std::string_view value) { return Key(key, 8).PutText(keys_, value); }
  FakeGguf& U32s(const std::string& key, const std::vector<uint32_t>& values) {
    Array(key, 4, values.size());
    for (const uint32_t value : values) Put(keys_, value, 4);
    return *this;
  }
  FakeGguf& Bools(const std::string& key, const std::vector<bool>& values) {
    Array(key, 7, values.size());
    for (const bool value : values) Put(keys_, value ? 1 : 0, 1);
    return *this;
  }
  // n strings of 3 bytes.
  FakeGguf& Texts(const std::string& key, uint64_t n) {
    Array(key, 8, n);
    for (uint64_t i = 0; i < n; ++i) PutText(keys_, "abc");
    return *this;
  }
  // An array's head alone: element type and count.
  FakeGguf& Array(const std::string& key, uint32_t type, uint64_t count) {
    return Key(key, 9).Put(keys_, type, 4).Put(keys_, count, 8);
  }
  // A key alone, for a value of this type.
  FakeGguf& Key(const std::string& key, uint32_t type) {
    ++n_keys_;
    return PutText(keys_, key).Put(keys_, type, 4);
  }

  // `bytes` of data, at the next multiple of the alignment 32.
  FakeGguf& Tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                   uint64_t bytes) {
    TensorAt(name, dims, type, data_bytes_);
    data_bytes_ = (data_bytes_ + bytes + 31) / 32 * 32;
    return *this;
  }
  FakeGguf& F32Tensor(const std::string& name, const std::vector<uint64_t>& dims) {
    uint64_t bytes = 4;
    for (const uint64_t dim : dims) bytes *= dim;
    return Tensor(name, dims, 0, bytes);
  }
  FakeGguf& TensorAt(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                     uint64_t offset) {
    ++n_tensors_;
    PutText(tensors_, name).Put(tensors_, dims.size(), 4);
    for (const uint64_t dim : dims) Put(tensors_, dim, 8);
    return Put(tensors_, type, 4).Put(tensors_, offset, 8);
  }

  FakeGguf& ClaimTensors(uint64_t n) { return n_tensors_ = n, *this; }
  FakeGguf& ClaimKeys(uint64_t n) { return n_keys_ = n, *this; }
  uint64_t data_bytes() const { return data_bytes_; }

  // The header up to its last byte, without padding.
  std::string Header() const {
    std::string bytes = "GGUF";
    Append(bytes, version_, 4);
    Append(bytes, n_tensors_, 8);
    Append(bytes, n_keys_, 8);
    return bytes + keys_ + tensors_;
  }
  // Padding and data, all zeros, follow.
  std::string File() const {
    std::string bytes = Header();
    bytes.resize((bytes.size() + 31) / 32 * 32 + data_bytes_);
    return bytes;
  }

 private:
  void Append(std::string& to, uint64_t value, int bytes) const {
    for (int i = 0; i < bytes; ++i) {
      to += static_cast<char>(value >> 8 * (big_endian_ ? bytes - 1 - i : i) & 0xff);
    }
  }
  FakeGguf& Put(std::string& to, uint64_t value, int bytes) {
    Append(to, value, bytes);
    return *this;
  }
  FakeGguf& PutText(std::string& to, std::string_view text) {
    Append(to, text.size(), 8);
    to += text;
    return *this;
  }

  bool big_endian_;
  uint32_t version_;
  std::string keys_, tensors_;
  uint64_t n_keys_ = 0, n_tensors_ = 0, data_bytes_ = 0;
};

// A folder of this test and process, removed with the object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("ropeline_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FAKE_GGUF_H_
