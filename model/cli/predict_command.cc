#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "model/cli/cache_options.h"
#include "model/cli/commands.h"
#include "model/cli/context_ways_text.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/cli/predict_text.h"
#include "model/engine/run_words.h"
#include "model/open_model.h"
#include "model/predict.h"
#include "model/presets.h"
#include "model/thread_advice.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr uint64_t kMaxBatch = 4096;

struct PredictOptions {
  std::string model, context;
  std::string weights;
  CacheOptions cache;
  std::string batch = "1";
  std::string chunk = "512";
  std::optional<std::string> memory, engine;
  MachineOptions machine;
  bool curve = false;
  bool ways = false;
  bool json = false;
};

void RefuseWithoutDecoder(const Llm& llm, const PredictOptions& options) {
  if (llm.NumLayers(Stack::kDecoder) == 0) {
    throw BadInput(Flag("MODEL"), llm.name + " is an encoder: it decodes nothing and keeps nothing",
                   "a model with a decoder (ropeline inspect shows any)");
  }
  const bool latent = std::any_of(llm.layers.begin(), llm.layers.end(),
                                  [](const Layer& layer) { return layer.self.kind == AttentionKind::kMla; });
  if (options.ways && latent) {
    throw BadInput(Flag("--ways"), llm.name + " keeps latent rows, which these ways do not",
                   "a model of plain attention, or --latent expanded");
  }
}

// Those of the profile, where all of it is of one format of ours and the model's files hold none.
std::string EngineWeights(const PredictRequest& request) {
  if (request.engine == nullptr || request.llm.stored) return "";
  std::string name;
  for (const EngineConfig& config : request.engine->configs) {
    std::string format = LowerCase(config.weight_format);
    const auto names = WeightMixNames();
    if (std::find(names.begin(), names.end(), format) == names.end()) return "";
    if (!name.empty() && name != format) return "";
    name = std::move(format);
  }
  return name;
}

void RunPredict(const PredictOptions& options) {
  PredictRequest request;
  request.llm = AsKept(options.cache, OpenModel(options.model, Flag("MODEL")));
  RefuseWithoutDecoder(request.llm, options);
  request.context = ParseCount(options.context, Flag("--context"));
  std::optional<Engine> engine;
  if (options.engine) {
    engine = ReadEngine(*options.engine);
    request.engine = &*engine;
  }
  request.weights = ChooseWeightMix(
      request.llm, options.weights.empty() ? EngineWeights(request) : options.weights, Flag("--weights"));
  request.kv = FormatsOf(options.cache);
  request.allocation = AllocationOf(options.cache);
  request.prefill_chunk = ParseCount(options.chunk, Flag("--chunk"));
  request.batch = ParseCount(options.batch, Flag("--batch"), kMaxBatch);
  if (options.memory)
    request.memory_bytes = static_cast<uint64_t>(ParseSizeBytes(*options.memory, Flag("--memory")));
  const Machine machine = ChooseMachine(options.machine);
  request.machine = &machine;
  request.threads = ChooseThreads(options.machine, machine);
  if (!request.memory_bytes) request.memory_bytes = machine.memory_bytes;

  const Prediction prediction = Predict(request);
  std::vector<CurvePoint> curve;
  if (options.curve) curve = PredictCurve(request, CurveContexts(request));
  std::vector<ContextWay> ways;
  RotationUpkeep upkeep;
  if (options.ways) {
    ways = ContextWays(request);
    upkeep = RotationUpkeepOf(request);
  }
  const ThreadAdvice advice = AdviseThreads(request);
  if (options.json) {
    nlohmann::ordered_json json = PredictionJson(request, prediction, curve);
    if (!advice.choices.empty()) json["threads"] = ThreadAdviceJson(advice);
    if (options.ways) {
      json["ways"] = ContextWaysJson(ways);
      json["upkeep"] = RotationUpkeepJson(upkeep);
    }
    Print(json);
  } else {
    std::string text = PredictionText(request, prediction, curve);
    if (const std::string line = ThreadAdviceText(advice); !line.empty()) text += "\n" + line + "\n";
    if (options.ways) text += ContextWaysText(request, ways, upkeep);
    Print(text);
  }
}

}  // namespace

void AddPredictCommand(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* command =
      app.add_subcommand("predict", "KV bytes per token, memory, decode tok/s and prefill time of a model");
  command
      ->add_option(
          "MODEL", options->model,
          fmt::format("a config.json, a params.json, a .gguf file, a folder that holds one, or one of {}",
                      fmt::join(PresetNames(), ", ")))
      ->required();
  command->add_option("--context", options->context, "tokens in the cache, such as 32768 or 32k (k is 1024)")
      ->required()
      ->type_name("N");
  command
      ->add_option("--weights", options->weights,
                   fmt::format("weight format: {} (default: what the model's files hold, else q4_k_m)",
                               fmt::join(WeightMixNames(), ", ")))
      ->type_name("FMT");
  AddCacheOptions(*command, &options->cache);
  AddMachineOptions(*command, true, &options->machine);
  command->add_option("--batch", options->batch, "sequences decoded together")
      ->type_name("B")
      ->capture_default_str();
  command->add_option("--chunk", options->chunk, "tokens that prefill takes at a time")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--memory", options->memory,
                   "memory of the machine, such as 16GiB (default: what its result says)")
      ->type_name("SIZE");
  command->add_option("--engine", options->engine, "an engine's profile, as `ropeline calibrate` writes it")
      ->type_name("FILE");
  command->add_flag("--curve", options->curve, "add a table over contexts");
  command->add_flag("--ways", options->ways,
                    "add what each way of keeping the past costs: formats, a window, retrieval of chunks");
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options] { RunPredict(*options); });
}

}  // namespace ropeline
