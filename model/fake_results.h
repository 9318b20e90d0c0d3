// For tests: a bench.json as results/README.md describes it, of a machine whose figures are round.
#ifndef ROPELINE_MODEL_FAKE_RESULTS_H_
#define ROPELINE_MODEL_FAKE_RESULTS_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ropeline {

inline nlohmann::json FakeRow(const std::string& name, const nlohmann::json& counters) {
  nlohmann::json row = {{"name", name + "/real_time"},
                        {"run_type", "iteration"},
                        {"iterations", 10},
                        {"real_time", 1.0},
                        {"time_unit", "ns"}};
  row.update(counters);
  return row;
}

// Two threads: every kind of traffic at 400 GB/s up to 1 MB and 20 GB/s at 1 GB; 50 GFLOP/s.
// Placement rows at two threads, measured at known multiples of their limits (see compare_test.cc):
//   learned n 512 cold, alibi n 512 causal cold, t5_bias n 512 causal cold, rope_half n 4 hot and n 4096
//   cold.
inline nlohmann::json FakeResults() {
  nlohmann::json rows = nlohmann::json::array();
  for (const char* traffic : {"read", "copy", "update", "add"}) {
    const std::string stream = "stream/" + std::string(traffic) + "/f32/BEST/ws:";
    rows.push_back(FakeRow(stream + "1000000/threads:2", {{"bytes_per_second", 400e9}, {"call_ns", 1.0}}));
    rows.push_back(FakeRow(stream + "1000000000/threads:2", {{"bytes_per_second", 20e9}, {"call_ns", 1.0}}));
  }
  rows.push_back(FakeRow("peak/fma/f32/BEST/threads:2", {{"flops", 50e9}, {"call_ns", 1.0}}));
  const auto placement = [&](const std::string& name, double call_ns, double working_set) {
    rows.push_back(FakeRow(name + "/threads:2", {{"call_ns", call_ns}, {"working_set", working_set}}));
  };
  placement("input_add/learned/f32/BEST/n:512/d:4096/cache:cold", 2e6, 1e9);
  placement("score_bias/t5_bias/f32/BEST/n:512/h:32/causal:1/cache:cold", 3e6, 1e9);
  placement("score_bias/alibi/f32/BEST/n:512/h:32/causal:1/cache:cold", 4e6, 1e9);
  placement("qk_rotation/rope_half/f32/BEST/n:4/h:32/d:128/cache:hot", 1e3, 67584);
  placement("qk_rotation/rope_half/f32/BEST/n:4096/h:32/d:128/cache:cold", 14e6, 1e9);
  placement("qk_rotation/rope_half/f32/OTHER/n:4096/h:32/d:128/cache:cold", 99e6, 1e9);
  return {{"context",
           {{"date", "2025-01-01"},
            {"ropeline",
             {{"schema", 1},
              {"version", "0.1.0"},
              {"host_id", "00112233aabbccdd"},
              {"date", "2025-01-01T00:00:00Z"},
              {"threads_default", 2},
              {"quick", false},
              {"complete", true},
              {"highway", {{"target_best", "BEST"}}},
              {"topology", {{"cpu_model", "Some CPU"}, {"memory_bytes", 24000000000}}}}}}},
          {"benchmarks", rows}};
}

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FAKE_RESULTS_H_
