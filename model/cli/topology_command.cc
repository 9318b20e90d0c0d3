#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/topology.h"
#include "bench/topology_json.h"
#include "kernels/targets.h"
#include "model/cli/commands.h"
#include "model/cli/find_machine.h"
#include "model/cli/output.h"
#include "model/cli/table.h"
#include "model/machine.h"
#include "model/units.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::optional<std::string> machine_file;
  bool json = false;
};

// The reported side, the measured one where there is a result, and what the two say together.
struct Findings {
  Topology topology;
  std::optional<Machine> measured;
  bool same_host = false;           // the result was measured on this host
  std::vector<double> cache_bytes;  // measured capacities of this host; empty unknown
};

struct Rates {
  int threads;
  std::optional<double> read_bytes_per_second;  // from memory
  std::optional<double> peak_flops;
};

Findings Find(const Options& options) {
  Findings findings;
  findings.topology = DetectTopology();
  const std::string host_id = HostId(findings.topology);
  findings.measured =
      options.machine_file ? ReadMachine(*options.machine_file) : NewestResult(ResultFolders(), host_id);
  findings.same_host = findings.measured && findings.measured->host_id == host_id;
  if (findings.same_host) findings.cache_bytes = findings.measured->cache_bytes;
  return findings;
}

// At one thread and at all.
std::vector<Rates> RatesOf(const Machine& machine) {
  std::vector<Rates> rates;
  const std::vector<int> threads = machine.Threads();
  for (size_t i = 0; i < threads.size(); ++i) {
    if (i != 0 && i + 1 != threads.size()) continue;
    rates.push_back({threads[i], machine.roofline.MemoryBandwidth(Traffic::kRead, threads[i]),
                     machine.roofline.PeakFlops(threads[i])});
  }
  return rates;
}

std::string OtherHostNote(const Machine& machine) {
  return fmt::format("{} was measured on another host ({}): it is not compared with what this one reports.",
                     machine.file, machine.cpu_model.empty() ? "CPU unknown" : machine.cpu_model);
}

template <typename T>
Json ValueOrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json MeasuredJson(const Findings& findings) {
  if (!findings.measured) return nullptr;
  const Machine& machine = *findings.measured;
  Json rates = Json::array();
  for (const Rates& rate : RatesOf(machine)) {
    rates.push_back({{"threads", rate.threads},
                     {"memory_read_bytes_per_second", ValueOrNull(rate.read_bytes_per_second)},
                     {"peak_f32_flops_per_second", ValueOrNull(rate.peak_flops)}});
  }
  return {{"file", machine.file},
          {"date", machine.date},
          {"same_host", findings.same_host},
          {"caches_bytes", machine.cache_bytes},
          {"oddities", machine.measured_oddities},
          {"rates", rates}};
}

Json FindingsJson(const Findings& findings) {
  Json json = TopologyJson(findings.topology, findings.cache_bytes);
  json["highway"] = {{"targets_compiled", CompiledTargetNames()},
                     {"targets_supported", SupportedTargetNames()},
                     {"target_best", BestTargetName()}};
  json["measured"] = MeasuredJson(findings);
  return json;
}

std::string KnownOr(const std::string& text, const char* otherwise = "unknown") {
  return text.empty() ? otherwise : text;
}

std::string CountText(int count) { return count == 0 ? "unknown" : fmt::format("{}", count); }

std::string BytesText(uint64_t bytes) {
  return bytes == 0 ? "unknown" : FormatBytes(static_cast<double>(bytes));
}

std::string CgroupText(const CgroupLimits& cgroup) {
  if (cgroup.version == 0) return "none found";
  return fmt::format("version {}, CPU quota {}, cpuset {}, memory limit {}", cgroup.version,
                     cgroup.quota_cpus ? fmt::format("{:.4g}", *cgroup.quota_cpus) : "none",
                     cgroup.cpuset ? FormatCpuList(*cgroup.cpuset) : "none",
                     cgroup.memory_bytes ? BytesText(*cgroup.memory_bytes) : "none");
}

std::string MachineText(const Topology& topology) {
  Table table({{"machine", Align::kLeft}, {"reported", Align::kLeft}});
  table.Add({"CPU", KnownOr(topology.cpu_model)});
  table.Add({"packages", CountText(topology.packages)});
  table.Add({"physical cores", CountText(static_cast<int>(topology.cores.size()))});
  table.Add({"logical CPUs", fmt::format("{} ({} per core)", CountText(topology.LogicalCpus()),
                                         CountText(topology.MaxSmt()))});
  for (const CoreKind& kind : topology.kinds) {
    table.Add({kind.name + " cores", "CPUs " + FormatCpuList(kind.logical_cpus)});
  }
  table.Add({"memory", BytesText(topology.memory_bytes)});
  for (const NumaNode& node : topology.numa_nodes) {
    table.Add({fmt::format("NUMA node {}", node.os_index),
               fmt::format("{}, CPUs {}", BytesText(node.memory_bytes),
                           KnownOr(FormatCpuList(node.logical_cpus), "none"))});
  }
  if (!topology.offline.empty()) table.Add({"offline CPUs", FormatCpuList(topology.offline)});
  table.Add({"affinity", KnownOr(FormatCpuList(topology.affinity))});
  table.Add({"cgroup", CgroupText(topology.cgroup)});
  table.Add({"threads by default", fmt::format("{}", topology.DefaultThreads())});
  table.Add({"frequency governor", KnownOr(topology.governor)});
  table.Add({"transparent huge pages", KnownOr(topology.thp)});
  table.Add({"NUMA balancing", KnownOr(topology.numa_balancing)});
  table.Add({"virtual machine", topology.virtualized ? "yes" : "not by the CPU's flags"});
  table.Add({"Highway targets compiled", fmt::format("{}", fmt::join(CompiledTargetNames(), " "))});
  table.Add({"Highway targets supported", fmt::format("{}", fmt::join(SupportedTargetNames(), " "))});
  table.Add({"Highway target used", BestTargetName()});
  return table.Text();
}

std::string CachesText(const Topology& topology, const std::vector<double>& measured) {
  const std::vector<size_t> matches = MatchCaches(topology, measured);
  Table table({{"cache", Align::kLeft}, {"reported"}, {"instances"}, {"cores per instance"}, {"measured"}});
  for (size_t i = 0; i < topology.caches.size(); ++i) {
    const CacheInfo& cache = topology.caches[i];
    std::vector<std::string> sizes;
    for (size_t m = 0; m < matches.size(); ++m) {
      if (matches[m] == i) sizes.push_back(FormatBytes(measured[m]));
    }
    table.Add({fmt::format("L{} {}", cache.level, cache.kind), BytesText(cache.size_bytes),
               CountText(cache.instances), CountText(cache.cores_per_instance),
               sizes.empty() ? "unknown" : fmt::format("{}", fmt::join(sizes, " and "))});
  }
  for (size_t m = matches.size(); m < measured.size(); ++m) {
    table.Add({fmt::format("cache {}", m + 1), "none", "unknown", "unknown", FormatBytes(measured[m])});
  }
  return table.empty() ? "Caches: unknown\n" : table.Text();
}

std::string RatesText(const Findings& findings) {
  if (!findings.measured) {
    return "Nothing was measured on this host yet: run `bench_all --quick`.\n";
  }
  const Machine& machine = *findings.measured;
  Table table({{"threads"}, {"memory read"}, {"f32 peak"}});
  for (const Rates& rate : RatesOf(machine)) {
    table.Add({fmt::format("{}", rate.threads),
               rate.read_bytes_per_second ? FormatBytesPerSecond(*rate.read_bytes_per_second) : "unknown",
               rate.peak_flops ? FormatFlopsPerSecond(*rate.peak_flops) : "unknown"});
  }
  return fmt::format("{}\nMeasured {}: {}\n", table.Text(), KnownOr(machine.date, "at an unknown date"),
                     machine.file);
}

std::string OdditiesText(const Findings& findings) {
  std::vector<std::string> odd = Oddities(findings.topology, findings.cache_bytes);
  if (findings.same_host) {
    for (const std::string& sentence : findings.measured->measured_oddities) {
      odd.push_back("While it was measured: " + sentence);
    }
  }
  if (findings.measured && !findings.same_host) odd.push_back(OtherHostNote(*findings.measured));
  if (odd.empty()) return "Nothing odd.\n";
  return fmt::format("Odd:\n- {}\n", fmt::join(odd, "\n- "));
}

std::string FindingsText(const Findings& findings) {
  return fmt::format("{}\n{}\n{}\n{}", MachineText(findings.topology),
                     CachesText(findings.topology, findings.cache_bytes), RatesText(findings),
                     OdditiesText(findings));
}

}  // namespace

void AddTopologyCommand(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "topology", "What this machine is, as reported and as measured, and what is odd about it");
  command
      ->add_option("--machine", options->machine_file,
                   "bench.json to set beside what is reported (default: the newest of this host)")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options] {
    const Findings findings = Find(*options);
    if (options->json) {
      Print(FindingsJson(findings));
    } else {
      Print(FindingsText(findings));
    }
  });
}

}  // namespace ropeline
