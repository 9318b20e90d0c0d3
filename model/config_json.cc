#include "model/config_json.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "model/bad_input.h"
#include "model/json_view.h"

namespace ropeline {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;  // published configs reach 5
constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

// Builds the document as the parser reads it, so that depth and double keys are seen in the same pass.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& file, std::string_view expected) : file_(file), expected_(expected) {}

  struct Fault {
    size_t byte;  // the parser's: one beyond the text where it ends early
    bool syntax;  // false: a number that no double holds
  };
  const std::optional<Fault>& fault() const { return fault_; }
  Json& root() { return root_; }

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return Add(value) != nullptr; }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }  // not in text
  bool start_object(size_t) override { return Open(Json::value_t::object); }
  bool start_array(size_t) override { return Open(Json::value_t::array); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    const auto [at, added] = object.try_emplace(name);
    if (!added) throw BadInput({file_, OneLine(name, 60)}, "is there twice in one object", "each key once");
    value_ = &at->second;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    fault_ = {byte, dynamic_cast<const Json::parse_error*>(&error) != nullptr};
    return false;
  }

 private:
  // Where the value now stands: alone, at the end of an array, or under the key just read.
  template <class Value>
  Json* Add(Value&& value) {
    if (open_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<Json::array_t&>();
      items.emplace_back(std::forward<Value>(value));
      return &items.back();
    }
    *value_ = Json(std::forward<Value>(value));
    return value_;
  }

  bool Open(Json::value_t kind) {
    if (open_.size() == kMaxDepth) {
      throw BadInput({file_, ""}, "is nested deeper than " + std::to_string(kMaxDepth) + " levels",
                     expected_);
    }
    open_.push_back(Add(kind));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const std::string& file_;
  std::string_view expected_;
  Json root_{};
  std::vector<Json*> open_{};  // objects and arrays; the last one is being filled
  Json* value_ = nullptr;      // under the last key of the object being filled
  std::optional<Fault> fault_{};
};

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Behind the string that starts at `begin`.
size_t StringEnd(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// The bare token that stands at `at`; "" none.
std::string_view TokenAt(std::string_view text, size_t at) {
  for (const std::string_view token : {"-Infinity", "Infinity", "NaN", "-inf", "inf", "-nan", "nan"}) {
    const size_t end = at + token.size();
    if (text.substr(at, token.size()) != token) continue;
    if (end == text.size() || !IsWordCharacter(text[end])) return token;
  }
  return "";
}

// The text with its bare tokens in quotes; nothing where it has none.
std::optional<std::string> WithQuotedTokens(std::string_view text) {
  std::string strict;
  size_t from = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      i = StringEnd(text, i);
      continue;
    }
    const std::string_view token = TokenAt(text, i);
    if (token.empty()) {
      ++i;
      continue;
    }
    strict.append(text.substr(from, i - from)).append("\"").append(token).append("\"");
    from = i += token.size();
  }
  if (from == 0) return std::nullopt;
  return strict.append(text.substr(from));
}

// Most files are what JSON allows, and simdjson reads those several times faster: 1 MB of numbers in 3 ms,
// not
// 20. False where a value is nested too deep or a key stands twice: the builder tells what and where.
bool Convert(const simdjson::dom::element& from, size_t depth, Json* to) {
  namespace sj = simdjson::dom;
  switch (from.type()) {
    case sj::element_type::ARRAY: {
      if (depth == kMaxDepth) return false;
      const sj::array array(from);
      auto& items = (*to = Json::array()).get_ref<Json::array_t&>();
      items.reserve(array.size());
      for (const sj::element item : array) {
        if (!Convert(item, depth + 1, &items.emplace_back())) return false;
      }
      return true;
    }
    case sj::element_type::OBJECT: {
      if (depth == kMaxDepth) return false;
      auto& members = (*to = Json::object()).get_ref<Json::object_t&>();
      for (const auto& [key, value] : sj::object(from)) {
        const auto [at, added] = members.try_emplace(std::string(key));
        if (!added || !Convert(value, depth + 1, &at->second)) return false;
      }
      return true;
    }
    case sj::element_type::INT64: {
      const int64_t whole(from);
      *to = whole < 0 ? Json(whole) : Json(static_cast<uint64_t>(whole));
      return true;
    }
    case sj::element_type::UINT64:
      *to = uint64_t(from);
      return true;
    case sj::element_type::DOUBLE:
      *to = double(from);
      return true;
    case sj::element_type::STRING:
      *to = std::string(std::string_view(from));
      return true;
    case sj::element_type::BOOL:
      *to = bool(from);
      return true;
    case sj::element_type::NULL_VALUE:
      *to = nullptr;
      return true;
  }
  return false;
}

// Nothing where anything is to be complained of, or was written by a laxer tool.
std::optional<Json> ParseSoundJson(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  Json json;
  if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) return std::nullopt;
  if (!root.is_object() || !Convert(root, 0, &json)) return std::nullopt;
  return json;
}

}  // namespace

Json ParseConfigJson(std::string_view text, const std::string& file, std::string_view expected) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw BadInput({file, ""}, "is empty", expected);
  if (auto sound = ParseSoundJson(text)) return *std::move(sound);
  std::optional<Builder> builder(std::in_place, file, expected);
  std::optional<std::string> quoted;
  if (!Json::sax_parse(text, &*builder) && (quoted = WithQuotedTokens(text))) {
    text = *quoted;
    builder.emplace(file, expected);
    Json::sax_parse(text, &*builder);
  }
  if (const auto& fault = builder->fault()) {
    if (!fault->syntax) throw BadInput({file, ""}, "holds a number that is out of range", expected);
    if (fault->byte > text.size()) {
      throw BadInput({file, ""},
                     "is truncated: it ends within a value at byte " + std::to_string(text.size()), expected);
    }
    throw BadInput({file, ""}, "is not JSON: syntax error at byte " + std::to_string(fault->byte), expected);
  }
  if (!builder->root().is_object()) {
    throw BadInput({file, ""}, std::string("is JSON, but ") + builder->root().type_name(), "an object");
  }
  return std::move(builder->root());
}

Json ReadConfigJson(const std::string& path, std::string_view expected) {
  return ParseConfigJson(ReadTextFile(path, kMaxBytes, expected), path, expected);
}

}  // namespace ropeline
