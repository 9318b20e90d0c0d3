#include "model/cli/table.h"

#include <gtest/gtest.h>

namespace ropeline {
namespace {

TEST(TableTest, ColumnsAreAlignedByCodePoint) {
  Table table({{"term", Align::kLeft}, {"time"}});
  table.Add({"weights", "84.4 ms"});
  table.Add({"µ", "9.1 µs"});
  EXPECT_EQ(table.Text(),
            "| term    |    time |\n"
            "|---------|--------:|\n"
            "| weights | 84.4 ms |\n"
            "| µ       |  9.1 µs |\n");
}

TEST(TableTest, NarrowColumnsKeepAValidRule) {
  Table table({{"n"}});
  table.Add({"1"});
  EXPECT_EQ(table.Text(), "|   n |\n|----:|\n|   1 |\n");
}

TEST(TableTest, BarsInCellsAreEscaped) {
  Table table({{"x", Align::kLeft}});
  table.Add({"a|b||c"});
  EXPECT_NE(table.Text().find("| a\\|b\\|\\|c |"), std::string::npos);
}

TEST(TableTest, WidthCountsCodePoints) {
  EXPECT_EQ(Width(""), 0u);
  EXPECT_EQ(Width("abc"), 3u);
  EXPECT_EQ(Width("O(h·N²)"), 7u);
}

TEST(TableTest, ARowOfTheWrongLengthIsAnError) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.Add({"1"}), std::logic_error);
}

}  // namespace
}  // namespace ropeline
