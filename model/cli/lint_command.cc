#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "model/cli/commands.h"
#include "model/cli/lint_text.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/lint_source.h"
#include "model/units.h"

namespace ropeline {
namespace {

struct LintOptions {
  std::string model;
  std::optional<std::string> other, cached;
  std::vector<std::string> runtime;
  MachineOptions machine;
  std::string weights;
  bool json = false;
};

// What mending a cache of so many tokens costs on a measured machine. Without --machine this host's result is
// taken where there is one, and nothing said where there is none.
std::optional<RotationUpkeep> UpkeepOf(const LintOptions& options, const LintSource& source,
                                       uint64_t cached) {
  const auto latent = [](const Layer& layer) { return layer.self.kind == AttentionKind::kMla; };
  const std::vector<Layer>& layers = source.llm.layers;
  // Latent rows are turned in part, which no row measures.
  if (!source.refusal.empty() || source.llm.NumLayers(Stack::kDecoder) == 0 ||
      std::any_of(layers.begin(), layers.end(), latent)) {
    return std::nullopt;
  }
  PredictRequest request;
  request.weights = ChooseWeightMix(source.llm, options.weights, Flag("--weights"));
  request.kv = FindKvFormat("f16", {"cache", "format"});
  request.llm = source.llm;
  request.context = cached;
  request.batch = 1;
  std::optional<Machine> machine;
  try {
    machine = ChooseMachine(options.machine);
  } catch (const BadInput&) {
    if (options.machine.machine) throw;
    return std::nullopt;
  }
  request.machine = &*machine;
  request.threads = ChooseThreads(options.machine, *machine);
  return RotationUpkeepOf(request);
}

void RunLint(const LintOptions& options, int* exit_code) {
  const LintRuntime runtime = ParseLintRuntime(options.runtime, Flag("--runtime"));
  const uint64_t cached = options.cached ? ParseCount(*options.cached, Flag("--cached")) : 0;
  const LintSource source = OpenLintSource(options.model, Flag("MODEL"));
  std::optional<LintSource> other;
  if (options.other) other = OpenLintSource(*options.other, Flag("OTHER"));
  if (cached > 0 && !other && runtime.settings.empty() && !runtime.semantics) {
    throw BadInput(Flag("--cached"), "is given and nothing changes", "OTHER, or --runtime key=value");
  }
  const LintReport report = Lint(source, other ? &*other : nullptr, runtime, static_cast<double>(cached));
  std::optional<RotationUpkeep> upkeep;
  if (cached > 0) upkeep = UpkeepOf(options, source, cached);
  if (options.json) {
    nlohmann::ordered_json json = {{"model", source.name},
                                   {"other", other ? nlohmann::ordered_json(other->name) : nullptr}};
    json.update(LintJson(report));
    if (cached > 0) json["upkeep"] = upkeep ? RotationUpkeepJson(*upkeep) : nlohmann::ordered_json(nullptr);
    json["exit_code"] = LintExitCode(report.findings);
    Print(json);
  } else {
    Print(LintText(report, upkeep));
  }
  *exit_code = LintExitCode(report.findings);
}

}  // namespace

void AddLintCommand(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<LintOptions>();
  CLI::App* command = app.add_subcommand(
      "lint", "rotary mistakes in a model's files, or between two of them, or between a file and a run");
  command->footer(
      "exit code: 0 nothing above a note, 1 warnings, 2 errors (or bad input: then nothing is printed but "
      "one line on stderr)");
  command->add_option("MODEL", options->model, "a preset, a config.json, a folder with one, or a .gguf")
      ->required();
  command->add_option("OTHER", options->other, "a second one: what differs, band by band");
  command
      ->add_option(
          "--runtime", options->runtime,
          "what the run is told: a rotary parameter (as rope --set), pairing=half|interleaved, engine=hf|"
          "llama.cpp, reader=v4|v5, context=N, prompt=N")
      ->type_name("KEY=VALUE");
  command
      ->add_option(
          "--cached", options->cached,
          "keys in a cache when MODEL changes to OTHER or to --runtime: which are wrong, and what it costs")
      ->type_name("N");
  command->add_option("--weights", options->weights, "weight format, for the cost of prefill (as predict's)")
      ->type_name("FMT");
  AddMachineOptions(*command, false, &options->machine);
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options, exit_code] { RunLint(*options, exit_code); });
}

}  // namespace ropeline
