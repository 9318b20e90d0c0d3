#include "bench/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "bench/sysfs_caches.h"
#include "bench/system_files.h"

namespace ropeline {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Hwloc = std::unique_ptr<hwloc_topology, DestroyTopology>;

// nullptr where hwloc cannot tell anything of this machine.
Hwloc LoadHwloc(const TopologySource& source) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Hwloc topology(raw);
  if (!source.hwloc_synthetic.empty() &&
      hwloc_topology_set_synthetic(raw, source.hwloc_synthetic.c_str()) != 0) {
    throw std::invalid_argument(
        fmt::format("hwloc: not a synthetic description: \"{}\"", source.hwloc_synthetic));
  }
  if (!source.hwloc_xml.empty() && hwloc_topology_set_xml(raw, source.hwloc_xml.c_str()) != 0) {
    throw std::invalid_argument(fmt::format("hwloc: not an XML topology: {}", source.hwloc_xml));
  }
  // The machine is described whole; what this process may use of it is in affinity and cgroup.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) {
    if (source.hwloc_synthetic.empty() && source.hwloc_xml.empty()) return nullptr;
    throw std::invalid_argument(
        fmt::format("hwloc: topology cannot be loaded: {}{}", source.hwloc_synthetic, source.hwloc_xml));
  }
  return topology;
}

std::vector<int> Indices(hwloc_const_bitmap_t set) {
  std::vector<int> indices;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return indices;  // infinite: nothing is known
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) indices.push_back(i);
  return indices;
}

int CountOf(hwloc_topology_t hwloc, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(hwloc, type));
}

std::vector<NumaNode> NumaNodesOf(hwloc_topology_t hwloc) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back(
        {static_cast<int>(node->os_index), node->attr->numanode.local_memory, Indices(node->cpuset)});
  }
  return nodes;
}

// "P" or "E" where the system says so; "" unknown.
std::string KindName(const hwloc_info_s* infos, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (std::strcmp(infos[i].name, "CoreType") != 0) continue;
    if (std::strcmp(infos[i].value, "IntelCore") == 0) return "P";
    if (std::strcmp(infos[i].value, "IntelAtom") == 0) return "E";
  }
  return "";
}

// Slowest first. Kinds of one name are one kind: hwloc also tells apart P cores that differ by a turbo step.
std::vector<CoreKind> KindsOf(hwloc_topology_t hwloc) {
  std::vector<CoreKind> kinds;
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> cpus(hwloc_bitmap_alloc(),
                                                                       hwloc_bitmap_free);
  for (int i = 0; i < hwloc_cpukinds_get_nr(hwloc, 0); ++i) {
    int efficiency = -1;
    unsigned count = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(hwloc, static_cast<unsigned>(i), cpus.get(), &efficiency, &count, &infos,
                                0) != 0) {
      continue;
    }
    CoreKind kind{KindName(infos, count), efficiency, Indices(cpus.get())};
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const CoreKind& other) {
      return !kind.name.empty() && other.name == kind.name;
    });
    if (same == kinds.end()) {
      kinds.push_back(std::move(kind));
    } else {
      same->efficiency_class = std::max(same->efficiency_class, kind.efficiency_class);
      same->logical_cpus.insert(same->logical_cpus.end(), kind.logical_cpus.begin(), kind.logical_cpus.end());
    }
  }
  if (kinds.size() < 2) return {};
  for (CoreKind& kind : kinds) std::sort(kind.logical_cpus.begin(), kind.logical_cpus.end());
  std::sort(kinds.begin(), kinds.end(), [](const CoreKind& a, const CoreKind& b) {
    return std::tie(a.efficiency_class, a.logical_cpus) < std::tie(b.efficiency_class, b.logical_cpus);
  });
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name.empty()) kinds[i].name = fmt::format("kind{}", i);
  }
  return kinds;
}

int KindIndex(const std::vector<CoreKind>& kinds, int cpu) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::vector<int>& cpus = kinds[i].logical_cpus;
    if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) return static_cast<int>(i);
  }
  return -1;
}

// A logical CPU without a core above it (some machines list none) is a core of its own.
std::vector<Core> CoresOf(hwloc_topology_t hwloc, const std::vector<CoreKind>& kinds) {
  std::vector<Core> cores;
  hwloc_obj_t previous_core = nullptr;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_PU, pu)) != nullptr) {
    const int cpu = static_cast<int>(pu->os_index);
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_CORE, pu);
    if (core == nullptr || core != previous_core) {
      hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, pu);
      Core next;
      if (package != nullptr) next.package = static_cast<int>(package->logical_index);
      if (pu->nodeset != nullptr) next.numa_node = hwloc_bitmap_first(pu->nodeset);
      next.kind = KindIndex(kinds, cpu);
      cores.push_back(std::move(next));
    }
    cores.back().logical_cpus.push_back(cpu);
    previous_core = core;
  }
  for (Core& core : cores) std::sort(core.logical_cpus.begin(), core.logical_cpus.end());
  return cores;
}

// Caches above one logical CPU.
std::vector<CacheInfo> CachesOf(hwloc_topology_t hwloc, int cpu, const std::vector<Core>& cores) {
  std::vector<CacheInfo> caches;
  if (cpu < 0) return caches;
  for (hwloc_obj_t object = hwloc_get_pu_obj_by_os_index(hwloc, static_cast<unsigned>(cpu));
       object != nullptr; object = object->parent) {
    if (!hwloc_obj_type_is_dcache(object->type) || object->attr->cache.size == 0) continue;
    CacheInfo cache;
    cache.level = static_cast<int>(object->attr->cache.depth);
    cache.kind = object->attr->cache.type == HWLOC_OBJ_CACHE_DATA ? "data" : "unified";
    cache.size_bytes = object->attr->cache.size;
    cache.instances = CountOf(hwloc, object->type);
    cache.cores_per_instance = CoresAmong(cores, Indices(object->cpuset));
    caches.push_back(std::move(cache));
  }
  return caches;
}

std::string ModelOf(hwloc_topology_t hwloc) {
  hwloc_obj_t package = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0);
  for (hwloc_obj_t object : {package, hwloc_get_root_obj(hwloc)}) {
    const char* model = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, "CPUModel");
    if (model != nullptr) return std::string(Trimmed(model));
  }
  return "";
}

std::vector<int> ProcessAffinity() {
  // The kernel refuses (EINVAL) a set smaller than its own, whose size it does not tell.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(cpus),
                                                               [](cpu_set_t* p) { CPU_FREE(p); });
    if (sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> affinity;
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set.get())) affinity.push_back(cpu);
      }
      return affinity;
    }
    if (errno != EINVAL) break;
  }
  return {};
}

std::vector<int> OfflineCpus(const std::string& root) {
  const auto list = [&](const char* name) {
    return ParseCpuList(ReadSystemFile(Below(root, "sys/devices/system/cpu") / name))
        .value_or(std::vector<int>{});
  };
  // Not "offline": that also counts sockets and hot-plug places that are not there.
  const std::vector<int> present = list("present");
  const std::vector<int> online = list("online");
  std::vector<int> offline;
  if (online.empty()) return offline;
  std::set_difference(present.begin(), present.end(), online.begin(), online.end(),
                      std::back_inserter(offline));
  return offline;
}

}  // namespace

Topology DetectTopology(const TopologySource& source) {
  const std::string& root = source.root;
  const Hwloc hwloc = LoadHwloc(source);
  Topology topology;
  topology.cgroup = ReadCgroupLimits(root);
  topology.memory_bytes = MemTotalBytes(root);
  topology.offline = OfflineCpus(root);
  if (hwloc) {
    topology.cpu_model = ModelOf(hwloc.get());
    topology.packages = CountOf(hwloc.get(), HWLOC_OBJ_PACKAGE);
    topology.numa_nodes = NumaNodesOf(hwloc.get());
    topology.kinds = KindsOf(hwloc.get());
    topology.cores = CoresOf(hwloc.get(), topology.kinds);
    if (topology.memory_bytes == 0) topology.memory_bytes = hwloc_get_root_obj(hwloc.get())->total_memory;
  }
  if (topology.cpu_model.empty()) topology.cpu_model = CpuModel(root);
  topology.cpu_model = Printable(topology.cpu_model);

  const bool this_machine = source.hwloc_synthetic.empty() && source.hwloc_xml.empty();
  if (source.affinity) {
    topology.affinity = *source.affinity;
  } else if (this_machine) {
    topology.affinity = ProcessAffinity();
  } else if (hwloc) {
    topology.affinity = Indices(hwloc_topology_get_topology_cpuset(hwloc.get()));
  }

  const std::vector<int> usable = topology.UsableCores();
  const int first_cpu = usable.empty() ? -1 : usable.front();
  if (hwloc) topology.caches = CachesOf(hwloc.get(), first_cpu, topology.cores);
  if (topology.caches.empty()) topology.caches = SysfsCaches(root, first_cpu, topology.cores);
  const std::string governor_file =
      fmt::format("sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", first_cpu);
  topology.governor = Printable(ReadSystemFile(Below(root, governor_file)));
  topology.thp =
      Printable(BracketedWord(ReadSystemFile(Below(root, "sys/kernel/mm/transparent_hugepage/enabled"))));
  topology.numa_balancing = Printable(ReadSystemFile(Below(root, "proc/sys/kernel/numa_balancing")));
  topology.virtualized = HasHypervisorFlag(root);
  return topology;
}

}  // namespace ropeline
