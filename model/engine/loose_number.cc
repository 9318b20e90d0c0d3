#include "model/engine/loose_number.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "model/engine/run_words.h"
#include "model/units.h"

namespace ropeline {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Characters of the number at the front, separators included; "" where there is none.
std::string_view Token(std::string_view text) {
  text = Trim(text);
  size_t end = 0;
  while (end < text.size() && (IsDigit(text[end]) || text[end] == ',' || text[end] == '.')) ++end;
  return text.substr(0, end);
}

bool GroupsOfThree(std::string_view token, char separator) {
  const size_t first = token.find(separator);
  if (first == 0 || first > 3) return false;
  size_t at = first;
  while (at < token.size()) {
    const size_t next = std::min(token.find(separator, at + 1), token.size());
    if (next - at != 4) return false;
    at = next;
  }
  return true;
}

std::string Without(std::string_view text, char gone) {
  std::string left(text);
  left.erase(std::remove(left.begin(), left.end(), gone), left.end());
  return left;
}

std::optional<double> FromChars(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

Comma CommaIn(std::string_view text) {
  const std::string_view token = Token(text);
  const size_t comma = token.rfind(',');
  if (comma == std::string_view::npos) return Comma::kNone;
  const size_t point = token.rfind('.');
  if (point != std::string_view::npos) return point > comma ? Comma::kThousands : Comma::kDecimal;
  if (!GroupsOfThree(token, ',')) return Comma::kDecimal;
  return token.find(',') == comma ? Comma::kEither : Comma::kThousands;
}

std::optional<double> LooseNumber(std::string_view text, bool decimal_comma) {
  text = Trim(text);
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  const std::string lower = LowerCase(word);
  if (lower.find("nan") != std::string::npos) return std::nan("");
  if (lower.find("inf") != std::string::npos) return std::numeric_limits<double>::infinity();
  const bool negative = !word.empty() && word[0] == '-';
  const std::string_view unsigned_word = word.substr(negative ? 1 : 0);
  std::string digits(unsigned_word);
  if (Token(digits) == digits) {
    Comma comma = CommaIn(digits);
    if (comma == Comma::kEither) comma = decimal_comma ? Comma::kDecimal : Comma::kEither;
    if (comma == Comma::kEither) return std::nullopt;
    if (comma == Comma::kThousands) digits = Without(digits, ',');
    if (comma == Comma::kDecimal) {
      digits = Without(digits, '.');
      std::replace(digits.begin(), digits.end(), ',', '.');
    }
  }
  const std::optional<double> value = FromChars(digits);
  return value && negative ? std::optional(-*value) : value;
}

std::optional<double> SpreadOf(std::string_view text, bool decimal_comma) {
  text = Trim(text);
  const size_t blank = text.find_first_of(" \t");
  if (blank == std::string_view::npos) return std::nullopt;
  // Whatever the sign between them has become: ±, +-, a broken encoding.
  const auto digit = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(blank), text.end(), IsDigit);
  if (digit == text.end()) return std::nullopt;
  return LooseNumber(text.substr(static_cast<size_t>(digit - text.begin())), decimal_comma);
}

std::optional<uint64_t> LooseCount(std::string_view text) {
  const std::string_view word = Trim(text);
  std::string digits(word);
  for (const char separator : {',', '.'}) {
    if (word.find(separator) == std::string_view::npos) continue;
    if (!GroupsOfThree(word, separator)) return std::nullopt;
    digits = Without(digits, separator);
  }
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return count;
}

std::optional<uint64_t> LooseAmount(std::string_view text, bool decimal_comma) {
  struct Unit {
    std::string_view name;
    double times;
  };
  constexpr Unit kUnits[] = {{"kib", 1024.0},
                             {"mib", 1048576.0},
                             {"gib", 1073741824.0},
                             {"tib", 1099511627776.0},
                             {"gb", 1e9},
                             {"mb", 1e6},
                             {"k", 1e3},
                             {"m", 1e6},
                             {"b", 1e9},
                             {"t", 1e12},
                             {"", 1}};
  text = Trim(text);
  const std::string_view token = Token(text);
  const std::string unit = LowerCase(Trim(text.substr(token.size())));
  const auto found =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) { return u.name == unit; });
  if (token.empty() || found == std::end(kUnits)) return std::nullopt;
  const std::optional<double> value = LooseNumber(token, decimal_comma);
  if (!value || !kSizeBytes.Has(*value * found->times)) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*value * found->times));
}

}  // namespace ropeline
