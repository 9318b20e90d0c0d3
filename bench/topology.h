// What this machine is, as the system reports it. hwloc is used in topology.cc and nowhere else; affinity, cgroup and
// /sys are read directly. Everything unknown stays unknown (nullopt, empty): 0 is not a default.
#ifndef ROPELINE_BENCH_TOPOLOGY_H_
#define ROPELINE_BENCH_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

// One cache level of one kind, as seen by the first core that has it.
struct CacheInfo {
  int level = 0;                 // 1, 2, 3 …
  std::string kind;              // "data" or "unified"; instruction caches are left out
  uint64_t size_bytes = 0;       // of one instance
  int instances = 0;             // in the whole machine
  int cores_per_instance = 0;    // physical cores that share one instance
};

struct NumaNode {
  int os_index = 0;
  uint64_t memory_bytes = 0;
  std::vector<int> logical_cpus;  // OS indices
};

// Cores of one kind on a hybrid CPU (P and E cores), where the system says so.
struct CoreKind {
  std::string name;                // "P", "E" or "kind0" …; by rising efficiency class where names are unknown
  int efficiency_class = -1;       // hwloc's abstracted efficiency, higher is faster; -1 unknown
  std::vector<int> logical_cpus;
};

struct Core {
  int package = 0;
  int numa_node = -1;              // OS index; -1 unknown
  int kind = -1;                   // index into kinds; -1 unknown
  std::vector<int> logical_cpus;   // OS indices of its SMT siblings, online ones only
};

// CPU limits set by cgroups, of this process.
struct CgroupLimits {
  int version = 0;                          // 1, 2; 0 where no cgroup tree is found
  std::optional<double> quota_cpus;         // CPU time per wall time, e.g. 7.65; the tightest of the path's ancestors
  std::optional<std::vector<int>> cpuset;   // effective cpuset
  std::optional<uint64_t> memory_bytes;     // memory limit, the tightest
};

struct Topology {
  std::string cpu_model;           // "" unknown
  int packages = 0;
  std::vector<NumaNode> numa_nodes;
  std::vector<Core> cores;         // physical cores with at least one online logical CPU
  std::vector<CoreKind> kinds;     // empty where all cores are of one kind or nothing is known
  std::vector<CacheInfo> caches;   // by level; empty where the system lists none
  uint64_t memory_bytes = 0;       // physical memory; 0 unknown

  std::vector<int> affinity;       // logical CPUs this process may run on
  CgroupLimits cgroup;
  std::string governor;            // of the first usable CPU: "performance" …; "" unknown
  std::string thp;                 // "always", "madvise", "never"; "" unknown
  std::string numa_balancing;      // "0", "1" …; "" unknown
  bool virtualized = false;        // the CPU's hypervisor flag is set

  int LogicalCpus() const;
  int MaxSmt() const;              // largest number of siblings of a core
  // One logical CPU (the lowest usable one) of each physical core within affinity and cpuset; fastest kind first,
  // then by package. These are what threads are pinned to.
  std::vector<int> UsableCores() const;
  // Physical cores within affinity, cpuset and quota; the quota is rounded down, at least 1.
  int DefaultThreads() const;
  // 1, 2, 4 … and DefaultThreads().
  std::vector<int> ThreadSteps() const;
  // The largest data or unified cache that is believable (see IsBelievable); nullopt where none is known.
  std::optional<uint64_t> LargestBelievedCache() const;
};

// A cache is not believed where one instance gives a core more than 128 MiB, or is larger than the memory.
bool IsBelievable(const CacheInfo& cache, const Topology& topology);

// Where to read from; tests point these at synthetic machines.
struct TopologySource {
  std::string hwloc_synthetic;   // hwloc synthetic description; "" means this machine
  std::string hwloc_xml;         // hwloc XML file; "" means this machine
  std::string root = "/";        // prefix of sys, proc and the cgroup trees
  std::optional<std::vector<int>> affinity;  // replaces sched_getaffinity
};

Topology DetectTopology(const TopologySource& source = {});

// What is odd about what the system says, one sentence each ("L3 of 508 MiB per core is not believable: …").
// `measured_caches` are capacities from the bandwidth curve, inner first; empty where nothing was measured.
std::vector<std::string> Oddities(const Topology& topology, const std::vector<double>& measured_caches = {});

// A short name for the results folder, "<cpu>-<cores>c", of [a-z0-9-] only: "xeon-2-80ghz-2c".
std::string MachineSlug(const Topology& topology);

// Identifies this host without naming it: a hash of the machine id (or host name), CPU model and memory size, 16
// hexadecimal digits.
std::string HostId(const Topology& topology, const std::string& root = "/");

// "0-3,8" ↔ {0,1,2,3,8}. nullopt where the text is not such a list.
std::optional<std::vector<int>> ParseCpuList(const std::string& text);
std::string FormatCpuList(const std::vector<int>& cpus);

}  // namespace ropeline

#endif  // ROPELINE_BENCH_TOPOLOGY_H_
