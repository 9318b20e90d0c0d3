#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "model/cli/commands.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/cli/table.h"
#include "model/engine/calibrate.h"
#include "model/engine/read_engine_run.h"
#include "model/open_model.h"
#include "model/units.h"

namespace ropeline {
namespace {

struct CalibrateOptions {
  std::string run;
  std::optional<std::string> model, out;
  MachineOptions machine;
  std::string max_context = "2048";
  bool json = false;
};

std::string Today() {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day date(days);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

// Where the profile goes: what a link points to. Refused before anything is worked out: what is no file, and
// the run itself.
std::string OutPath(const std::string& path, const std::string& run) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw BadInput(Flag("-o"), Quoted(path) + " is no regular file", "the name of a file");
  }
  if (fs::exists(status) && fs::equivalent(path, run, error)) {
    throw BadInput(Flag("-o"), Quoted(path) + " is the run itself", "another file");
  }
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real.string();
}

// Whole or not at all: a temporary name beside it, then into place.
void WriteFile(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    throw BadInput(Flag("-o"), Quoted(path) + " cannot be written", "a file in a folder that can");
  }
}

std::string RangeText(const Estimate& estimate, const char* unit) {
  return fmt::format("{:.3g} {} ({:.3g} to {:.3g})", estimate.value, unit, estimate.low, estimate.high);
}

std::string CurveText(const std::optional<Curve>& curve, const char* phase) {
  if (!curve) return fmt::format("{}: no rows\n", phase);
  const CurveFit fit(*curve);
  const Estimate first = fit.Intercept(), slope = fit.Slope();
  return fmt::format(
      "{}: {} row{}, depths {} to {}; a token takes {:.4g} ms at depth 0 ({:.4g} to {:.4g}) and {} more "
      "per 1,000 tokens of depth ({} to {}); rows scatter by {:.1f} %\n",
      phase, curve->rows.size(), curve->rows.size() == 1 ? "" : "s", FormatTokens(curve->rows.front().n_kv),
      FormatTokens(curve->rows.back().n_kv), first.value * 1e3, first.low * 1e3, first.high * 1e3,
      FormatMilliseconds(slope.value * 1e6), FormatMilliseconds(slope.low * 1e6),
      FormatMilliseconds(slope.high * 1e6), 100 * fit.Noise());
}

std::string ConfigText(const EngineConfig& config) {
  const auto known = [](const std::string& text) { return text.empty() ? std::string("?") : text; };
  std::string text = fmt::format(
      "\n## {}, {} threads, cache {}/{}\n\n", config.model.empty() ? "unnamed model" : config.model,
      config.threads ? std::to_string(*config.threads) : "?", known(config.type_k), known(config.type_v));
  text += CurveText(config.tg, "decode") + "\n" + CurveText(config.pp, "prefill") + "\n";
  Table table({{"rate", Align::kLeft}, {"reached"}, {"of the machine's"}, {"", Align::kLeft}});
  for (const EngineRate& rate : config.rates) {
    const std::string of =
        rate.value && rate.limit ? FormatPercent(rate.value->value / *rate.limit) : std::string("");
    table.Add({rate.name, rate.value ? RangeText(*rate.value, "") : "not determined", of, rate.note});
  }
  text += table.Text();
  for (const EngineFlag& flag : config.flags) {
    text += fmt::format("\n- {}, {}: {}", flag.phase, flag.name, flag.detail);
  }
  return text + (config.flags.empty() ? "" : "\n");
}

// Of a run at several thread counts, those of --threads.
std::vector<EngineRun> RunsOf(const CalibrateOptions& options) {
  std::vector<EngineRun> runs = ReadEngineRuns(options.run);
  if (!options.machine.threads) return runs;
  const uint64_t threads = ParseCount(*options.machine.threads, Flag("--threads"));
  std::string seen;
  for (const EngineRun& run : runs) {
    if (run.threads) seen += (seen.empty() ? "" : ", ") + std::to_string(*run.threads);
  }
  std::erase_if(runs, [&](const EngineRun& run) { return run.threads != static_cast<int>(threads); });
  if (runs.empty()) {
    throw BadInput(Flag("--threads"), fmt::format("{} has no run of {} threads", options.run, threads),
                   seen.empty() ? "none: the run does not say its threads" : "one of " + seen);
  }
  return runs;
}

// Asked for, or this host's newest result where the run is of its CPU; nothing where there is none.
std::optional<Machine> MachineOf(const CalibrateOptions& options, const std::vector<EngineRun>& runs) {
  if (options.machine.machine || options.machine.bandwidth) return ChooseMachine(options.machine);
  try {
    Machine machine = ChooseMachine(options.machine);
    if (!machine.cpu_model.empty() && machine.cpu_model == runs.front().cpu) return machine;
  } catch (const BadInput&) {
  }
  return std::nullopt;
}

void RunCalibrate(const CalibrateOptions& options) {
  CalibrateRequest request;
  const std::string out = options.out ? OutPath(*options.out, options.run) : "";
  request.runs = RunsOf(options);
  request.max_context = ParseCount(options.max_context, Flag("--max-context"));
  std::optional<Llm> llm;
  if (options.model) llm = OpenModel(*options.model, Flag("--model"));
  request.llm = llm ? &*llm : nullptr;
  const std::optional<Machine> machine = MachineOf(options, request.runs);
  request.machine = machine ? &*machine : nullptr;
  Engine engine = Calibrate(request);
  engine.date = Today();
  for (const EngineRun& run : request.runs) {
    engine.warnings.insert(engine.warnings.end(), run.warnings.begin(), run.warnings.end());
  }
  const nlohmann::ordered_json json = EngineJson(engine);
  if (options.out) {
    WriteFile(out, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  if (options.json) return Print(json);
  std::string text =
      fmt::format("# {}{} on {}, from rows to depth {}\n", engine.engine.empty() ? "engine" : engine.engine,
                  engine.version.empty() ? "" : " " + engine.version,
                  engine.cpu.empty() ? "an unnamed CPU" : engine.cpu, FormatCount(engine.max_context));
  for (const EngineConfig& config : engine.configs) text += ConfigText(config);
  if (!engine.warnings.empty()) text += "\n## Warnings\n\n";
  for (const std::string& warning : engine.warnings) text += "- " + warning + "\n";
  if (options.out) text += fmt::format("\nProfile: {}\n", *options.out);
  Print(text);
}

}  // namespace

void AddCalibrateCommand(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "an engine's profile from its own short benchmark: rates, curve, and how sure they are");
  command
      ->add_option("RUN", options->run,
                   "output of llama-bench, sweep-bench or llama-batched-bench; - is standard input")
      ->required();
  command
      ->add_option(
          "--model", options->model,
          "the model that ran: a preset, a config.json, a folder with one, or a .gguf (default: the preset "
          "that the run names)")
      ->type_name("MODEL");
  AddMachineOptions(*command, true, &options->machine);
  command->footer(
      "Without --machine or --bandwidth the rates are bounded by this host's newest result, where the run "
      "says "
      "that it is of the same CPU.");
  command->add_option("--max-context", options->max_context, "use only rows up to this depth")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("-o,--out", options->out, "write the profile there")->type_name("FILE");
  command->add_flag("--json", options->json, "print the profile, machine-readable, stable keys");
  command->callback([options] { RunCalibrate(*options); });
}

}  // namespace ropeline
