// Numbers in tables that people paste: with a decimal comma where a locale or a spreadsheet wrote one, with
// thousands separated, with a spread behind.
#ifndef ROPELINE_MODEL_ENGINE_LOOSE_NUMBER_H_
#define ROPELINE_MODEL_ENGINE_LOOSE_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace ropeline {

enum class Comma {
  kNone,
  kDecimal,    // "12,34", "1.234,5"
  kThousands,  // "1,234.5", "1,234,567"
  kEither,     // "1,234"
};

// Of the first number in the text.
Comma CommaIn(std::string_view text);

// The first number of the text, which must be all of it up to blanks or a unit; may be NaN or infinite, as
// printed. `decimal_comma`: how to read "1,234". Nothing where there is none, or it can be read in two ways.
std::optional<double> LooseNumber(std::string_view text, bool decimal_comma);

// "12.34 ± 0.56" → 0.56; nothing where there is no second number.
std::optional<double> SpreadOf(std::string_view text, bool decimal_comma);

// "4096", "4,096"; nothing where it is no whole number.
std::optional<uint64_t> LooseCount(std::string_view text);

// "3.56 GiB", "6.74 B", "494.03 M", "1235814400" → bytes, or a count of parameters.
std::optional<uint64_t> LooseAmount(std::string_view text, bool decimal_comma);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_LOOSE_NUMBER_H_
