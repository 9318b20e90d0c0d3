// The options by which every command that needs a machine is told which.
#ifndef ROPELINE_MODEL_CLI_MACHINE_OPTIONS_H_
#define ROPELINE_MODEL_CLI_MACHINE_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "model/bad_input.h"
#include "model/machine.h"

namespace ropeline {

// Where a flag is: {"command line", "--context"}.
Where Flag(const std::string& name);

struct MachineOptions {
  std::optional<std::string> machine, bandwidth, flops, threads;
};

// --machine and --threads; --bandwidth and --flops too where the command can do with two figures.
void AddMachineOptions(CLI::App& command, bool figures, MachineOptions* options);

// The machine asked for: --machine, or --bandwidth with --flops, or else the newest result of this host.
// Throws BadInput.
Machine ChooseMachine(const MachineOptions& options);

// --machine, or else the newest result of this host that has rows of peers. Throws BadInput.
Machine ChooseMachineWithPeers(const MachineOptions& options);

// The same for executed steps. Throws BadInput.
Machine ChooseMachineWithSteps(const MachineOptions& options);

// --threads, or what the machine's run took as its default; 1 for two figures. Throws BadInput where these
// were not measured.
int ChooseThreads(const MachineOptions& options, const Machine& machine);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_MACHINE_OPTIONS_H_
