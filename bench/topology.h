// What this machine is, as the system reports it. hwloc is used in topology.cc and nowhere else; affinity,
// cgroup and /sys are read directly. Everything unknown stays unknown (nullopt, empty, or as the member
// says): 0 is no default.
#ifndef ROPELINE_BENCH_TOPOLOGY_H_
#define ROPELINE_BENCH_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/cgroup.h"
#include "bench/cpu_list.h"

// DetectTopology is in topology.cc, the members and questions in topology_queries.cc, the names in
// host_identity.cc.
namespace ropeline {

// One cache level of one kind, as the core of the first usable CPU (UsableCores) sees it: on a hybrid CPU, a
// fast core.
struct CacheInfo {
  int level = 0;               // 1, 2, 3 …
  std::string kind;            // "data" or "unified"; instruction caches are left out
  uint64_t size_bytes = 0;     // of one instance
  int instances = 0;           // of this level and kind in the whole machine, whatever their size
  int cores_per_instance = 0;  // physical cores that share one instance
};

struct NumaNode {
  int os_index = 0;
  uint64_t memory_bytes = 0;      // 0: none, or unknown
  std::vector<int> logical_cpus;  // OS indices; empty where the node is memory alone
};

// Cores of one kind on a hybrid CPU (P and E cores), where the system says so.
struct CoreKind {
  std::string name;           // "P", "E" or "kind0" …; by rising efficiency class where names are unknown
  int efficiency_class = -1;  // hwloc's abstracted efficiency, higher is faster; -1 unknown
  std::vector<int> logical_cpus;
};

struct Core {
  int package = -1;               // counted from 0 in hwloc's order; -1 unknown
  int numa_node = -1;             // OS index; -1 unknown
  int kind = -1;                  // index into kinds; -1 unknown
  std::vector<int> logical_cpus;  // OS indices of its SMT siblings, online ones only
};

struct Topology {
  std::string cpu_model;  // "" unknown
  int packages = 0;       // 0 unknown
  std::vector<NumaNode> numa_nodes;
  std::vector<Core> cores;        // physical cores with at least one online logical CPU
  std::vector<CoreKind> kinds;    // empty where all cores are of one kind or nothing is known
  std::vector<CacheInfo> caches;  // by level; empty where the system lists none
  uint64_t memory_bytes = 0;      // physical memory; 0 unknown

  std::vector<int> offline;   // logical CPUs that are present but switched off
  std::vector<int> affinity;  // logical CPUs this process may run on; empty unknown
  CgroupLimits cgroup;
  std::string governor;        // of the first usable CPU: "performance" …; "" unknown
  std::string thp;             // "always", "madvise", "never"; "" unknown
  std::string numa_balancing;  // "0", "1" …; "" unknown
  bool virtualized = false;    // the CPU's hypervisor flag is set (x86; elsewhere nothing is known)

  int LogicalCpus() const;  // online ones
  int MaxSmt() const;       // largest number of online siblings of a core; 0 where no core is known
  // Logical CPUs within affinity and cpuset, ascending. The affinity alone where the two exclude each other:
  // it is the one that the kernel enforces for this very process.
  std::vector<int> UsableCpus() const;
  // One logical CPU (the lowest usable one) of each physical core within affinity and cpuset; fastest kind
  // first, then by package. These are what threads are pinned to. Where no core is known, all usable CPUs.
  std::vector<int> UsableCores() const;
  // Physical cores within affinity, cpuset and quota; the quota is rounded down, at least 1.
  int DefaultThreads() const;
  // 1, 2, 4 … and DefaultThreads(), ascending.
  std::vector<int> ThreadSteps() const;
  // The largest data or unified cache that is believable (see IsBelievable); nullopt where none is known.
  std::optional<uint64_t> LargestBelievedCache() const;
};

// A cache is not believed where one instance gives a core more than 128 MiB, or is larger than the memory.
bool IsBelievable(const CacheInfo& cache, const Topology& topology);

// Which of topology.caches each measured capacity (bytes, inner first) is of: the same place in the list, or
// the nearest in size where the two lists differ in length. Empty where no cache is reported.
std::vector<size_t> MatchCaches(const Topology& topology, const std::vector<double>& measured_caches);

// Where to read from; tests point these at synthetic machines.
struct TopologySource {
  std::string hwloc_synthetic;  // hwloc synthetic description; "" means this machine
  std::string hwloc_xml;        // hwloc XML file; "" means this machine
  std::string root = "/";       // prefix of sys, proc, etc and the cgroup trees
  // Replaces sched_getaffinity. Without it, a synthetic or XML machine may be used whole.
  std::optional<std::vector<int>> affinity;
};

// Throws std::invalid_argument where the synthetic description or the XML file is unusable. This machine
// never throws: what hwloc does not find stays unknown.
Topology DetectTopology(const TopologySource& source = {});

// What is odd about what the system says, one sentence each ("L3 of 508 MiB per core is not believable: …").
// A sane machine used whole has nothing odd. `measured_caches` are capacities in bytes from the bandwidth
// curve, inner first; empty where nothing was measured.
std::vector<std::string> Oddities(const Topology& topology, const std::vector<double>& measured_caches = {});

// A short name for the results folder, "<cpu>-<cores>c", of [a-z0-9-] only: "intel-xeon-2-80ghz-2c",
// "unknown-cpu-8c". Cores are all physical ones, usable or not.
std::string MachineSlug(const Topology& topology);

// Identifies this host without naming it: a hash of the machine id (or host name), CPU model and memory size
// (rounded, because kernels of one host differ by some MiB), 16 hexadecimal digits.
std::string HostId(const Topology& topology, const std::string& root = "/");

}  // namespace ropeline

#endif  // ROPELINE_BENCH_TOPOLOGY_H_
