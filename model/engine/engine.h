// An engine on a machine, as its own short benchmark shows it: for each way it was run, the curves of time
// per token against depth, the rates that these amount to, and what is odd about them. Data: written to and
// read from engine.json.
#ifndef ROPELINE_MODEL_ENGINE_ENGINE_H_
#define ROPELINE_MODEL_ENGINE_ENGINE_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/engine/curve.h"
#include "model/engine/engine_run.h"

namespace ropeline {

inline constexpr uint64_t kEngineSchema = 1;

// An effective rate: what the engine reaches with everything that it does besides. Unit in the name.
struct EngineRate {
  std::string name;               // kRateNames
  std::optional<Estimate> value;  // nothing where the run cannot tell; `note` says why
  std::optional<double> limit;    // the machine's, same unit; nothing without a machine
  std::string note;
};
inline constexpr const char* kRateWeights = "weights_gb_s";  // of a decode step, overhead included
inline constexpr const char* kRateKv = "kv_gb_s";            // cache bytes ÷ slope of decode
inline constexpr const char* kRateLinear = "prefill_linear_gflop_s";
inline constexpr const char* kRateAttention = "prefill_attention_gflop_s";
inline constexpr const char* kRateOverhead = "step_overhead_ms";

// How the engine goes about attention, where the curves tell; nothing where they do not.
struct EnginePolicy {
  std::optional<bool> skips_window;     // does not read what a window layer does not see
  std::optional<bool> rereads_kv;       // K and V once per query head, not once per KV head
  std::optional<bool> splits_unevenly;  // threads share a step's keys evenly at some depths only (saw-tooth)
  std::optional<bool> keeps_latent;     // MLA's rows, not heads
};

// A remark on a curve: "cold_first_row", "super_linear", "saw_tooth", "window_knee", "too_few_rows",
// "not_monotone", "noisy".
struct EngineFlag {
  std::string name;
  std::string phase;  // "tg", "pp"
  std::string detail;
};

// One way of running it.
struct EngineConfig {
  std::string model;     // as the engine names it
  std::string geometry;  // name of the Llm that the rates are of; "" none was given
  std::optional<uint64_t> model_params;
  std::string weight_format;
  std::optional<int> threads, threads_batch;
  std::string type_k, type_v;
  std::optional<bool> flash_attention;
  std::optional<int> mla;
  std::optional<uint64_t> ubatch;
  std::optional<Curve> tg, pp;  // nothing: no such rows
  std::vector<EngineRate> rates;
  EnginePolicy policy;
  std::vector<EngineFlag> flags;
};

struct Engine {
  std::string engine, version, date, cpu, source;  // "" unknown
  std::string machine;                             // its bench.json; "" none
  uint64_t max_context = 0;                        // rows beyond were not used
  std::vector<EngineConfig> configs;               // at least one
  std::vector<std::string> warnings;
};

nlohmann::ordered_json EngineJson(const Engine& engine);
// Both throw BadInput for what is not an engine.json of ours, by key.
Engine ReadEngine(const std::string& path);
Engine ParseEngine(const std::string& text, const std::string& file);

// The configuration that a run belongs to: threads, KV types and flash attention agree wherever both are
// known, and the most of them are. nullptr where none does.
const EngineConfig* ConfigFor(const Engine& engine, const EngineRun& run);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ENGINE_H_
