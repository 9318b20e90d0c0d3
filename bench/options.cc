#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "bench/build_info.h"
#include "kernels/targets.h"

namespace ropeline {

namespace {

namespace fs = std::filesystem;

std::vector<int> ParseThreads(const std::vector<std::string>& words, const Topology& topology) {
  const int most = static_cast<int>(topology.UsableCores().size());
  std::vector<int> threads;
  for (const std::string& word : words) {
    int count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count < 1) {
      throw BadUsage(
          fmt::format("--threads: '{}' is not a number of threads, expected a list such as 1,2", word));
    }
    if (count > most) {
      throw BadUsage(fmt::format(
          "--threads: {} threads on {} usable cores would wait for each other, expected at most {}", count,
          most, most));
    }
    threads.push_back(count);
  }
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

std::vector<std::string> ParseTargets(const std::vector<std::string>& words) {
  const auto supported = SupportedTargetNames();
  std::vector<std::string> targets;
  bool all = false;
  for (const std::string& word : words) {
    if (word == "all") {
      all = true;
      continue;
    }
    const std::string name = word == "best" ? supported.front() : word;
    if (std::find(supported.begin(), supported.end(), name) == supported.end()) {
      throw BadUsage(fmt::format("--targets: '{}' does not run here, expected best, all or of {}", word,
                                 fmt::join(supported, ",")));
    }
    targets.push_back(name);
  }
  if (all) return supported;
  // Best first, each once.
  std::vector<std::string> sorted;
  for (const std::string& name : supported) {
    if (std::find(targets.begin(), targets.end(), name) != targets.end()) sorted.push_back(name);
  }
  return sorted;
}

template <class Number>
std::optional<Number> ParseNumber(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool ParseSwitch(const std::string& word, const std::string& value) {
  if (value.empty() || value == "true" || value == "1" || value == "yes") return true;
  if (value == "false" || value == "0" || value == "no") return false;
  throw BadUsage(fmt::format("{}: not a switch, expected true or false", word));
}

// Google Benchmark's flags. Those that would fight with our rounds and our file are refused with the reason.
void TakeBenchmarkFlags(const std::vector<std::string>& extras, Options* options) {
  for (const std::string& word : extras) {
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (flag == "--benchmark_repetitions") {
      const auto rounds = ParseNumber<int>(value);
      if (!rounds || *rounds < 1 || *rounds > 1000) {
        throw BadUsage(fmt::format("{}: not a number of repetitions, expected 1 to 1000", word));
      }
      options->rounds = *rounds;
    } else if (flag == "--benchmark_min_time") {
      if (!value.empty() && value.back() == 's') value.pop_back();
      const auto seconds = ParseNumber<double>(value);
      if (!seconds || !(*seconds > 0) || *seconds > 60) {
        throw BadUsage(fmt::format("{}: not a time, expected seconds above 0 and up to 60", word));
      }
      options->min_seconds = *seconds;
    } else if (flag == "--benchmark_list_tests") {
      options->list = ParseSwitch(word, value);
    } else if (flag == "--benchmark_filter") {
      options->filter = value;
    } else if (flag == "--benchmark_context") {
      options->benchmark_args.push_back(word);
    } else if (flag == "--benchmark_out" || flag == "--benchmark_out_format" ||
               flag == "--benchmark_format") {
      throw BadUsage(fmt::format("{}: bench_all always writes bench.json, expected --out FOLDER", word));
    } else if (flag == "--benchmark_enable_random_interleaving") {
      throw BadUsage(fmt::format("{}: repetitions are interleaved already, expected no such flag", word));
    } else {
      throw BadUsage(
          fmt::format("{}: no such flag here, expected one of those that bench_all --help lists", word));
    }
  }
}

std::string CommandLine(int argc, char** argv) {
  std::string command = fs::path(argv[0]).filename().string();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    // A folder is this machine's business, not a reader's.
    const std::string before = argv[i - 1];
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (before == "--out" || before == "--ggml") {
      command += " FOLDER";
    } else if (before == "--model" && word.find('/') != std::string::npos) {
      command += " FILE";
    } else if (flag == "--model" && word.find('/') != std::string::npos) {
      command += " --model=FILE";
    } else if (equals != std::string::npos && (flag == "--out" || flag == "--ggml")) {
      command += " " + flag + "=FOLDER";
    } else {
      command += " " + word;
    }
  }
  return command;
}

}  // namespace

const std::vector<std::string>& Families() {
  static const auto* const families = new std::vector<std::string>{
      "stream",    "peak",     "sync",    "input_add", "score_bias", "qk_rotation",
      "attention", "kv_cache", "weights", "linear",    "step",       "peer"};
  return *families;
}

std::string DefaultOutFolder(const Topology& topology) {
  const fs::path checkout = fs::path(BuildSourceDir()) / "results";
  if (fs::is_directory(checkout) && access(checkout.c_str(), W_OK) == 0) {
    return (checkout / MachineSlug(topology)).string();
  }
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base = data != nullptr && *data != '\0' ? fs::path(data)
                        : home != nullptr                ? fs::path(home) / ".local" / "share"
                                                         : fs::temp_directory_path();
  return (base / "ropeline" / "results" / MachineSlug(topology)).string();
}

Options ParseOptions(int argc, char** argv, const Topology& topology) {
  Options options;
  std::vector<std::string> families, targets = {"best"}, threads;
  CLI::App app(
      "Measures this machine and the kernels of every position encoding; writes bench.json.\n"
      "Takes Google Benchmark's flags too: --benchmark_filter, --benchmark_min_time, --benchmark_repetitions "
      "…");
  app.allow_extras();
  app.add_flag("--quick", options.quick,
               "fewer shapes and repetitions: under 90 s on two cores, not 8 minutes");
  app.add_option("--families", families,
                 fmt::format("only these, of {}; stream and peak rows are the limits and always run",
                             fmt::join(Families(), ",")))
      ->delimiter(',');
  app.add_option("--targets", targets, "Highway targets to time: best, all, or a list of names")
      ->delimiter(',');
  app.add_option("--threads", threads, "thread counts (default: 1, 2, 4 … up to the usable physical cores)")
      ->delimiter(',');
  const CLI::Option* out =
      app.add_option("--out", options.out,
                     "folder for bench.json (default: results/<cpu>-<cores>c of the checkout; "
                     "its sub-folder peers or steps where that is the only family)");
  const CLI::Option* ggml = app.add_option(
      "--ggml", options.ggml,
      "a llama.cpp build or the npm package @node-llama-cpp/linux-x64, whose kernels are timed "
      "beside ours (family peer)");
  const CLI::Option* model =
      app.add_option("--model", options.step.model,
                     "executes this model's decode step and prefill chunk over random weights (family step): "
                     "a preset, config.json, .gguf or folder, or several with commas; layers like Llama's");
  app.add_option("--context", options.step.contexts,
                 "tokens in the model's cache before the step (default: 0,4k,16k,32k)")
      ->delimiter(',');
  app.add_option("--kv", options.step.kv,
                 "formats of that cache, of f32,f16,bf16,q8_0,q4_0,kivi4 (default: f16)")
      ->delimiter(',');
  const CLI::Option* weights =
      app.add_option("--weights", options.step.weights,
                     "format of its weights, of f32,f16,bf16,q8_0,q6_k,q4_k_m,q4_0 (default: the "
                     "file's, else q4_k_m)");
  app.add_flag("--resume", options.resume, "go on with an interrupted run in the same folder");
  app.set_version_flag("--version", fmt::format("ropeline {} ({})", BuildVersion(), BuildGitHash()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));  // --help, --version
    throw BadUsage(fmt::format("bench_all: {}, expected flags as in bench_all --help", error.what()));
  }
  options.rounds = options.quick ? 5 : 9;
  options.min_seconds = options.quick ? 0.01 : 0.012;
  TakeBenchmarkFlags(app.remaining(), &options);
  for (const std::string& family : families) {
    if (std::find(Families().begin(), Families().end(), family) == Families().end()) {
      throw BadUsage(
          fmt::format("--families: no family '{}', expected some of {}", family, fmt::join(Families(), ",")));
    }
  }
  options.families = families;
  options.targets = ParseTargets(targets);
  options.threads = threads.empty() ? topology.ThreadSteps() : ParseThreads(threads, topology);
  if (out->count() > 0 && options.out.empty()) {
    throw BadUsage("--out: an empty name, expected a folder");
  }
  if (ggml->count() > 0 && options.ggml.empty()) {
    throw BadUsage("--ggml: an empty name, expected a folder with a llama.cpp build");
  }
  if (model->count() > 0 && options.step.model.empty()) {
    throw BadUsage("--model: an empty name, expected a preset, a config.json or a folder");
  }
  if (weights->count() > 0 && options.step.weights.empty()) {
    throw BadUsage("--weights: an empty name, expected a format such as q4_0");
  }
  if (options.out.empty()) {
    options.out = DefaultOutFolder(topology);
    // Such a run has a part of the machine's rows: it must not take the place of one that has all.
    if (options.families == std::vector<std::string>{"peer"}) options.out += "/peers";
    if (options.families == std::vector<std::string>{"step"}) options.out += "/steps";
  }
  options.command = CommandLine(argc, argv);
  return options;
}

}  // namespace ropeline
