#include "model/engine/run_words.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "model/units.h"

namespace ropeline {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr Range kBitsPerWeight{0.5, 64};

}  // namespace

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::optional<std::string> OneCacheType(std::string_view written) {
  const std::string_view word = Trim(written);
  if (word.find_first_of(" \t/,") != std::string_view::npos) return std::nullopt;
  const std::string lower = LowerCase(word);
  if (lower == "fp16" || lower == "fp32") return lower.substr(0, 1) + lower.substr(2);
  return lower;
}

std::string WeightFormatWord(std::string_view written) {
  std::string_view word = Trim(written.substr(0, written.find('(')));
  if (const size_t arrow = word.rfind("->"); arrow != std::string_view::npos)
    word = Trim(word.substr(arrow + 2));
  if (LowerCase(word).rfind("not stated", 0) == 0) return "";
  // "IQ3_K_R4 CPU mix", "IQ2_KL \"pure\"": the format is the first word.
  return std::string(word.substr(0, word.find_first_of(" ,:")));
}

std::optional<double> BitsPerWeight(std::string_view written) {
  const size_t unit = written.find(" bpw");
  if (unit == std::string_view::npos) return std::nullopt;
  size_t begin = unit;
  while (begin > 0 &&
         (std::isdigit(static_cast<unsigned char>(written[begin - 1])) != 0 || written[begin - 1] == '.'))
    --begin;
  double bits = 0;
  const auto [end, error] = std::from_chars(written.data() + begin, written.data() + unit, bits);
  if (error != std::errc() || end != written.data() + unit || !kBitsPerWeight.Has(bits)) return std::nullopt;
  return bits;
}

std::string FileTypeIn(std::string_view description) {
  constexpr std::string_view kEnds = " -./:,()\t";
  constexpr std::string_view kWhole[] = {"f16", "f32", "bf16", "fp16", "mxfp4"};
  const std::string lower = LowerCase(description);
  std::string_view found;
  size_t found_end = 0;
  for (size_t at = 0; (at = lower.find_first_not_of(kEnds, at)) != std::string::npos;) {
    const size_t end = std::min(lower.find_first_of(kEnds, at), lower.size());
    const std::string_view word = std::string_view(lower).substr(at, end - at);
    const size_t digit = word.find_first_of("0123456789");
    const std::string_view family = word.substr(0, std::min(digit, word.size()));
    const bool quant =
        (family == "q" || family == "iq" || family == "tq") && word.find('_') != std::string_view::npos;
    if (quant || std::find(std::begin(kWhole), std::end(kWhole), word) != std::end(kWhole)) {
      found = description.substr(at, end - at);
      found_end = end;
    }
    at = end;
  }
  std::string type(found);
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
  // llama.cpp's descriptions spell the size out.
  const std::string_view rest = std::string_view(lower).substr(found_end);
  for (const auto& [words, suffix] :
       {std::pair(" - small", "_S"), std::pair(" - medium", "_M"), std::pair(" - large", "_L")}) {
    if (!type.empty() && rest.rfind(words, 0) == 0) type += suffix;
  }
  return type;
}

std::optional<bool> YesOrNo(std::string_view written) {
  const std::string lower = LowerCase(Trim(written));
  if (lower == "1" || lower == "true" || lower == "on" || lower == "enabled") return true;
  if (lower == "0" || lower == "false" || lower == "off" || lower == "disabled") return false;
  return std::nullopt;
}

std::optional<int> LeadingDigit(std::string_view written) {
  const std::string_view word = Trim(written);
  if (word.empty() || std::isdigit(static_cast<unsigned char>(word[0])) == 0) return std::nullopt;
  return word[0] - '0';
}

}  // namespace ropeline
