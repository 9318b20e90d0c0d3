#include "model/engine/test_label.h"

#include <cctype>
#include <charconv>
#include <string>

#include "model/engine/run_words.h"

namespace ropeline {
namespace {

class Label {
 public:
  explicit Label(std::string_view text) {
    for (const char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) text_ += c;
    }
    text_ = LowerCase(text_);
  }

  bool Take(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  bool TakeCount(uint64_t* count) {
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), *count);
    if (error != std::errc()) return false;
    at_ += static_cast<size_t>(end - begin);
    return true;
  }
  bool AtEnd() const { return at_ == text_.size(); }

 private:
  std::string text_{};
  size_t at_ = 0;
};

}  // namespace

RunRow RowOfCounts(uint64_t n_prompt, uint64_t n_generated, uint64_t n_depth) {
  RunRow row;
  row.phase = n_generated == 0 ? RunPhase::kPrefill : n_prompt == 0 ? RunPhase::kDecode : RunPhase::kCombined;
  row.n_kv = n_depth;
  row.n_prompt = n_prompt;
  row.n_generated = n_generated;
  return row;
}

std::optional<RunRow> ParseTestLabel(std::string_view text) {
  Label label(text);
  uint64_t n_prompt = 0, n_generated = 0, n_depth = 0;
  const bool prompt = label.Take("pp");
  if (prompt && !label.TakeCount(&n_prompt)) return std::nullopt;
  if (!prompt || label.Take("+")) {
    if (!label.Take("tg") || !label.TakeCount(&n_generated)) return std::nullopt;
  }
  if (label.Take("@")) {
    if (!label.Take("d") && !(label.Take("pp") && !prompt)) return std::nullopt;
    if (!label.TakeCount(&n_depth)) return std::nullopt;
  }
  if (!label.AtEnd()) return std::nullopt;
  return RowOfCounts(n_prompt, n_generated, n_depth);
}

}  // namespace ropeline
