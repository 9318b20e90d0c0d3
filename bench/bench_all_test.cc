// The program as a user runs it: a few rows, an interrupt, a resume.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace ropeline {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status;
  std::string text;  // stdout and stderr
};

Outcome RunBenchAll(const std::string& arguments) {
  const std::string command = std::string(ROPELINE_BENCH_ALL) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, got);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

class BenchAll : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ropeline-bench-all-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  nlohmann::json Results() const {
    std::ifstream file(folder_ / "bench.json");
    return nlohmann::json::parse(file);
  }
  fs::path folder_;
};

// Few and short: the limits always run, so that the shortest time keeps them to seconds.
constexpr char kShort[] =
    "--quick --threads 1 --families qk_rotation "
    "--benchmark_filter=rope_half/f32/[^/]*/n:1/h:32/d:128/cache:hot "
    "--benchmark_min_time=0.0001 --benchmark_repetitions=2 --out ";

TEST_F(BenchAll, WritesRowsWithRoofsInGoogleBenchmarksFormat) {
  const Outcome outcome = RunBenchAll(kShort + folder_.string());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto results = Results();
  EXPECT_EQ(results["context"]["ropeline"]["complete"], true);
  EXPECT_FALSE(results["context"].contains("host_name"));
  // One thread can do every shape; what does nothing is not timed.
  for (const auto& skipped : results["context"]["ropeline"]["skipped"]) {
    EXPECT_NE(skipped["row"].get<std::string>().find("/nope/"), std::string::npos) << skipped;
    EXPECT_EQ(skipped["reason"], "it moves and computes nothing");
  }
  EXPECT_EQ(results.dump().find(folder_.string()), std::string::npos) << "no machine path in a result";
  size_t ropes = 0, streams = 0;
  for (const auto& row : results["benchmarks"]) {
    EXPECT_EQ(row["run_type"], "iteration");
    EXPECT_GT(row["call_ns"].get<double>(), 0) << row["name"];
    const std::string name = row["name"];
    if (name.rfind("stream/", 0) == 0) ++streams;
    if (name.rfind("qk_rotation/rope_half/", 0) != 0) continue;
    ++ropes;
    EXPECT_GT(row["roof"].get<double>(), 0);
    EXPECT_GT(row["bytes_per_second"].get<double>(), 0);
    EXPECT_EQ(name.substr(name.size() - 10), "/threads:1");
  }
  EXPECT_EQ(ropes, 2u) << "one row, two repetitions";
  EXPECT_GT(streams, 100u);
}

TEST_F(BenchAll, AnInterruptKeepsRowsAndResumeGoesOn) {
  fs::create_directories(folder_);
  const std::string folder = folder_.string();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    const std::string command = std::string("exec ") + ROPELINE_BENCH_ALL + " " + kShort + folder;
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  // As soon as there is a first row.
  for (int i = 0; i < 3000 && !fs::exists(folder_ / "bench.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 130);
  const auto part = Results();
  EXPECT_EQ(part["context"]["ropeline"]["complete"], false);
  const size_t kept = part["benchmarks"].size();
  EXPECT_GE(kept, 1u);

  const Outcome resumed = RunBenchAll(kShort + folder + " --resume");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const auto whole = Results();
  EXPECT_EQ(whole["context"]["ropeline"]["complete"], true);
  EXPECT_GT(whole["benchmarks"].size(), kept);
  // The first row was not measured again.
  EXPECT_EQ(whole["benchmarks"][0], part["benchmarks"][0]);
  const Outcome other = RunBenchAll("--quick --threads 1 --resume --out " + folder);
  EXPECT_EQ(other.status, 2) << other.text;
}

TEST_F(BenchAll, BadUsageIsOneLineAndExitTwo) {
  for (const char* arguments :
       {"--nope", "--families nope", "--benchmark_filter=[", "--resume --out /proc/nowhere"}) {
    const Outcome outcome = RunBenchAll(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
    EXPECT_NE(outcome.text.find("expected"), std::string::npos) << outcome.text;
  }
}

// Folders without ggml, with text in its place, with one that is too old and one that crashes, and no folder:
// one line, exit 2, nothing written.
TEST_F(BenchAll, AnUnusablePeerIsOneLineAndExitTwo) {
  for (const char* name : {"empty", "text", "old", "crashing"}) fs::create_directories(folder_ / name);
  std::ofstream(folder_ / "text" / "libggml-base.so") << "words\n";
  for (const char* file : {"libggml-base.so", "libggml-cpu.so"}) {
    fs::copy_file(ROPELINE_FAKE_GGML_OLD, folder_ / "old" / file);
    fs::copy_file(ROPELINE_FAKE_GGML, folder_ / "crashing" / file);
  }
  const fs::path out = folder_ / "out";
  for (const char* name : {"empty", "text", "old", "crashing", "nowhere"}) {
    const Outcome outcome =
        RunBenchAll("--quick --families peer --ggml " + (folder_ / name).string() + " --out " + out.string());
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
    EXPECT_EQ(outcome.text.rfind("--ggml: ", 0), 0u) << outcome.text;
    EXPECT_NE(outcome.text.find(", expected "), std::string::npos) << outcome.text;
    EXPECT_FALSE(fs::exists(out)) << "no results without rows";
  }
}

TEST_F(BenchAll, ListsRowsWithoutMeasuring) {
  const Outcome outcome =
      RunBenchAll("--benchmark_list_tests --families score_bias --threads 1 --out " + folder_.string());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.text.find("score_bias/t5_bias/f32/"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace ropeline
