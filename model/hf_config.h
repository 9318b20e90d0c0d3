// A config.json as a reader sees it: the part that describes the text model, under one set of names, with the
// defaults of its family for what it does not say.
#ifndef ROPELINE_MODEL_HF_CONFIG_H_
#define ROPELINE_MODEL_HF_CONFIG_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/hf_keys.h"
#include "model/json_view.h"

namespace ropeline {

// A yes or no that a file may say under one of `names`; `otherwise` where it does not.
struct HfFlag {
  const char* names = "";
  bool otherwise = false;
};

// The file's object that describes the text model: itself, or one nested in it (text_config, llm_config …;
// the decoder of T5Gemma), followed down. `root` must outlive the view.
JsonView TextPart(const nlohmann::json& root, const std::string& file);

class HfConfig {
 public:
  // `defaults`: the documented defaults of the family's configuration class, a JSON object under the usual
  // names; `family` names it in the warning. `root` must outlive the config.
  HfConfig(const nlohmann::json& root, const std::string& file, const std::string& family,
           const char* defaults);
  // The same of one part of a file, such as an encoder beside the text model.
  HfConfig(const JsonView& root, const JsonView& part, const std::string& family, const char* defaults);

  const JsonView& text() const { return text_; }
  const JsonView& root() const { return root_; }
  std::string ModelType() const;  // of the text part; "" where absent

  // The value under the first of the key's names that has one, else the family's default. Nothing where the
  // file says null, or where neither says anything.
  std::optional<JsonView> Find(const HfKey& key) const;
  bool Given(const HfKey& key) const;  // the file has one of the names, null included

  // Throw BadInput where the value is not of the kind, or outside the key's range.
  std::optional<uint64_t> FindCount(const HfKey& key) const;
  std::optional<double> FindNumber(const HfKey& key) const;  // finite, ≥ 0
  uint64_t CountOr(const HfKey& key, uint64_t otherwise) const { return FindCount(key).value_or(otherwise); }
  bool Is(const HfFlag& flag) const;

  // Throw BadInput that names the key where nothing is found.
  uint64_t Count(const HfKey& key) const;
  [[noreturn]] void Missing(const HfKey& key, std::string_view expected) const;

  // A list with at least `n` entries, as counts; nothing where absent or null.
  std::optional<std::vector<uint64_t>> FindCounts(const HfKey& key, size_t n) const;
  std::optional<std::vector<std::string>> FindStrings(const HfKey& key, size_t n) const;

  // A default that a reader filled in by itself, for the warning.
  void NoteFilled(std::string_view key, std::string_view value) const;
  // One sentence that lists what was filled in; "" where nothing was.
  std::string FilledWarning() const;

 private:
  std::optional<JsonView> InFile(const HfKey& key, bool* given) const;

  std::string family_;
  JsonView root_, text_;
  nlohmann::json defaults_;
  mutable std::vector<std::string> filled_;
};

uint64_t CountIn(const JsonView& value, const HfKey& key);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_HF_CONFIG_H_
