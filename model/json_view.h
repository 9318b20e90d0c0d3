// Reading a JSON file that may hold anything. A JsonView is a value with its place in the file; every access
// that does not find what it asks for throws BadInput with that place: "bench.json: benchmarks[3].call_ns: is
// a string, …".
#ifndef ROPELINE_MODEL_JSON_VIEW_H_
#define ROPELINE_MODEL_JSON_VIEW_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bad_input.h"

namespace ropeline {

// Throws BadInput where it is no regular file, is larger than `most_bytes` or cannot be read.
std::string ReadTextFile(const std::string& path, uint64_t most_bytes, std::string_view expected);

// Throws BadInput where the file cannot be read, is empty, ends early or is not JSON. `expected` says what it
// should be.
nlohmann::json ReadJsonFile(const std::string& path, std::string_view expected);
// Its two halves.
std::string ReadJsonText(const std::string& path, std::string_view expected);
nlohmann::json ParseJsonText(const std::string& text, const std::string& path, std::string_view expected);

class JsonView {
 public:
  // The value must outlive the view.
  JsonView(const nlohmann::json& value, Where where) : value_(&value), where_(std::move(where)) {}

  const Where& where() const { return where_; }

  JsonView At(std::string_view key) const;  // must be there
  std::optional<JsonView> Find(
      std::string_view key) const;       // nothing where absent or null: both mean unknown
  bool Has(std::string_view key) const;  // an object with that key, even if null
  bool is_array() const;
  bool is_object() const;
  bool is_string() const;
  bool is_boolean() const;
  bool is_negative() const;               // a number below 0
  std::vector<JsonView> Items() const;    // an array's
  std::vector<std::string> Keys() const;  // an object's

  std::string String() const;
  bool Bool() const;
  double Number() const;   // finite, at least 0: every figure of ours is
  uint64_t Count() const;  // a whole number, at most 2^53

  // What Find finds, converted; nothing where unknown.
  std::optional<std::string> FindString(std::string_view key) const;
  std::optional<bool> FindBool(std::string_view key) const;
  std::optional<double> FindNumber(std::string_view key) const;
  std::optional<uint64_t> FindCount(std::string_view key) const;

 private:
  [[noreturn]] void Fail(std::string_view expected) const;
  JsonView Child(const nlohmann::json& value, std::string_view key) const;

  const nlohmann::json* value_;
  Where where_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_JSON_VIEW_H_
