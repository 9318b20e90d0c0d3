#include "bench/cgroup.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "bench/cpu_list.h"
#include "bench/system_files.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

// Version 1 says "no memory limit" by the largest multiple of a page below 2^63; nobody owns an EiB.
constexpr uint64_t kNoMemoryLimit = uint64_t{1} << 60;
constexpr const char* kDefaultPeriodUs = "100000";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool Contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct CgroupMount {
  int version;
  std::string controllers;  // version 1: "rw,cpu,cpuacct"
  std::string root;         // the cgroup that stands at the mount point
  std::string mount_point;
};

// mountinfo writes blanks and backslashes in octal: "\040".
std::string Unescaped(std::string_view text) {
  const auto octal = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<CgroupMount> MountsOfMountinfo(const std::string& root) {
  const std::string mountinfo = ReadSystemFile(Below(root, "proc/self/mountinfo"));
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    // id parent device root mount_point options [optional …] - type source super_options
    const std::vector<std::string_view> fields = Split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 4) continue;
    const std::string_view type = dash[1];
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts.push_back(
        {type == "cgroup2" ? 2 : 1, std::string(dash[3]), Unescaped(fields[3]), Unescaped(fields[4])});
  }
  return mounts;
}

// Where mountinfo cannot be read.
std::vector<CgroupMount> MountsOfUsualPlaces(const std::string& root) {
  std::error_code error;
  std::vector<CgroupMount> mounts;
  for (const char* place : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (fs::exists(Below(root, place) / "cgroup.controllers", error)) mounts.push_back({2, "", "/", place});
  }
  for (const char* controllers : {"cpu", "cpu,cpuacct", "cpuacct,cpu", "cpuset", "memory"}) {
    const std::string place = std::string("/sys/fs/cgroup/") + controllers;
    // Version 2 allows a child cgroup that happens to be called "cpu".
    if (!fs::is_directory(Below(root, place), error) ||
        fs::exists(Below(root, place) / "cgroup.type", error)) {
      continue;
    }
    mounts.push_back({1, controllers, "/", place});
  }
  return mounts;
}

// The process's path in the hierarchy of a version 1 controller, or in version 2's ("" for its controllers).
std::optional<std::string> ProcessPath(std::string_view self_cgroup, std::string_view controller) {
  for (const std::string_view line : Split(self_cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    if (Contains(Split(line.substr(first + 1, second - first - 1), ','), controller)) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

// `path` as seen from `mount_root`; nullopt where the mount does not contain it.
std::optional<fs::path> RelativePath(const std::string& path, const std::string& mount_root) {
  const fs::path relative = fs::path(path).lexically_relative(mount_root);
  if (relative.empty() || std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    return std::nullopt;
  }
  return relative;
}

// One controller's directories, from the process's own cgroup up to the mount's root.
struct Hierarchy {
  int version = 0;
  std::vector<fs::path> directories;
};

Hierarchy HierarchyOf(const std::string& controller, const std::vector<CgroupMount>& mounts,
                      std::string_view self_cgroup, const std::string& root) {
  for (const int version : {1, 2}) {
    const std::string path = ProcessPath(self_cgroup, version == 1 ? controller : "").value_or("/");
    const CgroupMount* chosen = nullptr;
    std::optional<fs::path> relative;
    for (const CgroupMount& mount : mounts) {
      if (mount.version != version) continue;
      if (version == 1 && !Contains(Split(mount.controllers, ','), controller)) continue;
      // A second mount of the same hierarchy may show another part of it.
      if (std::optional<fs::path> inside = RelativePath(path, mount.root); inside && !relative) {
        chosen = &mount;
        relative = inside;
      }
      if (!chosen) chosen = &mount;
    }
    if (!chosen) continue;
    const fs::path top = Below(root, chosen->mount_point);
    Hierarchy hierarchy{version, {}};
    if (relative) {
      for (fs::path part = *relative; !part.empty() && part != "."; part = part.parent_path()) {
        hierarchy.directories.push_back(top / part);
      }
    }
    hierarchy.directories.push_back(top);
    return hierarchy;
  }
  return {};
}

std::optional<double> QuotaOf(int version, const fs::path& directory) {
  // No limit is "max 100000" in version 2 and -1 in version 1: neither is a whole number.
  std::string quota;
  std::string period;
  if (version == 2) {
    const std::string text = ReadSystemFile(directory / "cpu.max");
    const size_t blank = text.find(' ');
    quota = text.substr(0, blank);
    period = blank == text.npos ? kDefaultPeriodUs : text.substr(blank + 1);
  } else {
    quota = ReadSystemFile(directory / "cpu.cfs_quota_us");
    period = ReadSystemFile(directory / "cpu.cfs_period_us");
  }
  const uint64_t quota_us = ParseWhole(quota).value_or(0);
  const uint64_t period_us = ParseWhole(period).value_or(0);
  if (quota_us == 0 || period_us == 0) return std::nullopt;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

std::optional<uint64_t> MemoryLimitOf(int version, const fs::path& directory) {
  const std::optional<uint64_t> limit =
      ParseWhole(ReadSystemFile(directory / (version == 2 ? "memory.max" : "memory.limit_in_bytes")));
  if (!limit || *limit >= kNoMemoryLimit) return std::nullopt;
  return limit;
}

std::optional<std::vector<int>> CpusetOf(int version, const fs::path& directory) {
  const std::vector<const char*> names = version == 2 ? std::vector{"cpuset.cpus.effective", "cpuset.cpus"}
                                                      : std::vector{"cpuset.effective_cpus", "cpuset.cpus"};
  for (const char* name : names) {
    std::optional<std::vector<int>> cpus = ParseCpuList(ReadSystemFile(directory / name));
    if (cpus && !cpus->empty()) return cpus;
  }
  return std::nullopt;
}

template <typename T>
void Tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  std::vector<CgroupMount> mounts = MountsOfMountinfo(root);
  if (mounts.empty()) mounts = MountsOfUsualPlaces(root);
  const std::string self_cgroup = ReadSystemFile(Below(root, "proc/self/cgroup"));
  const Hierarchy cpu = HierarchyOf("cpu", mounts, self_cgroup, root);
  const Hierarchy cpuset = HierarchyOf("cpuset", mounts, self_cgroup, root);
  const Hierarchy memory = HierarchyOf("memory", mounts, self_cgroup, root);

  CgroupLimits limits;
  for (const Hierarchy* hierarchy : {&cpu, &cpuset, &memory}) {
    if (limits.version == 0) limits.version = hierarchy->version;
  }
  for (const fs::path& directory : cpu.directories) {
    Tighten(limits.quota_cpus, QuotaOf(cpu.version, directory));
  }
  for (const fs::path& directory : memory.directories) {
    Tighten(limits.memory_bytes, MemoryLimitOf(memory.version, directory));
  }
  // The nearest one is the effective one: the kernel has already cut it to its ancestors'.
  for (const fs::path& directory : cpuset.directories) {
    if (limits.cpuset) break;
    limits.cpuset = CpusetOf(cpuset.version, directory);
  }
  return limits;
}

}  // namespace ropeline
