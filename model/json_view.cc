#include "model/json_view.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace ropeline {
namespace {

// A device or a pipe may never end, and no result is that large.
constexpr uint64_t kMostBytes = uint64_t{512} << 20;

}  // namespace

std::string ReadTextFile(const std::string& path, uint64_t most_bytes, std::string_view expected) {
  if (path.empty()) throw BadInput({"\"\"", ""}, "is no file name", expected);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw BadInput({path, ""}, "is not a regular file", expected);
  }
  if (std::filesystem::exists(status) && std::filesystem::file_size(path, error) > most_bytes) {
    throw BadInput({path, ""}, "is larger than any such file", expected);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw BadInput({path, ""}, std::string("cannot be opened: ") + std::strerror(errno), expected);
  std::string text;
  constexpr uint64_t kPadding = 64;  // room that simdjson wants behind a text, lest it copies it
  if (std::filesystem::exists(status)) text.reserve(std::filesystem::file_size(path, error) + kPadding);
  char buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), file.get())) text.append(buffer, got);
  if (std::ferror(file.get())) {
    throw BadInput({path, ""}, std::string("cannot be read: ") + std::strerror(errno), expected);
  }
  return text;
}

std::string ReadJsonText(const std::string& path, std::string_view expected) {
  return ReadTextFile(path, kMostBytes, expected);
}

nlohmann::json ParseJsonText(const std::string& text, const std::string& path, std::string_view expected) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw BadInput({path, ""}, "is empty", expected);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    if (e.byte > text.size()) {
      throw BadInput({path, ""},
                     "is truncated: it ends within a value at byte " + std::to_string(text.size()), expected);
    }
    throw BadInput({path, ""}, "is not JSON: syntax error at byte " + std::to_string(e.byte), expected);
  } catch (const nlohmann::json::exception&) {  // a number beyond double
    throw BadInput({path, ""}, "holds a number that is out of range", expected);
  }
}

nlohmann::json ReadJsonFile(const std::string& path, std::string_view expected) {
  return ParseJsonText(ReadJsonText(path, expected), path, expected);
}

void JsonView::Fail(std::string_view expected) const {
  std::string found = value_->type_name();
  if (value_->is_primitive() && !value_->is_null()) {
    found += " " + OneLine(value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
  }
  throw BadInput(where_, "is " + found, expected);
}

JsonView JsonView::Child(const nlohmann::json& value, std::string_view key) const {
  return {value, {where_.file, where_.key.empty() ? std::string(key) : where_.key + "." + std::string(key)}};
}

JsonView JsonView::At(std::string_view key) const {
  if (auto found = Find(key)) return *found;
  throw BadInput(Child(*value_, key).where_, "is missing", "a value");
}

std::optional<JsonView> JsonView::Find(std::string_view key) const {
  if (!value_->is_object()) Fail("an object");
  const auto it = value_->find(std::string(key));
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return Child(*it, key);
}

bool JsonView::Has(std::string_view key) const { return value_->is_object() && value_->contains(key); }
bool JsonView::is_array() const { return value_->is_array(); }
bool JsonView::is_object() const { return value_->is_object(); }
bool JsonView::is_string() const { return value_->is_string(); }
bool JsonView::is_boolean() const { return value_->is_boolean(); }
bool JsonView::is_negative() const { return value_->is_number() && value_->get<double>() < 0; }

std::vector<JsonView> JsonView::Items() const {
  if (!value_->is_array()) Fail("an array");
  std::vector<JsonView> items;
  items.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    items.push_back({(*value_)[i], {where_.file, where_.key + "[" + std::to_string(i) + "]"}});
  }
  return items;
}

std::vector<std::string> JsonView::Keys() const {
  if (!value_->is_object()) Fail("an object");
  std::vector<std::string> keys;
  for (const auto& item : value_->items()) keys.push_back(item.key());
  return keys;
}

std::string JsonView::String() const {
  if (!value_->is_string()) Fail("a string");
  return value_->get<std::string>();
}

bool JsonView::Bool() const {
  if (!value_->is_boolean()) Fail("true or false");
  return value_->get<bool>();
}

double JsonView::Number() const {
  constexpr const char* kExpected = "a number of at least 0";
  if (!value_->is_number()) Fail(kExpected);
  const auto number = value_->get<double>();
  if (!std::isfinite(number) || number < 0) Fail(kExpected);
  return number;
}

uint64_t JsonView::Count() const {
  constexpr const char* kExpected = "a whole number of at least 0";
  if (!value_->is_number()) Fail(kExpected);
  const auto number = value_->get<double>();
  if (!(number >= 0) || number > 9007199254740992.0 || number != std::floor(number)) Fail(kExpected);
  return static_cast<uint64_t>(number);
}

std::optional<std::string> JsonView::FindString(std::string_view key) const {
  const auto found = Find(key);
  return found ? std::optional(found->String()) : std::nullopt;
}

std::optional<bool> JsonView::FindBool(std::string_view key) const {
  const auto found = Find(key);
  return found ? std::optional(found->Bool()) : std::nullopt;
}

std::optional<double> JsonView::FindNumber(std::string_view key) const {
  const auto found = Find(key);
  return found ? std::optional(found->Number()) : std::nullopt;
}

std::optional<uint64_t> JsonView::FindCount(std::string_view key) const {
  const auto found = Find(key);
  return found ? std::optional(found->Count()) : std::nullopt;
}

}  // namespace ropeline
