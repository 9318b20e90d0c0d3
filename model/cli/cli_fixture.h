// Runs the program for tests: what goes to stdout, to stderr, and how it exits. ROPELINE_BINARY is the
// program.
#ifndef ROPELINE_MODEL_CLI_CLI_FIXTURE_H_
#define ROPELINE_MODEL_CLI_CLI_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "model/fake_results.h"

namespace ropeline {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("cli_test_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    machine_ = File("bench.json", FakeResults().dump());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  static std::string Text(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  // `arguments` as a shell would take them; `out` redirects stdout elsewhere.
  Outcome Run(const std::string& arguments, const std::string& out = "") {
    const fs::path out_path = out.empty() ? folder_ / "out" : fs::path(out);
    const std::string command = "XDG_DATA_HOME='" + (folder_ / "data").string() + "' '" ROPELINE_BINARY "' " +
                                arguments + " >'" + out_path.string() + "' 2>'" + (folder_ / "err").string() +
                                "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.empty() ? Text(out_path) : "",
            Text(folder_ / "err")};
  }

  // One line on stderr that holds `part`, nothing on stdout, exit 2.
  void ExpectRefused(const std::string& arguments, const std::string& part) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << arguments << "\n"
                                                                           << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << arguments << "\n" << outcome.err;
  }

  fs::path folder_;
  std::string machine_;
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_CLI_FIXTURE_H_
