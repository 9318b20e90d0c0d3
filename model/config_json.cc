#include "model/config_json.h"

#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "model/bad_input.h"
#include "model/json_view.h"

namespace ropeline {
namespace {

constexpr size_t kMaxDepth = 64;  // published configs reach 5
constexpr uintmax_t kMaxBytes = uintmax_t{64} << 20;

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Outside strings: bare tokens put in quotes, depth checked, so that the parser behind meets neither.
std::string Strict(std::string_view text, const std::string& file, std::string_view expected) {
  constexpr std::array<std::string_view, 3> kTokens = {"-Infinity", "Infinity", "NaN"};
  std::string strict;
  strict.reserve(text.size() + 16);
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string) {
      const size_t length = c == '\\' && i + 1 < text.size() ? 2 : 1;
      in_string = c != '"';
      strict.append(text.substr(i, length));
      i += length;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kMaxDepth) {
      throw BadInput(
          {file, ""},
          "is nested deeper than " + std::to_string(kMaxDepth) + " levels at byte " + std::to_string(i),
          expected);
    }
    std::string_view bare;
    if (c == '-' || c == 'I' || c == 'N') {
      for (const std::string_view token : kTokens) {
        if (text.substr(i, token.size()) == token) bare = token;
      }
      const size_t end = i + bare.size();
      if (end < text.size() && IsWordCharacter(text[end])) bare = {};
    }
    if (bare.empty()) {
      strict += c;
      ++i;
    } else {
      strict.append("\"").append(bare).append("\"");
      i += bare.size();
    }
  }
  return strict;
}

}  // namespace

nlohmann::json ParseConfigJson(std::string_view text, const std::string& file, std::string_view expected) {
  using Json = nlohmann::json;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw BadInput({file, ""}, "is empty", expected);
  const std::string strict = Strict(text, file, expected);
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto no_key_twice = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw BadInput({file, OneLine(parsed.get<std::string>(), 60)}, "is there twice in one object",
                     "each key once");
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(strict, no_key_twice);
  } catch (const Json::parse_error& e) {
    if (e.byte > strict.size()) {
      throw BadInput({file, ""},
                     "is truncated: it ends within a value at byte " + std::to_string(text.size()), expected);
    }
    throw BadInput({file, ""}, "is not JSON: syntax error at byte " + std::to_string(e.byte), expected);
  } catch (const Json::exception&) {
    throw BadInput({file, ""}, "holds a number that is out of range", expected);
  }
  if (!json.is_object()) {
    throw BadInput({file, ""}, std::string("is JSON, but ") + json.type_name(), "an object");
  }
  return json;
}

nlohmann::json ReadConfigJson(const std::string& path, std::string_view expected) {
  return ParseConfigJson(ReadTextFile(path, kMaxBytes, expected), path, expected);
}

}  // namespace ropeline
