// The keys of one architecture in a GGUF file: "block_count" stands for "llama.block_count". Counts are
// refused outside their range; what a reader fills in for an absent key is noted, to be said as a warning.
#ifndef ROPELINE_MODEL_GGUF_KEYS_H_
#define ROPELINE_MODEL_GGUF_KEYS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"
#include "model/gguf_file.h"

namespace ropeline {

struct GgufKey {
  const char* name;  // without the architecture
  uint64_t least = 0;
  uint64_t most = uint64_t{1} << 26;
};

class GgufKeys {
 public:
  // `file` must outlive the keys. Throws BadInput where general.architecture is missing.
  explicit GgufKeys(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  Where WhereIs(std::string_view name) const { return file_.metadata.WhereIs(Full(name)); }
  bool Has(std::string_view name) const { return file_.metadata.Find(Full(name)) != nullptr; }

  // Nothing where absent; BadInput where of another kind or out of range.
  std::optional<uint64_t> FindCount(const GgufKey& key) const;
  std::optional<std::vector<uint64_t>> FindCounts(const GgufKey& key, uint64_t n) const;
  std::optional<double> FindNumber(std::string_view name) const;
  std::optional<bool> FindBool(std::string_view name) const;
  std::optional<std::string> FindText(std::string_view name) const;

  uint64_t CountOr(const GgufKey& key, uint64_t otherwise) const {
    return FindCount(key).value_or(otherwise);
  }
  uint64_t Count(const GgufKey& key) const;
  [[noreturn]] void Missing(std::string_view name, std::string_view expected) const;

  bool has_tensors() const { return !file_.tensors.empty(); }
  const GgufTensor* FindTensor(std::string_view name) const;  // nullptr where absent
  // The tensor "blk.<layer>.<name>.weight".
  const GgufTensor* OfLayer(uint64_t layer, std::string_view name) const;

  void NoteFilled(std::string_view name, std::string_view value) const;
  std::string FilledWarning() const;  // one sentence; "" where nothing was filled in

 private:
  std::string Full(std::string_view name) const { return architecture_ + "." + std::string(name); }
  void CheckRange(const GgufKey& key, uint64_t count) const;

  const GgufFile& file_;
  std::string architecture_;
  std::map<std::string_view, const GgufTensor*> tensors_;
  mutable std::vector<std::string> filled_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_GGUF_KEYS_H_
