// For tests: the machine that FakeResults describes, and the ways tests ask about it.
#ifndef ROPELINE_MODEL_FAKE_MACHINE_H_
#define ROPELINE_MODEL_FAKE_MACHINE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "model/encoding_share.h"
#include "model/fake_results.h"
#include "model/kv_layout.h"
#include "model/presets.h"

namespace ropeline {

inline Machine FakeMachine(const nlohmann::json& results = FakeResults()) {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / ("fake_machine_" + test);
  std::ofstream(path) << results.dump();
  Machine machine = ReadMachine(path.string());
  std::filesystem::remove(path);
  return machine;
}

// Rows added to FakeResults, each of so many nanoseconds.
inline nlohmann::json FakeResultsWith(const std::vector<std::pair<std::string, double>>& rows) {
  nlohmann::json results = FakeResults();
  for (const auto& [name, ns] : rows) {
    results["benchmarks"].push_back(FakeRow(name, {{"call_ns", ns}, {"working_set", 1e9}}));
  }
  return results;
}

inline CompareRequest FakeRequest(const char* model, std::vector<uint64_t> contexts) {
  const Where where{"test", "x"};
  CompareRequest request;
  request.llm = Preset(model, where);
  request.weights = FindWeightMix("q4_0", where);
  request.kv = FindKvFormat("f16", where);
  request.contexts = std::move(contexts);
  request.threads = 2;
  return request;
}

inline const EncodingShare& ShareOf(const std::vector<EncodingShare>& shares, const std::string& name,
                                    Phase phase, uint64_t n) {
  for (const EncodingShare& share : shares) {
    if (share.encoding->name == name && share.phase == phase && share.n == n) return share;
  }
  throw std::out_of_range(name);
}

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FAKE_MACHINE_H_
