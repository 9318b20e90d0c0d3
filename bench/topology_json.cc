#include "bench/topology_json.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Of a quantity whose 0 means that it is not known.
template <typename T>
Json KnownOrNull(T value) {
  return value > 0 ? Json(value) : Json();
}

template <typename T>
Json ValueOrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json MachineJson(const Topology& topology) {
  Json nodes = Json::array();
  for (const NumaNode& node : topology.numa_nodes) {
    nodes.push_back({{"os_index", node.os_index},
                     {"memory_bytes", KnownOrNull(node.memory_bytes)},
                     {"logical_cpus", FormatCpuList(node.logical_cpus)}});
  }
  Json caches = Json::array();
  for (const CacheInfo& cache : topology.caches) {
    caches.push_back({{"level", cache.level},
                      {"kind", cache.kind},
                      {"size_bytes", cache.size_bytes},
                      {"instances", cache.instances},
                      {"cores_per_instance", cache.cores_per_instance}});
  }
  Json kinds = Json::array();
  for (const CoreKind& kind : topology.kinds) {
    kinds.push_back({{"name", kind.name},
                     {"efficiency_class", kind.efficiency_class < 0 ? Json() : Json(kind.efficiency_class)},
                     {"cpus", FormatCpuList(kind.logical_cpus)}});
  }
  return {{"cpu_model", TextOrNull(topology.cpu_model)},
          {"packages", KnownOrNull(topology.packages)},
          {"cores", KnownOrNull(topology.cores.size())},
          {"logical_cpus", KnownOrNull(topology.LogicalCpus())},
          {"smt", KnownOrNull(topology.MaxSmt())},
          {"numa_nodes", nodes},
          {"caches", caches},
          {"kinds", kinds},
          {"memory_bytes", KnownOrNull(topology.memory_bytes)},
          {"offline", FormatCpuList(topology.offline)},
          {"virtualized", topology.virtualized}};
}

}  // namespace

Json TopologyJson(const Topology& topology, const std::vector<double>& measured_caches) {
  const CgroupLimits& cgroup = topology.cgroup;
  const Json cpuset = cgroup.cpuset ? Json(FormatCpuList(*cgroup.cpuset)) : Json();
  return {{"topology", MachineJson(topology)},
          {"measured_caches_bytes", measured_caches},
          {"affinity", TextOrNull(FormatCpuList(topology.affinity))},
          {"cgroup",
           {{"version", KnownOrNull(cgroup.version)},
            {"quota_cpus", ValueOrNull(cgroup.quota_cpus)},
            {"cpuset", cpuset},
            {"memory_bytes", ValueOrNull(cgroup.memory_bytes)}}},
          {"governor", TextOrNull(topology.governor)},
          {"thp", TextOrNull(topology.thp)},
          {"numa_balancing", TextOrNull(topology.numa_balancing)},
          {"threads_default", topology.DefaultThreads()},
          {"oddities", Oddities(topology, measured_caches)}};
}

}  // namespace ropeline
