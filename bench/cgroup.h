// What cgroups allow this process: CPU time, CPUs and memory. Versions 1 and 2 and mixtures of both.
#ifndef ROPELINE_BENCH_CGROUP_H_
#define ROPELINE_BENCH_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

struct CgroupLimits {
  int version = 0;  // of the hierarchy that governs CPU time: 1, 2; 0 where there is none
  std::optional<double>
      quota_cpus;  // CPU time per wall time, e.g. 7.65; the tightest of the path's ancestors
  std::optional<std::vector<int>> cpuset;  // effective cpuset, not empty
  std::optional<uint64_t> memory_bytes;    // memory limit, the tightest of the path's ancestors
};

// Limits of the calling process, from proc/self/cgroup, proc/self/mountinfo and the cgroup trees below
// `root`. Each limit is searched from the process's own cgroup up to the mount's root, so a path that the
// mount does not contain (a container that sees its host's path) ends at the mount's root. No limit, or text
// that is not one, is nullopt.
CgroupLimits ReadCgroupLimits(const std::string& root = "/");

}  // namespace ropeline

#endif  // ROPELINE_BENCH_CGROUP_H_
