#include "bench/cgroup.h"

#include <gtest/gtest.h>

#include "bench/fake_root.h"

namespace ropeline {
namespace {

using Cpus = std::vector<int>;

constexpr const char* kMountV2 =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountV1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime shared:10 - cgroup cgroup rw,cpuset\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw,relatime shared:11 - cgroup cgroup rw,memory\n";
constexpr const char* kSelfV1 = "4:memory:/box\n3:cpuset:/box\n2:cpu,cpuacct:/box\n1:name=systemd:/\n";

void ExpectNoLimits(const CgroupLimits& limits) {
  EXPECT_EQ(limits.quota_cpus, std::nullopt);
  EXPECT_EQ(limits.cpuset, std::nullopt);
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
}

// Version 2, process in /box, with this cpu.max.
std::optional<double> QuotaV2(std::string_view cpu_max) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV2).Write("proc/self/cgroup", "0::/box\n");
  root.Write("sys/fs/cgroup/box/cpu.max", cpu_max);
  return ReadCgroupLimits(root.Path()).quota_cpus;
}

std::optional<double> QuotaV1(std::string_view quota, std::string_view period) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV1).Write("proc/self/cgroup", kSelfV1);
  root.Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", quota);
  root.Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", period);
  return ReadCgroupLimits(root.Path()).quota_cpus;
}

TEST(Cgroup, QuotaV2) {
  EXPECT_EQ(QuotaV2("765000 100000\n"), 7.65);
  EXPECT_EQ(QuotaV2("25000 50000\n"), 0.5);
  EXPECT_EQ(QuotaV2("200000\n"), 2.0) << "the period may be left out: 100 ms";
  EXPECT_EQ(QuotaV2("max 100000\n"), std::nullopt);
}

TEST(Cgroup, QuotaV1) {
  EXPECT_EQ(QuotaV1("765000\n", "100000\n"), 7.65);
  EXPECT_EQ(QuotaV1("-1\n", "100000\n"), std::nullopt);
}

TEST(Cgroup, MalformedQuotaIsUnknown) {
  for (const char* text :
       {"", "\n", "garbage", "max", "-1 100000", "0 100000", "100000 0", "100000 -5", "1e5 100000",
        "100000 100000 100000", "100000 max", "99999999999999999999999 100000", " max", "\x01\xff"}) {
    EXPECT_EQ(QuotaV2(text), std::nullopt) << text;
  }
  EXPECT_EQ(QuotaV1("", ""), std::nullopt);
  EXPECT_EQ(QuotaV1("200000", ""), std::nullopt);
  EXPECT_EQ(QuotaV1("200000", "0"), std::nullopt);
  EXPECT_EQ(QuotaV1("many", "100000"), std::nullopt);
}

TEST(Cgroup, TightestOfNestedV2) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV2).Write("proc/self/cgroup", "0::/a/b/c\n");
  const std::string top = "sys/fs/cgroup/";
  root.Write(top + "a/cpu.max", "150000 100000").Write(top + "a/memory.max", "8589934592");
  root.Write(top + "a/b/cpu.max", "400000 100000").Write(top + "a/b/memory.max", "1073741824");
  root.Write(top + "a/b/c/cpu.max", "max 100000").Write(top + "a/b/c/memory.max", "max");
  root.Write(top + "cpuset.cpus.effective", "0-7").Write(top + "a/cpuset.cpus.effective", "2-3\n");
  root.Write(top + "other/cpu.max", "1000 100000");
  const CgroupLimits limits = ReadCgroupLimits(root.Path());
  EXPECT_EQ(limits.version, 2);
  EXPECT_EQ(limits.quota_cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1073741824u);
  EXPECT_EQ(limits.cpuset, (Cpus{2, 3})) << "the nearest cgroup that has the controller";
}

TEST(Cgroup, TightestOfNestedV1) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV1);
  root.Write("proc/self/cgroup", "4:memory:/a/b\n3:cpuset:/a/b\n2:cpu,cpuacct:/a/b\n");
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/";
  root.Write(cpu + "cpu.cfs_quota_us", "-1").Write(cpu + "cpu.cfs_period_us", "100000");
  root.Write(cpu + "a/cpu.cfs_quota_us", "300000").Write(cpu + "a/cpu.cfs_period_us", "100000");
  root.Write(cpu + "a/b/cpu.cfs_quota_us", "-1").Write(cpu + "a/b/cpu.cfs_period_us", "100000");
  root.Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4294967296");
  root.Write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712");
  root.Write("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "4-5,7\n");
  const CgroupLimits limits = ReadCgroupLimits(root.Path());
  EXPECT_EQ(limits.version, 1);
  EXPECT_EQ(limits.quota_cpus, 3.0);
  EXPECT_EQ(limits.memory_bytes, 4294967296u);
  EXPECT_EQ(limits.cpuset, (Cpus{4, 5, 7}));
}

TEST(Cgroup, HybridTakesEachControllerWhereItIs) {
  FakeRoot root;
  root.Write("proc/self/mountinfo",
             "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.Write("proc/self/cgroup", "1:cpu:/v1\n0::/v2\n");
  root.Write("sys/fs/cgroup/cpu/v1/cpu.cfs_quota_us", "250000");
  root.Write("sys/fs/cgroup/cpu/v1/cpu.cfs_period_us", "100000");
  root.Write("sys/fs/cgroup/unified/v2/cpu.max",
             "100000 100000");  // the controller is not here: must not count
  root.Write("sys/fs/cgroup/unified/v2/memory.max", "2147483648");
  const CgroupLimits limits = ReadCgroupLimits(root.Path());
  EXPECT_EQ(limits.version, 1);
  EXPECT_EQ(limits.quota_cpus, 2.5);
  EXPECT_EQ(limits.memory_bytes, 2147483648u);
}

TEST(Cgroup, ControllerNamesAreNotSubstrings) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  root.Write("proc/self/cgroup", "3:cpuset:/\n");
  root.Write("sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000");
  root.Write("sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, std::nullopt);
}

TEST(Cgroup, ContainerThatSeesItsHostsPath) {
  // The mount shows the container's cgroup at its root; the path is the host's.
  FakeRoot root;
  root.Write("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  root.Write("sys/fs/cgroup/cpu.max", "150000 100000").Write("sys/fs/cgroup/in/cpu.max", "50000 100000");
  for (const char* path :
       {"/docker/abc", "/docker/other", "/docker/abcdef", "/", "/../../x", "nonsense", ""}) {
    root.Write("proc/self/cgroup", std::string("0::") + path + "\n");
    EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, 1.5) << path;
  }
  root.Write("proc/self/cgroup", "0::/docker/abc/in\n");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, 0.5);
}

TEST(Cgroup, PathOutsideTheNamespaceDoesNotNameAChild) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV2).Write("proc/self/cgroup", "0::/../x\n");
  root.Write("sys/fs/cgroup/cpu.max", "300000 100000").Write("sys/fs/cgroup/x/cpu.max", "100000 100000");
  root.Write("sys/fs/x/cpu.max", "100000 100000");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, 3.0);
}

TEST(Cgroup, TakesTheFirstMountThatContainsTheProcess) {
  FakeRoot root;
  root.Write("proc/self/mountinfo",
             "30 23 0:26 /other /other rw - cgroup2 cgroup2 rw\n"
             "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
             "32 23 0:26 /box /narrow rw - cgroup2 cgroup2 rw\n");
  root.Write("proc/self/cgroup", "0::/box\n");
  root.Write("other/cpu.max", "100000 100000").Write("narrow/cpu.max", "200000 100000");
  root.Write("sys/fs/cgroup/box/cpu.max", "350000 100000");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, 3.5);
}

TEST(Cgroup, LargestNumberOfVersion1IsNoMemoryLimit) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV1).Write("proc/self/cgroup", kSelfV1);
  root.Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).memory_bytes, std::nullopt);
}

TEST(Cgroup, MountPointWithABlank) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  root.Write("proc/self/cgroup", "0::/\n").Write("my groups/cpu.max", "450000 100000");
  EXPECT_EQ(ReadCgroupLimits(root.Path()).quota_cpus, 4.5);
}

TEST(Cgroup, UsualPlacesWithoutMountinfo) {
  FakeRoot v2;
  v2.Write("sys/fs/cgroup/cgroup.controllers", "cpu memory").Write("sys/fs/cgroup/cpu.max", "765000 100000");
  EXPECT_EQ(ReadCgroupLimits(v2.Path()).quota_cpus, 7.65);
  EXPECT_EQ(ReadCgroupLimits(v2.Path()).version, 2);

  FakeRoot v1;
  v1.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "765000")
      .Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(ReadCgroupLimits(v1.Path()).quota_cpus, 7.65);
  EXPECT_EQ(ReadCgroupLimits(v1.Path()).version, 1);
}

TEST(Cgroup, NothingThere) {
  FakeRoot root;
  EXPECT_EQ(ReadCgroupLimits(root.Path()).version, 0);
  ExpectNoLimits(ReadCgroupLimits(root.Path()));
  ExpectNoLimits(ReadCgroupLimits(root.Path("does/not/exist")));
}

TEST(Cgroup, GarbageIsUnknown) {
  const std::string bytes("\xff\0\n:::\n0:\n-\n - \n- cgroup2\n1 2 3 4 5 6 - cgroup2\n", 45);
  FakeRoot root;
  root.Write("proc/self/mountinfo", bytes).Write("proc/self/cgroup", bytes);
  ExpectNoLimits(ReadCgroupLimits(root.Path()));

  root.Write("proc/self/mountinfo", kMountV2).Write("proc/self/cgroup", "0::/box");
  for (const char* file : {"cpu.max", "memory.max", "cpuset.cpus.effective", "cpuset.cpus"}) {
    root.Write(std::string("sys/fs/cgroup/box/") + file, bytes);
    root.Write(std::string("sys/fs/cgroup/") + file, "");
  }
  EXPECT_EQ(ReadCgroupLimits(root.Path()).version, 2);
  ExpectNoLimits(ReadCgroupLimits(root.Path()));
}

TEST(Cgroup, FolderInPlaceOfAFile) {
  FakeRoot root;
  root.Write("proc/self/mountinfo", kMountV2).Write("proc/self/cgroup", "0::/\n");
  root.Write("sys/fs/cgroup/cpu.max/x", "").Write("sys/fs/cgroup/memory.max/x", "");
  ExpectNoLimits(ReadCgroupLimits(root.Path()));
}

}  // namespace
}  // namespace ropeline
