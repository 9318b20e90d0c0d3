#include "bench/sysfs_caches.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "bench/system_files.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLevels = 16;  // directories index0 … of one CPU

struct Entry {
  int level = 0;
  std::string kind;
  uint64_t size_bytes = 0;
  std::vector<int> sharers;
};

// "48K", "1280K", "32M" or a plain number of bytes; 0 where it is none of them.
uint64_t ParseSize(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const size_t unit = std::string_view("KMG").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const uint64_t number = ParseWhole(text).value_or(0);
  return number > (UINT64_MAX >> shift) ? 0 : number << shift;
}

std::vector<Entry> EntriesOf(const std::string& root, int cpu) {
  std::vector<Entry> entries;
  for (int i = 0; i < kMostLevels; ++i) {
    const fs::path folder = Below(root, fmt::format("sys/devices/system/cpu/cpu{}/cache/index{}", cpu, i));
    std::error_code error;
    if (!fs::is_directory(folder, error)) break;
    const std::string type = ReadSystemFile(folder / "type");
    if (type != "Data" && type != "Unified") continue;
    const uint64_t level = ParseWhole(ReadSystemFile(folder / "level")).value_or(0);
    const uint64_t size_bytes = ParseSize(ReadSystemFile(folder / "size"));
    if (level == 0 || level > kMostLevels || size_bytes == 0) continue;
    std::vector<int> sharers =
        ParseCpuList(ReadSystemFile(folder / "shared_cpu_list")).value_or(std::vector<int>{});
    if (sharers.empty()) sharers = {cpu};
    entries.push_back(
        {static_cast<int>(level), type == "Data" ? "data" : "unified", size_bytes, std::move(sharers)});
  }
  return entries;
}

}  // namespace

int CoresAmong(const std::vector<Core>& cores, const std::vector<int>& cpus) {
  const std::set<int> wanted(cpus.begin(), cpus.end());
  return static_cast<int>(std::count_if(cores.begin(), cores.end(), [&](const Core& core) {
    return std::any_of(core.logical_cpus.begin(), core.logical_cpus.end(),
                       [&](int cpu) { return wanted.count(cpu) > 0; });
  }));
}

std::vector<CacheInfo> SysfsCaches(const std::string& root, int cpu, const std::vector<Core>& cores) {
  std::vector<CacheInfo> caches;
  for (const Entry& entry : EntriesOf(root, cpu)) {
    caches.push_back({entry.level, entry.kind, entry.size_bytes, 0, CoresAmong(cores, entry.sharers)});
  }
  if (caches.empty()) return caches;
  std::sort(caches.begin(), caches.end(), [](const CacheInfo& a, const CacheInfo& b) {
    return std::tie(a.level, a.kind) < std::tie(b.level, b.kind);
  });

  // An instance is a level, a kind and a set of sharers.
  std::set<std::tuple<int, std::string, std::vector<int>>> instances;
  for (const Core& core : cores) {
    for (const int sibling : core.logical_cpus) {
      for (Entry& entry : EntriesOf(root, sibling)) {
        instances.emplace(entry.level, entry.kind, std::move(entry.sharers));
      }
    }
  }
  for (CacheInfo& cache : caches) {
    for (const auto& [level, kind, sharers] : instances) {
      if (level == cache.level && kind == cache.kind) ++cache.instances;
    }
  }
  return caches;
}

}  // namespace ropeline
