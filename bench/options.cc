#include "bench/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

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
  for (const std::string& word : words) {
    if (word == "all") return supported;
    const std::string name = word == "best" ? supported.front() : word;
    if (std::find(supported.begin(), supported.end(), name) == supported.end()) {
      throw BadUsage(fmt::format("--targets: '{}' does not run here, expected best, all or of {}", word,
                                 fmt::join(supported, ",")));
    }
    targets.push_back(name);
  }
  // Best first, each once.
  std::vector<std::string> sorted;
  for (const std::string& name : supported) {
    if (std::find(targets.begin(), targets.end(), name) != targets.end()) sorted.push_back(name);
  }
  return sorted;
}

// "--flag=value" or the word after "--flag".
bool Starts(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Takes from `extras` what must act on our own loop of rounds; leaves the rest to Google Benchmark.
void TakeBenchmarkFlags(const std::vector<std::string>& extras, Options* options) {
  for (const std::string& word : extras) {
    if (!Starts(word, "--benchmark_") && !Starts(word, "--v=")) {
      throw BadUsage(
          fmt::format("{}: no such flag, expected one of those that bench_all --help lists", word));
    }
    const std::string value = word.find('=') == std::string::npos ? "" : word.substr(word.find('=') + 1);
    if (Starts(word, "--benchmark_repetitions")) {
      int rounds = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rounds);
      if (error != std::errc() || end != value.data() + value.size() || rounds < 1 || rounds > 1000) {
        throw BadUsage(fmt::format("{}: not a number of repetitions, expected 1 to 1000", word));
      }
      options->rounds = rounds;
    } else if (Starts(word, "--benchmark_list_tests")) {
      options->list = value != "false";
    } else if (Starts(word, "--benchmark_out") || Starts(word, "--benchmark_format")) {
      throw BadUsage(fmt::format("{}: bench_all always writes bench.json, expected --out FOLDER", word));
    } else if (Starts(word, "--benchmark_enable_random_interleaving")) {
      throw BadUsage(fmt::format("{}: repetitions are interleaved already, expected no such flag", word));
    } else {
      if (Starts(word, "--benchmark_min_time")) options->min_seconds = 0;
      options->benchmark_args.push_back(word);
    }
  }
}

std::string CommandLine(int argc, char** argv) {
  std::string command = fs::path(argv[0]).filename().string();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    // A folder is this machine's business, not a reader's.
    const bool folder = i > 0 && std::string(argv[i - 1]) == "--out";
    command += folder ? " FOLDER" : Starts(word, "--out=") ? " --out=FOLDER" : " " + word;
  }
  return command;
}

}  // namespace

const std::vector<std::string>& Families() {
  static const auto* const families =
      new std::vector<std::string>{"stream", "peak", "sync", "input_add", "score_bias", "qk_rotation"};
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
  app.add_option("--out", options.out,
                 "folder for bench.json (default: results/<cpu>-<cores>c of the checkout)");
  app.add_flag("--resume", options.resume, "go on with an interrupted run in the same folder");
  app.set_version_flag("--version", fmt::format("ropeline {} ({})", BuildVersion(), BuildGitHash()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) std::exit(app.exit(error));  // --help, --version
    throw BadUsage(fmt::format("bench_all: {}, expected flags as in bench_all --help", error.what()));
  }
  options.rounds = options.quick ? 5 : 9;
  options.min_seconds = options.quick ? 0.015 : 0.04;
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
  if (options.out.empty()) options.out = DefaultOutFolder(topology);
  options.command = CommandLine(argc, argv);
  return options;
}

}  // namespace ropeline
