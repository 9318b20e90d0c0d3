#include "model/step_validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/open_model.h"

namespace ropeline {
namespace {

constexpr std::string_view kTermPrefix = "term_", kTermSuffix = "_ms";

double SumMs(const std::vector<Term>& terms) {
  double ms = 0;
  for (const Term& term : terms) ms += term.ms;
  return ms;
}

// A model with its weights in one format, and what the machine's rows say at some threads; made once for all
// rows that share them.
struct Subject {
  Llm llm;
  WeightLayout weights;
};

class Subjects {
 public:
  explicit Subjects(const Machine& machine) : machine_(machine) {}

  const Subject& Of(const std::string& model, const std::string& weights) {
    auto& subject = subjects_[{model, weights}];
    if (subject == nullptr) {
      const Where where{machine_.file, "step rows"};
      subject = std::make_unique<Subject>();
      subject->llm = OpenModel(model, where);
      subject->weights = LayOutWeights(subject->llm, ChooseWeightMix(subject->llm, weights, where));
    }
    return *subject;
  }

  const KernelSources& At(int threads) {
    auto& sources = sources_[threads];
    if (sources == nullptr) sources = std::make_unique<KernelSources>(machine_, threads);
    return *sources;
  }

 private:
  const Machine& machine_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Subject>> subjects_;
  std::map<int, std::unique_ptr<KernelSources>> sources_;
};

// What a row measured of each term.
std::map<std::string, double> MeasuredTerms(const MeasuredRow& row) {
  std::map<std::string, double> terms;
  for (const auto& [key, value] : row.counters) {
    if (key.size() <= kTermPrefix.size() + kTermSuffix.size()) continue;
    if (!key.starts_with(kTermPrefix) || !key.ends_with(kTermSuffix)) continue;
    terms[key.substr(kTermPrefix.size(), key.size() - kTermPrefix.size() - kTermSuffix.size())] = value;
  }
  return terms;
}

// Predicted terms in their order, then those that were only measured.
std::vector<StepTermError> Compare(const std::vector<Term>& predicted,
                                   std::map<std::string, double> measured) {
  std::vector<StepTermError> terms;
  for (const Term& term : predicted) {
    terms.push_back({term.name, measured[term.name], term.ms, term.row, term.note});
    measured.erase(term.name);
  }
  for (const auto& [name, ms] : measured) {
    if (ms > 0) terms.push_back({name, ms, 0, "", "not predicted"});
  }
  return terms;
}

const StepTermError* FurthestOff(const std::vector<StepTermError>& terms) {
  const auto off = [](const StepTermError& term) { return std::abs(term.predicted_ms - term.measured_ms); };
  const auto at = std::max_element(terms.begin(), terms.end(),
                                   [&](const auto& a, const auto& b) { return off(a) < off(b); });
  return at == terms.end() ? nullptr : &*at;
}

// The row's own figures; nothing where it is no step row.
std::optional<StepPoint> PointOf(const MeasuredRow& row) {
  const RowName& name = row.name;
  if (name.family != "step" || (name.variant != "decode" && name.variant != "prefill")) return std::nullopt;
  const auto context = name.Count("context"), threads = name.Count("threads"), chunk = name.Count("chunk");
  const std::string *model = name.Arg("model"), *kv = name.Arg("kv");
  const bool decode = name.variant == "decode";
  if (!context || !threads || model == nullptr || kv == nullptr || !(row.call_ns > 0)) return std::nullopt;
  if (!decode && (!chunk || *chunk == 0)) return std::nullopt;
  StepPoint point;
  point.row = name.Text();
  point.phase = decode ? Phase::kDecode : Phase::kPrefill;
  point.model = *model;
  point.weights = name.dtype;
  point.kv = *kv;
  point.context = *context;
  point.chunk = decode ? 1 : *chunk;
  point.threads = static_cast<int>(*threads);
  point.measured_ms = row.call_ns / 1e6;
  point.tainted = row.tainted;
  const auto read = row.counters.find("weights_read_gb_s");
  if (read != row.counters.end() && read->second > 0) point.memory_gb_s = read->second;
  return point;
}

// Milliseconds more that the step's bytes take where memory reads at `gb_s` and not as in the stream rows.
std::optional<double> SlowerMemory(const std::vector<Term>& terms, double gb_s, const Machine& machine,
                                   int threads) {
  const auto rows = machine.roofline.MemoryBandwidth(Traffic::kRead, threads);
  if (!rows) return std::nullopt;
  double bytes = 0;
  for (const Term& term : terms) {
    for (const char* name : {"weights", "experts", "attention", "cross_attention", "lm_head"}) {
      if (term.name == name) bytes += term.bytes;
    }
  }
  return 1e3 * (bytes / (gb_s * 1e9) - bytes / *rows);
}

StepErrors ErrorsOf(const std::vector<StepPoint>& points, Phase phase) {
  std::vector<const StepPoint*> some;
  const auto collect = [&](bool tainted) {
    for (const StepPoint& point : points) {
      if (point.phase == phase && point.tainted == tainted) some.push_back(&point);
    }
  };
  collect(false);
  if (some.empty()) collect(true);
  StepErrors errors;
  if (some.empty()) return errors;
  std::sort(some.begin(), some.end(),
            [](const StepPoint* a, const StepPoint* b) { return std::abs(a->error) < std::abs(b->error); });
  errors.points = some.size();
  std::vector<double> sizes;
  for (const StepPoint* point : some) sizes.push_back(std::abs(point->error));
  errors.median = Median(sizes);
  errors.worst = std::abs(some.back()->error);
  errors.worst_row = some.back()->row;
  std::vector<double> at_that;
  for (const StepPoint* point : some) {
    if (point->error_at_that) at_that.push_back(std::abs(*point->error_at_that));
  }
  if (at_that.size() == some.size()) {
    errors.median_at_that = Median(at_that);
    errors.worst_at_that = *std::max_element(at_that.begin(), at_that.end());
  }
  std::map<std::string, size_t> blamed;
  for (const StepPoint* point : some) ++blamed[point->blame];
  errors.blame = std::max_element(blamed.begin(), blamed.end(), [](const auto& a, const auto& b) {
                   return a.second < b.second;
                 })->first;
  return errors;
}

nlohmann::ordered_json OrNull(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json ErrorsJson(const StepErrors& errors) {
  return {{"points", errors.points},
          {"median_error", errors.median},
          {"worst_error", errors.worst},
          {"median_error_at_memory_then", OrNull(errors.median_at_that)},
          {"worst_error_at_memory_then", OrNull(errors.worst_at_that)},
          {"worst_row", errors.worst_row},
          {"blame", errors.blame}};
}

}  // namespace

KernelTerms ChunkTermsFromKernels(const Llm& llm, const WeightLayout& weights, const KvFormats& kv,
                                  uint64_t cached, uint64_t chunk, const Machine& machine, int threads,
                                  const KernelSources& sources) {
  // All but attention is as in a prompt of that many tokens.
  const Workload work{&llm, &weights, &kv, chunk, 1, chunk};
  KernelTerms result = PrefillTermsFromKernels(work, machine, threads, sources);
  for (Term& term : result.terms) {
    if (term.name != "attention") continue;
    const double m = static_cast<double>(chunk), n = static_cast<double>(cached + chunk);
    term.ms = term.flops = term.bytes = 0;
    for (const Layer& layer : llm.layers) {
      const Attention& self = layer.self;
      if (layer.stack != PrefillStack(llm) || self.kind == AttentionKind::kNone) continue;
      const auto time = sources.rates.ChunkAttention(kv.k, self, m, n);
      if (!time) continue;  // the whole prompt's rows were found above: these are then, too
      term.ms += time->ns / 1e6;
      term.flops += (self.Pairs(n) - self.Pairs(n - m)) * self.ExpandedFlopsPerPair();
      term.bytes += self.Keys(n) * static_cast<double>(KvBytesPerToken(self, kv));
      term.row = time->row;
      term.note = time->note;
    }
  }
  return result;
}

StepValidation ValidateSteps(const Machine& machine) {
  StepValidation validation;
  Subjects subjects(machine);
  for (const MeasuredRow& row : machine.rows) {
    auto point = PointOf(row);
    if (!point) continue;
    const Where where{machine.file, point->row};
    const Subject& subject = subjects.Of(point->model, point->weights);
    const KvFormats kv = ParseKvFormats(point->kv, where);
    const KernelSources& sources = subjects.At(point->threads);
    KernelTerms predicted;
    std::vector<Term> limit;
    if (point->phase == Phase::kDecode) {
      // The token's own key is read, too.
      const Workload work{&subject.llm, &subject.weights, &kv, point->context + 1, 1, 0};
      predicted = DecodeTermsFromKernels(work, machine, point->threads, sources);
      limit = DecodeTermsAtLimit(work, machine, point->threads);
    } else {
      predicted = ChunkTermsFromKernels(subject.llm, subject.weights, kv, point->context, point->chunk,
                                        machine, point->threads, sources);
      const Workload work{&subject.llm, &subject.weights, &kv, point->chunk, 1, point->chunk};
      limit = PrefillTermsAtLimit(work, machine, point->threads);
      for (Term& term : limit) {
        for (const Term& chunk : predicted.terms) {
          if (term.name != "attention" || chunk.name != term.name) continue;
          const LimitTime time =
              TimeAtLimit(Phase::kPrefill, {.bytes_read = chunk.bytes, .flops = chunk.flops}, Traffic::kRead,
                          machine, point->threads);
          term.ms = time.seconds * 1e3;
        }
      }
    }
    if (!predicted.missing.empty()) {
      validation.warnings.push_back(point->row + " is left out: no " + predicted.missing.front());
      continue;
    }
    point->predicted_ms = SumMs(predicted.terms);
    point->limit_ms = SumMs(limit);
    point->error = point->predicted_ms / point->measured_ms - 1;
    if (point->phase == Phase::kDecode && point->memory_gb_s) {
      const auto more = SlowerMemory(limit, *point->memory_gb_s, machine, point->threads);
      if (more) point->error_at_that = (point->predicted_ms + *more) / point->measured_ms - 1;
    }
    point->terms = Compare(predicted.terms, MeasuredTerms(row));
    if (const StepTermError* term = FurthestOff(point->terms)) point->blame = term->name;
    validation.points.push_back(*std::move(point));
  }
  if (validation.points.empty() && validation.warnings.empty()) {
    throw BadInput({machine.file, "benchmarks"}, "there is no row of family step",
                   "a run with steps: bench_all --families step --model llama-3.2-1b --context 4k");
  }
  validation.decode = ErrorsOf(validation.points, Phase::kDecode);
  validation.prefill = ErrorsOf(validation.points, Phase::kPrefill);
  return validation;
}

nlohmann::ordered_json StepValidationJson(const Machine& machine, const StepValidation& validation) {
  nlohmann::ordered_json json{{"machine", machine.file}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const StepPoint& point : validation.points) {
    nlohmann::ordered_json terms = nlohmann::ordered_json::array();
    for (const StepTermError& term : point.terms) {
      terms.push_back({{"name", term.name},
                       {"measured_ms", term.measured_ms},
                       {"predicted_ms", term.predicted_ms},
                       {"row", term.row},
                       {"note", term.note}});
    }
    json["rows"].push_back({{"row", point.row},
                            {"phase", point.phase == Phase::kDecode ? "tg" : "pp"},
                            {"model", point.model},
                            {"weights", point.weights},
                            {"kv", point.kv},
                            {"n_kv", point.context},
                            {"tokens", point.chunk},
                            {"threads", point.threads},
                            {"measured_ms", point.measured_ms},
                            {"predicted_ms", point.predicted_ms},
                            {"limit_ms", point.limit_ms},
                            {"error", point.error},
                            {"memory_gb_s", OrNull(point.memory_gb_s)},
                            {"error_at_memory_then", OrNull(point.error_at_that)},
                            {"tainted", point.tainted},
                            {"blame", point.blame},
                            {"terms", terms}});
  }
  json["summary"] = {{"tg", ErrorsJson(validation.decode)}, {"pp", ErrorsJson(validation.prefill)}};
  json["warnings"] = validation.warnings;
  return json;
}

}  // namespace ropeline
