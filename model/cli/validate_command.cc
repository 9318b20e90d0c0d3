#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/cli/commands.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/cli/step_validation_text.h"
#include "model/cli/table.h"
#include "model/engine/read_engine_run.h"
#include "model/engine/validate.h"
#include "model/open_model.h"
#include "model/step_validation.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr int kAboveMaxError = 1;

struct ValidateOptions {
  std::optional<std::string> run, engine, model, max_error;
  MachineOptions machine;
  bool json = false;
};

// "10%" or "0.1"; nothing where it is not given.
std::optional<double> MaxErrorOf(const ValidateOptions& options) {
  if (!options.max_error) return std::nullopt;
  std::string text = *options.max_error;
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (percent) value /= 100;
  constexpr double kMost = 2;  // "10" is meant to be 10%
  if (used == 0 || used != text.size() || !(value >= 0) || !(value <= kMost)) {
    throw BadInput(Flag("--max-error"), Quoted(*options.max_error) + " is no share", "such as 10% or 0.1");
  }
  return value;
}

std::string SummaryText(const char* phase, const std::optional<ValidationSummary>& summary) {
  if (!summary) return fmt::format("{}: no rows\n", phase);
  return fmt::format(
      "{}: {} rows{}: |error| {} median, {} at the 90th percentile, {} mean; {} lie in their range\n", phase,
      summary->rows, summary->of_unused_rows ? " that the fit did not use" : " of the fit",
      FormatPercent(summary->median_error), FormatPercent(summary->p90_error),
      FormatPercent(summary->mean_error), FormatPercent(summary->inside_range));
}

std::string ValidationText(const Validation& validation) {
  Table table({{"phase", Align::kLeft},
               {"depth"},
               {"measured"},
               {"predicted"},
               {"90 % range"},
               {"error"},
               {"in range", Align::kLeft},
               {"used", Align::kLeft}});
  for (const ValidatedRow& row : validation.rows) {
    table.Add({row.prefill ? "pp" + std::to_string(row.n_prompt) : "tg", FormatCount(row.n_kv),
               FormatMilliseconds(row.measured_ms), FormatMilliseconds(row.predicted_ms.value),
               FormatMilliseconds(row.predicted_ms.low) + " to " + FormatMilliseconds(row.predicted_ms.high),
               fmt::format("{:+.1f} %", 100 * row.Error()), row.Inside() ? "yes" : "NO",
               row.used_in_fit ? "in the fit" : ""});
  }
  std::string text = "# Measured against predicted, time per token\n\n" + table.Text() + "\n";
  text += SummaryText("decode", validation.tg) + "\n" + SummaryText("prefill", validation.pp);
  text += "\n## Is this curve normal?\n\n";
  if (validation.flags.empty()) text += "Yes: nothing odd in it.\n";
  for (const EngineFlag& flag : validation.flags) {
    text += fmt::format("- {}, {}: {}\n", flag.phase, flag.name, flag.detail);
  }
  if (!validation.warnings.empty()) text += "\n## Warnings\n\n";
  for (const std::string& warning : validation.warnings) text += "- " + warning + "\n";
  return text;
}

// Without a run: the steps that this suite executed itself.
void RunValidateSteps(const ValidateOptions& options, const std::optional<double>& max_error,
                      int* exit_code) {
  if (options.engine || options.model) {
    throw BadInput(Flag("RUN"), "is missing",
                   "an engine's benchmark output where --engine or --model is given");
  }
  const Machine machine = ChooseMachineWithSteps(options.machine);
  const StepValidation validation = ValidateSteps(machine);
  const double worst = std::max(validation.decode.median, validation.prefill.median);
  const bool above = max_error && worst > *max_error;
  if (options.json) {
    nlohmann::ordered_json json = StepValidationJson(machine, validation);
    json["max_error"] = max_error ? nlohmann::ordered_json(*max_error) : nlohmann::ordered_json(nullptr);
    json["above_max_error"] = above;
    Print(json);
  } else {
    std::string text = StepValidationText(machine, validation);
    if (max_error) {
      text += fmt::format("\nThe larger median error, {}, is {} --max-error {}.\n", FormatPercent(worst),
                          above ? "above" : "within", FormatPercent(*max_error));
    }
    Print(text);
  }
  if (above) *exit_code = kAboveMaxError;
}

void RunValidate(const ValidateOptions& options, int* exit_code) {
  const std::optional<double> max_error = MaxErrorOf(options);
  if (!options.run) return RunValidateSteps(options, max_error, exit_code);
  if (!options.engine) throw BadInput(Flag("--engine"), "is missing", "a profile from ropeline calibrate");
  const Engine engine = ReadEngine(*options.engine);
  std::optional<Llm> llm;
  if (options.model) llm = OpenModel(*options.model, Flag("--model"));
  const Validation validation = Validate(engine, ReadEngineRuns(*options.run), llm ? &*llm : nullptr);
  const bool above = max_error && validation.WorstMean() > *max_error;
  if (options.json) {
    nlohmann::ordered_json json = ValidationJson(validation);
    json["max_error"] = max_error ? nlohmann::ordered_json(*max_error) : nlohmann::ordered_json(nullptr);
    json["above_max_error"] = above;
    Print(json);
  } else {
    std::string text = ValidationText(validation);
    if (max_error) {
      text += fmt::format("\nThe larger phase's mean error, {}, is {} --max-error {}.\n",
                          FormatPercent(validation.WorstMean()), above ? "above" : "within",
                          FormatPercent(*max_error));
    }
    Print(text);
  }
  if (above) *exit_code = kAboveMaxError;
}

}  // namespace

void AddValidateCommand(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "predicted against measured, row by row, and what is odd about a run's curve");
  command->footer(
      "exit code: 0, or 1 where the mean |error| of a phase (of executed steps: the median) is above "
      "--max-error; "
      "2 for bad input");
  command->add_option("RUN", options->run,
                      "output of llama-bench, sweep-bench or llama-batched-bench; - is standard input");
  command->add_option("--engine", options->engine, "an engine's profile, as `ropeline calibrate` writes it")
      ->type_name("FILE");
  command->add_option("--model", options->model, "the model that ran, to check it against the profile's")
      ->type_name("MODEL");
  command->add_option("--max-error", options->max_error, "exit 1 above this |error|, such as 10% or 0.1")
      ->type_name("X");
  command
      ->add_option("--machine", options->machine.machine,
                   "a bench.json, or its folder, with rows of family step (default: this host's newest)")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options, exit_code] { RunValidate(*options, exit_code); });
}

}  // namespace ropeline
