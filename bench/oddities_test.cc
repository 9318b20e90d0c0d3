#include <gtest/gtest.h>

#include "bench/topology.h"

namespace ropeline {
namespace {

using Odd = std::vector<std::string>;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;

// Bare metal as it should be: two sockets of two cores with SMT, 32 GiB, used whole.
Topology Sane() {
  Topology topology;
  topology.cpu_model = "Some CPU";
  topology.packages = 2;
  topology.numa_nodes = {{0, 16 * kGib, {0, 1, 2, 3}}, {1, 16 * kGib, {4, 5, 6, 7}}};
  topology.cores = {{0, 0, -1, {0, 1}}, {0, 0, -1, {2, 3}}, {1, 1, -1, {4, 5}}, {1, 1, -1, {6, 7}}};
  topology.caches = {
      {1, "data", 48 << 10, 4, 1}, {2, "unified", 2 * kMib, 4, 1}, {3, "unified", 32 * kMib, 2, 2}};
  topology.memory_bytes = 32 * kGib;
  topology.affinity = {0, 1, 2, 3, 4, 5, 6, 7};
  topology.cgroup.version = 2;
  topology.cgroup.cpuset = topology.affinity;
  topology.governor = "performance";
  topology.thp = "madvise";
  topology.numa_balancing = "0";
  return topology;
}

TEST(Oddities, SaneMachineHasNone) {
  Topology topology = Sane();
  EXPECT_EQ(Oddities(topology), Odd{});
  EXPECT_EQ(Oddities(topology, {48 << 10, 2.0 * kMib, 24.0 * kMib}), Odd{});
  topology.thp = "always";
  topology.governor = "";
  topology.numa_balancing = "";
  topology.cgroup = {};
  topology.affinity = {};
  EXPECT_EQ(Oddities(topology), Odd{}) << "unknown is not odd";
  topology.cgroup.quota_cpus = 4.0;
  topology.cgroup.memory_bytes = 32 * kGib;
  EXPECT_EQ(Oddities(topology), Odd{}) << "a limit that does not bind is not odd";
}

TEST(Oddities, UnbelievableCaches) {
  Topology topology = Sane();
  topology.caches[2] = {3, "unified", 508 * kMib, 4, 1};
  EXPECT_EQ(Oddities(topology), (Odd{"L3 of 508 MiB for 1 core is not believable: 508 MiB per core, more "
                                     "than any CPU has."}));
  topology.caches[2] = {3, "unified", 64 * kGib, 1, 4};
  EXPECT_EQ(Oddities(topology), (Odd{"L3 of 64 GiB is not believable: the machine has 32 GiB of memory."}));
}

TEST(Oddities, NoCaches) {
  Topology topology = Sane();
  topology.caches.clear();
  EXPECT_EQ(Oddities(topology),
            (Odd{"The system lists no caches: only a measurement can tell their sizes."}));
  EXPECT_EQ(Oddities(topology, {48 << 10}), (Odd{"The system lists no caches: measured ones are used."}));
}

TEST(Oddities, MeasuredCachesThatDisagree) {
  const Topology topology = Sane();
  EXPECT_EQ(Oddities(topology, {32 << 10, 3.0 * kMib, 48.0 * kMib}), Odd{}) << "a factor of 1.5 is let pass";
  EXPECT_EQ(Oddities(topology, {48 << 10, 1.25 * kMib, 32.0 * kMib}),
            (Odd{"L2 is reported as 2 MiB and measured as 1.25 MiB, 1.6 times apart: the measured size is "
                 "used."}));
  EXPECT_EQ(Oddities(topology, {1.0 * kMib, 32.0 * kMib}),
            (Odd{"L2 is reported as 2 MiB and measured as 1 MiB, 2.0 times apart: the measured size is "
                 "used."}))
      << "with a level missing, the nearest in size is meant";
  EXPECT_EQ(Oddities(topology, {0, -1, 0.0 / 1.0}), Odd{});
}

TEST(Oddities, Memory) {
  Topology topology = Sane();
  topology.numa_nodes = {{0, 5 * kGib, topology.affinity}};
  topology.memory_bytes = 24 * kGib;
  EXPECT_EQ(Oddities(topology), (Odd{"1 NUMA node has 5 GiB in all, but the machine has 24 GiB of memory: "
                                     "where the rest lies is unknown."}));
  topology.virtualized = true;
  EXPECT_EQ(Oddities(topology), (Odd{"1 NUMA node has 5 GiB in all, but the machine has 24 GiB of memory: "
                                     "this virtual machine may add the rest to a node when it is used."}));
  topology = Sane();
  topology.numa_nodes[1].memory_bytes = 0;
  EXPECT_EQ(Oddities(topology), (Odd{"2 NUMA nodes have 16 GiB in all, but the machine has 32 GiB of memory: "
                                     "where the rest lies is unknown."}));
  topology = Sane();
  topology.cgroup.memory_bytes = 8 * kGib;
  EXPECT_EQ(Oddities(topology), (Odd{"The cgroup allows 8 GiB of the machine's 32 GiB of memory."}));
}

TEST(Oddities, Quota) {
  Topology topology = Sane();
  topology.cgroup.quota_cpus = 2.65;
  EXPECT_EQ(Oddities(topology), (Odd{"The cgroup's CPU quota of 2.65 is smaller than the 4 usable cores: 2 "
                                     "threads by default; more are stopped now and then."}));
  topology.cgroup.quota_cpus = 7.65;
  EXPECT_EQ(Oddities(topology),
            (Odd{"The cgroup's CPU quota of 7.65 is not a whole number: 4 threads by default."}));
}

TEST(Oddities, Affinity) {
  Topology topology = Sane();
  topology.affinity = {0, 2};
  EXPECT_EQ(Oddities(topology), (Odd{"This process may run on 2 of the machine's 8 logical CPUs (0,2)."}));
  topology.affinity = {0, 1, 2};
  EXPECT_EQ(Oddities(topology),
            (Odd{"This process may run on 3 of the machine's 8 logical CPUs (0-2).",
                 "The 3 logical CPUs that it may run on belong to 2 cores: SMT siblings share a core."}));
}

TEST(Oddities, CoresAndVirtualMachines) {
  Topology topology = Sane();
  topology.offline = {8};
  EXPECT_EQ(Oddities(topology), (Odd{"1 logical CPU is offline (8)."}));
  topology.offline = {8, 9};
  EXPECT_EQ(Oddities(topology), (Odd{"2 logical CPUs are offline (8-9)."}));

  topology = Sane();
  topology.virtualized = true;
  EXPECT_EQ(Oddities(topology), Odd{}) << "this one shows its siblings";
  for (Core& core : topology.cores) core.logical_cpus.pop_back();
  topology.affinity = {0, 2, 4, 6};
  EXPECT_EQ(Oddities(topology), (Odd{"This virtual machine shows each of its 4 vCPUs as a core: threads may "
                                     "be SMT siblings of one another."}));

  topology = Sane();
  topology.kinds = {{"E", 0, {4, 5, 6, 7}}, {"P", 1, {0, 1, 2, 3}}};
  topology.cores[0].kind = topology.cores[1].kind = 1;
  topology.cores[2].kind = topology.cores[3].kind = 0;
  EXPECT_EQ(Oddities(topology),
            (Odd{"Cores are of 2 kinds (2 E, 2 P): threads on the slower ones hold the others up."}));
}

TEST(Oddities, Kernel) {
  Topology topology = Sane();
  topology.governor = "powersave";
  EXPECT_EQ(Oddities(topology),
            (Odd{"The frequency governor is \"powersave\", not \"performance\": times depend on what ran "
                 "before."}));
  topology = Sane();
  topology.numa_balancing = "1";
  EXPECT_EQ(Oddities(topology),
            (Odd{"NUMA balancing is on (1): the kernel moves pages between 2 nodes while rows run."}));
  topology.numa_nodes = {{0, 32 * kGib, topology.affinity}};
  EXPECT_EQ(Oddities(topology), Odd{}) << "there is nowhere to move a page to";
  topology = Sane();
  topology.thp = "never";
  EXPECT_EQ(Oddities(topology),
            (Odd{"Transparent huge pages are \"never\": large buffers pay for 4 KiB pages."}));
}

TEST(Oddities, NothingKnown) {
  EXPECT_EQ(Oddities(Topology()), (Odd{"The system lists no caches: only a measurement can tell their sizes.",
                                       "The system lists no CPU cores."}));
}

}  // namespace
}  // namespace ropeline
