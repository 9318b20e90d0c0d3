// What the system says of itself that cannot be true, or that bends a measurement. One function per
// sentence's noun.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "bench/topology.h"

namespace ropeline {
namespace {

// Measured and reported capacities further apart than this disagree. The bandwidth curve's grid and a cache's
// last ways, which other data holds, explain less.
constexpr double kCacheFactor = 1.5;
// The kernel keeps some of a node's memory for itself, and counts it differently per node.
constexpr double kMemoryFraction = 0.9;

using Sentences = std::vector<std::string>;

// "48 KiB", "1.25 MiB".
std::string Size(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::string number = fmt::format("{:.2f}", bytes);
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') number.pop_back();
  return fmt::format("{} {}", number, kUnits[unit]);
}

std::string Size(uint64_t bytes) { return Size(static_cast<double>(bytes)); }

std::string Count(size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string CacheName(const CacheInfo& cache) {
  return fmt::format("L{}{}", cache.level, cache.kind == "data" ? "d" : "");
}

void ReportedCaches(const Topology& topology, const std::vector<double>& measured, Sentences& odd) {
  if (topology.caches.empty()) {
    const char* consequence =
        measured.empty() ? "only a measurement can tell their sizes" : "measured ones are used";
    odd.push_back(fmt::format("The system lists no caches: {}.", consequence));
  }
  for (const CacheInfo& cache : topology.caches) {
    if (IsBelievable(cache, topology)) continue;
    const size_t cores = static_cast<size_t>(std::max(1, cache.cores_per_instance));
    if (topology.memory_bytes > 0 && cache.size_bytes > topology.memory_bytes) {
      odd.push_back(fmt::format("{} of {} is not believable: the machine has {} of memory.", CacheName(cache),
                                Size(cache.size_bytes), Size(topology.memory_bytes)));
    } else {
      odd.push_back(fmt::format("{} of {} for {} is not believable: {} per core, more than any CPU has.",
                                CacheName(cache), Size(cache.size_bytes), Count(cores, "core"),
                                Size(cache.size_bytes / cores)));
    }
  }
}

void MeasuredCaches(const Topology& topology, const std::vector<double>& measured, Sentences& odd) {
  const std::vector<size_t> matches = MatchCaches(topology, measured);
  for (size_t i = 0; i < matches.size(); ++i) {
    const CacheInfo& cache = topology.caches[matches[i]];
    const double ratio = measured[i] / static_cast<double>(cache.size_bytes);
    if (!(ratio > 0)) continue;
    const double factor = std::max(ratio, 1 / ratio);
    // Of several that match one level, the nearest speaks for it.
    bool nearest = true;
    for (size_t j = 0; j < matches.size(); ++j) {
      const double other = measured[j] / static_cast<double>(cache.size_bytes);
      if (j != i && matches[j] == matches[i] && other > 0 && std::max(other, 1 / other) < factor)
        nearest = false;
    }
    if (factor <= kCacheFactor || !nearest) continue;
    odd.push_back(
        fmt::format("{} is reported as {} and measured as {}, {:.1f} times apart: the measured size is used.",
                    CacheName(cache), Size(cache.size_bytes), Size(measured[i]), factor));
  }
}

void Memory(const Topology& topology, Sentences& odd) {
  const double memory = static_cast<double>(topology.memory_bytes);
  double nodes = 0;
  for (const NumaNode& node : topology.numa_nodes) nodes += static_cast<double>(node.memory_bytes);
  if (memory > 0 && nodes > 0 && nodes < kMemoryFraction * memory) {
    const size_t count = topology.numa_nodes.size();
    odd.push_back(
        fmt::format("{} {} {} in all, but the machine has {} of memory: {}.", Count(count, "NUMA node"),
                    count == 1 ? "has" : "have", Size(nodes), Size(memory),
                    topology.virtualized ? "this virtual machine may add the rest to a node when it is used"
                                         : "where the rest lies is unknown"));
  }
  const std::optional<uint64_t>& limit = topology.cgroup.memory_bytes;
  if (limit && memory > 0 && static_cast<double>(*limit) < memory) {
    odd.push_back(
        fmt::format("The cgroup allows {} of the machine's {} of memory.", Size(*limit), Size(memory)));
  }
}

void Quota(const Topology& topology, Sentences& odd) {
  if (!topology.cgroup.quota_cpus) return;
  const double quota = *topology.cgroup.quota_cpus;
  const size_t cores = topology.UsableCores().size();
  const size_t threads = static_cast<size_t>(topology.DefaultThreads());
  if (quota < static_cast<double>(cores)) {
    odd.push_back(
        fmt::format("The cgroup's CPU quota of {:.4g} is smaller than the {}: {} by default; more are "
                    "stopped now and then.",
                    quota, Count(cores, "usable core"), Count(threads, "thread")));
  } else if (quota != std::floor(quota)) {
    odd.push_back(fmt::format("The cgroup's CPU quota of {:.4g} is not a whole number: {} by default.", quota,
                              Count(threads, "thread")));
  }
}

void Affinity(const Topology& topology, Sentences& odd) {
  const std::vector<int> usable = topology.UsableCpus();
  const size_t cpus = static_cast<size_t>(topology.LogicalCpus());
  if (usable.size() >= cpus) return;
  odd.push_back(fmt::format("This process may run on {} of the machine's {} ({}).", usable.size(),
                            Count(cpus, "logical CPU"), FormatCpuList(usable)));
  const size_t cores = topology.UsableCores().size();
  if (cores < usable.size()) {
    odd.push_back(fmt::format("The {} that it may run on belong to {}: SMT siblings share a core.",
                              Count(usable.size(), "logical CPU"), Count(cores, "core")));
  }
}

void Cores(const Topology& topology, Sentences& odd) {
  if (topology.cores.empty()) odd.push_back("The system lists no CPU cores.");
  if (!topology.offline.empty()) {
    odd.push_back(fmt::format("{} offline ({}).",
                              topology.offline.size() == 1
                                  ? "1 logical CPU is"
                                  : fmt::format("{} logical CPUs are", topology.offline.size()),
                              FormatCpuList(topology.offline)));
  }
  if (!topology.kinds.empty()) {
    std::string list;
    for (size_t i = 0; i < topology.kinds.size(); ++i) {
      const auto of_kind = std::count_if(topology.cores.begin(), topology.cores.end(),
                                         [&](const Core& core) { return core.kind == static_cast<int>(i); });
      list += fmt::format("{}{} {}", i == 0 ? "" : ", ", of_kind, topology.kinds[i].name);
    }
    odd.push_back(fmt::format("Cores are of {} kinds ({}): threads on the slower ones hold the others up.",
                              topology.kinds.size(), list));
  }
  if (topology.virtualized && topology.MaxSmt() == 1 && topology.cores.size() > 1) {
    odd.push_back(
        fmt::format("This virtual machine shows each of its {} vCPUs as a core: threads may be SMT siblings "
                    "of one another.",
                    topology.cores.size()));
  }
}

void Kernel(const Topology& topology, Sentences& odd) {
  if (!topology.governor.empty() && topology.governor != "performance") {
    odd.push_back(
        fmt::format("The frequency governor is \"{}\", not \"performance\": times depend on what ran before.",
                    topology.governor));
  }
  const bool balances = !topology.numa_balancing.empty() && topology.numa_balancing != "0";
  if (balances && topology.numa_nodes.size() > 1) {
    odd.push_back(
        fmt::format("NUMA balancing is on ({}): the kernel moves pages between {} nodes while rows run.",
                    topology.numa_balancing, topology.numa_nodes.size()));
  }
  if (topology.thp == "never") {
    odd.push_back("Transparent huge pages are \"never\": large buffers pay for 4 KiB pages.");
  }
}

}  // namespace

std::vector<std::string> Oddities(const Topology& topology, const std::vector<double>& measured_caches) {
  Sentences odd;
  ReportedCaches(topology, measured_caches, odd);
  MeasuredCaches(topology, measured_caches, odd);
  Memory(topology, odd);
  Cores(topology, odd);
  Affinity(topology, odd);
  Quota(topology, odd);
  Kernel(topology, odd);
  return odd;
}

}  // namespace ropeline
