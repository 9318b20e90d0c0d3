#include "bench/context.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "bench/build_info.h"
#include "bench/interference.h"
#include "bench/topology_json.h"
#include "kernels/targets.h"

namespace ropeline {

namespace {

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// In a virtual machine two CPUs that are shown as cores may be two threads of one core: then they share its
// FMA units.
// "" where the peak scales, or was not measured.
std::string SharedCoreOddity(const Roofline& limits, int threads) {
  const auto one = limits.PeakFlops(1);
  const auto all = limits.PeakFlops(threads);
  if (threads < 2 || !one || !all || *all > 0.75 * threads * *one) return "";
  return fmt::format(
      "{} threads do {:.2f} times the f32 flops of one: these CPUs share cores (SMT siblings shown as "
      "cores), or the "
      "machine is throttled or busy",
      threads, *all / *one);
}

// How disturbed some rows were.
struct Tally {
  int64_t switches = 0;
  double steal_seconds = 0;
  int tainted = 0;
  int shared_core = 0;
  int rows = 0;

  void Add(const Json& row) {
    switches += static_cast<int64_t>(row.value("involuntary_switches", 0.0));
    steal_seconds += 1e-3 * row.value("steal_ms", 0.0);
    tainted += row.value("tainted", 0.0) > 0 ? 1 : 0;
    shared_core += row.value("shared_core", 0.0) > 0 ? 1 : 0;
    ++rows;
  }
};

}  // namespace

Json MakeContext(const Topology& topology, const Options& options) {
  Json json;
  json["schema"] = 1;
  json["version"] = BuildVersion();
  json["git_hash"] = BuildGitHash();
  json["compiler"] = BuildCompiler();
  json["compiler_flags"] = BuildFlags();
  json["build_type"] = BuildType();
  json["highway"] = {{"version", HighwayVersion()},
                     {"targets_compiled", CompiledTargetNames()},
                     {"targets_supported", SupportedTargetNames()},
                     {"target_best", BestTargetName()}};
  json["host_id"] = HostId(topology);
  // topology, affinity, cgroup … as `ropeline topology --json` shows them; measured caches come after the
  // run.
  json.update(TopologyJson(topology));
  json["threads"] = options.threads;
  json["targets"] = options.targets;
  json["families"] = options.families.empty() ? Families() : options.families;
  const double load = LoadAverage();
  json["load_before"] = load < 0 ? Json() : Json(load);
  json["load_after"] = Json();
  json["date"] = UtcNow();
  json["command"] = options.command;
  json["quick"] = options.quick;
  json["rounds"] = options.rounds;
  json["complete"] = false;
  json["skipped"] = Json::array();
  json["measured_oddities"] = Json::array();
  json["interference"] = Json();
  return json;
}

void CompleteContext(const Topology& topology, const Roofline& limits, const Json& benchmarks,
                     Json* ropeline) {
  Tally all, several, reads;
  for (const Json& row : benchmarks) {
    all.Add(row);
    if (row.value("threads", 1) > 1) {
      several.Add(row);
    } else if (row["name"].get<std::string>().rfind("stream/read/", 0) == 0) {
      reads.Add(row);
    }
  }
  std::vector<std::string> odd;
  const std::string no_gain = SharedCoreOddity(limits, topology.DefaultThreads());
  if (!no_gain.empty()) odd.push_back(no_gain);
  if (several.shared_core > 0) {
    odd.push_back(fmt::format(
        "{} of {} samples with several threads ran while these CPUs shared a core: the host moves "
        "virtual CPUs. They are marked tainted, and medians leave them out where there are others.",
        several.shared_core, several.rows));
  }
  if (2 * all.tainted > all.rows) {
    odd.push_back(
        fmt::format("{} of {} samples are tainted: this run is worth little. Measure again at rest.",
                    all.tainted, all.rows));
  }
  std::vector<uint64_t> caches;
  if (2 * reads.tainted > reads.rows) {
    odd.push_back("Most one-thread read rows were disturbed: no cache sizes are taken from them.");
  } else {
    for (const CacheKnee& knee : FindKnees(limits.Curve(Traffic::kRead, 1))) {
      caches.push_back(static_cast<uint64_t>(knee.capacity_bytes));
    }
  }
  (*ropeline)["measured_caches_bytes"] = caches;
  (*ropeline)["oddities"] = Oddities(topology, {caches.begin(), caches.end()});
  (*ropeline)["measured_oddities"] = odd;
  const double load = LoadAverage();
  (*ropeline)["load_after"] = load < 0 ? Json() : Json(load);
  (*ropeline)["interference"] = {{"involuntary_switches", all.switches},
                                 {"steal_seconds", std::round(1000 * all.steal_seconds) / 1000},
                                 {"tainted_rows", all.tainted},
                                 {"shared_core_rows", all.shared_core},
                                 {"rows", all.rows}};
}

}  // namespace ropeline
