// Keys and values of a GGUF file, typed access with the key named in every error. Long texts and arrays,
// which are tokenizers' and templates', are known by their length only.
#ifndef ROPELINE_MODEL_GGUF_METADATA_H_
#define ROPELINE_MODEL_GGUF_METADATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"

namespace ropeline {

// As numbered in the file (gguf.md, enum gguf_metadata_value_type).
enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
inline constexpr uint32_t kGgufTypes = 13;
const char* GgufTypeName(GgufType type);
int GgufTypeBytes(GgufType type);  // of one number; 0 for strings and arrays

struct GgufValue {
  GgufType type = GgufType::kU8;  // an array's: of its elements
  bool is_array = false;
  uint64_t count = 1;             // an array's elements; a string's bytes
  bool kept = false;              // whether the two below hold it
  std::vector<double> numbers{};  // integers beyond 2^53 are rounded; true is 1
  std::string text{};
};

class GgufMetadata {
 public:
  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}

  // Throws BadInput where the key is there already.
  void Add(const std::string& key, GgufValue value);
  const GgufValue* Find(std::string_view key) const;  // nullptr where absent
  size_t size() const { return values_.size(); }
  Where WhereIs(std::string_view key) const { return {file_, std::string(key)}; }

  // These throw BadInput where the key is there with another type or an impossible value.
  std::optional<std::string> FindText(std::string_view key) const;
  std::optional<bool> FindBool(std::string_view key) const;
  std::optional<double> FindNumber(std::string_view key) const;    // finite
  std::optional<uint64_t> FindCount(std::string_view key) const;   // whole, at least 0, at most 2^53
  std::optional<uint64_t> FindLength(std::string_view key) const;  // of an array
  // A value for each of n layers: an array of at least n (what is beyond n belongs to nothing), or one number
  // that holds for all.
  std::optional<std::vector<uint64_t>> FindCounts(std::string_view key, uint64_t n) const;

  std::string Text(std::string_view key) const;  // must be there
  uint64_t Count(std::string_view key) const;    // must be there

 private:
  [[noreturn]] void Fail(std::string_view key, std::string_view expected) const;
  uint64_t ToCount(std::string_view key, double number) const;

  std::string file_;
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_METADATA_H_
