#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "kernels/registry.h"
#include "model/cli/commands.h"
#include "model/cli/compare_peers_text.h"
#include "model/cli/compare_text.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/compare.h"
#include "model/compare_peers.h"
#include "model/kv_layout.h"
#include "model/presets.h"
#include "model/reshape.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr uint64_t kMaxHeadWidth = 16384;

struct CompareOptions {
  std::string contexts = "512,4k,32k";
  std::optional<std::string> d_head, heads, encodings;
  std::string dtype = "f32";
  std::string model = "llama-3.2-3b";
  std::string weights;
  std::string kv = "f16";
  MachineOptions machine;
  bool peers = false;
  bool json = false;
};

std::string DtypeNames() {
  std::string list;
  for (const Dtype dtype : kAllDtypes) list += (list.empty() ? "" : ", ") + std::string(DtypeName(dtype));
  return list;
}

// Names of encodings or of placements, separated by commas; in the registry's order, each once.
std::vector<const Encoding*> ParseEncodings(std::string_view text, const Where& where) {
  std::vector<const Encoding*> chosen;
  std::string expected = "names separated by commas: input_add, score_bias, qk_rotation";
  for (const Encoding* encoding : AllEncodings()) expected += ", " + std::string(encoding->name);
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    const size_t before = chosen.size();
    for (const Encoding* encoding : AllEncodings()) {
      if (name == encoding->name || name == PlacementName(encoding->placement)) chosen.push_back(encoding);
    }
    if (chosen.size() == before) throw BadInput(where, Quoted(name) + " is not known", expected);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::vector<const Encoding*> ordered;
  for (const Encoding* encoding : AllEncodings()) {
    if (std::find(chosen.begin(), chosen.end(), encoding) != chosen.end()) ordered.push_back(encoding);
  }
  return ordered;
}

// Ascending, each once: columns that grow to the right.
std::vector<uint64_t> ParseContexts(std::string_view text) {
  std::vector<uint64_t> counts = ParseCountList(text, Flag("--n"));
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

CompareRequest RequestOf(const CompareOptions& options) {
  CompareRequest request;
  request.llm = Preset(options.model, Flag("--model"));
  request.weights = ChooseWeightMix(request.llm, options.weights, Flag("--weights"));
  request.kv = ParseKvFormats(options.kv, Flag("--kv"));
  request.contexts = ParseContexts(options.contexts);
  const auto dtype = ParseDtype(options.dtype);
  if (!dtype) {
    throw BadInput(Flag("--dtype"), Quoted(options.dtype) + " is not known", "one of " + DtypeNames());
  }
  request.dtype = *dtype;
  if (options.encodings) request.encodings = ParseEncodings(*options.encodings, Flag("--encodings"));
  std::optional<HeadCounts> heads;
  std::optional<uint64_t> d_head;
  if (options.heads) heads = ParseHeads(*options.heads, Flag("--heads"));
  if (options.d_head) d_head = ParseCount(*options.d_head, Flag("--d"), kMaxHeadWidth);
  request.given_heads = heads.has_value();
  request.given_d_head = d_head.has_value();
  if (heads || d_head) {
    request.llm = Reshaped(request.llm, heads, d_head, Flag(options.heads ? "--heads" : "--d"));
  }
  return request;
}

void RunCompare(const CompareOptions& options) {
  CompareRequest request = RequestOf(options);
  const Machine machine = ChooseMachine(options.machine);
  request.threads = ChooseThreads(options.machine, machine);
  const bool any = std::any_of(kAllDtypes.begin(), kAllDtypes.end(), [&](Dtype dtype) {
    return !MeasuredEncodings(machine, request.threads, dtype).empty();
  });
  if (!any) {
    throw BadInput({machine.file, "benchmarks"},
                   fmt::format("has no placement rows at {} threads", request.threads),
                   "rows of bench_all's families input_add, score_bias and qk_rotation");
  }
  const Comparison comparison = Compare(request, machine);
  if (options.json) {
    Print(CompareJson(request, machine, comparison));
  } else {
    Print(CompareText(request, machine, comparison));
  }
}

void RunComparePeers(const CompareOptions& options, bool given_contexts) {
  PeerFilter filter;
  if (given_contexts) filter.n = ParseContexts(options.contexts);
  if (options.d_head) filter.d = ParseCount(*options.d_head, Flag("--d"), kMaxHeadWidth);
  const Machine machine = ChooseMachineWithPeers(options.machine);
  if (options.machine.threads) filter.threads = ChooseThreads(options.machine, machine);
  const std::vector<PeerComparison> rows = ComparePeers(filter, machine);
  if (options.json) {
    Print(PeersJson(machine, rows));
  } else {
    Print(PeersText(machine, rows));
  }
}

}  // namespace

void AddCompareCommand(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "what each position encoding costs: share of a layer, law, measured beside the limit");
  AddMachineOptions(*command, false, &options->machine);
  command
      ->add_option("--n,--context", options->contexts,
                   "N: tokens of the prefill, or in the cache of the decode step")
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("--model", options->model, fmt::format("layer of: {}", fmt::join(PresetNames(), ", ")))
      ->type_name("MODEL")
      ->capture_default_str();
  command
      ->add_option(
          "--heads", options->heads,
          "instead of the model's: query heads / KV heads, such as 24/8; 24 alone has as many of each")
      ->type_name("H[/K]");
  command
      ->add_option(
          "--d", options->d_head,
          "instead of the model's: d_head, the width of a head; with --d or --heads, d_model is heads "
          "× d_head and the feed-forward keeps its proportion")
      ->type_name("D");
  command
      ->add_option("--dtype", options->dtype,
                   fmt::format("how activations and scores are stored: {}", DtypeNames()))
      ->type_name("TYPE")
      ->capture_default_str();
  command
      ->add_option("--encodings", options->encodings,
                   "only these encodings, or those of these placements (default: all)")
      ->type_name("LIST");
  command
      ->add_option("--weights", options->weights,
                   fmt::format("weight format: {} (default: what the model's files hold, else q4_k_m)",
                               fmt::join(WeightMixNames(), ", ")))
      ->type_name("FMT");
  command->add_option("--kv", options->kv, fmt::format("cache format: {}", fmt::join(KvFormatNames(), ", ")))
      ->type_name("FMT")
      ->capture_default_str();
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command
      ->add_flag("--peers", options->peers,
                 "other libraries beside our kernels, from a run with bench_all --ggml (scripts/peers.sh); "
                 "--n, --d and --threads keep only such rows")
      ->excludes("--model")
      ->excludes("--heads")
      ->excludes("--dtype")
      ->excludes("--encodings")
      ->excludes("--weights")
      ->excludes("--kv");
  command->callback([options, command] {
    if (options->peers) {
      RunComparePeers(*options, command->count("--n") > 0);
    } else {
      RunCompare(*options);
    }
  });
}

}  // namespace ropeline
