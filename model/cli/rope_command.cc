#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "model/cli/commands.h"
#include "model/cli/identify.h"
#include "model/cli/machine_options.h"
#include "model/cli/output.h"
#include "model/cli/rope_text.h"
#include "model/gguf_file.h"
#include "model/open_model.h"
#include "model/presets.h"
#include "model/rope_settings.h"
#include "model/units.h"

namespace ropeline {
namespace {

struct RopeOptions {
  std::string model;
  std::optional<std::string> d_head, base, train, factor, context, capacity, method, extend;
  std::string pairing = "half";
  std::optional<std::string> semantics;
  std::vector<std::string> settings;
  std::vector<std::string> identify, positions;
  bool bands = false;
  bool json = false;
};

constexpr uint64_t kMaxHeadWidth = 16384;

// As asked; else a GGUF as ggml reads it, anything else as Hugging Face does.
RopeSemantics ChooseSemantics(const std::optional<std::string>& text, const std::string& source) {
  if (!text) return LooksLikeGguf(source) ? RopeSemantics::kGgml : RopeSemantics::kHf;
  const auto semantics = ParseRopeSemantics(*text);
  if (!semantics) throw BadInput(Flag("--semantics"), Quoted(*text) + " is not known", "hf, ggml or paper");
  return *semantics;
}

void ApplySettings(const std::vector<std::string>& settings, RopeParameters* rope) {
  for (const std::string& setting : settings) {
    ApplyRopeSetting(ParseRopeSetting(setting, Flag("--set")), Flag("--set"), rope);
  }
}

RopeLayers TypedLayers(const RopeOptions& options) {
  if (!options.d_head || !options.base) {
    throw BadInput({"command line", ""}, "no model is named", "MODEL, or --d and --base");
  }
  RopeLayers layers;
  layers.pairing = options.pairing;
  if (layers.pairing != "half" && layers.pairing != "interleaved") {
    throw BadInput(Flag("--pairing"), Quoted(layers.pairing) + " is not known", "half or interleaved");
  }
  RopeParameters& rope = layers.rope;
  rope.d_head = rope.d_rot = ParseCount(*options.d_head, Flag("--d"), kMaxHeadWidth);
  rope.base = ParseRealNumber(*options.base, Flag("--base"));
  if (options.train) {
    rope.original_context = static_cast<double>(ParseCount(*options.train, Flag("--train")));
  }
  if (options.method && !options.extend) {
    ApplyRopeSetting({"rope_type", *options.method}, Flag("--method"), &rope);
  }
  if (options.factor && !options.extend) {
    rope.factor = ParseRealNumber(*options.factor, Flag("--factor"));
    rope.factor_given = true;
  }
  ApplySettings(options.settings, &rope);
  return layers;
}

std::vector<RopeLayers> ModelLayers(const RopeOptions& options, const Llm& llm) {
  for (const auto& [flag, value] :
       {std::pair{"--d", options.d_head}, {"--base", options.base}, {"--train", options.train}}) {
    if (value) throw BadInput(Flag(flag), "is given beside a model", "one of the two, or --set key=value");
  }
  if (options.method && !options.extend) {
    throw BadInput(Flag("--method"), "is given without --extend", "--extend N, or --set rope_type=TYPE");
  }
  std::vector<RopeLayers> groups = RopeLayersOf(llm);
  if (groups.empty()) {
    const std::string encoding = llm.MainPosition().encoding;
    throw BadInput(Flag("MODEL"),
                   llm.name + " rotates nothing: its positions are " + (encoding.empty() ? "none" : encoding),
                   "a model with rotary positions");
  }
  for (RopeLayers& group : groups) ApplySettings(options.settings, &group.rope);
  return groups;
}

uint64_t ContextOf(const RopeOptions& options, const RopeLayers& layers, std::optional<uint64_t> published) {
  if (options.context) return ParseCount(*options.context, Flag("--context"));
  if (published) return *published;
  const double tokens = TrainedContext(layers.rope);
  if (tokens > 0) return static_cast<uint64_t>(std::llround(tokens));
  throw BadInput(Flag("--context"), "is missing and nothing says what the model was made for", "tokens");
}

void AddExtensions(const RopeOptions& options, RopeAnswer* answer) {
  const uint64_t to = ParseCount(*options.extend, Flag("--extend"));
  const RopeReport& report = *FarReaching(answer->reports);
  if (!(report.trained_tokens > 0)) {
    throw BadInput(Flag("--extend"), "the trained context is not known",
                   answer->model.empty() ? "--train N" : "--set original_context=N");
  }
  std::optional<double> factor;
  if (options.factor) factor = ParseRealNumber(*options.factor, Flag("--factor"));
  answer->extended_context = static_cast<double>(to);
  for (const ExtensionMethod* method :
       ParseExtensionMethods(options.method.value_or("all"), Flag("--method"))) {
    answer->extensions.push_back(
        Extend(*method, report.layers.rope, answer->extended_context, factor, answer->semantics));
  }
}

void RunIdentify(const RopeOptions& options) {
  std::vector<RopeLayers> model;
  if (!options.model.empty()) model = RopeLayersOf(OpenModel(options.model, Flag("MODEL")));
  const RopeIdentification identification =
      IdentifyRope(ReadKeyDump(options.identify, options.positions), model);
  if (options.json) {
    Print(IdentificationJson(identification));
  } else {
    Print(IdentificationText(identification, options.bands));
  }
}

void RunRope(const RopeOptions& options) {
  if (!options.identify.empty()) return RunIdentify(options);
  RopeAnswer answer;
  std::string file;
  std::vector<RopeLayers> groups;
  std::optional<uint64_t> published;
  if (options.model.empty()) {
    groups = {TypedLayers(options)};
  } else {
    const Llm llm = OpenModel(options.model, Flag("MODEL"));
    groups = ModelLayers(options, llm);
    published = llm.max_context;
    answer.model = llm.name;
    file = llm.source;
  }
  answer.semantics = ChooseSemantics(options.semantics, file);
  answer.length.tokens = ContextOf(options, groups.front(), published);
  if (options.capacity) answer.length.capacity = ParseCount(*options.capacity, Flag("--capacity"));
  const std::string source = options.model.empty() ? "command line" : options.model;
  for (const RopeLayers& group : groups) {
    answer.reports.push_back(CheckRope(group, answer.length, answer.semantics, {source, ""}));
  }
  if (options.extend) AddExtensions(options, &answer);
  if (options.json) {
    Print(RopeJson(answer));
  } else {
    Print(RopeText(answer, options.bands));
  }
}

}  // namespace

void AddRopeCommand(CLI::App& app) {
  const auto options = std::make_shared<RopeOptions>();
  CLI::App* command = app.add_subcommand(
      "rope", "rotary bands: wavelength, turns trained, arc unseen, and what each extension method changes");
  command->add_option(
      "MODEL", options->model,
      fmt::format("a preset ({}), a config.json, params.json or .gguf, a folder with one; or --d "
                  "and --base",
                  fmt::join(PresetNames(), ", ")));
  const auto text = [&](const char* name, std::optional<std::string>* value, const char* help,
                        const char* type) { command->add_option(name, *value, help)->type_name(type); };
  text("--d", &options->d_head, "without a model: d_head, width of a head", "D");
  text("--base", &options->base, "without a model: rope_theta", "X");
  text("--train", &options->train, "without a model: tokens it was trained on", "N");
  text("--method", &options->method,
       "with --extend: methods to compare, pi, ntk, dynamic, yarn, llama3, longrope or all; without a model "
       "and "
       "--extend: the schedule",
       "LIST");
  text("--factor", &options->factor, "the schedule's factor s (with --extend: instead of the ratio)", "S");
  text("--context", &options->context, "tokens of the pass (default: what the model was made for)", "N");
  text("--capacity", &options->capacity,
       "tokens that the cache was made for, which choose longrope's list in ggml (default: --context)", "N");
  text("--extend", &options->extend, "compare ways of going to this many tokens", "N");
  command->add_option("--pairing", options->pairing, "without a model: half or interleaved")
      ->type_name("LAYOUT")
      ->capture_default_str();
  command
      ->add_option("--set", options->settings,
                   fmt::format("a rotary parameter, key=value: {}", fmt::join(RopeSettingKeys(), ", ")))
      ->type_name("KEY=VALUE");
  text("--semantics", &options->semantics,
       "whose reading of the schedule: hf, ggml or paper (default: ggml for a .gguf, else hf)", "WHOSE");
  command
      ->add_option(
          "--identify", options->identify,
          "which schedule turned these keys: a .npy of [n, d_rot], one token at many positions, or two "
          "with the same tokens at other positions; MODEL is held beside")
      ->type_name("FILE");
  command
      ->add_option("--positions", options->positions,
                   "with --identify, for each file: 0:512, 0:4096:4, 3,7,8 or a .npy")
      ->type_name("LIST");
  command->add_flag("--bands", options->bands, "every band, of every method");
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options] { RunRope(*options); });
}

}  // namespace ropeline
