#include "model/compare_peers.h"

#include <gtest/gtest.h>

#include <set>

#include "model/fake_machine.h"

namespace ropeline {
namespace {

const PeerComparison& RowOf(const std::vector<PeerComparison>& rows, PeerOperation operation) {
  for (const PeerComparison& row : rows) {
    if (row.operation == operation) return row;
  }
  throw std::out_of_range(PeerOperationName(operation));
}

TEST(ComparePeersTest, PairsRowsOfTheSameWork) {
  const Machine machine = FakeMachine(FakePeerResults());
  const std::vector<PeerComparison> rows = ComparePeers({}, machine);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(), [](const PeerComparison& a, const PeerComparison& b) {
    return a.operation < b.operation;
  }));
  const PeerComparison& rope = rows.front();
  EXPECT_EQ(rope.name.Text(), "qk_rotation/rope_half/f32/*/n:4096/h:16/d:128/cache:cold/threads:2");
  EXPECT_EQ(rope.threads, 2);
  ASSERT_NE(rope.ours, nullptr);
  EXPECT_EQ(rope.ours->name.target, "BEST") << "not the other target's, which comes first";
  ASSERT_EQ(rope.peers.size(), 1u);
  EXPECT_EQ(rope.peers[0].peer, "ggml-1.2.3");
  EXPECT_DOUBLE_EQ(*rope.peers[0].ratio, 12);
  EXPECT_DOUBLE_EQ(*rope.limit_ns, 0.8e6);
  EXPECT_DOUBLE_EQ(*rope.Roof(*rope.ours), 0.8);
  EXPECT_DOUBLE_EQ(*rope.Roof(*rope.peers[0].row), 0.8 / 12);
  EXPECT_FALSE(rope.PeerIsFaster());
}

TEST(ComparePeersTest, SaysWhereThePeerIsFaster) {
  const Machine machine = FakeMachine(FakePeerResults());
  const std::vector<PeerComparison> rows = ComparePeers({}, machine);
  const PeerComparison& bias = RowOf(rows, PeerOperation::kScoreBias);
  EXPECT_TRUE(bias.PeerIsFaster());
  EXPECT_DOUBLE_EQ(*bias.FastestPeer().ratio, 0.75);
  const auto glances = GlanceAtPeers(rows);
  ASSERT_EQ(glances.size(), 3u) << "products have nothing of ours beside them";
  EXPECT_EQ(glances[0].operation, PeerOperation::kRotation);
  EXPECT_EQ(glances[0].peer_faster, 0u);
  EXPECT_DOUBLE_EQ(glances[0].median, 12);
  EXPECT_EQ(glances[1].operation, PeerOperation::kScoreBias);
  EXPECT_EQ(glances[1].rows, 1u);
  EXPECT_EQ(glances[1].peer_faster, 1u);
}

TEST(ComparePeersTest, MediansAreOfUntaintedSamples) {
  const Machine machine = FakeMachine(FakePeerResults());
  const std::vector<PeerComparison> rows = ComparePeers({}, machine);
  const PeerComparison& decode = RowOf(rows, PeerOperation::kDecode);
  EXPECT_DOUBLE_EQ(decode.peers[0].row->call_ns, 5e6);
  EXPECT_EQ(decode.peers[0].row->samples, 3u);
  EXPECT_FALSE(decode.peers[0].row->tainted);
  ASSERT_NE(decode.ours, nullptr);
  EXPECT_DOUBLE_EQ(*decode.peers[0].ratio, 5 / 1.05);
  EXPECT_FALSE(decode.limit_ns) << "that row of ours has no roof";
}

TEST(ComparePeersTest, ALayoutOfAPeersOwnIsTheSameWork) {
  const Machine machine = FakeMachine(FakePeerResults());
  const std::vector<PeerComparison> rows = ComparePeers({}, machine);
  const PeerComparison& matvec = RowOf(rows, PeerOperation::kMatvec);
  EXPECT_EQ(matvec.ours, nullptr);
  ASSERT_EQ(matvec.peers.size(), 3u);
  EXPECT_EQ(matvec.peers[0].layout, "");
  EXPECT_EQ(matvec.peers[1].layout, "cpu_repack");
  EXPECT_EQ(matvec.peers[2].peer, "blas-4");
  EXPECT_EQ(matvec.FastestPeer().layout, "cpu_repack");
  EXPECT_FALSE(matvec.FastestPeer().ratio);
  EXPECT_FALSE(matvec.PeerIsFaster()) << "than nothing";
  EXPECT_DOUBLE_EQ(*matvec.limit_ns, 1.5e6);
}

// 25 GFLOP/s for 2 ms at a peak of 50 are the 1 ms that the row's roof says: bound by f32's peak, which 8-bit
// integers pass.
TEST(ComparePeersTest, TheF32PeakIsNoLimitOfOtherProducts) {
  nlohmann::json results = FakePeerResults();
  const Machine machine = FakeMachine(results);
  EXPECT_FALSE(RowOf(ComparePeers({}, machine), PeerOperation::kMatmul).limit_ns);
  results["benchmarks"].back()["name"] =
      "peer/blas-4/linear/matmul/f32/any/n:512/rows:64/cols:64/cache:hot/threads:2";
  const Machine f32 = FakeMachine(results);
  EXPECT_DOUBLE_EQ(*RowOf(ComparePeers({}, f32), PeerOperation::kMatmul).limit_ns, 1e6);
}

TEST(ComparePeersTest, FiltersRows) {
  const Machine machine = FakeMachine(FakePeerResults());
  EXPECT_EQ(ComparePeers({.n = {4096}}, machine).size(), 2u);
  EXPECT_EQ(ComparePeers({.n = {4096, 256}}, machine).size(), 3u);
  EXPECT_EQ(ComparePeers({.d = 128}, machine).size(), 2u);
  EXPECT_EQ(ComparePeers({.threads = 2}, machine).size(), 5u);
  for (const PeerFilter& none : {PeerFilter{.n = {7}}, PeerFilter{.d = 64}, PeerFilter{.threads = 1}}) {
    EXPECT_THROW(ComparePeers(none, machine), BadInput);
  }
}

TEST(ComparePeersTest, PeersWithoutTimesAreNotBlamedOnAFilter) {
  nlohmann::json results = FakePeerResults();
  for (nlohmann::json& row : results["benchmarks"]) {
    if (row["name"].get<std::string>().starts_with("peer/")) row["call_ns"] = 0;
  }
  const Machine machine = FakeMachine(results);
  try {
    ComparePeers({}, machine);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("with a time"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("--n"), std::string::npos) << error.what();
  }
}

TEST(ComparePeersTest, AResultWithoutPeersSaysHowToMakeOne) {
  const Machine machine = FakeMachine(FakeKernelResults());
  try {
    ComparePeers({}, machine);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("bench_all --families peer --ggml"), std::string::npos);
  }
}

TEST(ComparePeersTest, PeersChangeNothingElse) {
  const Machine with = FakeMachine(FakePeerResults());
  for (const MeasuredRow& row : with.rows) EXPECT_EQ(row.name.peer, "") << row.name.Text();
  EXPECT_EQ(with.rows.size(), FakeMachine(FakeKernelResults()).rows.size() + 3);
  EXPECT_EQ(with.peer_rows.size(), 7u);
}

TEST(ComparePeersTest, JsonKeysAreStable) {
  const Machine machine = FakeMachine(FakePeerResults());
  const nlohmann::json json = PeersJson(machine, ComparePeers({}, machine));
  ASSERT_EQ(json["peers"].size(), 2u);
  EXPECT_EQ(json["peers"][0]["name"], "ggml-1.2.3");
  EXPECT_EQ(json["peers"][0]["variant"], "haswell");
  EXPECT_TRUE(json["peers"][1]["variant"].is_null()) << "unknown is null";
  ASSERT_EQ(json["rows"].size(), 5u);
  const nlohmann::json& rope = json["rows"][0];
  EXPECT_EQ(rope["subject"], "qk_rotation/rope_half/f32/*/n:4096/h:16/d:128/cache:cold/threads:2");
  EXPECT_EQ(rope["operation"], "rotation");
  EXPECT_EQ(rope["threads"], 2);
  EXPECT_DOUBLE_EQ(rope["ours"]["seconds"], 1e-3);
  EXPECT_DOUBLE_EQ(rope["ours"]["roof"], 0.8);
  EXPECT_DOUBLE_EQ(rope["peers"][0]["seconds"], 12e-3);
  EXPECT_DOUBLE_EQ(rope["peers"][0]["ratio"], 12);
  EXPECT_TRUE(rope["peers"][0]["layout"].is_null());
  EXPECT_DOUBLE_EQ(rope["limit_seconds"], 0.8e-3);
  EXPECT_EQ(rope["faster"], "ours");
  std::multiset<std::string> faster;
  for (const auto& row : json["rows"]) faster.insert(row["faster"].is_null() ? "null" : row["faster"]);
  EXPECT_EQ(faster, (std::multiset<std::string>{"ggml-1.2.3", "null", "null", "ours", "ours"}));
  for (const auto& row : json["rows"]) EXPECT_EQ(row["ours"].is_null(), row["faster"].is_null());
  ASSERT_EQ(json["skipped"].size(), 1u) << "only the peers'";
  EXPECT_EQ(json["skipped"][0]["reason"], "no such product");
  EXPECT_EQ(json["glance"].size(), 3u);
}

}  // namespace
}  // namespace ropeline
