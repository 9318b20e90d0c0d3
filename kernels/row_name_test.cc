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

TEST(RowName, OfAPeerStandsBesideOneOfOurs) {
  RowName ours{"attention", "decode", "q8_0", "AVX3_DL", {}};
  ours.With("n", size_t{4096}).With("cache", "cold");
  RowName peer = ours;
  peer.peer = "ggml-0.25.1";
  peer.target = "icelake";
  EXPECT_EQ(peer.Text(), "peer/ggml-0.25.1/attention/decode/q8_0/icelake/n:4096/cache:cold");
  EXPECT_EQ(ours.Subject(), "attention/decode/q8_0/*/n:4096/cache:cold");
  EXPECT_EQ(peer.Subject(), ours.Subject());
  ours.With("threads", size_t{2});
  EXPECT_NE(peer.Subject(), ours.Subject()) << "other arguments are another subject";

  const auto again = ParsePeerRowName(peer.Text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->peer, "ggml-0.25.1");
  EXPECT_EQ(again->family, "attention");
  EXPECT_EQ(again->target, "icelake");
  EXPECT_EQ(again->Count("n"), 4096u);
  EXPECT_EQ(again->Text(), peer.Text());
  EXPECT_FALSE(ParseRowName(peer.Text())) << "a peer's row is none of ours";
  EXPECT_FALSE(ParsePeerRowName(ours.Text())) << "and ours is no peer's";
}

TEST(RowName, RefusesTextThatOnlyStartsLikeAPeers) {
  for (const char* text : {"", "peer", "peer/", "peer/ggml", "peer//a/b/c/d", "peer/ggml/a/b/c",
                           "peer/ggml/a/b/c/d/e", "peer/ggml/peer/ggml/a/b/c/d"}) {
    EXPECT_FALSE(ParsePeerRowName(text)) << text;
    EXPECT_FALSE(ParseRowName(text)) << text;
  }
  EXPECT_TRUE(ParsePeerRowName("peer/ggml/a/b/c/d"));
  EXPECT_TRUE(ParseRowName("peers/a/b/c")) << "a family of another name";
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
