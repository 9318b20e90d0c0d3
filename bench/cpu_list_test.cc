#include "bench/cpu_list.h"

#include <gtest/gtest.h>

namespace ropeline {
namespace {

using Cpus = std::vector<int>;

TEST(CpuList, Parses) {
  EXPECT_EQ(ParseCpuList("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCpuList("0"), Cpus{0});
  EXPECT_EQ(ParseCpuList("5-5"), Cpus{5});
  EXPECT_EQ(ParseCpuList(" 1,3\n"), (Cpus{1, 3}));
  EXPECT_EQ(ParseCpuList("1020-1026"), (Cpus{1020, 1021, 1022, 1023, 1024, 1025, 1026}));
}

TEST(CpuList, SortsAndMerges) { EXPECT_EQ(ParseCpuList("8,0-2,1-3,8"), (Cpus{0, 1, 2, 3, 8})); }

TEST(CpuList, EmptyTextIsTheEmptyList) {
  EXPECT_EQ(ParseCpuList(""), Cpus{});
  EXPECT_EQ(ParseCpuList(" \n"), Cpus{});
}

TEST(CpuList, RefusesWhatIsNoList) {
  for (const char* text : {"3-1", "0-", "-3", "-", ",", "1,,2", "1,", ",1", "0-3-5", "a", "1 2", "1, 2", "+1",
                           "0x1", "1.5", "0-31:2/8", "0--3", "1;2", "\xff"}) {
    EXPECT_EQ(ParseCpuList(text), std::nullopt) << text;
  }
}

TEST(CpuList, RefusesHugeNumbersWithoutTakingTheMemory) {
  EXPECT_EQ(ParseCpuList("0-4000000000"), std::nullopt);
  EXPECT_EQ(ParseCpuList("99999999999999999999999"), std::nullopt);
  EXPECT_EQ(ParseCpuList("2147483648"), std::nullopt);
  EXPECT_EQ(ParseCpuList("0-1000000"), std::nullopt);
  std::string often = "0-999999";
  for (int i = 0; i < 1000; ++i) often += ",0-999999";
  EXPECT_EQ(ParseCpuList(often), std::nullopt);
  const std::optional<Cpus> largest = ParseCpuList("0-999999");
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->size(), 1000000u);
}

TEST(CpuList, Formats) {
  EXPECT_EQ(FormatCpuList({}), "");
  EXPECT_EQ(FormatCpuList({4}), "4");
  EXPECT_EQ(FormatCpuList({0, 1}), "0-1");
  EXPECT_EQ(FormatCpuList({8, 2, 0, 1, 3, 2}), "0-3,8");
  EXPECT_EQ(FormatCpuList({0, 2, 4}), "0,2,4");
}

TEST(CpuList, RoundTrips) {
  for (const char* text : {"", "0", "0-1", "0-3,8", "1,3,5-9", "0-63,128-191"}) {
    const std::optional<Cpus> cpus = ParseCpuList(text);
    ASSERT_TRUE(cpus) << text;
    EXPECT_EQ(FormatCpuList(*cpus), text);
  }
}

}  // namespace
}  // namespace ropeline
