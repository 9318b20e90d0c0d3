#include "model/gguf_metadata.h"

#include <cmath>
#include <sstream>

namespace ropeline {
namespace {

constexpr struct {
  const char* name;
  int bytes;
} kTypes[kGgufTypes] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                        {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                        {"u64", 8}, {"i64", 8}, {"f64", 8}};

bool IsNumber(const GgufValue& value) {
  return !value.is_array && value.type != GgufType::kString && value.type != GgufType::kBool;
}

std::string Shown(double number) {
  std::ostringstream text;
  text.precision(17);
  text << number;
  return text.str();
}

}  // namespace

const char* GgufTypeName(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }
int GgufTypeBytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].bytes; }

void GgufMetadata::Add(const std::string& key, GgufValue value) {
  if (!values_.emplace(key, std::move(value)).second) {
    throw BadInput(WhereIs(key), "is there twice", "each key once");
  }
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

void GgufMetadata::Fail(std::string_view key, std::string_view expected) const {
  const GgufValue& value = *Find(key);
  std::string found = std::string("is ") + GgufTypeName(value.type);
  if (value.is_array) {
    found += "[" + std::to_string(value.count) + "]";
  } else if (value.type == GgufType::kString) {
    found += value.kept ? " " + Quoted(value.text) : " of " + std::to_string(value.count) + " bytes";
  } else {
    found += " " + Shown(value.numbers[0]);
  }
  throw BadInput(WhereIs(key), found, expected);
}

std::optional<std::string> GgufMetadata::FindText(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::kString || !value->kept) Fail(key, "a short string");
  return value->text;
}

std::optional<bool> GgufMetadata::FindBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array || value->type != GgufType::kBool) Fail(key, "a bool");
  return value->numbers[0] != 0;
}

std::optional<double> GgufMetadata::FindNumber(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!IsNumber(*value) || !std::isfinite(value->numbers[0])) Fail(key, "a finite number");
  return value->numbers[0];
}

uint64_t GgufMetadata::ToCount(std::string_view key, double number) const {
  if (!(number >= 0) || number > 9007199254740992.0 || number != std::floor(number)) {
    throw BadInput(WhereIs(key), "is " + Shown(number), "a whole number of at least 0");
  }
  return static_cast<uint64_t>(number);
}

std::optional<uint64_t> GgufMetadata::FindCount(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!IsNumber(*value)) Fail(key, "a whole number of at least 0");
  return ToCount(key, value->numbers[0]);
}

std::optional<uint64_t> GgufMetadata::FindLength(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array) Fail(key, "an array");
  return value->count;
}

std::optional<std::vector<uint64_t>> GgufMetadata::FindCounts(std::string_view key, uint64_t n) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == GgufType::kString || !value->kept) Fail(key, "whole numbers, one for each layer");
  if (value->is_array && value->count < n) {
    Fail(key, "a number for each of the " + std::to_string(n) + " layers");
  }
  std::vector<uint64_t> counts(n);
  for (uint64_t i = 0; i < n; ++i) counts[i] = ToCount(key, value->numbers[value->is_array ? i : 0]);
  return counts;
}

std::string GgufMetadata::Text(std::string_view key) const {
  if (auto found = FindText(key)) return *found;
  throw BadInput(WhereIs(key), "is missing", "a string");
}

uint64_t GgufMetadata::Count(std::string_view key) const {
  if (const auto found = FindCount(key)) return *found;
  throw BadInput(WhereIs(key), "is missing", "a whole number");
}

}  // namespace ropeline
