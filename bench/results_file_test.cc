#include "bench/results_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/options.h"

namespace ropeline {
namespace {

namespace fs = std::filesystem;

class ResultsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ropeline-results-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Folder() const { return folder_.string(); }
  Json OnDisk() const {
    std::ifstream file(folder_ / "bench.json");
    return Json::parse(file);
  }
  void Put(const std::string& text) const {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "bench.json") << text;
  }

  static Json Context(const std::string& hash) {
    Json context;
    context["ropeline"] = {{"schema", 1}, {"git_hash", hash}, {"complete", false}};
    return context;
  }
  static Row RopeRow() {
    Row row;
    row.name = *ParseRowName("qk_rotation/rope_half/f32/AVX2/n:1/h:1/d:2/cache:hot/threads:1");
    row.cost = {.bytes_read = 500, .bytes_written = 500, .flops = 0};
    row.working_set_bytes = 500;
    row.traffic = Traffic::kUpdate;
    return row;
  }
  static Row StreamRow() {
    Row row;
    row.name = *ParseRowName("stream/update/f32/AVX2/ws:16384/threads:1");
    return row;
  }
  static Json Sample(const Row& row, double call_ns, double bytes_per_second, int repetition,
                     bool tainted = false) {
    return {{"name", row.name.Text()},
            {"call_ns", call_ns},
            {"bytes_per_second", bytes_per_second},
            {"tainted", tainted ? 1 : 0},
            {"repetition_index", repetition}};
  }

  fs::path folder_;
};

TEST_F(ResultsFileTest, EveryRowIsOnDiskAtOnce) {
  ResultsFile results(Folder());
  EXPECT_FALSE(fs::exists(folder_ / "bench.json")) << "nothing is written before there is a row";
  results.SetContext(Context("a"));
  results.SetRows({StreamRow(), RopeRow()});
  results.AddRow(Sample(StreamRow(), 1, 10e9, 0), 0);
  EXPECT_EQ(OnDisk()["benchmarks"].size(), 1u);
  EXPECT_EQ(OnDisk()["context"]["ropeline"]["complete"], false);
  results.AddRow(Sample(RopeRow(), 200, 5e9, 0), 0);
  EXPECT_EQ(OnDisk()["benchmarks"].size(), 2u);
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_EQ(entry.path().filename(), "bench.json");
}

// roof = limit's time ÷ time: 1000 bytes at 10 GB/s take 100 ns.
TEST_F(ResultsFileTest, RoofIsAgainstTheWholeRunsMedian) {
  ResultsFile results(Folder());
  results.SetContext(Context("a"));
  results.SetRows({StreamRow(), RopeRow()});
  results.AddRow(Sample(StreamRow(), 1, 10e9, 0), 0);
  results.AddRow(Sample(RopeRow(), 200, 5e9, 0), 0);
  EXPECT_DOUBLE_EQ(results.Benchmarks()[1]["roof"].get<double>(), 0.5);
  EXPECT_FALSE(results.Benchmarks()[0].contains("roof")) << "a limit has none";
  results.AddRow(Sample(StreamRow(), 1, 20e9, 1), 1);
  results.AddRow(Sample(StreamRow(), 1, 20e9, 2), 2);
  results.AddRow(Sample(StreamRow(), 1, 1e9, 3, /*tainted=*/true), 3);
  results.AddRow(Sample(RopeRow(), 100, 10e9, 1), 1);
  results.Finish(true);
  // The median of the untainted samples is now 20 GB/s: 50 ns.
  const Json rows = OnDisk()["benchmarks"];
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[3]["name"], StreamRow().name.Text()) << "repetitions stand together";
  EXPECT_DOUBLE_EQ(rows[4]["roof"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(rows[5]["roof"].get<double>(), 0.5);
  EXPECT_EQ(OnDisk()["context"]["ropeline"]["complete"], true);
}

TEST_F(ResultsFileTest, ResumeTakesOverFinishedRowsOfTheSameRun) {
  {
    ResultsFile results(Folder());
    results.SetContext(Context("a"));
    results.SetRows({StreamRow(), RopeRow()});
    results.AddRow(Sample(StreamRow(), 1, 10e9, 0), 0);
  }
  ResultsFile again(Folder());
  again.SetContext(Context("a"));
  again.SetRows({StreamRow(), RopeRow()});
  again.Resume(Context("a"), {"schema", "git_hash", "peers"});  // that neither of them has
  EXPECT_TRUE(again.Has(StreamRow().name.Text(), 0));
  EXPECT_FALSE(again.Has(StreamRow().name.Text(), 1));
  EXPECT_FALSE(again.Has(RopeRow().name.Text(), 0));
  again.AddRow(Sample(RopeRow(), 200, 5e9, 0), 0);
  EXPECT_DOUBLE_EQ(again.Benchmarks()[1]["roof"].get<double>(), 0.5) << "the limit came from the first part";
}

TEST_F(ResultsFileTest, ResumeRefusesWhatIsNotThisRun) {
  const auto refusal = [&] {
    ResultsFile results(Folder());
    try {
      results.Resume(Context("b"), {"schema", "git_hash", "peers"});
    } catch (const BadUsage& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal().find("no run to go on with"), std::string::npos);
  for (const char* text :
       {"", "{", "[]", "{\"context\":{}}", "{\"context\":{\"ropeline\":{}},\"benchmarks\":3}"}) {
    Put(text);
    EXPECT_NE(refusal().find("expected"), std::string::npos) << text;
  }
  Put(R"({"context":{"ropeline":{"schema":1,"git_hash":"a"}},"benchmarks":[]})");
  EXPECT_NE(refusal().find("git_hash"), std::string::npos);
  Put(R"({"context":{"ropeline":{"schema":1,"git_hash":"b","peers":[{"name":"other"}]}},"benchmarks":[]})");
  EXPECT_NE(refusal().find(R"(peers: the interrupted run had [{"name":"other"}] and this one has none)"),
            std::string::npos)
      << refusal();
  Put(R"({"context":{"ropeline":{"schema":1,"git_hash":"b"}},"benchmarks":[{"name":7}]})");
  EXPECT_NE(refusal().find("expected"), std::string::npos);
}

TEST_F(ResultsFileTest, ResumeRefusesRowsOfWrongTypes) {
  for (const char* row :
       {R"("name":"a","repetition_index":-5)", R"("name":"a","repetition_index":0,"call_ns":"x")",
        R"("name":"a","repetition_index":0,"tainted":[])"}) {
    Put(std::string(R"({"context":{"ropeline":{"schema":1,"git_hash":"b"}},"benchmarks":[{)") + row + "}]}");
    ResultsFile results(Folder());
    EXPECT_THROW(results.Resume(Context("b"), {"schema", "git_hash"}), BadUsage) << row;
  }
}

TEST_F(ResultsFileTest, OneRunOwnsAFolder) {
  const ResultsFile first(Folder());
  EXPECT_THROW(ResultsFile{Folder()}, BadUsage);
}

TEST_F(ResultsFileTest, ResumeWithNothingThereMakesNothing) {
  EXPECT_THROW(ResultsFile(Folder(), /*resume=*/true), BadUsage);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(ResultsFileTest, ACompleteEarlierResultIsKept) {
  Put(R"({"context":{"ropeline":{"complete":true}},"benchmarks":[]})");
  ResultsFile results(Folder());
  results.SetContext(Context("a"));
  results.SetRows({StreamRow()});
  results.AddRow(Sample(StreamRow(), 1, 10e9, 0), 0);
  EXPECT_TRUE(fs::exists(folder_ / "bench.previous.json"));
  EXPECT_EQ(OnDisk()["benchmarks"].size(), 1u);
}

TEST_F(ResultsFileTest, AFolderThatCannotBeMadeIsRefusedBeforeMeasuring) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "x";
  try {
    ResultsFile results((folder_ / "file" / "below").string());
    FAIL() << "accepted";
  } catch (const BadUsage& error) {
    EXPECT_NE(std::string(error.what()).find("--out: cannot write there"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ropeline
