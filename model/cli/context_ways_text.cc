#include "model/cli/context_ways_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr const char* kNotMeasured = "not measured";

std::string AccuracyText(const ContextWay& way) {
  if (way.accuracy) {
    return way.figure == "recall" ? "recall " + FormatPercent(*way.accuracy)
                                  : fmt::format("output error {:.2g}", *way.accuracy);
  }
  return way.kind == KeepKind::kWindow ? "–, forgets all but window and sinks" : kNotMeasured;
}

std::string WaysTable(const std::vector<ContextWay>& ways) {
  Table table({{"way", Align::kLeft},
               {"cache"},
               {"read per step"},
               {"attention, limit"},
               {"kernels"},
               {"whole step, limit"},
               {"kernels"},
               {"tok/s"},
               {"accuracy", Align::kLeft}});
  for (const ContextWay& way : ways) {
    const auto& kernels = way.kernels;
    table.Add({way.name, FormatBytes(static_cast<double>(way.cache_bytes)), FormatBytes(way.read_bytes),
               FormatMilliseconds(way.limit.attention_ms),
               kernels ? FormatMilliseconds(kernels->attention_ms) : kNotMeasured,
               FormatMilliseconds(way.limit.ms), kernels ? FormatMilliseconds(kernels->ms) : kNotMeasured,
               kernels ? FormatRate(kernels->tok_per_s) : "≤" + FormatRate(way.limit.tok_per_s),
               AccuracyText(way)});
  }
  return table.Text();
}

std::string RowsTable(const std::vector<ContextWay>& ways) {
  Table table({{"way", Align::kLeft}, {"row", Align::kLeft}, {"how", Align::kLeft}});
  for (const ContextWay& way : ways) {
    if (way.kernels) table.Add({way.name, way.row, way.note.empty() ? "each layer its time" : way.note});
  }
  return table.empty() ? "" : "\n" + table.Text();
}

bool Any(const std::vector<ContextWay>& ways, KeepKind kind, bool with_accuracy) {
  return std::any_of(ways.begin(), ways.end(), [&](const ContextWay& way) {
    return way.kind == kind && (!with_accuracy || way.accuracy.has_value());
  });
}

std::string Legend(const PredictRequest& request, const std::vector<ContextWay>& ways) {
  std::string text = fmt::format(
      "\nOne step{} with {} weights. Limit: bandwidth and peak. Kernels: measured rows; weights at their "
      "limit.{} Read: cache and chunk summaries, without weights.\n",
      request.batch > 1 ? fmt::format(" of {} sequences, tok/s of all together,", request.batch) : "",
      request.weights.name,
      std::all_of(ways.begin(), ways.end(), [](const ContextWay& way) { return way.kernels.has_value(); })
          ? ""
          : " ≤: the limit's, where no row was measured.");
  if (Any(ways, KeepKind::kFull, true)) {
    text +=
        "\nOutput error: relative error of attention's output over a cache of that format, against f32, on "
        "synthetic keys with outlier channels; of one attention, not of the model's text.\n";
  }
  if (Any(ways, KeepKind::kWindow, true) || Any(ways, KeepKind::kRetrieval, true)) {
    text +=
        "\nRecall: share of the softmax that the tokens attended to hold, on a synthetic cache of 32,768 "
        "tokens with concentrated attention, keys in f16; the error of a format comes on top.\n";
  }
  text +=
      "\nA window's cache holds its tokens and sinks alone: what else was said is gone. Retrieval holds all "
      "and reads the chunks that the step's queries ask for; keeping their summaries up to date is not "
      "counted.\n";
  if (request.llm.MainPosition().rope_theta() == 0) {
    text +=
        "\nChunks are chosen without the score bias of this model: their recall is that of a rotary one.\n";
  }
  return text;
}

std::string TurnsText(const std::vector<TurnBreakEven>& turns) {
  Table table({{"cache", Align::kLeft},
               {"turned in every step"},
               {"turned at eviction"},
               {"unrotated, moved only"},
               {"break-even after"}});
  std::vector<std::string> rows;
  bool unknown = false;
  for (const TurnBreakEven& turn : turns) {
    unknown = unknown || !turn.moving_ms;
    const std::string steps = turn.steps ? fmt::format("{:.2g} steps", *turn.steps) : "never";
    table.Add({turn.format, FormatMilliseconds(std::max(0.0, turn.turning_ms)),
               FormatMilliseconds(turn.evicting_ms),
               turn.moving_ms ? FormatMilliseconds(*turn.moving_ms) : kNotMeasured,
               turn.moving_ms || !turn.steps ? steps : "≤" + steps});
    rows.insert(rows.end(), turn.rows.begin(), turn.rows.end());
  }
  return fmt::format(
             "\n### When {} tokens go from the cache\n\nKeys turned back as the gap closes, or kept "
             "unrotated "
             "and turned in every step. With more steps than this between two evictions, turning at the "
             "eviction costs less.\n\n",
             kEvictGap) +
         table.Text() + (unknown ? "\n≤: moving an unrotated cache counted as free.\n" : "") +
         fmt::format("\nFrom rows {}, scaled by bytes to this model and context.\n", fmt::join(rows, ", "));
}

std::string ReschedulesText(const PredictRequest& request, const std::vector<Reschedule>& reschedules) {
  Table table({{"cache", Align::kLeft},
               {"turning all keys"},
               {"prefill again, limit"},
               {"kernels"},
               {"turning is cheaper by"},
               {"row", Align::kLeft}});
  for (const Reschedule& reschedule : reschedules) {
    const auto& kernels = reschedule.prefill_kernels_seconds;
    table.Add(
        {reschedule.format, FormatMilliseconds(reschedule.ms),
         FormatSeconds(reschedule.prefill_limit_seconds), kernels ? FormatSeconds(*kernels) : kNotMeasured,
         fmt::format("×{:.3g}", kernels.value_or(reschedule.prefill_limit_seconds) * 1e3 / reschedule.ms),
         reschedule.row});
  }
  return fmt::format(
             "\n### When the scaling factor changes at {} tokens\n\nOnly the first layer's keys are then "
             "those "
             "that prefill gives: deeper layers were computed under the old factor.\n\n",
             FormatCount(request.context)) +
         table.Text();
}

}  // namespace

std::string ContextWaysText(const PredictRequest& request, const std::vector<ContextWay>& ways,
                            const RotationUpkeep& upkeep) {
  std::string text = fmt::format("\n## What long context costs here: {} at {} tokens\n\n", request.llm.name,
                                 FormatCount(request.context));
  text += WaysTable(ways) + Legend(request, ways) + RowsTable(ways);
  if (!upkeep.turns.empty()) text += TurnsText(upkeep.turns);
  if (!upkeep.reschedules.empty()) text += ReschedulesText(request, upkeep.reschedules);
  return text;
}

}  // namespace ropeline
