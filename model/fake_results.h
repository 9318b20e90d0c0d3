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

// FakeResults and rows of attention and of the cache at two threads, f16 and some f32 and q8_0, d_head 128
// and 64, and as many that are none to predict from, at times that would show.
inline nlohmann::json FakeKernelResults() {
  nlohmann::json results = FakeResults();
  const auto add = [&](const std::string& name, double call_ns) {
    results["benchmarks"].push_back(FakeRow(name, {{"call_ns", call_ns}, {"working_set", 1e9}}));
  };
  const std::string decode = "attention/decode/f16/BEST/", cold = "/cache:cold/threads:2";
  add(decode + "n:32768/h:24/hkv:8/d:128" + cold, 8e6);  // 134 MB: 6.7 ms at 20 GB/s
  add(decode + "n:1024/h:24/hkv:8/d:128" + cold, 0.3e6);
  add(decode + "n:4096/h:24/hkv:8/d:128/causal:1/bias:none" + cold, 1e6);
  add(decode + "n:4096/h:32/hkv:8/d:64" + cold, 0.6e6);
  add(decode + "n:4096/h:24/hkv:8/d:128/bias:alibi" + cold, 1.05e6);
  add("attention/decode/q8_0/BEST/n:32768/h:24/hkv:8/d:128" + cold, 5e6);
  add("attention/decode/f32/BEST/n:4096/h:32/hkv:32/d:128" + cold, 9e6);
  for (const char* other : {"f16/BEST/n:65536/h:24/hkv:8/d:128/window:4096/cache:cold/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:8/d:128/batch:4/cache:cold/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:8/d:128/causal:0/cache:cold/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:8/d:128/cache:hot/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:8/d:128/cache:cold/threads:1",
                            "f16/OTHER/n:65536/h:24/hkv:8/d:128/cache:cold/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:7/d:128/cache:cold/threads:2",
                            "f16/BEST/n:65536/h:24/hkv:0/d:128/cache:cold/threads:2"}) {
    add("attention/decode/" + std::string(other), 1e13);
  }
  const std::string prefill = "attention/prefill/f16/BEST/", hot = "/cache:hot/threads:2";
  add(prefill + "n:512/m:512/h:3/hkv:1/d:128/causal:1/bias:none" + hot, 5e6);      // 40 GFLOP/s
  add(prefill + "n:4096/m:4096/h:3/hkv:1/d:128/causal:1/bias:none" + hot, 280e6);  // 46 GFLOP/s
  add(prefill + "n:8192/m:512/h:3/hkv:1/d:128/causal:1/bias:none" + hot, 1e13);
  add(prefill + "n:4096/m:4096/h:3/hkv:1/d:128/causal:0/bias:none" + hot, 600e6);
  add(prefill + "n:4096/m:4096/h:3/hkv:1/d:128/causal:1/bias:alibi" + hot, 294e6);
  add("attention/prefill/f32/BEST/n:1024/m:1024/h:3/hkv:3/d:64/causal:0" + hot, 20e6);
  add("kv_cache/append/f16/BEST/n:1/hkv:8/d:128" + cold, 600);
  add("kv_cache/append/f16/BEST/n:512/hkv:8/d:128" + cold, 300e3);
  return results;
}

// FakeKernelResults and rows of two libraries at two threads: one 12 times slower than ours, one faster, one
// with a disturbed sample, one of ours measured on two targets, and products that we have none of.
inline nlohmann::json FakePeerResults() {
  nlohmann::json results = FakeKernelResults();
  results["context"]["ropeline"]["peers"] = {{{"name", "ggml-1.2.3"},
                                              {"library", "ggml"},
                                              {"version", "1.2.3"},
                                              {"commit", "abc"},
                                              {"variant", "haswell"}},
                                             {{"name", "blas-4"}, {"library", "blas"}, {"version", "4"}}};
  const std::string product = "n:1/rows:8192/cols:3072/", end = "cache:cold/threads:2";
  results["context"]["ropeline"]["skipped"] = {
      {{"row", "score_bias/t5_bias/f32/BEST/n:1/" + end}, {"reason", "ours"}},
      {{"row", "peer/ggml-1.2.3/weights/matvec/f16/any/" + product + end}, {"reason", "no such product"}}};
  const auto add = [&](const std::string& name, double call_ns, double roof,
                       const nlohmann::json& more = nlohmann::json::object()) {
    nlohmann::json row = FakeRow(name, {{"call_ns", call_ns}, {"roof", roof}, {"tainted", 0}});
    row.update(more);
    results["benchmarks"].push_back(row);
  };
  const std::string rope = "/n:4096/h:16/d:128/cache:cold/threads:2";
  add("qk_rotation/rope_half/f32/OTHER" + rope, 7e6, 0.1);
  add("qk_rotation/rope_half/f32/BEST" + rope, 1e6, 0.8);
  add("peer/ggml-1.2.3/qk_rotation/rope_half/f32/haswell" + rope, 12e6, 0.8 / 12);
  const std::string bias = "/n:256/h:8/causal:0/form:materialised/bias:f32/cache:hot/threads:2";
  add("score_bias/t5_bias/f32/BEST" + bias, 200e3, 0.6, {{"items_per_second", 2e9}});
  add("peer/ggml-1.2.3/score_bias/t5_bias/f32/haswell" + bias, 150e3, 0.8);
  const std::string decode = "f16/haswell/n:4096/h:24/hkv:8/d:128/bias:alibi/cache:cold/threads:2";
  for (const double ms : {4.0, 6.0, 5.0}) {
    add("peer/ggml-1.2.3/attention/decode/" + decode, ms * 1e6, 1 / ms);
  }
  add("peer/ggml-1.2.3/attention/decode/" + decode, 99e6, 0.01, {{"tainted", 1}});
  // 50 GFLOP/s: 1 ms of arithmetic. q4_0 is bound by memory, int8 by arithmetic.
  const nlohmann::json work = {{"flops", 25e9}, {"bytes_per_second", 7e9}};
  const std::string matvec = "peer/ggml-1.2.3/weights/matvec/q4_0/haswell/" + product;
  add(matvec + end, 2e6, 0.75, work);
  add(matvec + "layout:cpu_repack/" + end, 1.6e6, 0.9375, work);
  add("peer/blas-4/weights/matvec/q4_0/any/" + product + end, 3e6, 0.5, work);
  add("peer/blas-4/linear/matmul/int8/any/n:512/rows:64/cols:64/cache:hot/threads:2", 2e6, 0.5, work);
  return results;
}

}  // namespace ropeline

#endif  // ROPELINE_MODEL_FAKE_RESULTS_H_
