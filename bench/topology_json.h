// The topology as JSON, with the keys of results/README.md. The benchmark's context and `ropeline topology
// --json` both take it from here.
#ifndef ROPELINE_BENCH_TOPOLOGY_JSON_H_
#define ROPELINE_BENCH_TOPOLOGY_JSON_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "bench/topology.h"

namespace ropeline {

// The keys topology, measured_caches_bytes, affinity, cgroup, governor, thp, numa_balancing, threads_default
// and oddities, in this order. Unknown is null. Lists of CPUs are text, "0-3,8".
nlohmann::ordered_json TopologyJson(const Topology& topology,
                                    const std::vector<double>& measured_caches = {});

}  // namespace ropeline

#endif  // ROPELINE_BENCH_TOPOLOGY_JSON_H_
