#include "model/cli/predict_text.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/registry.h"
#include "model/cli/table.h"
#include "model/engine/engine_predict.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string Bytes(uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

std::string Binding(const std::string& term, Bound bound) {
  return fmt::format("largest term {}, bound by {}", term, BoundName(bound));
}

std::string Answer(const PredictRequest& request, const Prediction& p) {
  const std::string tokens = FormatCount(request.context) + " tokens";
  const DecodeLevel& decode = *p.decode.limit.value;
  const PrefillLevel& prefill = *p.prefill.limit.value;
  Table table({{"question", Align::kLeft}, {"answer", Align::kLeft}});
  table.Add({"KV cache per token", fmt::format("{} ({} bytes) in {}", Bytes(p.kv.total.bytes_per_token),
                                               FormatCount(p.kv.total.bytes_per_token), request.kv.Name())});
  if (p.kv.total.bytes_per_token_beyond_window != p.kv.total.bytes_per_token) {
    table.Add(
        {"… once its windows are full", Bytes(p.kv.total.bytes_per_token_beyond_window) + " more per token"});
  }
  const std::string sequences = request.batch > 1 ? fmt::format(", {} sequences", request.batch) : "";
  table.Add({"KV cache at " + tokens + sequences, Bytes(p.memory.kv_bytes)});
  table.Add({"weights",
             fmt::format("{} {} ({:.2f} bits per weight)", Bytes(p.memory.weights_bytes),
                         request.weights.mix == Mix::kStored ? "as the files store them"
                                                             : fmt::format("in {}", request.weights.name),
                         p.weights.bits_per_weight)});
  const std::string fits =
      !p.memory.fits ? "; the machine's memory is not known (--memory)"
      : *p.memory.fits && p.memory.total_bytes > *p.memory.available_bytes / 10 * 9
          ? "; BARELY fits in " + Bytes(*p.memory.available_bytes) + ", little is left for all else"
      : *p.memory.fits ? "; fits in " + Bytes(*p.memory.available_bytes)
                       : "; DOES NOT FIT in " + Bytes(*p.memory.available_bytes);
  table.Add({"working memory, about", Bytes(p.memory.activation_bytes)});
  table.Add({"memory, all of these", Bytes(p.memory.total_bytes) + fits});
  table.Add(
      {"decode at that depth, at best",
       fmt::format("{} tok/s ({} per token); {}", FormatRate(decode.tok_per_s_per_sequence),
                   FormatMilliseconds(decode.ms_per_token), Binding(decode.binding_term, decode.bound))});
  if (request.batch > 1) {
    table.Add({"… all sequences together", fmt::format("{} tok/s", FormatRate(decode.tok_per_s))});
  }
  if (const auto& kernels = p.decode.kernels.value) {
    table.Add(
        {"… with this suite's kernels",
         fmt::format("{} tok/s ({} per token); largest term {}", FormatRate(kernels->tok_per_s_per_sequence),
                     FormatMilliseconds(kernels->ms_per_token), kernels->binding_term)});
    if (request.batch > 1) {
      table.Add({"… all sequences together", fmt::format("{} tok/s", FormatRate(kernels->tok_per_s))});
    }
  }
  if (const auto& engine = p.decode.engine.value) {
    table.Add(
        {"… with your engine",
         fmt::format("{} tok/s ({} per token, {} to {}); largest term {}", FormatRate(engine->tok_per_s),
                     FormatMilliseconds(engine->ms_per_token), FormatMilliseconds(engine->range_ms->low),
                     FormatMilliseconds(engine->range_ms->high), engine->binding_term)});
  }
  table.Add({"prefill of " + tokens + ", at best",
             fmt::format("{}; {} tok/s; {}", FormatSeconds(prefill.seconds), FormatRate(prefill.tok_per_s),
                         Binding(prefill.binding_term, prefill.bound))});
  if (const auto& kernels = p.prefill.kernels.value) {
    table.Add({"… with this suite's kernels",
               fmt::format("{}; {} tok/s; largest term {}", FormatSeconds(kernels->seconds),
                           FormatRate(kernels->tok_per_s), kernels->binding_term)});
  }
  if (const auto& engine = p.prefill.engine.value) {
    table.Add({"… with your engine",
               fmt::format("{} ({} to {}); {} tok/s; largest term {}", FormatSeconds(engine->seconds),
                           FormatSeconds(engine->range_s->low), FormatSeconds(engine->range_s->high),
                           FormatRate(engine->tok_per_s), engine->binding_term)});
  }
  return table.Text();
}

Term SumOf(const std::vector<Term>& terms) {
  Term sum{.name = "sum"};
  for (const Term& term : terms) {
    sum.bytes += term.bytes;
    sum.flops += term.flops;
    sum.ms += term.ms;
  }
  return sum;
}

std::string TimeText(const Term& term) {
  const bool known = term.bound != Bound::kUnknown || term.source == TermSource::kMeasured;
  return known ? FormatMilliseconds(term.ms) : "not measured";
}

// Waiting is bound by neither.
const char* BoundText(const Term& term) {
  return term.source == TermSource::kMeasured && term.bound == Bound::kUnknown ? "waiting"
                                                                               : BoundName(term.bound);
}

std::string Terms(const std::vector<Term>& terms) {
  Table table({{"term", Align::kLeft}, {"bytes"}, {"flops"}, {"time"}, {"bound", Align::kLeft}, {"share"}});
  const Term sum = SumOf(terms);
  for (const Term& term : terms) {
    table.Add({term.name, FormatBytes(term.bytes), FormatFlops(term.flops), TimeText(term), BoundText(term),
               FormatPercent(term.ms / sum.ms)});
  }
  table.Add({sum.name, FormatBytes(sum.bytes), FormatFlops(sum.flops), FormatMilliseconds(sum.ms), "", ""});
  return table.Text();
}

// Both levels, which have the same terms in the same order; the share is that of level kernels.
std::string Terms(const std::vector<Term>& limit, const std::vector<Term>& kernels) {
  Table table({{"term", Align::kLeft},
               {"bytes"},
               {"flops"},
               {"bound", Align::kLeft},
               {"limit"},
               {"kernels"},
               {"share"},
               {"row", Align::kLeft}});
  const Term sum = SumOf(limit), kernels_sum = SumOf(kernels);
  for (size_t i = 0; i < limit.size(); ++i) {
    const Term &term = limit[i], &measured = kernels[i];
    table.Add({term.name, FormatBytes(term.bytes), FormatFlops(term.flops), BoundText(term), TimeText(term),
               TimeText(measured), FormatPercent(measured.ms / kernels_sum.ms),
               measured.source == TermSource::kMeasured ? measured.row : "at its limit"});
  }
  table.Add({sum.name, FormatBytes(sum.bytes), FormatFlops(sum.flops), "", FormatMilliseconds(sum.ms),
             FormatMilliseconds(kernels_sum.ms), "", ""});
  return table.Text();
}

template <class Value>
std::string TermsText(const Levels<Value>& levels) {
  const std::vector<Term>& limit = levels.limit.value->terms;
  return levels.kernels.value ? Terms(limit, levels.kernels.value->terms) : Terms(limit);
}

// What the upper levels lack: rows of a term, or all.
template <class Value>
std::string LevelsText(const Levels<Value>& levels) {
  std::string text;
  if (levels.kernels.value) {
    for (const Term& term : levels.kernels.value->terms) {
      if (term.source == TermSource::kLimit) text += fmt::format("kernels: {} {}\n", term.name, term.note);
    }
  } else {
    text += fmt::format("kernels: not available: needs {}\n", fmt::join(levels.kernels.missing, ", "));
  }
  if (!levels.engine.value) {
    text += fmt::format("engine: not available: needs {}\n", fmt::join(levels.engine.missing, ", "));
  }
  return text;
}

std::string RuleText(const Prediction& p) {
  const DecodeLevel& decode = *p.decode.limit.value;
  const PrefillLevel& prefill = *p.prefill.limit.value;
  Table table({{"", Align::kLeft}, {"rule of thumb"}, {"exact"}, {"the rule leaves out", Align::kLeft}});
  table.Add({"decode, per token", FormatMilliseconds(p.rule_of_thumb.decode_ms_kv_only),
             FormatMilliseconds(decode.ms_per_token),
             "all but one sequence's cache: weights, windows, batch"});
  table.Add({"prefill flops", FormatFlops(p.rule_of_thumb.prefill_flops_2np),
             FormatFlops(prefill.flops_linear + prefill.flops_attention),
             fmt::format("attention ({}); counts embedding and LM head per token",
                         FormatFlops(prefill.flops_attention))});
  table.Add({"prefill time", FormatSeconds(p.rule_of_thumb.prefill_seconds), FormatSeconds(prefill.seconds),
             "the same"});
  return table.Text();
}

std::string TurningPoints(const Prediction& p) {
  const auto tokens = [](const std::optional<double>& n) {
    return n ? FormatCount(static_cast<uint64_t>(std::ceil(*n))) + " tokens" : std::string("never");
  };
  Table table({{"from this context on", Align::kLeft}, {""}});
  table.Add({"the cache is larger than the weights", tokens(p.crossovers.kv_equals_weights)});
  table.Add({"decode computes more in attention than in its matrices",
             tokens(p.crossovers.decode_attention_equals_linear)});
  table.Add({"prefill computes more in attention than in its matrices",
             tokens(p.crossovers.prefill_attention_equals_linear)});
  return table.Text();
}

std::string CurveText(const std::vector<CurvePoint>& curve) {
  const bool decode = curve.front().kernels_tok_per_s.has_value();
  const bool prefill = curve.front().kernels_prefill_seconds.has_value();
  std::vector<Column> columns = {
      {"context"}, {"KV cache"}, {"per token"}, {"tok/s"}, {"largest term", Align::kLeft}, {"prefill"}};
  if (decode) columns.insert(columns.begin() + 4, {"kernels tok/s"});
  if (prefill) columns.push_back({"kernels prefill"});
  const bool engine_decode = curve.front().engine_ms_per_token.has_value();
  const bool engine_prefill = curve.front().engine_prefill_seconds.has_value();
  if (engine_decode) columns.push_back({"engine tok/s (90 % range)"});
  if (engine_prefill) columns.push_back({"engine prefill (90 % range)"});
  Table table(columns);
  for (const CurvePoint& point : curve) {
    std::vector<std::string> cells = {
        FormatCount(point.context),  Bytes(point.kv_bytes), FormatMilliseconds(point.ms_per_token),
        FormatRate(point.tok_per_s), point.binding_term,    FormatSeconds(point.prefill_seconds)};
    if (decode) cells.insert(cells.begin() + 4, FormatRate(*point.kernels_tok_per_s));
    if (prefill) cells.push_back(FormatSeconds(*point.kernels_prefill_seconds));
    if (engine_decode) {
      const Estimate& ms = *point.engine_ms_per_token;
      cells.push_back(fmt::format("{} ({} to {})", FormatRate(1e3 / ms.value), FormatRate(1e3 / ms.high),
                                  FormatRate(1e3 / ms.low)));
    }
    if (engine_prefill) {
      const Estimate& seconds = *point.engine_prefill_seconds;
      cells.push_back(fmt::format("{} ({} to {})", FormatSeconds(seconds.value), FormatSeconds(seconds.low),
                                  FormatSeconds(seconds.high)));
    }
    table.Add(std::move(cells));
  }
  return table.Text();
}

std::string PositionText(const Position& position) {
  if (position.empty()) return "none";
  const Encoding* encoding = FindEncoding(position.encoding);
  std::string text = position.encoding;
  if (position.rope_theta() > 0) text += fmt::format(", base {:.0f}", position.rope_theta());
  if (position.rope.type != RopeType::kDefault) text += fmt::format(", {} scaling", position.rope_scaling());
  return fmt::format("{} ({}; {})", text, PlacementName(encoding->placement), CostClass(encoding->placement));
}

void AddKernelRows(const char* phase, const std::vector<Term>& terms, Table* table) {
  for (const Term& term : terms) {
    if (term.source != TermSource::kMeasured) continue;
    table->Add({fmt::format("kernels, {}: {}", phase, term.name),
                term.note.empty() ? term.row : fmt::format("{}; {}", term.row, term.note)});
  }
}

std::string Inputs(const PredictRequest& request, const Prediction& p) {
  const Llm& llm = request.llm;
  const Attention* main = llm.MainAttention();
  Table table({{"input", Align::kLeft}, {"value", Align::kLeft}});
  table.Add({"model", fmt::format("{}: {} parameters, {} layers{}", llm.name, FormatCount(llm.ParamsTotal()),
                                  llm.NumLayers(Stack::kDecoder),
                                  llm.EncoderDecoder()
                                      ? fmt::format(" and {} in the encoder", llm.NumLayers(Stack::kEncoder))
                                      : "")});
  if (main != nullptr) {
    table.Add(
        {"attention",
         fmt::format("{} heads, {} KV heads, d_head {}{}", main->n_heads, main->n_kv_heads, main->d_head_k,
                     main->kind == AttentionKind::kWindow ? fmt::format(", window {}", main->window) : "")});
  }
  table.Add({"position encoding", PositionText(llm.MainPosition())});
  table.Add({"geometry from", llm.source});
  table.Add(
      {"formats", fmt::format("weights {} ({:.2f} bits), cache {} ({:.1f} bits)", request.weights.name,
                              p.weights.bits_per_weight, request.kv.Name(), request.kv.BitsPerElement())});
  if (request.prefill_chunk > 0) {
    table.Add({"prefill in chunks of", FormatCount(request.prefill_chunk) + " tokens"});
  }
  table.Add({"machine", MachineText(*request.machine, request.threads)});
  table.Add({"read bandwidth, main memory", FormatBytesPerSecond(p.bandwidth_bytes_per_second)});
  table.Add({request.machine->peak_is_measured() ? "f32 peak" : "rate of prefill's products",
             FormatFlopsPerSecond(p.peak_flops_per_second)});
  if (p.decode.kernels.value) AddKernelRows("decode", p.decode.kernels.value->terms, &table);
  if (p.prefill.kernels.value) AddKernelRows("prefill", p.prefill.kernels.value->terms, &table);
  return table.Text();
}

}  // namespace

std::string MachineText(const Machine& machine, int threads) {
  if (!machine.measured()) return "two figures given on the command line, whatever the number of threads";
  const auto known = [](const std::string& text) { return text.empty() ? std::string("unknown") : text; };
  return fmt::format("{}, {}, {} thread{}, measured {}{}; {}", known(machine.cpu_model),
                     known(machine.target), threads, threads == 1 ? "" : "s", known(machine.date),
                     machine.quick ? " (quick run)" : "", machine.file);
}

std::string PredictionText(const PredictRequest& request, const Prediction& p,
                           const std::vector<CurvePoint>& curve) {
  std::string text = fmt::format("# {} at {} tokens\n\n", request.llm.name, FormatCount(request.context));
  text += Answer(request, p);
  text +=
      "\n\"At best\" is level `limit`: the time that the bandwidth and the peak below allow, each term in "
      "turn.\n";
  if (p.decode.kernels.value || p.prefill.kernels.value) {
    text +=
        "\n\"With this suite's kernels\" is level `kernels`: the same terms at the time that our kernels "
        "were measured to take. Shares and rows are those of this level.\n";
  }
  if (request.engine != nullptr) {
    text +=
        "\n\"With your engine\" is level `engine`: from the profile that its own benchmark gave; the range "
        "is meant to hold nine times of ten (`ropeline validate` counts them).\n\n" +
        EngineVerdict(request, p);
  }
  text += fmt::format("\n## Decode: one step{}\n\n",
                      request.batch > 1 ? fmt::format(" of {} sequences", request.batch) : "");
  text += TermsText(p.decode) + "\n";
  if (p.weights.decode_bytes < p.memory.weights_bytes) {
    text +=
        "Weights: without what a step does not read, such as an input embedding of which it takes one "
        "row.\n\n";
  }
  text += LevelsText(p.decode);
  text += fmt::format("\n## Prefill: {} tokens of one sequence\n\n", FormatCount(request.context));
  text += TermsText(p.prefill) + "\n" + LevelsText(p.prefill);
  text +=
      "\n## The rule of thumb beside it\n\nPer token: cache bytes ÷ bandwidth. Prefill: 2 · tokens · "
      "parameters ÷ "
      "flops per second.\n\n" +
      RuleText(p);
  text += "\n## Where it turns\n\n" + TurningPoints(p);
  if (!curve.empty()) text += "\n## Over the context\n\n" + CurveText(curve);
  text += "\n## Inputs\n\n" + Inputs(request, p);
  if (!p.warnings.empty()) text += "\n## Warnings\n\n";
  for (const std::string& warning : p.warnings) text += "- " + warning + "\n";
  return text;
}

}  // namespace ropeline
