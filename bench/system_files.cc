#include "bench/system_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace ropeline {

std::filesystem::path Below(const std::filesystem::path& root, std::string_view path) {
  // An absolute right-hand side would replace the root.
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  return path.empty() ? root : root / path;
}

std::string ReadSystemFile(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return "";
  // A directory opens too, and throws or fails on the first read, depending on the library.
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) return "";
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return std::string(Trimmed(text));
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<uint64_t> ParseWhole(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string FieldOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    const size_t colon = line.find(':');
    if (colon != line.npos && Trimmed(line.substr(0, colon)) == key) {
      return std::string(Trimmed(line.substr(colon + 1)));
    }
    if (newline == text.npos) break;
    text.remove_prefix(newline + 1);
  }
  return "";
}

std::string BracketedWord(std::string_view text) {
  const size_t open = text.find('[');
  if (open == text.npos) return "";
  const size_t close = text.find(']', open);
  if (close == text.npos) return "";
  return std::string(Trimmed(text.substr(open + 1, close - open - 1)));
}

std::string Printable(std::string_view text) {
  constexpr size_t kMost = 100;
  std::string printable(text.substr(0, kMost));
  std::replace_if(
      printable.begin(), printable.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return printable;
}

std::string CpuModel(const std::string& root) {
  const std::string cpuinfo = ReadSystemFile(Below(root, "proc/cpuinfo"));
  // x86 and LoongArch; POWER; RISC-V; Arm boards.
  for (const char* key : {"model name", "cpu", "uarch", "Hardware"}) {
    if (std::string name = FieldOf(cpuinfo, key); !name.empty()) return name;
  }
  // Arm servers give numbers only; they still tell one machine from another.
  const std::string implementer = FieldOf(cpuinfo, "CPU implementer");
  const std::string part = FieldOf(cpuinfo, "CPU part");
  if (implementer.empty() || part.empty()) return "";
  return fmt::format("Arm implementer {} part {}", implementer, part);
}

bool HasHypervisorFlag(const std::string& root) {
  const std::string flags = ReadSystemFile(Below(root, "proc/cpuinfo"));
  return (" " + FieldOf(flags, "flags") + " ").find(" hypervisor ") != std::string::npos;
}

uint64_t MemTotalBytes(const std::string& root) {
  const std::string total = FieldOf(ReadSystemFile(Below(root, "proc/meminfo")), "MemTotal");
  const size_t unit = total.find(" kB");
  const std::optional<uint64_t> kib = ParseWhole(std::string_view(total).substr(0, unit));
  if (unit == total.npos || !kib || *kib > UINT64_MAX / 1024) return 0;
  return *kib * 1024;
}

}  // namespace ropeline
