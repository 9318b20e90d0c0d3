// What is no benchmark's output, or only partly one: one line that says so, or rows left out with a word.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/bad_input.h"
#include "model/engine/read_engine_run.h"

namespace ropeline {
namespace {

constexpr const char* kHeader =
    "| PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s |\n|---|---|---|---|---|---|---|\n";

std::string Message(const std::string& text) {
  try {
    ParseEngineRuns(text, "run.txt");
  } catch (const BadInput& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "no error";
}

// The warnings of the one run in the text, which keeps `rows` rows.
std::string Warning(const std::string& text, size_t rows) {
  const auto runs = ParseEngineRuns(text, "run.txt");
  EXPECT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].rows.size(), rows);
  std::string all;
  for (const std::string& warning : runs[0].warnings) all += (all.empty() ? "" : "; ") + warning;
  return all;
}

TEST(BadEngineRunTest, WhatIsNoBenchmark) {
  EXPECT_EQ(
      Message(""),
      "run.txt: is empty, expected the output of llama-bench, llama-sweep-bench or llama-batched-bench");
  EXPECT_EQ(Message(" \n\n").find("run.txt: is empty"), 0u);
  EXPECT_EQ(Message(std::string("\x7f"
                                "ELF\0\0\1",
                                7))
                .find("run.txt: is binary"),
            0u);
  EXPECT_EQ(Message("Hello, world.").find("run.txt: holds no row of a benchmark"), 0u);
  EXPECT_EQ(Message("{\"a\": 1}").find("run.txt: is JSON, but not of a benchmark"), 0u);
  EXPECT_EQ(Message("{\"a\": [1, 2").find("run.txt: is truncated"), 0u);
  EXPECT_EQ(Message("[]").find("run.txt: holds no row of a benchmark"), 0u);
  EXPECT_EQ(Message("{\"a\":" + std::string(100000, '[')).find("run.txt: is nested deeper"), 0u);
  EXPECT_EQ(Message("\x1b[0m").find("run.txt: is empty"), 0u);
  EXPECT_EQ(Message(std::string(100000, '|')).find("run.txt: holds no row"), 0u);
}

TEST(BadEngineRunTest, ATableWithoutItsHeaderIsNotReadByPosition) {
  const std::string message = Message("|  512 |  128 |  512 |  2.5 |  204.80 |  6.4 | 20.0 |\n");
  EXPECT_EQ(message.find("run.txt: has rows of a table, but no header row"), 0u) << message;
}

TEST(BadEngineRunTest, RowsThatCannotBe) {
  const std::string good = "| 512 | 128 | 0 | 2.500 | 204.80 | 6.400 | 20.00 |\n";
  const std::string table = kHeader + good;
  EXPECT_EQ(Warning(table, 2), "");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | nan | nan | -nan | -nan |\n", 2),
            "2 rows left out (the first in line 4): the speed is not a number");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 0.000 | inf | 6.400 | 20.00 |\n", 3),
            "1 row left out (line 4): the speed is not a number");
  EXPECT_EQ(Warning(table + "| 0 | 0 | 512 | 0.100 | 204.80 | 6.400 | 20.00 |\n", 2),
            "2 rows left out (the first in line 4): no token is timed");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 2.500 | -204.80 | 6.400 | 0.00 |\n", 2),
            "2 rows left out (the first in line 4): the speed is zero or below");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 1.000 | 204.80 | 6.400 | 20.00 |\n", 3),
            "1 row left out (line 4): seconds and speed disagree");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 1e9 | 2.500 | 204.80 | 6.400 | 20.00 |\n", 2),
            "1 row left out (line 4): N_KV is no count: \"1e9\"");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 99999999999 | 2.500 | 204.80 | 6.400 | 20.00 |\n", 2),
            "2 rows left out (the first in line 4): more tokens than any model has room for");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 2.500 | 1e300 | 6.400 | 20.00 |\n", 3),
            "1 row left out (line 4): seconds and speed disagree");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 2.500 | fast | 6.400 | 20.00 |\n", 3),
            "1 row left out (line 4): the speed \"fast\" is no number");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 2.500 | 20", 2),
            "1 row left out (line 4): cut short: fewer or more cells than the header has");
  EXPECT_EQ(Warning(table + "| 512 | 128 | 512 | 2.500 | 204.80 | 6.400 | 20.0", 2),
            "1 row left out (line 4): cut short: fewer or more cells than the header has");
}

TEST(BadEngineRunTest, NothingIsLeft) {
  EXPECT_EQ(Message(std::string(kHeader) + "| 512 | 128 | 0 | nan | nan | nan | nan |\n"),
            "run.txt: holds no usable row (2 rows left out (the first in line 3): the speed is not a "
            "number), expected "
            "the output of llama-bench, llama-sweep-bench or llama-batched-bench on a CPU");
  const std::string gpu =
      Message("| model | backend | ngl | test | t/s |\n| llama 8B Q4_0 | Vulkan | 99 | tg64 | 99.00 |\n");
  EXPECT_NE(gpu.find("ran on a GPU (Vulkan)"), std::string::npos) << gpu;
  EXPECT_NE(Message("main: n_kv_max = 512, n_gpu_layers = 99\n" + std::string(kHeader) +
                    "| 512 | 128 | 0 | 2.500 | 204.80 | 6.400 | 20.00 |\n")
                .find("layers on a GPU"),
            std::string::npos);
}

TEST(BadEngineRunTest, AnArrayThatIsCutKeepsItsWholeObjects) {
  const std::string row =
      R"({"model_type":"m","n_threads":4,"n_prompt":0,"n_gen":64,"n_depth":0,"avg_ts":9.5})";
  EXPECT_EQ(Warning("[\n" + row + ",\n" + row.substr(0, 40), 1),
            "a row of JSON is cut short or damaged: left out");
  EXPECT_EQ(Warning(R"([{"model_type":"m","n_prompt":0,"n_gen":64,"avg_ts":nan},)" + row + "]", 1),
            "1 row left out (line 1): the speed is not a number");
}

TEST(BadEngineRunTest, CommasThatCanBeEither) {
  const std::string header = "| model | threads | test | t/s |\n";
  EXPECT_NE(Message(header + "| m | 4 | tg64 | 1,234 |\n").find("\"1,234\" can be read in two ways"),
            std::string::npos);
  const auto decimal =
      ParseEngineRuns(header + "| m | 4 | tg64 | 1,234 |\n| m | 4 | tg64 @ d9 | 1,2 |\n", "run.txt");
  ASSERT_EQ(decimal[0].rows.size(), 2u);
  EXPECT_EQ(decimal[0].rows[0].tok_per_s, 1.234);
  const auto thousands = ParseEngineRuns(header + "| m | 4 | pp64 | 1,234.50 ± 2.00 |\n", "run.txt");
  EXPECT_EQ(thousands[0].rows[0].tok_per_s, 1234.5);
  EXPECT_TRUE(thousands[0].warnings.empty());
}

TEST(BadEngineRunTest, AnUnknownTestIsLeftOut) {
  EXPECT_EQ(
      Warning("| model | threads | test | t/s |\n| m | 4 | tg64 | 9.00 |\n| m | 4 | tg64 @ x9 | 8.00 |\n", 1),
      "1 row left out (line 3): the test is none of pp, tg, pp+tg: \"tg64 @ x9\"");
}

TEST(BadEngineRunTest, TooMuch) {
  std::string rows = "| model | threads | test | t/s |\n";
  for (int i = 0; i < 20001; ++i) rows += "| m | 4 | tg64 @ d" + std::to_string(i) + " | 9.00 |\n";
  EXPECT_EQ(Message(rows).find("run.txt: line 20002: has more than 20000 rows"), 0u);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("ropeline_huge_" + std::to_string(getpid()))).string();
  std::ofstream(path).close();
  std::filesystem::resize_file(path, uint64_t{1} << 33);
  EXPECT_THROW(ReadEngineRuns(path), BadInput);
  std::filesystem::remove(path);
  EXPECT_THROW(ReadEngineRuns(path), BadInput);  // is not there
  EXPECT_THROW(ReadEngineRuns("/"), BadInput);
}

// Every prefix of every format is read or refused, never worse.
TEST(BadEngineRunTest, EveryPrefixOfEveryFormat) {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROPELINE_SOURCE_DIR) + "/model/engine/testdata")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    size_t read = 0;
    for (size_t left = 0; left <= text.size(); left += 31) {
      try {
        for (const EngineRun& run :
             ParseEngineRuns(std::string_view(text).substr(0, text.size() - left), "prefix")) {
          EXPECT_FALSE(run.rows.empty());
          for (const RunRow& row : run.rows) EXPECT_GT(row.tok_per_s, 0);
        }
        ++read;
      } catch (const BadInput&) {
      }
    }
    EXPECT_GT(read, 0u) << entry.path();
  }
}

}  // namespace
}  // namespace ropeline
