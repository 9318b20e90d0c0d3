// One run of an engine's own benchmark: what llama-bench, sweep-bench or batched-bench printed, as data.
#ifndef ROPELINE_MODEL_ENGINE_ENGINE_RUN_H_
#define ROPELINE_MODEL_ENGINE_ENGINE_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ropeline {

enum class RunPhase {
  kPrefill,   // n_prompt tokens, timed together
  kDecode,    // n_generated tokens, one step each
  kCombined,  // a prompt and the tokens after it under one clock (llama-bench's -pg)
};

struct RunRow {
  RunPhase phase = RunPhase::kDecode;
  uint64_t n_kv = 0;         // tokens in each sequence's cache before the first timed one
  uint64_t n_prompt = 0;     // timed tokens of prompt, of each sequence
  uint64_t n_generated = 0;  // timed tokens generated, of each sequence
  uint64_t n_sequences = 1;  // decoded together
  double tok_per_s = 0;      // all timed tokens of all sequences ÷ seconds; finite and above zero
  std::optional<double> stddev_tok_per_s;  // between repetitions
  std::optional<uint64_t> repetitions;     // where the run lists them
  size_t line = 0;                         // of the file, from 1; 0 where the format has no lines

  // Seconds per token of one sequence's stream: a decode step, or a prompt's time ÷ its tokens.
  double SecondsPerToken() const { return static_cast<double>(n_sequences) / tok_per_s; }
  // Where the row stands on a curve of time per token against depth: the middle of its tokens.
  double MeanDepth() const {
    return static_cast<double>(n_kv) + static_cast<double>(n_prompt + n_generated) / 2;
  }
};

// Rows that share everything but depth and phase. What the file does not say is "" or nothing.
struct EngineRun {
  std::string file;
  std::string source;   // where the file says that it was published; "" it does not
  std::string tool;     // "llama-bench", "sweep-bench", "batched-bench", "sweep" (../shared/sweeps)
  std::string engine;   // "llama.cpp", "ik_llama.cpp"
  std::string version;  // build number, commit or date
  std::string title;    // the heading above its table: "main@6bb76b14"
  std::string
      options;  // settings no member holds, where they tell the runs of a file apart: "rtr 1, amb 512"
  std::string cpu;
  std::string model;                      // as the engine names it: "llama 1B Q4_0"
  std::string weight_format;              // "Q4_K_M"
  std::optional<double> bits_per_weight;  // where it is written: "IQ4_K_R4 (4.5 bpw)"
  std::optional<uint64_t> model_bytes, model_params;
  std::optional<int> threads, threads_batch;  // threads of decode; of prefill where they differ
  std::string type_k, type_v;                 // of the cache, in lower case: "f16", "q8_0", "q8_kv"
  std::optional<bool> flash_attention;
  std::optional<int> mla;  // ik_llama.cpp's -mla
  std::optional<uint64_t> ubatch;
  std::vector<RunRow> rows;
  std::vector<std::string> warnings;  // of what was read: rows left out and why
};

}  // namespace ropeline

#endif  // ROPELINE_MODEL_ENGINE_ENGINE_RUN_H_
