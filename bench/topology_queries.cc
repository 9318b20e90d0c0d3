// What is asked of a detected topology: which CPUs threads may use, and which caches to believe.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "bench/topology.h"

namespace ropeline {
namespace {

// More than any CPU has: 96 MiB shared by one usable core is the extreme among those sold by 2025.
constexpr uint64_t kMostCacheBytesPerCore = uint64_t{128} << 20;

}  // namespace

int Topology::LogicalCpus() const {
  size_t cpus = 0;
  for (const Core& core : cores) cpus += core.logical_cpus.size();
  return static_cast<int>(cpus);
}

int Topology::MaxSmt() const {
  size_t most = 0;
  for (const Core& core : cores) most = std::max(most, core.logical_cpus.size());
  return static_cast<int>(most);
}

std::vector<int> Topology::UsableCpus() const {
  std::vector<int> cpus = affinity;
  if (cpus.empty()) {
    for (const Core& core : cores)
      cpus.insert(cpus.end(), core.logical_cpus.begin(), core.logical_cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  if (!cgroup.cpuset) return cpus;
  std::vector<int> allowed = *cgroup.cpuset;
  std::sort(allowed.begin(), allowed.end());
  std::vector<int> both;
  std::set_intersection(cpus.begin(), cpus.end(), allowed.begin(), allowed.end(), std::back_inserter(both));
  return both.empty() ? cpus : both;
}

std::vector<int> Topology::UsableCores() const {
  const std::vector<int> usable = UsableCpus();
  std::vector<std::tuple<int, int, int>> order;  // slowness, package, CPU
  for (const Core& core : cores) {
    int lowest = -1;
    for (const int cpu : core.logical_cpus) {
      if (!std::binary_search(usable.begin(), usable.end(), cpu)) continue;
      if (lowest < 0 || cpu < lowest) lowest = cpu;
    }
    if (lowest < 0) continue;
    const bool known = core.kind >= 0 && core.kind < static_cast<int>(kinds.size());
    order.emplace_back(known ? -kinds[core.kind].efficiency_class : 0, core.package, lowest);
  }
  if (order.empty()) return usable;
  std::sort(order.begin(), order.end());
  std::vector<int> cpus;
  for (const auto& [slowness, package, cpu] : order) cpus.push_back(cpu);
  return cpus;
}

int Topology::DefaultThreads() const {
  double threads = static_cast<double>(UsableCores().size());
  if (cgroup.quota_cpus) threads = std::min(threads, std::floor(*cgroup.quota_cpus));
  return std::max(1, static_cast<int>(threads));
}

std::vector<int> Topology::ThreadSteps() const {
  const int most = DefaultThreads();
  std::vector<int> steps;
  for (int threads = 1; threads < most; threads *= 2) steps.push_back(threads);
  steps.push_back(most);
  return steps;
}

std::optional<uint64_t> Topology::LargestBelievedCache() const {
  std::optional<uint64_t> largest;
  for (const CacheInfo& cache : caches) {
    if (IsBelievable(cache, *this) && cache.size_bytes > largest.value_or(0)) largest = cache.size_bytes;
  }
  return largest;
}

bool IsBelievable(const CacheInfo& cache, const Topology& topology) {
  if (cache.size_bytes == 0) return false;
  if (topology.memory_bytes > 0 && cache.size_bytes > topology.memory_bytes) return false;
  const uint64_t cores = static_cast<uint64_t>(std::max(1, cache.cores_per_instance));
  return cache.size_bytes / cores <= kMostCacheBytesPerCore;
}

std::vector<size_t> MatchCaches(const Topology& topology, const std::vector<double>& measured_caches) {
  const std::vector<CacheInfo>& reported = topology.caches;
  std::vector<size_t> matches;
  if (reported.empty()) return matches;
  for (size_t i = 0; i < measured_caches.size(); ++i) {
    const auto distance = [&](const CacheInfo& cache) {
      return std::abs(std::log(measured_caches[i] / static_cast<double>(cache.size_bytes)));
    };
    const auto nearest =
        std::min_element(reported.begin(), reported.end(),
                         [&](const CacheInfo& a, const CacheInfo& b) { return distance(a) < distance(b); });
    matches.push_back(
        measured_caches.size() == reported.size() ? i : static_cast<size_t>(nearest - reported.begin()));
  }
  return matches;
}

}  // namespace ropeline
