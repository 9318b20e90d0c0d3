// Caches as /sys lists them, for machines where hwloc finds none.
#ifndef ROPELINE_BENCH_SYSFS_CACHES_H_
#define ROPELINE_BENCH_SYSFS_CACHES_H_

#include <string>
#include <vector>

#include "bench/topology.h"

namespace ropeline {

// Data and unified caches of logical CPU `cpu`, by level; instances and sharers are counted over `cores`. An
// entry whose level, type or size cannot be read is left out.
std::vector<CacheInfo> SysfsCaches(const std::string& root, int cpu, const std::vector<Core>& cores);

// Cores with at least one of the CPUs.
int CoresAmong(const std::vector<Core>& cores, const std::vector<int>& cpus);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_SYSFS_CACHES_H_
