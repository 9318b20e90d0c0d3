#include "kernels/row_name.h"

#include <gtest/gtest.h>

namespace ropeline {
namespace {

TEST(RowName, ReadsWhatItWrites) {
  RowName name{"qk_rotation", "rope_half", "f32", "AVX3_DL", {}};
  name.With("n", size_t{4096}).With("cache", "hot").With("threads", size_t{2});
  EXPECT_EQ(name.Text(), "qk_rotation/rope_half/f32/AVX3_DL/n:4096/cache:hot/threads:2");
  const auto again = ParseRowName(name.Text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->Text(), name.Text());
  EXPECT_EQ(again->Count("n"), 4096u);
  EXPECT_EQ(*again->Arg("cache"), "hot");
  EXPECT_EQ(again->Arg("d"), nullptr);
  EXPECT_FALSE(again->Count("cache"));
}

TEST(RowName, LeavesOutSuffixesOfGoogleBenchmark) {
  const auto name = ParseRowName("stream/read/f32/SSE4/ws:16384/min_time:0.050/real_time/threads:1");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->Text(), "stream/read/f32/SSE4/ws:16384/threads:1");
}

TEST(RowName, RefusesOtherText) {
  for (const char* text : {"", "/", "a/b/c", "BM_memcpy/8192", "a/b/c/d/e"})
    EXPECT_FALSE(ParseRowName(text)) << text;
  EXPECT_FALSE(ParseRowName("a/b/c/d/n:1x")->Count("n"));
  EXPECT_FALSE(ParseRowName("a/b/c/d/n:99999999999999999999999")->Count("n"));
  EXPECT_FALSE(ParseRowName("a/b/c/d/n:-1")->Count("n"));
}

}  // namespace
}  // namespace ropeline
