#include "model/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace ropeline {
namespace {

using Json = nlohmann::json;

Json Row(const std::string& name, const Json& counters) {
  Json row = {
      {"name", name}, {"run_type", "iteration"}, {"iterations", 10}, {"real_time", 1.0}, {"time_unit", "ns"}};
  row.update(counters);
  return row;
}

// A small bench.json as results/README.md describes it.
Json Valid() {
  return {
      {"context",
       {{"date", "2025-01-01"},
        {"ropeline",
         {{"schema", 1},
          {"version", "0.1.0"},
          {"host_id", "00112233aabbccdd"},
          {"date", "2025-01-01T00:00:00Z"},
          {"threads_default", 2},
          {"quick", true},
          {"complete", true},
          {"highway", {{"target_best", "AVX3_DL"}}},
          {"topology", {{"cpu_model", "Some CPU"}, {"memory_bytes", 24000000000}}},
          {"cgroup", {{"memory_bytes", 8000000000}}},
          {"measured_caches_bytes", {32768, 1048576}}}}}},
      {"benchmarks",
       {Row("stream/read/f32/A/ws:1000/threads:2/real_time", {{"bytes_per_second", 50e9}, {"call_ns", 5}}),
        Row("stream/read/f32/A/ws:1000/threads:2/real_time", {{"bytes_per_second", 70e9}, {"call_ns", 7}}),
        Row("stream/read/f32/A/ws:1000/threads:2/real_time", {{"bytes_per_second", 60e9}, {"call_ns", 6}}),
        Row("stream/read/f32/A/ws:1000/threads:1/real_time", {{"bytes_per_second", 30e9}}),
        Row("peak/fma/f32/A/threads:2", {{"flops", 200e9}}), Row("empty/loop/none/any", Json::object())}}};
}

class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("machine_test_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
             ".json");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Machine Read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadMachine(path_.string());
  }

  // The BadInput that reading throws, without the file's path; "" where it throws none.
  std::string Refusal(const std::string& text) {
    try {
      Read(text);
    } catch (const BadInput& e) {
      const std::string message = e.what();
      EXPECT_EQ(message.find(path_.string() + ": "), 0u) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
      return message.substr(std::min(message.size(), path_.string().size() + 2));
    }
    return "";
  }

  std::filesystem::path path_;
};

TEST_F(MachineTest, TargetIsTheRunsOwn) {
  Json json = Valid();
  json["context"]["ropeline"]["targets"] = {"AVX2", "SSE4"};
  EXPECT_EQ(Read(json.dump()).target, "AVX2") << "not the best that the machine has";
}

TEST_F(MachineTest, RatesThatNoMachineHasAreRefused) {
  for (const double rate : {5e-324, 1e-300, 1e300}) {
    Json json = Valid();
    json["benchmarks"][0]["bytes_per_second"] = rate;
    EXPECT_EQ(Refusal(json.dump()).find("benchmarks[0].bytes_per_second: is "), 0u) << rate;
    json = Valid();
    json["benchmarks"][4]["flops"] = rate;
    EXPECT_EQ(Refusal(json.dump()).find("benchmarks[4].flops: is "), 0u) << rate;
  }
}

TEST_F(MachineTest, ReadsContextAndRows) {
  const Machine machine = Read(Valid().dump());
  EXPECT_TRUE(machine.measured());
  EXPECT_EQ(machine.cpu_model, "Some CPU");
  EXPECT_EQ(machine.host_id, "00112233aabbccdd");
  EXPECT_EQ(machine.target, "AVX3_DL");
  EXPECT_EQ(machine.threads_default, 2);
  EXPECT_EQ(machine.memory_bytes, 8000000000u) << "the cgroup's limit is the lower one";
  EXPECT_TRUE(machine.quick);
  EXPECT_EQ(machine.cache_bytes, (std::vector<double>{32768, 1048576}));
  ASSERT_EQ(machine.rows.size(), 4u) << "repetitions are one row";
  EXPECT_EQ(machine.rows[0].name.family, "stream");
  EXPECT_EQ(machine.rows[0].samples, 3u);
  EXPECT_EQ(machine.rows[0].bytes_per_second, 60e9) << "the median";
  EXPECT_EQ(machine.rows[0].call_ns, 6);
  EXPECT_FALSE(machine.rows[0].roof.has_value());
  EXPECT_EQ(machine.roofline.MemoryBandwidth(Traffic::kRead, 2), 60e9);
  EXPECT_EQ(machine.roofline.PeakFlops(2), 200e9);
  EXPECT_EQ(machine.Threads(), (std::vector<int>{2})) << "one thread has no peak row";
}

TEST_F(MachineTest, UnknownIsNotZero) {
  Json json = Valid();
  json["context"]["ropeline"] = {
      {"schema", 1}, {"topology", nullptr}, {"cgroup", {{"memory_bytes", nullptr}}}};
  const Machine machine = Read(json.dump());
  EXPECT_FALSE(machine.memory_bytes.has_value());
  EXPECT_FALSE(machine.threads_default.has_value());
  EXPECT_EQ(machine.cpu_model, "");
}

TEST_F(MachineTest, TaintedSamplesAggregatesAndErrorsDoNotCountBesideCleanOnes) {
  Json json = Valid();
  const std::string name = "stream/read/f32/A/ws:1000/threads:2/real_time";
  json["benchmarks"].push_back(Row(name, {{"bytes_per_second", 1e9}, {"tainted", 1}}));
  json["benchmarks"].push_back(Row(name, {{"bytes_per_second", 2e9}, {"tainted", 1}}));
  json["benchmarks"].push_back(Row(name, {{"bytes_per_second", 900e9}, {"run_type", "aggregate"}}));
  json["benchmarks"].push_back(Row(name, {{"bytes_per_second", 900e9}, {"error_occurred", true}}));
  json["benchmarks"].push_back(
      Row("stream/copy/f32/A/ws:1000/threads:2", {{"bytes_per_second", 9e9}, {"tainted", 1}}));
  const Machine machine = Read(json.dump());
  EXPECT_EQ(machine.roofline.MemoryBandwidth(Traffic::kRead, 2), 60e9);
  EXPECT_FALSE(machine.rows[0].tainted);
  EXPECT_EQ(machine.roofline.MemoryBandwidth(Traffic::kCopy, 2), 9e9) << "there is nothing better";
  EXPECT_TRUE(machine.rows.back().tainted);
}

TEST_F(MachineTest, FilesThatAreNoResults) {
  EXPECT_NE(Refusal("").find("is empty"), std::string::npos);
  EXPECT_NE(Refusal(" \n\t").find("is empty"), std::string::npos);
  EXPECT_NE(Refusal("hello").find("is not JSON"), std::string::npos);
  EXPECT_NE(Refusal("\xff\xfe\x00").find("is not JSON"), std::string::npos);
  EXPECT_NE(Refusal("{\"a\": 1e400}").find("out of range"), std::string::npos);
  EXPECT_NE(Refusal("[1, 2]").find("is a JSON array"), std::string::npos);
  EXPECT_NE(Refusal("null").find("is a JSON null"), std::string::npos);
  EXPECT_EQ(
      Refusal(R"({"context": {"executable": "x"}, "benchmarks": []})").find("context.ropeline: is missing"),
      0u);
  EXPECT_EQ(Refusal("{}").find("context.ropeline: is missing"), 0u);
  EXPECT_NE(Refusal(std::string(1000000, '[')).find("is truncated"), std::string::npos) << "deep nesting";
}

TEST_F(MachineTest, EveryTruncationIsRefused) {
  const std::string text = Valid().dump();
  for (size_t length = 0; length < text.size(); length += 7) {
    const std::string message = Refusal(text.substr(0, length));
    EXPECT_NE(message, "") << length;
    EXPECT_EQ(message.find(length == 0 ? "is empty" : "is truncated"), 0u) << length << message;
  }
}

TEST_F(MachineTest, MissingFilesAndFolders) {
  EXPECT_THROW(ReadMachine("/nonexistent/bench.json"), BadInput);
  EXPECT_THROW(ReadMachine(testing::TempDir()), BadInput);
}

TEST_F(MachineTest, OtherSchemasAndMissingRows) {
  Json json = Valid();
  json["context"]["ropeline"]["schema"] = 2;
  EXPECT_EQ(Refusal(json.dump()),
            "context.ropeline.schema: is 2, expected 1, the only schema this version reads");
  json["context"]["ropeline"].erase("schema");
  EXPECT_EQ(Refusal(json.dump()).find("context.ropeline.schema: is missing"), 0u);
  json = Valid();
  json["benchmarks"] = Json::array();
  EXPECT_EQ(Refusal(json.dump()).find("benchmarks: has no stream/read rows"), 0u);
  json = Valid();
  json["benchmarks"].erase(4);
  EXPECT_EQ(Refusal(json.dump()).find("benchmarks: has no peak/fma row"), 0u);
  json.erase("benchmarks");
  EXPECT_EQ(Refusal(json.dump()).find("benchmarks: is missing"), 0u);
}

// Each value in turn replaced by each wrong one: refused or read, never a crash; keys that are read are
// named.
TEST_F(MachineTest, WrongTypesAnywhere) {
  const Json valid = Valid();
  const Json wrong[] = {nullptr, true, -1, 1.5, "text", Json::array({1}), Json::object({{"a", 1}}), 1e300};
  const Json flat = valid.flatten();
  int refused = 0;
  for (const auto& [pointer, value] : flat.items()) {
    for (const Json& replacement : wrong) {
      Json json = valid;
      json[Json::json_pointer(pointer)] = replacement;
      refused += Refusal(json.dump()).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 50);
  Json json = valid;
  for (const char* key : {"roof", "items_per_second"}) {
    json["benchmarks"][1][key] = 1e308;
    EXPECT_EQ(Refusal(json.dump()).find(std::string("benchmarks[1].") + key + ": is 1e+308"), 0u) << key;
    json["benchmarks"][1].erase(key);
  }
  json["benchmarks"][1]["bytes_per_second"] = "fast";
  EXPECT_EQ(Refusal(json.dump()),
            "benchmarks[1].bytes_per_second: is string \"fast\", expected a number of at least 0");
  json = valid;
  json["context"]["ropeline"]["threads_default"] = 0;
  EXPECT_EQ(Refusal(json.dump()).find("context.ropeline.threads_default: is 0"), 0u);
  json = valid;
  json["context"]["ropeline"]["topology"] = 7;
  EXPECT_EQ(Refusal(json.dump()).find("context.ropeline.topology: is number 7, expected an object"), 0u);
}

TEST_F(MachineTest, HeadIsReadWithoutTheRows) {
  const auto head = [&](const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadMachineHead(path_.string());
  };
  const std::string context = R"({"context":{"date":"1","caches":[{"host_id":"no"}],"ropeline":{"topology":
      {"host_id":"neither"},"host_id":"me","schema":1,"date":"2025-01-01T00:00:00Z"}},"benchmarks":[)";
  const auto found = head(context + "{\"name\": cut off");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->host_id, "me");
  EXPECT_EQ(found->date, "2025-01-01T00:00:00Z");
  EXPECT_FALSE(head("").has_value());
  EXPECT_FALSE(head(R"({"context":{}})").has_value());
  EXPECT_FALSE(head(R"({"ropeline":{"host_id":"me"}})").has_value());
  EXPECT_FALSE(head(std::string(1000, '[')).has_value());
  EXPECT_FALSE(head(R"([{"context":{"ropeline":{}}}])").has_value());
  EXPECT_FALSE(ReadMachineHead(testing::TempDir()).has_value()) << "a folder";
}

TEST_F(MachineTest, ThreadsThatWereNotMeasuredListTheOnesThatWere) {
  const Machine machine = Read(Valid().dump());
  RequireThreads(machine, 2, {"command line", "--threads"});
  try {
    RequireThreads(machine, 3, {"command line", "--threads"});
    FAIL() << "no BadInput";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find("3 threads were not measured"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("expected one of 2"), std::string::npos);
  }
}

TEST(MachineFromFiguresTest, HoldsForAnyThreadCount) {
  const Machine machine = MachineFromFigures(20e9, 50e9);
  EXPECT_FALSE(machine.measured());
  EXPECT_FALSE(machine.peak_is_measured());
  EXPECT_EQ(machine.roofline.MemoryBandwidth(Traffic::kRead, 7), 20e9);
  RequireThreads(machine, 7, {"command line", "--threads"});
}

}  // namespace
}  // namespace ropeline
