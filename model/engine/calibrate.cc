#include "model/engine/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/engine/curve_flags.h"
#include "model/engine/engine_model.h"
#include "model/engine/engine_rates.h"
#include "model/presets.h"
#include "model/units.h"

namespace ropeline {
namespace {

// llama-bench repeats five times unless told otherwise, and does not say how often in a table.
double StandardError(const RunRow& row) {
  constexpr uint64_t kUsualRepetitions = 5;
  if (!row.stddev_tok_per_s) return 0;
  const auto repetitions =
      static_cast<double>(std::max<uint64_t>(1, row.repetitions.value_or(kUsualRepetitions)));
  return *row.stddev_tok_per_s / row.tok_per_s / std::sqrt(repetitions);
}

std::optional<Curve> CurveOf(const EngineRun& run, RunPhase phase, const CalibrateRequest& request,
                             const ModelFacts* facts) {
  const std::vector<RunRow> rows = RowsOf(run, phase);
  Curve curve;
  curve.prefill = phase == RunPhase::kPrefill;
  for (const RunRow& row : rows) {
    if (!WithinBudget(row, rows, request.max_context)) continue;
    curve.rows.push_back(
        {static_cast<double>(row.n_kv), row.MeanDepth(), row.SecondsPerToken(), StandardError(row)});
  }
  if (curve.rows.empty()) return std::nullopt;
  if (facts != nullptr) curve.window = facts->window;
  if (curve.prefill && run.flash_attention == false) curve.bend = PriorConstants{}.bend_of_scores;
  return curve;
}

// Near depth 0; the median row stands for it, because a first row may be cold and a curve rises by a few
// percent only within a short run.
double FirstSeconds(const Curve& curve) {
  double least = curve.rows.front().seconds;
  for (const CurveRow& row : curve.rows) least = std::min(least, row.seconds);
  return least;
}

// One that was run in the same way and has rows of the same phases.
const EngineConfig* TwinOf(const EngineConfig& config, const std::vector<EngineConfig>& configs) {
  const auto of = [](const EngineConfig& x) {
    return std::tie(x.model, x.geometry, x.model_params, x.weight_format, x.threads, x.threads_batch,
                    x.type_k, x.type_v, x.flash_attention, x.mla, x.ubatch);
  };
  for (const EngineConfig& other : configs) {
    const bool shares = (config.tg && other.tg) || (config.pp && other.pp);
    if (of(other) == of(config) && shares) return &other;
  }
  return nullptr;
}

EngineConfig ConfigOf(const EngineRun& run, const Llm* llm, const CalibrateRequest& request) {
  EngineConfig config;
  config.model = run.model;
  config.model_params = run.model_params;
  config.weight_format = run.weight_format;
  config.threads = run.threads;
  config.threads_batch = run.threads_batch;
  config.type_k = run.type_k;
  config.type_v = run.type_v;
  config.flash_attention = run.flash_attention;
  config.mla = run.mla;
  config.ubatch = run.ubatch;
  std::optional<ModelFacts> facts;
  if (llm != nullptr) {
    facts = FactsOf(*llm, run);
    config.geometry = llm->name;
  }
  const ModelFacts* known = facts ? &*facts : nullptr;
  const MachineLimits limits = LimitsOf(request.machine, run);
  std::optional<CurveFit> pp_fit, tg_fit;
  config.pp = CurveOf(run, RunPhase::kPrefill, request, known);
  std::optional<PrefillKnown> prefill;
  if (config.pp) {
    config.pp->prior = PrefillPrior(known, FirstSeconds(*config.pp));
    config.pp->prior.slope_min_s = limits.PrefillSlope(known);
    pp_fit.emplace(*config.pp);
    prefill = PrefillKnown{FirstSeconds(*config.pp), {}};
    if (config.pp->rows.size() > 1) prefill->slope = pp_fit->Slope();
  }
  config.tg = CurveOf(run, RunPhase::kDecode, request, known);
  if (config.tg) {
    config.tg->prior = DecodePrior(known, FirstSeconds(*config.tg), prefill);
    config.tg->prior.slope_min_s = limits.DecodeSlope(known);
    tg_fit.emplace(*config.tg);
  }
  const CurveFit* tg = tg_fit ? &*tg_fit : nullptr;
  const CurveFit* pp = pp_fit ? &*pp_fit : nullptr;
  config.rates = RatesOf(known, tg, pp, limits);
  config.policy = PolicyOf(known, tg, pp, config.rates);
  for (const CurveFit* fit : {tg, pp}) {
    if (fit == nullptr) continue;
    const std::vector<EngineFlag> flags = FlagsOf(*fit);
    config.flags.insert(config.flags.end(), flags.begin(), flags.end());
  }
  return config;
}

}  // namespace

std::vector<RunRow> RowsOf(const EngineRun& run, RunPhase phase) {
  std::vector<RunRow> rows;
  for (const RunRow& row : run.rows) {
    if (row.phase == phase && row.n_sequences == 1) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RunRow& a, const RunRow& b) { return a.MeanDepth() < b.MeanDepth(); });
  return rows;
}

bool WithinBudget(const RunRow& row, const std::vector<RunRow>& rows, uint64_t max_context) {
  if (row.n_kv > max_context) return false;
  if (row.phase != RunPhase::kPrefill || row.n_kv > 0 || row.n_prompt <= max_context) return true;
  return std::all_of(rows.begin(), rows.end(),
                     [&](const RunRow& other) { return other.n_kv > 0 || other.n_prompt == row.n_prompt; });
}

Engine Calibrate(const CalibrateRequest& request) {
  Engine engine;
  engine.max_context = request.max_context;
  if (request.machine != nullptr) engine.machine = request.machine->file;
  bool unknown_model = false;
  const auto warn = [&](const std::string& text) {
    if (std::find(engine.warnings.begin(), engine.warnings.end(), text) == engine.warnings.end()) {
      engine.warnings.push_back(text);
    }
  };
  for (const EngineRun& run : request.runs) {
    std::optional<Llm> named;
    if (request.llm == nullptr) {
      if (const auto preset = PresetForEngineModel(run)) named = Preset(*preset, {run.file, "model"});
    }
    const Llm* llm = named ? &*named : request.llm;
    EngineConfig config = ConfigOf(run, llm, request);
    if (!config.tg && !config.pp) continue;
    if (named) {
      warn(fmt::format("the run calls its model {}: taken as {} (--model for another)",
                       Quoted(run.model.empty() ? run.title : run.model), named->name));
    }
    if (llm != nullptr) {
      for (const std::string& text : Mismatches(*llm, run)) warn(text);
      for (const std::string& text : FactsOf(*llm, run).assumed) warn(text);
    }
    const auto combined = std::count_if(run.rows.begin(), run.rows.end(),
                                        [](const RunRow& row) { return row.phase == RunPhase::kCombined; });
    if (combined != 0) {
      warn(fmt::format("{} row{} of a prompt and tokens under one clock: of neither phase, left out",
                       combined, combined == 1 ? " is" : "s are"));
    }
    unknown_model = unknown_model || llm == nullptr;
    if (const EngineConfig* twin = TwinOf(config, engine.configs)) {
      warn(fmt::format("{} was run twice with the same settings: the first run counts", Quoted(twin->model)));
      continue;
    }
    if (engine.configs.empty()) {
      engine.engine = run.engine;
      engine.version = run.version;
      engine.cpu = run.cpu;
      engine.source = run.source.empty() ? run.file : run.source;
    }
    engine.configs.push_back(std::move(config));
  }
  if (engine.configs.empty()) {
    const std::string file = request.runs.empty() ? "run" : request.runs.front().file;
    throw BadInput(
        {file, ""},
        fmt::format("no row of one sequence begins within {} tokens", FormatCount(request.max_context)),
        "pp or tg rows that do, or a larger --max-context");
  }
  if (unknown_model) {
    warn(
        "no model was given: the curve is known and its cause is not, so nothing is said of rates, and a "
        "window's knee cannot be foreseen (--model)");
  }
  return engine;
}

}  // namespace ropeline
