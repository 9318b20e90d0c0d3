#include "model/cli/find_machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "model/fake_results.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

class FindMachineTest : public testing::Test {
 protected:
  void SetUp() override {
    // Tests run side by side, each in a process of its own.
    root_ = fs::path(testing::TempDir()) / ("find_machine_test_" + std::to_string(getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string Add(const std::string& folder, const std::string& host, const std::string& date,
                  nlohmann::json json = FakeResults()) {
    json["context"]["ropeline"]["host_id"] = host;
    json["context"]["ropeline"]["date"] = date;
    return AddText(folder, json.dump());
  }

  std::string AddText(const std::string& folder, const std::string& text) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "bench.json") << text;
    return (root_ / folder / "bench.json").string();
  }

  fs::path root_;
};

std::string FileOf(const std::optional<Machine>& machine) { return machine ? machine->file : ""; }

TEST_F(FindMachineTest, TheNewestOfThisHostInAnyFolder) {
  Add("a/old", "me", "2025-01-01T00:00:00Z");
  const std::string newest = Add("b/new", "me", "2025-03-01T00:00:00Z");
  Add("a/middle", "me", "2025-02-01T00:00:00Z");
  Add("a/other", "you", "2026-01-01T00:00:00Z");
  EXPECT_EQ(FileOf(NewestResult({root_ / "a", root_ / "b"}, "me")), newest);
  EXPECT_EQ(FileOf(NewestResult({root_ / "b", root_ / "a"}, "me")), newest);
}

TEST_F(FindMachineTest, PeersHaveAFolderOfTheirOwn) {
  const std::string whole = Add("a/mine", "me", "2025-01-01T00:00:00Z");
  EXPECT_FALSE(NewestPeersResult({root_ / "a"}, "me").has_value()) << "no peers in it";
  const std::string peers = Add("a/mine/peers", "me", "2025-02-01T00:00:00Z", FakePeerResults());
  Add("a/yours/peers", "you", "2025-03-01T00:00:00Z", FakePeerResults());
  EXPECT_EQ(FileOf(NewestPeersResult({root_ / "a"}, "me")), peers);
  EXPECT_EQ(FileOf(NewestResult({root_ / "a"}, "me")), whole) << "predictions come from whole results";
  const std::string both = Add("a/both", "me", "2025-04-01T00:00:00Z", FakePeerResults());
  EXPECT_EQ(FileOf(NewestPeersResult({root_ / "a"}, "me")), both);
}

TEST_F(FindMachineTest, BrokenFilesArePassedOver) {
  AddText("a/broken", "{\"context\": ");
  AddText("a/foreign", "{\"context\": {}}");
  AddText("a/empty", "");
  fs::create_directories(root_ / "a/folder/bench.json");
  EXPECT_FALSE(NewestResult({root_ / "a"}, "me").has_value());
  const std::string good = Add("a/good", "me", "2025-01-01T00:00:00Z");
  nlohmann::json rowless = FakeResults();
  rowless["benchmarks"] = nlohmann::json::array();
  Add("a/rowless", "me", "2025-02-01T00:00:00Z", rowless);
  EXPECT_EQ(FileOf(NewestResult({root_ / "a"}, "me")), good);
}

TEST_F(FindMachineTest, NoFolderIsNoResult) {
  EXPECT_FALSE(NewestResult({root_ / "nowhere"}, "me").has_value());
  EXPECT_FALSE(NewestResult({}, "me").has_value());
}

TEST_F(FindMachineTest, FoldersFollowTheEnvironment) {
  const char* old = std::getenv("XDG_DATA_HOME");
  const std::string kept = old != nullptr ? old : "";
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(ResultFolders().back(), fs::path("/data/ropeline/results"));
  EXPECT_EQ(ResultFolders().front(), fs::path(ROPELINE_SOURCE_DIR) / "results");
  setenv("XDG_DATA_HOME", "", 1);
  if (std::getenv("HOME") != nullptr) {
    EXPECT_EQ(ResultFolders().back(), fs::path(std::getenv("HOME")) / ".local/share/ropeline/results");
  }
  old != nullptr ? setenv("XDG_DATA_HOME", kept.c_str(), 1) : unsetenv("XDG_DATA_HOME");
}

}  // namespace
}  // namespace ropeline
