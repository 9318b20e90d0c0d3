#include "model/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

namespace ropeline {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A text split into its leading decimal number and what follows.
struct NumberAndSuffix {
  double number;
  std::string_view suffix;
};

// Digits with at most one decimal point between digits; no sign, no exponent. At most 18 digits before the
// point, so that the number is finite whatever follows.
std::optional<NumberAndSuffix> SplitNumber(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  if (end == 0 || end > 18) return std::nullopt;
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) {
    ++end;
    while (end < text.size() && IsDigit(text[end])) ++end;
  }
  const std::string digits(text.substr(0, end));
  return NumberAndSuffix{std::strtod(digits.c_str(), nullptr), text.substr(end)};
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr Unit kByteUnits[] = {{"B", 1},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", kKi},
                               {"MiB", kKi* kKi},
                               {"GiB", kKi* kKi* kKi},
                               {"TiB", kKi* kKi* kKi* kKi}};
constexpr Unit kFlopUnits[] = {{"FLOP", 1},    {"KFLOP", 1e3},  {"MFLOP", 1e6},
                               {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};

double ParseQuantity(std::string_view text, std::span<const Unit> units,
                     std::span<const std::string_view> endings, Range range, const char* expected,
                     const Where& where) {
  const auto parts = SplitNumber(text);
  if (!parts) throw BadInput(where, Quoted(text) + " is not a number with a unit", expected);
  std::string_view suffix = parts->suffix;
  if (suffix.starts_with(' ')) suffix.remove_prefix(1);
  if (suffix.empty()) throw BadInput(where, Quoted(text) + " has no unit", expected);
  for (const Unit& unit : units) {
    if (!suffix.starts_with(unit.name)) continue;
    for (const std::string_view ending : endings) {
      if (suffix.substr(unit.name.size()) != ending) continue;
      const double value = parts->number * unit.factor;
      if (value <= 0) throw BadInput(where, Quoted(text) + " is not above zero", expected);
      if (value < range.least) throw BadInput(where, Quoted(text) + " is below any machine", expected);
      if (value > range.most) throw BadInput(where, Quoted(text) + " is beyond any machine", expected);
      return value;
    }
  }
  throw BadInput(where, Quoted(text) + " has an unknown unit", expected);
}

struct Scale {
  double factor;
  const char* name;
};

constexpr double kHuge = 1e15;  // beyond it a number is given by its exponent

std::string Figures(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 2 : 1); }

std::string WholeNumber(double value) {
  return value < kHuge ? FormatCount(static_cast<uint64_t>(std::llround(value)))
                       : fmt::format("{:.3g}", value);
}

// The largest scale that the value reaches; the last one otherwise.
std::string Scaled(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (value < scale.factor && &scale != &scales.back()) continue;
    const double scaled = value / scale.factor;
    if (scale.factor == 1) return fmt::format("{:.0f} {}", scaled, scale.name);
    return scaled < kHuge ? fmt::format("{} {}", Figures(scaled), scale.name)
                          : fmt::format("{:.3g} {}", scaled, scale.name);
  }
  return {};
}

}  // namespace

uint64_t ParseCount(std::string_view text, const Where& where, uint64_t max) {
  const std::string expected =
      "a whole number from 1 to " + FormatCount(max) + ", such as 32768 or 32k (k is 1024)";
  const auto parts = SplitNumber(text);
  if (!parts) throw BadInput(where, Quoted(text) + " is not a count", expected);
  double factor = 1;
  if (parts->suffix == "k" || parts->suffix == "K") {
    factor = kKi;
  } else if (parts->suffix == "m" || parts->suffix == "M") {
    factor = kKi * kKi;
  } else if (!parts->suffix.empty()) {
    throw BadInput(where, Quoted(text) + " is not a count", expected);
  }
  const double value = parts->number * factor;
  if (value > static_cast<double>(max)) throw BadInput(where, Quoted(text) + " is too large", expected);
  if (value < 1) throw BadInput(where, Quoted(text) + " is below 1", expected);
  if (value != std::floor(value)) throw BadInput(where, Quoted(text) + " is not a whole number", expected);
  return static_cast<uint64_t>(value);
}

std::vector<uint64_t> ParseCountList(std::string_view text, const Where& where, uint64_t max) {
  std::vector<uint64_t> counts;
  while (true) {
    const size_t comma = text.find(',');
    counts.push_back(ParseCount(text.substr(0, comma), where, max));
    if (comma == std::string_view::npos) return counts;
    text.remove_prefix(comma + 1);
  }
}

double ParseSizeBytes(std::string_view text, const Where& where) {
  constexpr std::string_view kEndings[] = {""};
  return ParseQuantity(text, kByteUnits, kEndings, kSizeBytes, "a size such as 3.5GiB or 20GB", where);
}

double ParseBytesPerSecond(std::string_view text, const Where& where) {
  constexpr std::string_view kEndings[] = {"/s"};
  return ParseQuantity(text, kByteUnits, kEndings, kBytesPerSecond, "a bandwidth such as 20GB/s or 33.5GiB/s",
                       where);
}

double ParseFlopsPerSecond(std::string_view text, const Where& where) {
  constexpr std::string_view kEndings[] = {"/s", "S"};
  return ParseQuantity(text, kFlopUnits, kEndings, kFlopsPerSecond, "a rate such as 50GFLOP/s or 1.2TFLOP/s",
                       where);
}

std::string FormatCount(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string FormatTokens(double tokens) { return WholeNumber(std::max(0.0, tokens)); }

std::string FormatBytes(double bytes) {
  constexpr Scale kScales[] = {
      {kKi * kKi * kKi * kKi, "TiB"}, {kKi * kKi * kKi, "GiB"}, {kKi * kKi, "MiB"}, {kKi, "KiB"}, {1, "B"}};
  return Scaled(bytes, kScales);
}

std::string FormatBytesPerSecond(double bytes_per_second) {
  constexpr Scale kScales[] = {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "KB/s"}, {1, "B/s"}};
  return Scaled(bytes_per_second, kScales);
}

std::string FormatFlops(double flops) {
  constexpr Scale kScales[] = {{1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"},
                               {1e6, "MFLOP"},  {1e3, "KFLOP"},  {1, "FLOP"}};
  return Scaled(flops, kScales);
}

std::string FormatFlopsPerSecond(double flops_per_second) { return FormatFlops(flops_per_second) + "/s"; }

std::string FormatMilliseconds(double ms) {
  if (ms == 0) return "0 ms";
  if (ms >= 1e5) return WholeNumber(ms / 1e3) + " s";
  if (ms >= 1e3) return Figures(ms / 1e3) + " s";
  if (ms >= 1) return Figures(ms) + " ms";
  return ms >= 1e-3 ? Figures(ms * 1e3) + " µs" : Figures(ms * 1e6) + " ns";
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1) return FormatMilliseconds(seconds * 1e3);
  if (seconds < 100) return Figures(seconds) + " s";
  const std::string text = WholeNumber(seconds) + " s";
  if (seconds >= kHuge) return text;
  const uint64_t minutes = (static_cast<uint64_t>(std::llround(seconds)) + 30) / 60;
  if (minutes < 60) return fmt::format("{} ({} min)", text, minutes);
  if (minutes < 48 * 60) return fmt::format("{} ({} h {} min)", text, minutes / 60, minutes % 60);
  return fmt::format("{} ({} days)", text, FormatCount((minutes + 12 * 60) / (24 * 60)));
}

std::string FormatPercent(double fraction) {
  const double percent = fraction * 100;
  if (percent >= 10) return fmt::format("{:.1f} %", percent);
  if (percent >= 0.1 || percent == 0) return fmt::format("{:.2f} %", percent);
  return percent >= 0.001 ? fmt::format("{:.2g} %", percent) : "< 0.001 %";
}

std::string FormatRate(double per_second) {
  if (per_second < 0.1) return fmt::format("{:.2g}", per_second);
  return per_second >= 100 ? WholeNumber(per_second) : Figures(per_second);
}

}  // namespace ropeline
