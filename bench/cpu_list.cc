#include "bench/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/system_files.h"

namespace ropeline {
namespace {

// Far above any kernel's NR_CPUS; keeps "0-4000000000" from filling the memory.
constexpr uint64_t kMaxCpu = 999999;

std::optional<int> ParseCpu(std::string_view text) {
  const std::optional<uint64_t> cpu = ParseWhole(text);
  if (!cpu || *cpu > kMaxCpu) return std::nullopt;
  return static_cast<int>(*cpu);
}

}  // namespace

std::optional<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  text = Trimmed(text);
  if (text.empty()) return cpus;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    const size_t dash = range.find('-');
    const std::optional<int> first = ParseCpu(range.substr(0, dash));
    const std::optional<int> last = dash == range.npos ? first : ParseCpu(range.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    // Overlapping ranges, many times over, would grow without a bound.
    if (cpus.size() > 2 * kMaxCpu) return std::nullopt;
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  std::string text;
  for (size_t first = 0; first < cpus.size();) {
    size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", cpus[first]) : fmt::format("{}-{}", cpus[first], cpus[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace ropeline
