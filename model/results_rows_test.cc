#include "model/results_rows.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/bad_input.h"
#include "model/fake_results.h"

namespace ropeline {
namespace {

class ResultsRows : public testing::Test {
 protected:
  ~ResultsRows() override { std::filesystem::remove(path_); }
  ResultsFileText Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadResultsText(path_, "a bench.json");
  }

  const std::string path_ =
      (std::filesystem::path(testing::TempDir()) /
       (std::string("results_rows_") + testing::UnitTest::GetInstance()->current_test_info()->name()))
          .string();
};

nlohmann::json Results() {
  nlohmann::json results = FakeResults();
  nlohmann::json& rows = results["benchmarks"];
  const char* const step = "step/decode/q4_0/BEST/model:m/context:0/kv:f16/threads:2";
  rows.push_back(FakeRow(step, {{"call_ns", 7}, {"term_weights_ms", 0.5}, {"tainted", 1.0}, {"roof", 0.5}}));
  rows.push_back(FakeRow(step, {{"call_ns", 9.5}, {"term_weights_ms", 0.25}, {"bias_bytes", 12}}));
  rows.push_back(FakeRow("another tool's row", {{"call_ns", 1.0}}));
  rows.push_back({{"name", "of no run"}, {"run_type", "aggregate"}, {"call_ns", 1}});
  return results;
}

void ExpectSame(const RowSamples::Samples& a, const RowSamples::Samples& b, const std::string& name) {
  EXPECT_EQ(a.rows, b.rows) << name;
  EXPECT_EQ(a.call_ns, b.call_ns) << name;
  EXPECT_EQ(a.bytes_per_second, b.bytes_per_second) << name;
  EXPECT_EQ(a.flops_per_second, b.flops_per_second) << name;
  EXPECT_EQ(a.items_per_second, b.items_per_second) << name;
  EXPECT_EQ(a.roof, b.roof) << name;
  EXPECT_EQ(a.limit_ns, b.limit_ns) << name;
  EXPECT_EQ(a.working_set_bytes, b.working_set_bytes) << name;
  EXPECT_EQ(a.counters, b.counters) << name;
}

TEST_F(ResultsRows, BothWaysReadTheSame) {
  const nlohmann::json results = Results();
  const ResultsFileText file = Read(results.dump(1));
  ASSERT_TRUE(file.rows) << "a sound file needs no second reading";
  EXPECT_EQ(file.json["context"], results["context"]);
  EXPECT_TRUE(file.json["benchmarks"].empty());
  const auto careful = ReadRowsWithCare(results["benchmarks"], path_);
  ASSERT_EQ(file.rows->size(), careful.size());
  for (size_t i = 0; i < careful.size(); ++i) {
    const std::string name = careful[i].name.Text();
    EXPECT_EQ((*file.rows)[i].name.Text(), name);
    ExpectSame((*file.rows)[i].clean, careful[i].clean, name);
    ExpectSame((*file.rows)[i].tainted, careful[i].tainted, name);
  }
  const RowSamples& step = careful.back();
  EXPECT_EQ(step.name.family, "step");
  EXPECT_EQ(step.tainted.call_ns, std::vector<double>{7});
  EXPECT_EQ(step.tainted.limit_ns, std::vector<double>{3.5});
  EXPECT_EQ(step.clean.counters.at("term_weights_ms"), std::vector<double>{0.25});
  EXPECT_EQ(step.clean.counters.at("bias_bytes"), std::vector<double>{12});
}

// The careful reader complains in each case but the last two, which are no bench_all's but can be read.
TEST_F(ResultsRows, WhateverSurprisesIsReadOnceMore) {
  const auto with = [](const char* key, nlohmann::json value) {
    nlohmann::json results = Results();
    results["benchmarks"][0][key] = std::move(value);
    return results;
  };
  for (const auto& [key, value, complains] : {std::tuple<const char*, nlohmann::json, bool>{"name", 5, true},
                                              {"call_ns", -1, true},
                                              {"call_ns", "7", true},
                                              {"call_ns", 1e17, true},
                                              {"bytes_per_second", 1, true},
                                              {"run_type", 7, true},
                                              {"error_occurred", "no", true},
                                              {"recall", nlohmann::json::array(), true},
                                              {"roof", nullptr, false},
                                              {"recall", nullptr, false}}) {
    const nlohmann::json results = with(key, value);
    const ResultsFileText file = Read(results.dump());
    EXPECT_FALSE(file.rows) << key;
    EXPECT_EQ(file.json, results);
    if (!complains) {
      EXPECT_NO_THROW(ReadRowsWithCare(file.json["benchmarks"], path_)) << key;
      continue;
    }
    try {
      ReadRowsWithCare(file.json["benchmarks"], path_);
      ADD_FAILURE() << key << " " << value;
    } catch (const BadInput& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("benchmarks[0].") + key), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(ResultsRows, OtherFilesAreLeftToTheCarefulReader) {
  EXPECT_THROW(Read(""), BadInput);
  EXPECT_THROW(Read("{"), BadInput);
  EXPECT_THROW(Read("{\"benchmarks\":[{\"name\":\"a\",\"call_ns\":1e999}]}"), BadInput);
  EXPECT_THROW(Read(Results().dump().substr(0, 500)), BadInput);
  EXPECT_EQ(Read("[1]").json, nlohmann::json::parse("[1]"));
  EXPECT_FALSE(Read("{\"context\":{}}").rows);
  EXPECT_FALSE(Read("{\"benchmarks\":3}").rows);
  EXPECT_TRUE(Read("{\"benchmarks\":[]}").rows);
}

}  // namespace
}  // namespace ropeline
