#include <fmt/format.h>

#include <memory>

#include "model/cli/commands.h"
#include "model/cli/compare_text.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/compare.h"
#include "model/kv_layout.h"
#include "model/presets.h"
#include "model/units.h"

namespace ropeline {
namespace {

struct CompareOptions {
  std::optional<std::string> n, d;
  std::string model = "llama-3.2-3b";
  std::string contexts = "4k,32k";
  std::string weights = "q4_k_m";
  std::string kv = "f16";
  MachineOptions machine;
  bool json = false;
};

void RunCompare(const CompareOptions& options) {
  std::vector<uint64_t> n, d;
  if (options.n) n = ParseCountList(*options.n, Flag("--n"));
  if (options.d) d = ParseCountList(*options.d, Flag("--d"));
  ShareRequest request;
  request.llm = Preset(options.model, Flag("--model"));
  request.weights = FindWeightMix(options.weights, Flag("--weights"));
  request.kv = FindKvFormat(options.kv, Flag("--kv"));
  request.contexts = ParseCountList(options.contexts, Flag("--context"));
  const Machine machine = ChooseMachine(options.machine);
  request.threads = ChooseThreads(options.machine, machine);
  const std::vector<MeasuredEncoding> measured = MeasuredEncodings(machine, request.threads);
  if (measured.empty()) {
    throw BadInput({machine.file, "benchmarks"},
                   fmt::format("has no placement rows at {} threads", request.threads),
                   "rows of bench_all's families input_add, score_bias and qk_rotation");
  }
  const std::vector<MeasuredEncoding> rows = Select(measured, n, d, Flag("--n"), Flag("--d"));
  const std::vector<EncodingShare> shares = EncodingShares(request, machine, measured);
  if (options.json) {
    Print(CompareJson(request, machine, rows, shares));
  } else {
    Print(CompareText(request, machine, rows, shares));
  }
}

}  // namespace

void AddCompareCommand(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "what each position encoding costs: bytes, flops, limit, measured, share of a layer");
  AddMachineOptions(*command, false, &options->machine);
  command->add_option("--n", options->n, "only measured rows of these token counts, such as 512,4k")
      ->type_name("LIST");
  command
      ->add_option("--d", options->d,
                   "only measured rows of these widths: d_head of a rotation, d_model of an input add")
      ->type_name("LIST");
  command->add_option("--model", options->model, fmt::format("layer of: {}", fmt::join(PresetNames(), ", ")))
      ->type_name("MODEL")
      ->capture_default_str();
  command
      ->add_option("--context", options->contexts,
                   "tokens of the prefill, or in the cache of the decode step")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--weights", options->weights,
                   fmt::format("weight format: {}", fmt::join(WeightMixNames(), ", ")))
      ->type_name("FMT")
      ->capture_default_str();
  command->add_option("--kv", options->kv, fmt::format("cache format: {}", fmt::join(KvFormatNames(), ", ")))
      ->type_name("FMT")
      ->capture_default_str();
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options] { RunCompare(*options); });
}

}  // namespace ropeline
