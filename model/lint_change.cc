#include "model/lint_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/rope_settings.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr const char* kPublished = "the file";
constexpr const char* kServed = "what is served";

struct Side {
  std::string name;
  const RopeLayers* layers;
  RopeSemantics semantics;
};

RopeSemantics SemanticsOf(const LintSource& source) {
  return source.gguf ? RopeSemantics::kGgml : RopeSemantics::kHf;
}

// llama.cpp's converters permute Q and K of these, so that neighbours are turned instead of halves
// (llama-model.cpp, llama_model_rope_type).
bool ConverterPermutes(const std::string& architecture) {
  static const std::set<std::string> permuted = {"llama",   "llama4",     "deci",     "baichuan", "internlm2",
                                                 "granite", "granitemoe", "minicpm",  "smollm3",  "mistral3",
                                                 "arcee",   "xverse",     "ernie4_5", "olmo",     "apertus"};
  return permuted.count(architecture) > 0;
}

RopeChange Change(const Side& a, const Side& b, double tokens, uint64_t capacity, double cached) {
  RopeChange change;
  change.layer_type = a.layers->layer_type;
  change.before = a.name;
  change.after = b.name;
  const RopeLength length{static_cast<uint64_t>(tokens), capacity};
  change.difference = Differ(FrequenciesOf(a.layers->rope, length, a.semantics),
                             FrequenciesOf(b.layers->rope, length, b.semantics), tokens);
  change.layout_differs =
      a.layers->pairing != b.layers->pairing || a.layers->rope.d_rot != b.layers->rope.d_rot;
  if (cached > 0 && !change.difference.Same())
    change.invalidation = InvalidationOf(change.difference, cached);
  return change;
}

const RopeLayers* Counterpart(const RopeLayers& layers, const std::vector<RopeLayers>& others) {
  const RopeLayers* reach = nullptr;
  for (const RopeLayers& other : others) {
    if (other.layer_type == layers.layer_type) return &other;
    if (reach == nullptr || reach->layer_type == "sliding_attention") reach = &other;
  }
  return reach;
}

double Context(const LintSource& source, const LintRuntime& runtime, double cached) {
  double tokens = runtime.context ? static_cast<double>(*runtime.context) : 0;
  for (const RopeLayers& layers : source.layers) {
    if (!runtime.context) tokens = std::max(tokens, layers.rope.max_context);
  }
  return tokens > 0 ? tokens : std::max(cached, 4096.0);
}

std::string Errors(const RopeChange& change) {
  const Invalidation& invalidation = *change.invalidation;
  return fmt::format(
      "{} of {} cached keys are wrong, from position {} on; a logit keeps {} of what a matching key "
      "gave",
      FormatTokens(invalidation.Wrong()), FormatTokens(invalidation.cached),
      FormatTokens(invalidation.first_wrong), FormatPercent(std::max(0.0, invalidation.logit_kept)));
}

void Report(const RopeChange& change, Severity severity, const char* check, const std::string& name,
            const std::string& consequence, const std::string& remedy, std::vector<Finding>* findings) {
  if (change.difference.Same()) return;
  findings->push_back({severity, check, name,
                       fmt::format("layers {}, {} against {}: {}", change.layer_type, change.before,
                                   change.after, DifferenceText(change.difference)),
                       consequence, remedy});
}

void ReportCache(const RopeChange& change, const std::string& name, std::vector<Finding>* findings) {
  if (!change.invalidation || !(change.invalidation->Wrong() > 0)) return;
  findings->push_back(
      {Severity::kError, "cache_stale", name,
       fmt::format("layers {}: keys were cached under {} and are read under {}", change.layer_type,
                   change.before, change.after),
       Errors(change),
       "drop the cache and prefill again; re-rotating mends the first layer's keys exactly and the "
       "others' nearly (kernels/kv_reschedule.h)"});
}

void CompareLayouts(const LintSource& a, const LintSource& b, const RopeLayers& before,
                    const RopeLayers& after, std::vector<Finding>* findings) {
  if (before.rope.d_rot != after.rope.d_rot) {
    findings->push_back({Severity::kError, "rotated_width", b.name,
                         fmt::format("{} turns {} dimensions of a head, {} turns {}", a.name,
                                     before.rope.d_rot, b.name, after.rope.d_rot),
                         "every frequency differs, and dimensions without position are turned",
                         "the partial_rotary_factor (rope.dimension_count) of the publisher"});
  }
  if (before.pairing == after.pairing) return;
  const LintSource* gguf = a.gguf ? &a : b.gguf ? &b : nullptr;
  const bool one_of_each = a.gguf.has_value() != b.gguf.has_value();
  const bool expected = one_of_each && ConverterPermutes(gguf->gguf->architecture);
  findings->push_back(
      {expected ? Severity::kNote : Severity::kError, "pairing", b.name,
       fmt::format("{} pairs dimensions {}, {} {}", a.name, before.pairing, b.name, after.pairing),
       expected ? fmt::format("as it should be: the converter permutes Q and K of architecture {}",
                              gguf->gguf->architecture)
                : "dimensions are paired with the wrong partners: attention sees noise",
       expected ? "never mix keys or LoRA weights of the two layouts"
                : "the layout that the weights were stored for"});
}

void ReportSources(const RopeChange& change, bool same_model, bool files_agree, const std::string& name,
                   std::vector<Finding>* findings) {
  if (files_agree) {
    Report(change, Severity::kWarning, "engine_semantics", name,
           "the files agree; Hugging Face and llama.cpp read the same keys otherwise",
           "see kernels/rope_frequencies.h for where the two part", findings);
  } else if (same_model) {
    Report(change, Severity::kError, "gguf_against_config", name,
           "the two are meant to be one model, and give different text",
           "convert again, or mend the file that lost a key", findings);
  } else {
    Report(change, Severity::kWarning, "schedules_differ", name,
           "keys cached under the one are wrong under the other", "see --cached for what a cache loses",
           findings);
  }
}

void CompareSources(const LintSource& source, const LintSource& other, const LintRuntime& runtime,
                    double cached, LintReport* report) {
  if (source.layers.empty() != other.layers.empty() && source.refusal.empty() && other.refusal.empty()) {
    const bool lost = other.layers.empty();
    report->findings.push_back(
        {Severity::kError, "rotation_lost", other.name,
         (lost ? source : other).name + " rotates and " + (lost ? other : source).name + " does not",
         "positions enter in one of them only", "two files of one model"});
    return;
  }
  const double tokens = Context(source, runtime, cached);
  const uint64_t capacity = runtime.context.value_or(0);
  const bool same_model = source.gguf.has_value() != other.gguf.has_value();
  for (const RopeLayers& layers : source.layers) {
    const RopeLayers* counterpart = Counterpart(layers, other.layers);
    if (counterpart == nullptr || FindRopeProblem(layers.rope) || FindRopeProblem(counterpart->rope))
      continue;
    CompareLayouts(source, other, layers, *counterpart, &report->findings);
    const auto between = [&](RopeSemantics before, RopeSemantics after) {
      return Change({source.name, &layers, before}, {other.name, counterpart, after}, tokens, capacity,
                    cached);
    };
    const RopeChange change = between(SemanticsOf(source), SemanticsOf(other));
    const bool files_agree =
        same_model && between(RopeSemantics::kGgml, RopeSemantics::kGgml).difference.Same();
    ReportSources(change, same_model, files_agree, other.name, &report->findings);
    ReportCache(change, other.name, &report->findings);
    report->changes.push_back(change);
  }
}

RopeLayers Served(const RopeLayers& layers, const LintRuntime& runtime) {
  RopeLayers served = layers;
  for (const auto& [key, value] : runtime.settings) {
    ApplyRopeSetting({key, value}, {"command line", "--runtime"}, &served.rope);
  }
  if (runtime.pairing) served.pairing = *runtime.pairing;
  return served;
}

// What a reader that looks in the other place would find: no base and no scaling.
void CompareRuntime(const LintSource& source, const LintRuntime& runtime, double cached, LintReport* report) {
  if (runtime.settings.empty() && !runtime.pairing && !runtime.semantics) return;
  const double tokens = Context(source, runtime, cached);
  for (const RopeLayers& layers : source.layers) {
    const RopeLayers served = Served(layers, runtime);
    const auto problem = FindRopeProblem(served.rope);
    if (problem) {
      report->findings.push_back({Severity::kError, "runtime_schedule", source.name,
                                  fmt::format("as served, {} {}", problem->key, problem->wrong),
                                  "no schedule comes of these parameters", problem->expected});
      continue;
    }
    if (FindRopeProblem(layers.rope)) continue;
    if (served.pairing != layers.pairing) {
      report->findings.push_back(
          {Severity::kError, "pairing", source.name,
           fmt::format("the weights pair dimensions {}, the run {}", layers.pairing, served.pairing),
           "dimensions are paired with the wrong partners: attention sees noise",
           "pairing=" + layers.pairing});
    }
    const RopeSemantics semantics = runtime.semantics.value_or(SemanticsOf(source));
    const RopeChange change =
        Change({kPublished, &layers, SemanticsOf(source)}, {kServed, &served, semantics}, tokens,
               runtime.context.value_or(0), cached);
    const bool only_engine = runtime.settings.empty();
    Report(change, only_engine ? Severity::kWarning : Severity::kError,
           only_engine ? "engine_semantics" : "runtime", source.name,
           only_engine ? "the engine reads the same keys otherwise than the model's authors"
                       : "fluent, wrong text instead of an error",
           only_engine ? "see kernels/rope_frequencies.h for where the two part"
                       : "serve with the file's own values",
           &report->findings);
    ReportCache(change, source.name, &report->findings);
    report->changes.push_back(change);
  }
}

void CheckContext(const LintSource& source, const LintRuntime& runtime, std::vector<Finding>* findings) {
  if (!runtime.context || source.refusal.size() > 0 || !source.llm.max_context) return;
  if (*runtime.context <= *source.llm.max_context) return;
  findings->push_back({source.llm.hard_context_limit ? Severity::kError : Severity::kWarning,
                       "context_beyond", source.name,
                       fmt::format("a context of {}, and the model is published for {}",
                                   FormatCount(*runtime.context), FormatCount(*source.llm.max_context)),
                       source.llm.hard_context_limit ? "positions beyond it do not exist"
                                                     : "angles beyond it are new to the model",
                       "`ropeline rope MODEL --extend N` compares ways of going there"});
}

}  // namespace

void SortBySeverity(std::vector<Finding>* findings) {
  std::vector<Finding> sorted;
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    for (const Finding& finding : *findings) {
      if (finding.severity == severity) sorted.push_back(finding);
    }
  }
  *findings = std::move(sorted);
}

std::vector<Finding> LintOne(const LintSource& source, const LintRuntime& runtime) {
  std::vector<Finding> findings;
  LintThetas(source, runtime, &findings);
  LintScaling(source, &findings);
  LintLayers(source, runtime, &findings);
  LintGguf(source, &findings);
  // The checks above say more than a reader that stops at the first mistake.
  if (!source.refusal.empty() && Count(findings, Severity::kError) == 0) {
    findings.push_back({Severity::kError, "unreadable", source.name, source.refusal,
                        "ropeline cannot read the model, and others may not either", "mend the key"});
  }
  SortBySeverity(&findings);
  return findings;
}

LintReport Lint(const LintSource& source, const LintSource* other, const LintRuntime& runtime,
                double cached) {
  LintReport report;
  report.findings = LintOne(source, runtime);
  CheckContext(source, runtime, &report.findings);
  CompareRuntime(source, runtime, cached, &report);
  if (other != nullptr) {
    for (Finding& finding : LintOne(*other, runtime)) report.findings.push_back(std::move(finding));
    CompareSources(source, *other, runtime, cached, &report);
  }
  SortBySeverity(&report.findings);
  return report;
}

int LintExitCode(const std::vector<Finding>& findings) {
  return Count(findings, Severity::kError) > 0 ? 2 : Count(findings, Severity::kWarning) > 0 ? 1 : 0;
}

}  // namespace ropeline
