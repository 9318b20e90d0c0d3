#include <gtest/gtest.h>

#include "bench/fake_root.h"
#include "bench/topology.h"

namespace ropeline {
namespace {

Topology WithModel(const std::string& model, size_t cores) {
  Topology topology;
  topology.cpu_model = model;
  topology.cores.resize(cores);
  return topology;
}

std::string Slug(const std::string& model, size_t cores) { return MachineSlug(WithModel(model, cores)); }

TEST(MachineSlug, NamesCpuAndCores) {
  EXPECT_EQ(Slug("Intel(R) Xeon(R) Processor @ 2.80GHz", 2), "intel-xeon-2-80ghz-2c");
  EXPECT_EQ(Slug("AMD EPYC 9B45", 64), "amd-epyc-9b45-64c");
  EXPECT_EQ(Slug("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 20), "intel-xeon-gold-6248-2-50ghz-20c");
  EXPECT_EQ(Slug("AMD Ryzen 9 7950X 16-Core Processor", 16), "amd-ryzen-9-7950x-16c");
  EXPECT_EQ(Slug("12th Gen Intel(R) Core(TM) i7-12700K", 12), "intel-core-i7-12700k-12c");
  EXPECT_EQ(Slug("AMD Ryzen 7 5800H with Radeon Graphics", 8), "amd-ryzen-7-5800h-8c");
  EXPECT_EQ(Slug("AMD A10-7850K APU w/ Radeon(TM) R7", 4), "amd-a10-7850k-apu-4c");
  EXPECT_EQ(Slug("Arm implementer 0x41 part 0xd40", 4), "arm-implementer-0x41-part-0xd40-4c");
}

TEST(MachineSlug, UnknownModel) {
  EXPECT_EQ(Slug("", 8), "unknown-cpu-8c");
  EXPECT_EQ(Slug("CPU @ Processor", 8), "unknown-cpu-8c");
  EXPECT_EQ(Slug("../..", 1), "unknown-cpu-1c");
}

TEST(MachineSlug, OnlyLowerCaseDigitsAndSingleDashes) {
  EXPECT_EQ(Slug("  A--b__C/../d(e)\xc3\xa9  ", 3), "a-b-c-d-e-3c");
  const std::string slug = Slug(std::string(500, 'x') + " y", 3);
  EXPECT_EQ(slug, std::string(48, 'x') + "-3c");
}

TEST(HostId, IsAHashOfIdModelAndMemory) {
  FakeRoot root;
  root.Write("etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
  Topology topology = WithModel("Some CPU", 4);
  topology.memory_bytes = 25276510208;  // 23.5 GiB, of 24
  const std::string id = HostId(topology, root.Path());
  // FNV-1a of "3d1219c7c4c5404aaa1f6d2a48adfda4\nSome CPU\n25769803776": committed results depend on it.
  EXPECT_EQ(id, "cd40e97206907681");

  topology.memory_bytes -= 90 << 20;
  EXPECT_EQ(HostId(topology, root.Path()), id) << "another kernel leaves some MiB less";
  topology.memory_bytes = uint64_t{24} << 30;
  EXPECT_EQ(HostId(topology, root.Path()), id);
  topology.memory_bytes = uint64_t{32} << 30;
  EXPECT_NE(HostId(topology, root.Path()), id);
  topology.memory_bytes = uint64_t{24} << 30;
  topology.cpu_model = "Other CPU";
  EXPECT_NE(HostId(topology, root.Path()), id);
}

TEST(HostId, FallsBackToTheHostName) {
  FakeRoot a;
  FakeRoot b;
  a.Write("etc/machine-id", "uninitialized\n").Write("proc/sys/kernel/hostname", "one\n");
  b.Write("etc/machine-id", "").Write("proc/sys/kernel/hostname", "two\n");
  const Topology topology = WithModel("Some CPU", 4);
  EXPECT_NE(HostId(topology, a.Path()), HostId(topology, b.Path()));
  b.Write("proc/sys/kernel/hostname", "one");
  EXPECT_EQ(HostId(topology, a.Path()), HostId(topology, b.Path()));
  EXPECT_EQ(HostId(topology, b.Path("nothing")).size(), 16u);
}

}  // namespace
}  // namespace ropeline
