#include "bench/step/step_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "bench/system_files.h"
#include "model/open_model.h"
#include "model/units.h"

namespace ropeline {
namespace {

const Where kModel{"bench_all", "--model"}, kContext{"bench_all", "--context"},
    kWeights{"bench_all", "--weights"};

bool Asked(const Options& options, const char* family) {
  return std::find(options.families.begin(), options.families.end(), family) != options.families.end();
}

void CheckWithoutModel(const Options& options) {
  const StepOptions& step = options.step;
  const char* flag = !step.contexts.empty()  ? "--context"
                     : !step.kv.empty()      ? "--kv"
                     : !step.weights.empty() ? "--weights"
                                             : nullptr;
  if (flag != nullptr) {
    throw BadUsage(
        fmt::format("{}: says how a model is executed and there is none, expected --model too", flag));
  }
  if (Asked(options, "step")) {
    throw BadUsage(
        "--families: step executes a model, expected --model with a preset, a config.json or a folder");
  }
}

std::vector<size_t> Contexts(const std::vector<std::string>& words) {
  std::vector<size_t> contexts;
  for (const std::string& word : words) contexts.push_back(word == "0" ? 0 : ParseCount(word, kContext));
  if (words.empty()) contexts = {0, 4096, 16384, 32768};
  std::sort(contexts.begin(), contexts.end());
  contexts.erase(std::unique(contexts.begin(), contexts.end()), contexts.end());
  return contexts;
}

std::vector<KvFormat> Formats(const std::vector<std::string>& words) {
  std::vector<KvFormat> formats;
  for (const std::string& word : words) {
    const auto format = ParseKvFormat(word);
    if (!format) {
      std::vector<std::string> names;
      for (const KvFormat known : kAllKvFormats) names.emplace_back(KvFormatName(known));
      throw BadUsage(fmt::format("--kv: '{}' is no format of these kernels, expected some of {}", word,
                                 fmt::join(names, ",")));
    }
    if (std::find(formats.begin(), formats.end(), *format) == formats.end()) formats.push_back(*format);
  }
  if (words.empty()) formats = {KvFormat::kF16};
  return formats;
}

// A row's name is cut at slashes and colons.
std::string AsArgument(const std::string& name) {
  std::string argument;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
    argument += plain ? c : '-';
  }
  return argument.empty() ? "model" : argument;
}

}  // namespace

double StepChoice::NeededBytes() const {
  double most = 0;
  for (const KvFormat format : kv) {
    most = std::max(most, plan.NeededBytes(format, Capacity() + kKvTile, kStepChunk));
  }
  return most;
}

uint64_t FreeMemoryBytes(const Topology& topology) {
  uint64_t bytes = topology.memory_bytes;
  const auto limit = [&](uint64_t of) {
    if (of != 0 && (bytes == 0 || of < bytes)) bytes = of;
  };
  limit(topology.cgroup.memory_bytes.value_or(0));
  const std::string free = FieldOf(ReadSystemFile("/proc/meminfo"), "MemAvailable");  // "21234567 kB"
  limit(1024 * ParseWhole(free.substr(0, free.find(' '))).value_or(0));
  return bytes;
}

std::optional<StepChoice> ChooseStep(const Options& options, uint64_t memory_bytes) {
  const StepOptions& step = options.step;
  if (step.model.empty()) {
    CheckWithoutModel(options);
    return std::nullopt;
  }
  if (!options.families.empty() && !Asked(options, "step")) {
    throw BadUsage("--model: only the family step executes a model, expected --families with step");
  }
  StepChoice choice;
  try {
    const Llm llm = OpenModel(step.model, kModel);
    const WeightMix& mix = ChooseWeightMix(llm, step.weights, kWeights);
    choice.plan = PlanStep(llm, mix, kModel);
    choice.model = AsArgument(llm.name);
    choice.weights = mix.name;
    choice.contexts = Contexts(step.contexts);
  } catch (const BadInput& error) {
    throw BadUsage(error.what());
  }
  choice.kv = Formats(step.kv);
  const auto& table = choice.plan.learned_positions;
  if (table && choice.Capacity() > table->rows) {
    throw BadUsage(fmt::format(
        "--context: {} and a chunk of {} go beyond the {} learned positions of {}, expected at most {}",
        choice.contexts.back(), kStepChunk, table->rows, choice.model,
        table->rows - std::min(table->rows, kStepChunk)));
  }
  // Some is left to the system and to the buffers of other rows.
  const double needed = choice.NeededBytes(), most = 0.9 * static_cast<double>(memory_bytes);
  if (memory_bytes != 0 && needed > most) {
    throw BadUsage(fmt::format(
        "--model: {} with weights {} and {} tokens of cache needs {}, and of this machine's memory {} can be "
        "had, expected a smaller --context, --kv or --weights",
        choice.model, choice.weights, choice.Capacity(), FormatBytes(needed), FormatBytes(most)));
  }
  return choice;
}

std::vector<StepChoice> ChooseSteps(const Options& options, uint64_t memory_bytes) {
  std::vector<StepChoice> choices;
  std::stringstream models(options.step.model);
  Options one = options;
  do {
    one.step.model.clear();
    std::getline(models, one.step.model, ',');
    if (auto choice = ChooseStep(one, memory_bytes)) choices.push_back(*std::move(choice));
  } while (models.good());
  return choices;
}

}  // namespace ropeline
