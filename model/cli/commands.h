// The sub-commands of `ropeline`. Each adds itself to the app; its callback runs while the app parses and
// prints its answer in one piece at the end, so that bad input leaves stdout empty. All throw BadInput.
#ifndef ROPELINE_MODEL_CLI_COMMANDS_H_
#define ROPELINE_MODEL_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>

namespace ropeline {

void AddPredictCommand(CLI::App& app);  // what a model costs on a machine at a context
void AddInspectCommand(CLI::App& app);  // the layers of a model and what each keeps
void AddCompareCommand(
    CLI::App& app);                  // what each position encoding costs, measured, and its share of a layer
void AddRopeCommand(CLI::App& app);  // rotary bands, and what each extension method changes
// Rotary mistakes in files; *exit_code becomes 1 for warnings and 2 for errors.
void AddLintCommand(CLI::App& app, int* exit_code);
void AddCalibrateCommand(CLI::App& app);  // an engine's profile from its own benchmark
// Predicted against measured; *exit_code becomes 1 above --max-error.
void AddValidateCommand(CLI::App& app, int* exit_code);
void AddTopologyCommand(
    CLI::App& app);  // what this machine is, as reported and as measured, and what is odd about it

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMMANDS_H_
