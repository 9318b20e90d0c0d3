#include "bench/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <stdexcept>

#include "bench/fake_root.h"
#include "bench/topology_xml.h"

namespace ropeline {
namespace {

using Cpus = std::vector<int>;

struct Xml {};

// A machine by description, on an empty root, so that nothing of this one leaks in.
struct FakeMachine {
  FakeRoot root;
  TopologySource source;

  explicit FakeMachine(const std::string& synthetic) {
    source.hwloc_synthetic = synthetic;
    source.root = root.Path();
  }
  FakeMachine(Xml, const std::string& xml) {
    source.hwloc_xml = root.Write("machine.xml", xml).Path("machine.xml");
    source.root = root.Path();
  }
  Topology Detect() const { return DetectTopology(source); }
};

// 2 sockets × 4 cores × 2 siblings; os indices 0…15 in order.
constexpr const char* kTwoSockets =
    "pack:2 [numa(memory=16GB)] l3:1(size=32MB) l2:4(size=1MB) l1d:1(size=48KB) core:1 pu:2";

TEST(Topology, TwoSocketsWithSmt) {
  const Topology topology = FakeMachine(kTwoSockets).Detect();
  EXPECT_EQ(topology.packages, 2);
  ASSERT_EQ(topology.cores.size(), 8u);
  EXPECT_EQ(topology.LogicalCpus(), 16);
  EXPECT_EQ(topology.MaxSmt(), 2);
  EXPECT_EQ(topology.cores[0].logical_cpus, (Cpus{0, 1}));
  EXPECT_EQ(topology.cores[7].logical_cpus, (Cpus{14, 15}));
  EXPECT_EQ(topology.cores[3].package, 0);
  EXPECT_EQ(topology.cores[4].package, 1);
  EXPECT_EQ(topology.cores[4].numa_node, 1);
  EXPECT_EQ(topology.cores[4].kind, -1);
  EXPECT_TRUE(topology.kinds.empty());

  ASSERT_EQ(topology.numa_nodes.size(), 2u);
  EXPECT_EQ(topology.numa_nodes[1].os_index, 1);
  EXPECT_EQ(FormatCpuList(topology.numa_nodes[1].logical_cpus), "8-15");
  EXPECT_EQ(topology.numa_nodes[0].memory_bytes + topology.numa_nodes[1].memory_bytes, topology.memory_bytes);

  ASSERT_EQ(topology.caches.size(), 3u);
  EXPECT_EQ(topology.caches[0].level, 1);
  EXPECT_EQ(topology.caches[0].kind, "data");
  EXPECT_EQ(topology.caches[0].instances, 8);
  EXPECT_EQ(topology.caches[0].cores_per_instance, 1);
  EXPECT_EQ(topology.caches[2].level, 3);
  EXPECT_EQ(topology.caches[2].kind, "unified");
  EXPECT_EQ(topology.caches[2].instances, 2);
  EXPECT_EQ(topology.caches[2].cores_per_instance, 4);
  EXPECT_EQ(topology.LargestBelievedCache(), topology.caches[2].size_bytes);

  EXPECT_EQ(FormatCpuList(topology.affinity), "0-15");
  EXPECT_EQ(topology.UsableCores(), (Cpus{0, 2, 4, 6, 8, 10, 12, 14}));
  EXPECT_EQ(topology.DefaultThreads(), 8);
  EXPECT_EQ(topology.ThreadSteps(), (Cpus{1, 2, 4, 8}));
}

TEST(Topology, UnknownStaysUnknown) {
  const Topology topology = FakeMachine("pack:1 core:2 pu:1").Detect();
  EXPECT_EQ(topology.cpu_model, "");
  EXPECT_EQ(topology.governor, "");
  EXPECT_EQ(topology.thp, "");
  EXPECT_EQ(topology.numa_balancing, "");
  EXPECT_TRUE(topology.caches.empty());
  EXPECT_EQ(topology.LargestBelievedCache(), std::nullopt);
  EXPECT_EQ(topology.cgroup.version, 0);
  EXPECT_FALSE(topology.virtualized);
}

TEST(Topology, MachineWithoutCoresOrPackages) {
  const Topology topology = FakeMachine("pu:3").Detect();
  EXPECT_EQ(topology.packages, 0);
  ASSERT_EQ(topology.cores.size(), 3u);
  EXPECT_EQ(topology.cores[2].logical_cpus, Cpus{2});
  EXPECT_EQ(topology.cores[2].package, -1);
  EXPECT_EQ(topology.ThreadSteps(), (Cpus{1, 2, 3}));
}

TEST(Topology, AffinityChoosesSiblings) {
  FakeMachine machine(kTwoSockets);
  machine.source.affinity = Cpus{3, 2, 5, 15};
  const Topology topology = machine.Detect();
  EXPECT_EQ(topology.UsableCpus(), (Cpus{2, 3, 5, 15}));
  EXPECT_EQ(topology.UsableCores(), (Cpus{2, 5, 15})) << "the lowest usable sibling of each core";
  EXPECT_EQ(topology.DefaultThreads(), 3);
  EXPECT_EQ(topology.ThreadSteps(), (Cpus{1, 2, 3}));
}

TEST(Topology, CpusetCutsTheAffinity) {
  FakeMachine machine(kTwoSockets);
  machine.root.Write("sys/fs/cgroup/cgroup.controllers", "cpuset");
  machine.root.Write("sys/fs/cgroup/cpuset.cpus.effective", "8-11");
  EXPECT_EQ(machine.Detect().UsableCores(), (Cpus{8, 10}));
  machine.source.affinity = Cpus{0, 1};
  EXPECT_EQ(machine.Detect().UsableCores(), Cpus{0}) << "a cpuset that excludes the affinity is not ours";
}

TEST(Topology, QuotaIsRoundedDown) {
  const auto threads = [](const std::string& cpu_max) {
    FakeMachine machine(kTwoSockets);
    machine.root.Write("sys/fs/cgroup/cgroup.controllers", "cpu");
    machine.root.Write("sys/fs/cgroup/cpu.max", cpu_max);
    return machine.Detect().DefaultThreads();
  };
  EXPECT_EQ(threads("765000 100000"), 7);
  EXPECT_EQ(threads("50000 100000"), 1);
  EXPECT_EQ(threads("800000 100000"), 8);
  EXPECT_EQ(threads("18446744073709551615 1"), 8);
  EXPECT_EQ(threads("max 100000"), 8);
  EXPECT_EQ(threads("garbage"), 8);
}

TEST(Topology, QuotaOfVersion1) {
  FakeMachine machine(kTwoSockets);
  machine.root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "765000");
  machine.root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(machine.Detect().DefaultThreads(), 7);
  EXPECT_EQ(machine.Detect().ThreadSteps(), (Cpus{1, 2, 4, 7}));
}

TEST(Topology, HybridCores) {
  // CPUs 0 and 1 are E cores, 2 and 3 one P core; CPU 3 has another turbo step.
  const std::string e_cores = XmlL2(0, 0x3, 2097152, XmlCore(0, {0}) + XmlCore(1, {1}));
  const std::string p_core = XmlL2(1, 0xc, 1310720, XmlCore(2, {2, 3}));
  const std::string kinds = XmlKind(0x3, "CoreType", "IntelAtom") + XmlKind(0xc, "CoreType", "IntelCore") +
                            XmlKind(0x8, "FrequencyMaxMHz", "5200");
  const FakeMachine machine(
      Xml{},
      XmlMachine(
          0xf, "<info name=\"CPUModel\" value=\"12th Gen Intel(R) Core(TM) i5-12500H\"/>" + e_cores + p_core,
          kinds));
  const Topology topology = machine.Detect();
  EXPECT_EQ(topology.cpu_model, "12th Gen Intel(R) Core(TM) i5-12500H");
  ASSERT_EQ(topology.kinds.size(), 2u) << "P cores of two frequencies are one kind";
  EXPECT_EQ(topology.kinds[0].name, "E");
  EXPECT_EQ(topology.kinds[0].logical_cpus, (Cpus{0, 1}));
  EXPECT_EQ(topology.kinds[1].name, "P");
  EXPECT_EQ(topology.kinds[1].logical_cpus, (Cpus{2, 3}));
  EXPECT_LT(topology.kinds[0].efficiency_class, topology.kinds[1].efficiency_class);
  ASSERT_EQ(topology.cores.size(), 3u);
  EXPECT_EQ(topology.cores[0].kind, 0);
  EXPECT_EQ(topology.cores[2].kind, 1);
  EXPECT_EQ(topology.UsableCores(), (Cpus{2, 0, 1})) << "the P core first";
  EXPECT_EQ(topology.MaxSmt(), 2);
  ASSERT_EQ(topology.caches.size(), 1u);
  EXPECT_EQ(topology.caches[0].size_bytes, 1310720u) << "the P core's";
  EXPECT_EQ(topology.caches[0].cores_per_instance, 1);
  EXPECT_EQ(topology.caches[0].instances, 2);
  EXPECT_EQ(topology.memory_bytes, 17179869184u);
}

TEST(Topology, KindsWithoutNamesByEfficiency) {
  const std::string kinds =
      XmlKind(0x6, "LinuxCapacity", "1024", 1024) + XmlKind(0x1, "LinuxCapacity", "446", 446);
  const FakeMachine machine(Xml{},
                            XmlMachine(0x7, XmlCore(0, {0}) + XmlCore(1, {1}) + XmlCore(2, {2}), kinds));
  const Topology topology = machine.Detect();
  ASSERT_EQ(topology.kinds.size(), 2u);
  EXPECT_EQ(topology.kinds[0].name, "kind0");
  EXPECT_EQ(topology.kinds[1].name, "kind1");
  EXPECT_EQ(topology.kinds[1].logical_cpus, (Cpus{1, 2}));
  EXPECT_EQ(topology.UsableCores(), (Cpus{1, 2, 0}));
}

TEST(Topology, OfflineCpu0) {
  FakeMachine machine(Xml{}, XmlMachine(0xe, XmlCore(1, {1}) + XmlCore(2, {2}) + XmlCore(3, {3})));
  machine.root.Write("sys/devices/system/cpu/present", "0-3\n")
      .Write("sys/devices/system/cpu/online", "1-3\n");
  machine.root.Write("sys/devices/system/cpu/offline", "0,4-255\n");
  machine.root.Write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  const Topology topology = machine.Detect();
  EXPECT_EQ(topology.offline, Cpus{0}) << "places without a CPU are not offline CPUs";
  EXPECT_EQ(topology.affinity, (Cpus{1, 2, 3}));
  EXPECT_EQ(topology.UsableCores(), (Cpus{1, 2, 3}));
  EXPECT_EQ(topology.governor, "powersave");
}

TEST(Topology, NothingIsOfflineWhereNothingIsKnown) {
  FakeMachine machine("core:2 pu:1");
  machine.root.Write("sys/devices/system/cpu/present", "0-3\n");
  EXPECT_TRUE(machine.Detect().offline.empty());
}

TEST(Topology, DescribesTheWholeMachineWhateverIsAllowed) {
  const FakeMachine machine(Xml{}, XmlMachine(0x3, XmlCore(0, {0}) + XmlCore(1, {1}), "", 0x1));
  EXPECT_EQ(machine.Detect().cores.size(), 2u);
}

void WriteCache(FakeRoot& root, int cpu, int index, const std::string& level, const std::string& type,
                const std::string& size, const std::string& shared) {
  const std::string folder =
      "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
  root.Write(folder + "level", level).Write(folder + "type", type).Write(folder + "size", size);
  root.Write(folder + "shared_cpu_list", shared);
}

TEST(Topology, CachesFromSysWhereHwlocHasNone) {
  FakeMachine machine(Xml{}, XmlMachine(0x6, XmlCore(1, {1}) + XmlCore(2, {2})));
  for (int cpu = 1; cpu <= 2; ++cpu) {
    WriteCache(machine.root, cpu, 0, "1\n", "Data\n", "48K\n", std::to_string(cpu) + "\n");
    WriteCache(machine.root, cpu, 1, "1\n", "Instruction\n", "32K\n", std::to_string(cpu) + "\n");
    WriteCache(machine.root, cpu, 2, "3\n", "Unified\n", "32M\n", "1-2\n");
    WriteCache(machine.root, cpu, 3, "2\n", "Unified\n", "garbage\n", "1-2\n");
  }
  const Topology topology = machine.Detect();
  ASSERT_EQ(topology.caches.size(), 2u);
  EXPECT_EQ(topology.caches[0].level, 1);
  EXPECT_EQ(topology.caches[0].kind, "data");
  EXPECT_EQ(topology.caches[0].size_bytes, 48u << 10);
  EXPECT_EQ(topology.caches[0].instances, 2);
  EXPECT_EQ(topology.caches[0].cores_per_instance, 1);
  EXPECT_EQ(topology.caches[1].level, 3);
  EXPECT_EQ(topology.caches[1].size_bytes, 32u << 20);
  EXPECT_EQ(topology.caches[1].instances, 1);
  EXPECT_EQ(topology.caches[1].cores_per_instance, 2);
}

TEST(Topology, ReadsProcAndSys) {
  FakeMachine machine("pack:1 core:2 pu:1");
  machine.root.Write("proc/cpuinfo",
                     "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: fpu hypervisor sse\n");
  machine.root.Write("proc/meminfo", "MemTotal:       24684092 kB\nMemFree: 1 kB\n");
  machine.root.Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  machine.root.Write("proc/sys/kernel/numa_balancing", "1\n");
  const Topology topology = machine.Detect();
  EXPECT_EQ(topology.cpu_model, "Some CPU @ 2.0GHz");
  EXPECT_EQ(topology.memory_bytes, 24684092ull * 1024);
  EXPECT_EQ(topology.thp, "madvise");
  EXPECT_EQ(topology.numa_balancing, "1");
  EXPECT_TRUE(topology.virtualized);
}

TEST(Topology, GarbageFilesAreUnknown) {
  FakeMachine machine("pack:1 [numa(memory=8GB)] core:2 pu:1");
  for (const char* file :
       {"proc/cpuinfo", "proc/meminfo", "proc/sys/kernel/numa_balancing", "proc/self/cgroup",
        "sys/kernel/mm/transparent_hugepage/enabled", "sys/devices/system/cpu/present",
        "sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"}) {
    machine.root.Write(file, "]\xff[ : \n:");
  }
  const Topology topology = machine.Detect();
  EXPECT_EQ(topology.cpu_model, "");
  EXPECT_EQ(topology.memory_bytes, topology.numa_nodes[0].memory_bytes);
  EXPECT_EQ(topology.thp, "");
  EXPECT_TRUE(topology.offline.empty());
  EXPECT_EQ(topology.governor, "]?[ : ?:") << "kept, but printable";
  EXPECT_FALSE(topology.virtualized);
  machine.root.Write("proc/meminfo", "MemTotal: 18446744073709551615 kB");
  EXPECT_EQ(machine.Detect().memory_bytes, topology.memory_bytes);
}

TEST(Topology, RefusesUnusableDescriptions) {
  setenv("HWLOC_HIDE_ERRORS", "2", 1);
  EXPECT_THROW(FakeMachine("nonsense:x").Detect(), std::invalid_argument);
  FakeRoot root;
  TopologySource source;
  source.root = root.Write("bad.xml", "<topology").Path();
  source.hwloc_xml = root.Path("bad.xml");
  EXPECT_THROW(DetectTopology(source), std::invalid_argument);
  source.hwloc_xml = root.Path("absent.xml");
  EXPECT_THROW(DetectTopology(source), std::invalid_argument);
}

TEST(Topology, BelievesOnlySensibleCaches) {
  Topology topology;
  topology.memory_bytes = uint64_t{24} << 30;
  EXPECT_TRUE(IsBelievable({3, "unified", uint64_t{128} << 20, 1, 1}, topology));
  EXPECT_FALSE(IsBelievable({3, "unified", (uint64_t{128} << 20) + 1, 1, 1}, topology));
  EXPECT_FALSE(IsBelievable({3, "unified", uint64_t{508} << 20, 2, 1}, topology));
  EXPECT_TRUE(IsBelievable({3, "unified", uint64_t{508} << 20, 1, 16}, topology));
  EXPECT_FALSE(IsBelievable({1, "data", 0, 1, 1}, topology));
  topology.memory_bytes = uint64_t{256} << 20;
  EXPECT_FALSE(IsBelievable({3, "unified", uint64_t{508} << 20, 1, 16}, topology));
  topology.caches = {{2, "unified", 1u << 20, 2, 1}, {3, "unified", uint64_t{508} << 20, 1, 16}};
  EXPECT_EQ(topology.LargestBelievedCache(), 1u << 20);
}

TEST(Topology, MatchesMeasuredCaches) {
  using Places = std::vector<size_t>;
  Topology topology;
  EXPECT_EQ(MatchCaches(topology, {32768}), Places{});
  topology.caches = {
      {1, "data", 48 << 10, 1, 1}, {2, "unified", 2u << 20, 1, 1}, {3, "unified", 32u << 20, 1, 1}};
  EXPECT_EQ(MatchCaches(topology, {32768, 40000, 1u << 20}), (Places{0, 1, 2})) << "as many: in order";
  EXPECT_EQ(MatchCaches(topology, {1u << 20, 20u << 20}), (Places{1, 2})) << "fewer: by size";
  EXPECT_EQ(MatchCaches(topology, {40000, 1u << 20, 3u << 20, 20u << 20}), (Places{0, 1, 1, 2}));
}

TEST(Topology, ThisMachine) {
  const Topology topology = DetectTopology();
  EXPECT_GE(topology.cores.size(), 1u);
  EXPECT_GT(topology.memory_bytes, 0u);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    EXPECT_EQ(topology.affinity.size(), static_cast<size_t>(CPU_COUNT(&set)));
  }
  EXPECT_LE(topology.UsableCores().size(), topology.cores.size());
}

}  // namespace
}  // namespace ropeline
