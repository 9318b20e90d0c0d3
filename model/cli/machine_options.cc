#include "model/cli/machine_options.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bench/topology.h"
#include "model/cli/find_machine.h"
#include "model/units.h"

namespace ropeline {
namespace {

using Finder = std::optional<Machine> (*)(const std::vector<std::filesystem::path>&, const std::string&);

// `what` and `expected` for a host that has none.
Machine ThisHost(Finder find, const char* what, const char* expected) {
  const std::vector<std::filesystem::path> folders = ResultFolders();
  if (auto machine = find(folders, HostId(DetectTopology()))) return std::move(*machine);
  std::string searched;
  for (const auto& folder : folders) searched += (searched.empty() ? "" : ", ") + folder.string();
  throw BadInput(Flag("--machine"), std::string("no result of this host") + what + " in " + searched,
                 expected);
}

// A results folder stands for the file in it.
Machine ReadFileOrFolder(const std::string& path) {
  const std::filesystem::path in_folder = std::filesystem::path(path) / "bench.json";
  std::error_code error;
  return ReadMachine(std::filesystem::is_regular_file(in_folder, error) ? in_folder.string() : path);
}

}  // namespace

Where Flag(const std::string& name) { return {"command line", name}; }

void AddMachineOptions(CLI::App& command, bool figures, MachineOptions* options) {
  command
      .add_option("--machine", options->machine,
                  "bench.json of the machine to predict for (default: this host's newest result)")
      ->type_name("FILE");
  if (figures) {
    command
        .add_option("--bandwidth", options->bandwidth,
                    "instead of --machine: memory read bandwidth, such as 20GB/s; needs --flops")
        ->type_name("RATE");
    command
        .add_option(
            "--flops", options->flops,
            "instead of --machine: rate of prefill's matrix products, such as 50GFLOP/s; needs --bandwidth")
        ->type_name("RATE");
  }
  command
      .add_option(
          "--threads", options->threads,
          "thread count, one that was measured (default: the machine's usable cores, or the most measured)")
      ->type_name("T");
}

Machine ChooseMachine(const MachineOptions& options) {
  if (options.bandwidth || options.flops) {
    constexpr const char* kExpected = "--machine FILE, or both --bandwidth and --flops";
    if (options.machine)
      throw BadInput(Flag("--machine"), "is given beside --bandwidth or --flops", kExpected);
    if (!options.flops) throw BadInput(Flag("--flops"), "is missing beside --bandwidth", kExpected);
    if (!options.bandwidth) throw BadInput(Flag("--bandwidth"), "is missing beside --flops", kExpected);
    const double bandwidth = ParseBytesPerSecond(*options.bandwidth, Flag("--bandwidth"));
    return MachineFromFigures(bandwidth, ParseFlopsPerSecond(*options.flops, Flag("--flops")));
  }
  if (options.machine) return ReadFileOrFolder(*options.machine);
  return ThisHost(NewestResult, "",
                  "a measurement (run: bench_all --quick), --machine FILE, or --bandwidth with --flops");
}

Machine ChooseMachineWithPeers(const MachineOptions& options) {
  if (options.machine) return ReadFileOrFolder(*options.machine);
  return ThisHost(NewestPeersResult, " with rows of peers",
                  "a measurement (run: scripts/peers.sh, or bench_all --families peer --ggml FOLDER), or "
                  "--machine FILE");
}

Machine ChooseMachineWithSteps(const MachineOptions& options) {
  if (options.machine) return ReadFileOrFolder(*options.machine);
  return ThisHost(
      NewestStepsResult, " with executed steps",
      "a measurement (run: bench_all --families stream,peak,sync,qk_rotation,attention,kv_cache,weights,"
      "linear,step --model llama-3.2-1b), an engine's benchmark as RUN, or --machine FILE");
}

int ChooseThreads(const MachineOptions& options, const Machine& machine) {
  if (options.threads) {
    const auto threads = static_cast<int>(ParseCount(*options.threads, Flag("--threads"), 65536));
    RequireThreads(machine, threads, Flag("--threads"));
    return threads;
  }
  if (!machine.measured()) return 1;
  const Where where{machine.file, "context.ropeline.threads_default"};
  if (!machine.threads_default)
    throw BadInput(where, "is unknown", "a count, or --threads on the command line");
  // A run of fewer threads (bench_all --threads 1) is taken at the most it has.
  const std::vector<int> measured = machine.Threads();
  const auto has = std::find(measured.begin(), measured.end(), *machine.threads_default);
  return has != measured.end() ? *has : measured.back();
}

}  // namespace ropeline
