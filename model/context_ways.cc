#include "model/context_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/kernel_rates.h"

namespace ropeline {
namespace {

constexpr uint64_t kWindow = 4096, kSinks = 4;  // Xiao et al. 2024, "StreamingLLM": 4 sinks
constexpr uint64_t kChunk = 256;

uint64_t RetrievedTokens() {
  const ChunkChoice choice;
  return choice.best * kChunk + choice.sinks + choice.window;
}

ContextWay Full(const BlockFormat& format, uint64_t context) {
  ContextWay way;
  way.name = fmt::format("full {}", format.name);
  way.format = format;
  way.attended_tokens = context;
  way.figure = "output_error";
  return way;
}

ContextWay Window(const BlockFormat& format) {
  ContextWay way;
  way.name = fmt::format("window of {} + {} sinks, {}", kWindow, kSinks, format.name);
  way.kind = KeepKind::kWindow;
  way.format = format;
  way.attended_tokens = kWindow + kSinks;
  way.figure = "recall";
  return way;
}

ContextWay Retrieval(const BlockFormat& format, ChunkSummary summary) {
  ContextWay way;
  way.name = fmt::format("{} chunks of {} by {}, {}", ChunkChoice{}.best, kChunk, ChunkSummaryName(summary),
                         format.name);
  way.kind = KeepKind::kRetrieval;
  way.format = format;
  way.summary = summary;
  way.attended_tokens = RetrievedTokens();
  way.figure = "recall";
  return way;
}

bool SeesMore(const ContextWay& way, const Attention& attention, double n) {
  return way.kind != KeepKind::kFull && attention.Keys(n) > static_cast<double>(way.attended_tokens);
}

// Scoring the chunks for so many query heads; nothing where the layer is read in full.
Cost ChoiceCost(const ContextWay& way, const Attention& attention, double n, uint64_t n_heads) {
  if (way.kind != KeepKind::kRetrieval || !SeesMore(way, attention, n)) return {};
  return ChunkScoreCost(way.summary, std::ceil(attention.Keys(n) / kChunk), n_heads, attention.n_kv_heads,
                        attention.d_head_k);
}

// One layer, one sequence.
Cost StepCost(const ContextWay& way, const Attention& attention, double n) {
  const double keys =
      SeesMore(way, attention, n) ? static_cast<double>(way.attended_tokens) : attention.Keys(n);
  const Cost cache{.bytes_read = keys * static_cast<double>(KvBytesPerToken(attention, way.format)),
                   .flops = keys * attention.FlopsPerPair()};
  return cache + ChoiceCost(way, attention, n, attention.n_heads);
}

// In memory: what scoring reads beside Q.
double SummaryBytes(const ContextWay& way, const Attention& attention, double n) {
  return ChoiceCost(way, attention, n, 0).bytes_read;
}

template <class Value, class Of>
Value SumLayers(const Llm& llm, const Of& of) {
  Value sum{};
  for (const Layer& layer : llm.layers) {
    if (layer.stack != Stack::kDecoder || layer.self.kind == AttentionKind::kNone) continue;
    sum = sum + of(layer.self);
  }
  return sum;
}

// The model whose layers attend to that many tokens at most.
Llm Narrowed(const ContextWay& way, Llm llm, double n) {
  for (Layer& layer : llm.layers) {
    if (layer.stack != Stack::kDecoder || layer.self.kind == AttentionKind::kNone) continue;
    if (!SeesMore(way, layer.self, n)) continue;
    layer.self.kind = AttentionKind::kWindow;
    layer.self.window = way.attended_tokens;
  }
  return llm;
}

// ---------------------------------------------------------------------------------------- measured rows

struct WayRow {
  const MeasuredRow* row;
  Attention shape;
  double n;
};

// Has these arguments beside its shape and no others.
bool ArgsAre(const RowName& name, const std::vector<std::pair<std::string, size_t>>& own,
             const char* text_key, const char* text_value) {
  size_t shape = 0;
  for (const char* key : {"n", "h", "hkv", "d", "cache", "threads"}) shape += name.Arg(key) != nullptr;
  const bool own_fit = std::all_of(own.begin(), own.end(),
                                   [&](const auto& arg) { return name.Count(arg.first) == arg.second; });
  const std::string* text = text_key != nullptr ? name.Arg(text_key) : nullptr;
  const bool text_fits = text_key == nullptr || (text != nullptr && *text == text_value);
  return own_fit && text_fits && name.args.size() == shape + own.size() + (text_key != nullptr ? 1 : 0);
}

bool IsRowOf(const ContextWay& way, const RowName& name) {
  if (name.family != "attention" || name.dtype != way.format.name) return false;
  const std::string* cache = name.Arg("cache");
  if (cache == nullptr || *cache != "cold") return false;
  switch (way.kind) {
    case KeepKind::kFull:
      return name.variant == "decode" && ArgsAre(name, {}, nullptr, nullptr);
    case KeepKind::kWindow:
      return name.variant == "decode" &&
             ArgsAre(name, {{"window", kWindow}, {"sinks", kSinks}}, nullptr, nullptr);
    case KeepKind::kRetrieval:
      return name.variant == "retrieval" && ArgsAre(name,
                                                    {{"chunk", kChunk},
                                                     {"best", ChunkChoice{}.best},
                                                     {"sinks", ChunkChoice{}.sinks},
                                                     {"window", ChunkChoice{}.window}},
                                                    "summary", ChunkSummaryName(way.summary));
  }
  return false;
}

std::vector<WayRow> RowsOf(const ContextWay& way, const Machine& machine, int threads) {
  std::vector<WayRow> rows;
  for (const MeasuredRow& row : machine.rows) {
    const RowName& name = row.name;
    if (!machine.target.empty() && name.target != machine.target) continue;
    if (name.Count("threads") != static_cast<size_t>(threads) || !(row.call_ns > 0)) continue;
    if (!IsRowOf(way, name)) continue;
    const auto n = name.Count("n"), h = name.Count("h"), hkv = name.Count("hkv"), d = name.Count("d");
    if (!n || !h || !hkv || !d || *hkv == 0 || *d == 0 || *h == 0 || *h % *hkv != 0) continue;
    Attention shape;
    shape.kind = AttentionKind::kFull;
    shape.n_heads = *h;
    shape.n_kv_heads = *hkv;
    shape.d_head_k = shape.d_head_v = *d;
    // A row of a cache that fits the way measures reading all of it.
    if (SeesMore(way, shape, static_cast<double>(*n))) rows.push_back({&row, shape, static_cast<double>(*n)});
  }
  return rows;
}

double LogRatio(double a, double b) { return std::abs(std::log(a / b)); }

double Group(const Attention& attention) {
  return static_cast<double>(attention.n_heads) / static_cast<double>(attention.n_kv_heads);
}

auto Distance(const WayRow& row, const Attention& attention, double n) {
  return std::make_tuple(
      LogRatio(Group(row.shape), Group(attention)),
      LogRatio(static_cast<double>(row.shape.d_head_k + row.shape.d_head_v),
               static_cast<double>(attention.d_head_k + attention.d_head_v)),
      LogRatio(static_cast<double>(row.shape.n_kv_heads), static_cast<double>(attention.n_kv_heads)),
      LogRatio(row.n, attention.Keys(n)));
}

std::string ScaleNote(const ContextWay& way, const WayRow& row, const Attention& attention, double n) {
  std::vector<std::string> parts;
  const auto differs = [&](const char* what, double from, double to) {
    if (from != to) parts.push_back(fmt::format("{} {:.6g} → {:.6g}", what, from, to));
  };
  const auto count = [](uint64_t value) { return static_cast<double>(value); };
  if (way.kind == KeepKind::kRetrieval) differs("n", row.n, attention.Keys(n));
  differs("group", Group(row.shape), Group(attention));
  differs("d_head", count(row.shape.d_head_k), count(attention.d_head_k));
  differs("KV heads", count(row.shape.n_kv_heads), count(attention.n_kv_heads));
  std::string note = parts.empty() ? "" : fmt::format("scaled by bytes: {}", fmt::join(parts, ", "));
  if (row.row->tainted) note += (note.empty() ? "" : "; ") + std::string("disturbed in every repetition");
  return note;
}

std::optional<KernelTime> LayerTime(const ContextWay& way, const std::vector<WayRow>& rows,
                                    const KernelRates& rates, const Attention& attention, double n) {
  if (!SeesMore(way, attention, n)) return rates.DecodeAttention(way.format, attention, attention.Keys(n));
  if (rows.empty()) return std::nullopt;
  const WayRow& row = *std::min_element(rows.begin(), rows.end(), [&](const WayRow& a, const WayRow& b) {
    return Distance(a, attention, n) < Distance(b, attention, n);
  });
  const double ratio = StepCost(way, attention, n).bytes_read / StepCost(way, row.shape, row.n).bytes_read;
  return KernelTime{row.row->call_ns * ratio, row.row->name.Text(), ScaleNote(way, row, attention, n)};
}

// All layers of one sequence; row and note of the slowest layer. Nothing where a layer has no rows.
std::optional<KernelTime> AttentionTime(const ContextWay& way, const std::vector<WayRow>& rows,
                                        const PredictRequest& request, double n) {
  const KernelRates rates(*request.machine, request.threads);
  KernelTime sum, slowest;
  for (const Layer& layer : request.llm.layers) {
    if (layer.stack != Stack::kDecoder || layer.self.kind == AttentionKind::kNone) continue;
    const auto time = LayerTime(way, rows, rates, layer.self, n);
    if (!time) return std::nullopt;
    sum.ns += time->ns;
    if (time->ns > slowest.ns) slowest = *time;
  }
  if (!(sum.ns > 0)) return std::nullopt;
  return KernelTime{sum.ns, slowest.row, slowest.note};
}

std::optional<double> AccuracyOf(const ContextWay& way, const std::vector<WayRow>& rows,
                                 const PredictRequest& request, double n) {
  const auto counter = [&](const MeasuredRow& row) -> std::optional<double> {
    const auto at = row.counters.find(way.figure);
    if (at == row.counters.end()) return std::nullopt;
    return at->second;
  };
  if (way.kind != KeepKind::kFull) {
    const auto& layers = request.llm.layers;
    const bool narrow = std::any_of(layers.begin(), layers.end(), [&](const Layer& layer) {
      return layer.stack == Stack::kDecoder && layer.self.kind != AttentionKind::kNone &&
             SeesMore(way, layer.self, n);
    });
    if (!narrow) return 1;
    for (const WayRow& row : rows) {
      if (const auto value = counter(*row.row)) return value;
    }
    return std::nullopt;
  }
  for (const MeasuredRow& row : request.machine->rows) {
    if (!IsRowOf(way, row.name)) continue;
    if (const auto value = counter(row)) return value;
  }
  return std::nullopt;
}

// The terms with the way's attention for theirs.
StepTime StepFrom(const std::vector<Term>& terms, double attention_ms, uint64_t batch) {
  StepTime step{.attention_ms = attention_ms, .ms = attention_ms};
  for (const Term& term : terms) step.ms += term.name == "attention" ? 0 : term.ms;
  step.tok_per_s = 1e3 / step.ms * static_cast<double>(batch);
  return step;
}

void Fill(const PredictRequest& request, const WeightLayout& weights, const std::vector<WayRow>& rows,
          ContextWay* way) {
  const auto n = static_cast<double>(request.context);
  const auto batch = static_cast<double>(request.batch);
  const Llm narrowed = Narrowed(*way, request.llm, n);
  const Llm& kept = way->kind == KeepKind::kWindow ? narrowed : request.llm;
  const KvLayer kv = LayOutKv(kept, way->format, request.context).total;
  const double summary_bytes = SumLayers<double>(
      request.llm, [&](const Attention& attention) { return SummaryBytes(*way, attention, n); });
  way->cache_bytes =
      (kv.bytes_at_context + kv.constant_bytes + static_cast<uint64_t>(summary_bytes)) * request.batch;
  const Cost cost =
      SumLayers<Cost>(request.llm, [&](const Attention& attention) { return StepCost(*way, attention, n); }) *
      batch;
  way->read_bytes = cost.bytes_read;
  const Machine& machine = *request.machine;
  const KvFormats formats = way->format;
  const Workload work{&narrowed, &weights, &formats, request.context, request.batch};
  const LimitTime limit = TimeAtLimit(Phase::kDecode, cost, Traffic::kRead, machine, request.threads);
  way->limit =
      StepFrom(DecodeTermsAtLimit(work, machine, request.threads), limit.seconds * 1e3, request.batch);
  way->accuracy = AccuracyOf(*way, rows, request, n);
  const auto attention = AttentionTime(*way, rows, request, n);
  const KernelTerms kernels =
      DecodeTermsFromKernels(work, machine, request.threads, KernelSources(machine, request.threads));
  if (!attention || !kernels.missing.empty()) return;
  way->kernels = StepFrom(kernels.terms, attention->ns * batch / 1e6, request.batch);
  way->row = attention->row;
  way->note = attention->note;
}

}  // namespace

const char* KeepKindName(KeepKind kind) {
  return kind == KeepKind::kFull ? "full" : kind == KeepKind::kWindow ? "window" : "retrieval";
}

std::vector<ContextWay> ContextWays(const PredictRequest& request) {
  std::vector<ContextWay> ways;
  for (const BlockFormat& format : {kBlockF16, kBlockQ80, kBlockQ40, kBlockKivi4}) {
    ways.push_back(Full(format, request.context));
  }
  ways.push_back(Window(kBlockF16));
  for (const BlockFormat& format : {kBlockF16, kBlockQ80}) {
    for (const ChunkSummary summary : {ChunkSummary::kMean, ChunkSummary::kBounds}) {
      ways.push_back(Retrieval(format, summary));
    }
  }
  const WeightLayout weights = LayOutWeights(request.llm, request.weights);
  std::vector<ContextWay> filled;
  for (ContextWay& way : ways) {
    const std::vector<WayRow> rows = RowsOf(way, *request.machine, request.threads);
    const bool optional = way.kind == KeepKind::kRetrieval && way.format.name != std::string(kBlockF16.name);
    if (optional && rows.empty()) continue;
    Fill(request, weights, rows, &way);
    filled.push_back(std::move(way));
  }
  return filled;
}

}  // namespace ropeline
