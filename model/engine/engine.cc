#include "model/engine/engine.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/config_json.h"
#include "model/engine/run_words.h"
#include "model/json_view.h"
#include "model/units.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExpected = "an engine.json that ropeline calibrate wrote";
constexpr double kMsPerS = 1e3;
constexpr double kUsPerS = 1e6;
constexpr Range kDepth{0, static_cast<double>(kMaxTokens)};
constexpr Range kSeconds{1e-9, 1e6};
constexpr Range kSlope{1e-18, 1e3};
constexpr Range kSpread{1e-3, 10};

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json CurveJson(const std::optional<Curve>& curve) {
  if (!curve) return nullptr;
  Json rows = Json::array();
  for (const CurveRow& row : curve->rows) {
    rows.push_back(
        {{"n_kv", row.n_kv}, {"mean_depth", row.depth}, {"ms", row.seconds * kMsPerS}, {"error", row.error}});
  }
  Json window = nullptr;
  if (curve->window) window = {{"tokens", curve->window->tokens}, {"share", curve->window->share}};
  return {{"rows", rows},
          {"slope_prior",
           {{"us_per_token", curve->prior.slope_s * kUsPerS},
            {"log_sd", curve->prior.sd},
            {"least_us_per_token", curve->prior.slope_min_s * kUsPerS}}},
          {"window", window},
          {"bend", curve->bend}};
}

Json RateJson(const EngineRate& rate) {
  Json json = {{"name", rate.name}, {"determined", rate.value.has_value()}};
  json["value"] = rate.value ? Json(rate.value->value) : Json(nullptr);
  json["low"] = rate.value ? Json(rate.value->low) : Json(nullptr);
  json["high"] = rate.value ? Json(rate.value->high) : Json(nullptr);
  json["limit"] = OrNull(rate.limit);
  json["note"] = TextOrNull(rate.note);
  return json;
}

Json ConfigJson(const EngineConfig& config) {
  Json json = {{"model", TextOrNull(config.model)},
               {"geometry", TextOrNull(config.geometry)},
               {"model_params", OrNull(config.model_params)},
               {"weight_format", TextOrNull(config.weight_format)},
               {"threads", OrNull(config.threads)},
               {"threads_batch", OrNull(config.threads_batch)},
               {"type_k", TextOrNull(config.type_k)},
               {"type_v", TextOrNull(config.type_v)},
               {"flash_attention", OrNull(config.flash_attention)},
               {"mla", OrNull(config.mla)},
               {"ubatch", OrNull(config.ubatch)},
               {"tg", CurveJson(config.tg)},
               {"pp", CurveJson(config.pp)}};
  json["rates"] = Json::array();
  for (const EngineRate& rate : config.rates) json["rates"].push_back(RateJson(rate));
  json["policy"] = {{"skips_window", OrNull(config.policy.skips_window)},
                    {"rereads_kv", OrNull(config.policy.rereads_kv)},
                    {"splits_unevenly", OrNull(config.policy.splits_unevenly)},
                    {"keeps_latent", OrNull(config.policy.keeps_latent)}};
  json["flags"] = Json::array();
  for (const EngineFlag& flag : config.flags) {
    json["flags"].push_back({{"name", flag.name}, {"phase", flag.phase}, {"detail", flag.detail}});
  }
  return json;
}

double NumberIn(const JsonView& view, const Range& range, const char* expected) {
  const double value = view.Number();
  if (!range.Has(value)) throw BadInput(view.where(), std::to_string(value) + " is out of range", expected);
  return value;
}

Curve ReadCurve(const JsonView& view, bool prefill) {
  Curve curve;
  curve.prefill = prefill;
  const JsonView rows = view.At("rows");
  for (const JsonView& row : rows.Items()) {
    const CurveRow read = {NumberIn(row.At("n_kv"), kDepth, "tokens"),
                           NumberIn(row.At("mean_depth"), kDepth, "tokens"),
                           NumberIn(row.At("ms"), {kSeconds.least * kMsPerS, kSeconds.most * kMsPerS},
                                    "milliseconds of one token") /
                               kMsPerS,
                           row.Find("error") ? NumberIn(row.At("error"), {0, 10}, "a share, 0 to 10") : 0};
    if (!curve.rows.empty() && read.depth < curve.rows.back().depth) {
      throw BadInput(row.At("mean_depth").where(), "is below that of the row before", "rows by depth");
    }
    curve.rows.push_back(read);
  }
  if (curve.rows.empty()) throw BadInput(rows.where(), "is empty", "at least one row");
  const JsonView prior = view.At("slope_prior");
  curve.prior.slope_s = NumberIn(prior.At("us_per_token"), {kSlope.least * kUsPerS, kSlope.most * kUsPerS},
                                 "microseconds per token of depth, above 0") /
                        kUsPerS;
  curve.prior.sd = NumberIn(prior.At("log_sd"), kSpread, "0.001 to 10");
  curve.prior.slope_min_s = NumberIn(prior.At("least_us_per_token"), {0, kSlope.most * kUsPerS},
                                     "microseconds per token of depth") /
                            kUsPerS;
  if (const auto window = view.Find("window")) {
    curve.window = WindowShape{NumberIn(window->At("tokens"), {1, kDepth.most}, "tokens"),
                               NumberIn(window->At("share"), {0, 1}, "0 to 1")};
  }
  curve.bend = NumberIn(view.At("bend"), {0, 10}, "0 to 10");
  return curve;
}

EngineRate ReadRate(const JsonView& view) {
  EngineRate rate;
  rate.name = view.At("name").String();
  if (view.At("determined").Bool()) {
    rate.value = Estimate{view.At("value").Number(), view.At("low").Number(), view.At("high").Number()};
  }
  rate.limit = view.FindNumber("limit");
  rate.note = view.FindString("note").value_or("");
  return rate;
}

std::optional<int> FindThreads(const JsonView& view, const char* key) {
  const auto found = view.Find(key);
  if (!found) return std::nullopt;
  const uint64_t count = found->Count();
  if (count < 1 || count > kMaxThreads)
    throw BadInput(found->where(), "is out of range", "1 to 65536 threads");
  return static_cast<int>(count);
}

EngineConfig ReadConfig(const JsonView& view) {
  EngineConfig config;
  config.model = view.FindString("model").value_or("");
  config.geometry = view.FindString("geometry").value_or("");
  config.model_params = view.FindCount("model_params");
  config.weight_format = view.FindString("weight_format").value_or("");
  config.threads = FindThreads(view, "threads");
  config.threads_batch = FindThreads(view, "threads_batch");
  config.type_k = view.FindString("type_k").value_or("");
  config.type_v = view.FindString("type_v").value_or("");
  config.flash_attention = view.FindBool("flash_attention");
  if (const auto mla = view.FindCount("mla")) config.mla = static_cast<int>(std::min<uint64_t>(*mla, 9));
  config.ubatch = view.FindCount("ubatch");
  if (const auto tg = view.Find("tg")) config.tg = ReadCurve(*tg, false);
  if (const auto pp = view.Find("pp")) config.pp = ReadCurve(*pp, true);
  if (!config.tg && !config.pp) throw BadInput(view.where(), "has neither curve", "tg, pp or both");
  for (const JsonView& rate : view.At("rates").Items()) config.rates.push_back(ReadRate(rate));
  const JsonView policy = view.At("policy");
  config.policy = {policy.FindBool("skips_window"), policy.FindBool("rereads_kv"),
                   policy.FindBool("splits_unevenly"), policy.FindBool("keeps_latent")};
  for (const JsonView& flag : view.At("flags").Items()) {
    config.flags.push_back({flag.At("name").String(), flag.At("phase").String(), flag.At("detail").String()});
  }
  return config;
}

// Points of agreement; nothing where they contradict each other.
std::optional<int> Agreement(const EngineConfig& config, const EngineRun& run) {
  int points = 0;
  bool same = true;
  const auto compare = [&](const auto& a, const auto& b, bool known) {
    if (!known) return;
    same = same && a == b;
    ++points;
  };
  compare(config.threads, run.threads, config.threads && run.threads);
  compare(config.flash_attention, run.flash_attention, config.flash_attention && run.flash_attention);
  compare(config.mla, run.mla, config.mla && run.mla);
  compare(config.type_k, run.type_k, !config.type_k.empty() && !run.type_k.empty());
  compare(config.type_v, run.type_v, !config.type_v.empty() && !run.type_v.empty());
  compare(LowerCase(config.weight_format), LowerCase(run.weight_format),
          !config.weight_format.empty() && !run.weight_format.empty());
  compare(config.model, run.model, !config.model.empty() && !run.model.empty());
  return same ? std::optional(points) : std::nullopt;
}

}  // namespace

nlohmann::ordered_json EngineJson(const Engine& engine) {
  Json json = {{"schema", kEngineSchema},
               {"kind", "engine"},
               {"engine", TextOrNull(engine.engine)},
               {"version", TextOrNull(engine.version)},
               {"date", TextOrNull(engine.date)},
               {"cpu", TextOrNull(engine.cpu)},
               {"source", TextOrNull(engine.source)},
               {"machine", TextOrNull(engine.machine)},
               {"max_context", engine.max_context},
               {"configs", Json::array()}};
  for (const EngineConfig& config : engine.configs) json["configs"].push_back(ConfigJson(config));
  json["warnings"] = engine.warnings;
  return json;
}

Engine ParseEngine(const std::string& text, const std::string& file) {
  const nlohmann::json root = ParseConfigJson(text, file, kExpected);
  const JsonView view(root, {file, ""});
  if (view.FindString("kind") != "engine") throw BadInput({file, "kind"}, "is not \"engine\"", kExpected);
  if (view.At("schema").Count() != kEngineSchema) {
    throw BadInput({file, "schema"}, "is " + std::to_string(view.At("schema").Count()),
                   std::to_string(kEngineSchema) + ": calibrate again with this version");
  }
  Engine engine;
  engine.engine = view.FindString("engine").value_or("");
  engine.version = view.FindString("version").value_or("");
  engine.date = view.FindString("date").value_or("");
  engine.cpu = view.FindString("cpu").value_or("");
  engine.source = view.FindString("source").value_or("");
  engine.machine = view.FindString("machine").value_or("");
  engine.max_context = view.At("max_context").Count();
  const JsonView configs = view.At("configs");
  for (const JsonView& config : configs.Items()) engine.configs.push_back(ReadConfig(config));
  if (engine.configs.empty()) throw BadInput(configs.where(), "is empty", "at least one");
  for (const JsonView& warning : view.At("warnings").Items()) engine.warnings.push_back(warning.String());
  return engine;
}

Engine ReadEngine(const std::string& path) {
  constexpr uint64_t kMostBytes = 16 << 20;
  return ParseEngine(ReadTextFile(path, kMostBytes, kExpected), path);
}

const EngineConfig* ConfigFor(const Engine& engine, const EngineRun& run) {
  const EngineConfig* best = nullptr;
  int most = -1;
  for (const EngineConfig& config : engine.configs) {
    const std::optional<int> points = Agreement(config, run);
    if (!points || *points <= most) continue;
    most = *points;
    best = &config;
  }
  return best;
}

}  // namespace ropeline
