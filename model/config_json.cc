#include "model/config_json.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/bad_input.h"
#include "model/json_view.h"

namespace ropeline {
namespace {

constexpr size_t kMaxDepth = 64;  // published configs reach 5
constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Edit {
  size_t at;
  std::string_view token;
};

// One pass over the text before the parser's: how deep it goes, keys that are there twice in one object, and
// where the bare tokens stand. What is no JSON at all is the parser's to say.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file, std::string_view expected)
      : text_(text), file_(file), expected_(expected) {}

  std::vector<Edit> Run() {
    for (size_t i = 0; i < text_.size();) {
      switch (text_[i]) {
        case '"':
          i = String(i);
          break;
        case '{':
        case '[':
          Open(i++);
          break;
        case '}':
        case ']':
          Close();
          ++i;
          break;
        case '-':
        case 'I':
        case 'N':
        case 'i':
        case 'n':
          i = Word(i);
          break;
        default:
          ++i;
      }
    }
    return std::move(edits_);
  }

 private:
  void Open(size_t at) {
    if (open_.size() == kMaxDepth) {
      throw BadInput(
          {file_, ""},
          "is nested deeper than " + std::to_string(kMaxDepth) + " levels at byte " + std::to_string(at),
          expected_);
    }
    open_.emplace_back();
  }

  void Close() {
    if (open_.empty()) return;
    std::vector<std::string_view>& keys = open_.back();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      throw BadInput({file_, OneLine(*twice, 60)}, "is there twice in one object", "each key once");
    }
    open_.pop_back();
  }

  // Behind the string that starts at `begin`; a colon makes it a key.
  size_t String(size_t begin) {
    size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return text_.size();
    const size_t next = text_.find_first_not_of(" \t\r\n", end + 1);
    if (next != std::string_view::npos && text_[next] == ':' && !open_.empty()) {
      open_.back().push_back(text_.substr(begin + 1, end - begin - 1));
    }
    return end + 1;
  }

  size_t Word(size_t begin) {
    for (const std::string_view token : {"-Infinity", "Infinity", "NaN", "-inf", "inf", "-nan", "nan"}) {
      const size_t end = begin + token.size();
      if (text_.substr(begin, token.size()) != token) continue;
      if (end < text_.size() && IsWordCharacter(text_[end])) continue;
      edits_.push_back({begin, token});
      return end;
    }
    return begin + 1;
  }

  std::string_view text_;
  const std::string& file_;
  std::string_view expected_;
  std::vector<std::vector<std::string_view>> open_{};  // keys of the objects and arrays that are open
  std::vector<Edit> edits_{};
};

std::string WithQuotes(std::string_view text, const std::vector<Edit>& edits) {
  std::string strict;
  size_t from = 0;
  for (const Edit& edit : edits) {
    strict.append(text.substr(from, edit.at - from)).append("\"").append(edit.token).append("\"");
    from = edit.at + edit.token.size();
  }
  return strict.append(text.substr(from));
}

}  // namespace

nlohmann::json ParseConfigJson(std::string_view text, const std::string& file, std::string_view expected) {
  using Json = nlohmann::json;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw BadInput({file, ""}, "is empty", expected);
  const std::vector<Edit> edits = Scanner(text, file, expected).Run();
  std::string quoted;
  if (!edits.empty()) text = quoted = WithQuotes(text, edits);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& e) {
    if (e.byte > text.size()) {
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
