// ropeline inspect MODEL: the layers of a model, those that are alike in one row, and what they keep.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/cli/cache_options.h"
#include "model/cli/commands.h"
#include "model/cli/output.h"
#include "model/cli/table.h"
#include "model/file_tensors.h"
#include "model/kv_layout.h"
#include "model/model_json.h"
#include "model/open_model.h"
#include "model/units.h"

namespace ropeline {
namespace {

constexpr uint64_t kUsualContext = 32768;  // where the model has no published length

struct InspectOptions {
  std::string model;
  std::optional<std::string> context;
  CacheOptions cache;
  bool tensors = false;
  bool json = false;
};

Where Argument(const char* name) { return {"command line", name}; }

std::string Bytes(uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

std::string KindText(const Layer& layer) {
  std::string text = layer.Kind();
  if (layer.self.limited()) text += fmt::format(" {}", FormatCount(layer.self.window));
  if (layer.self.kind == AttentionKind::kMla) {
    text += fmt::format(" {}+{}", layer.self.latent.kv_lora_rank, layer.self.latent.d_rope);
  }
  if (layer.self.kind != AttentionKind::kNone && !layer.self.causal) text += ", both ways";
  if (layer.self.shares_kv_with >= 0) text += fmt::format(", K and V of layer {}", layer.self.shares_kv_with);
  if (!layer.recurrent.empty()) {
    text =
        layer.self.kind == AttentionKind::kNone ? layer.recurrent.form : text + " + " + layer.recurrent.form;
  }
  if (layer.cross.kind != AttentionKind::kNone && layer.self.kind != AttentionKind::kNone) text += " + cross";
  return text;
}

std::string HeadsText(const Layer& layer) {
  const Attention& of = layer.self.kind != AttentionKind::kNone ? layer.self : layer.cross;
  if (of.kind == AttentionKind::kNone) return "";
  const std::string width = of.d_head_k == of.d_head_v ? fmt::format("{}", of.d_head_k)
                                                       : fmt::format("{}/{}", of.d_head_k, of.d_head_v);
  return fmt::format("{}/{} × {}", of.n_heads, of.n_kv_heads, width);
}

std::string PositionText(const Position& position) {
  if (position.empty()) return "none";
  std::string text = position.encoding;
  if (position.rope_theta() > 0) {
    text += fmt::format(" {}, base {:.0f}", position.d_rot(), position.rope_theta());
    if (position.rope.type != RopeType::kDefault) text += fmt::format(", {}", position.rope_scaling());
  }
  return text;
}

std::string FfnText(const FeedForward& ffn) {
  if (ffn.kind != FfnKind::kMoe) {
    return ffn.kind == FfnKind::kNone ? "none" : fmt::format("{} {}", FfnKindName(ffn.kind), ffn.width);
  }
  std::string text = fmt::format("{} of {} experts × {}", ffn.n_active, ffn.n_experts, ffn.expert_width);
  if (ffn.shared_width > 0) text += fmt::format(" + shared {}", ffn.shared_width);
  if (ffn.width > 0) text += fmt::format(" + dense {}", ffn.width);
  return text;
}

// "0–4, 6–10, 12"
class Ranges {
 public:
  void Add(size_t i) {
    if (!ranges_.empty() && ranges_.back().second + 1 == i) {
      ranges_.back().second = i;
    } else {
      ranges_.emplace_back(i, i);
    }
    ++count_;
  }
  size_t count() const { return count_; }
  std::string Text() const {
    constexpr size_t kShown = 4;
    std::string text;
    for (size_t r = 0; r < ranges_.size() && r < kShown; ++r) {
      const auto& [first, last] = ranges_[r];
      text += r > 0 ? ", " : "";
      text += first == last ? fmt::format("{}", first) : fmt::format("{}–{}", first, last);
    }
    return ranges_.size() > kShown ? text + fmt::format(" … {}", ranges_.back().second) : text;
  }

 private:
  std::vector<std::pair<size_t, size_t>> ranges_;
  size_t count_ = 0;
};

std::string LayersText(const Llm& llm, const KvLayout& kv) {
  const std::vector<LayerParams> params = ParamsByLayer(llm);
  std::vector<KvLayer> kept(llm.layers.size());
  for (const KvLayer& layer : kv.layers) kept[static_cast<size_t>(layer.layer)] = layer;
  std::vector<std::pair<std::vector<std::string>, Ranges>> rows;
  for (size_t i = 0; i < llm.layers.size(); ++i) {
    const Layer& layer = llm.layers[i];
    const std::string constant = kept[i].constant_bytes > 0 ? Bytes(kept[i].constant_bytes) : "";
    const std::vector<std::string> cells = {
        layer.stack == Stack::kEncoder ? "encoder " + KindText(layer) : KindText(layer),
        HeadsText(layer),
        PositionText(layer.self.position),
        FfnText(layer.ffn),
        FormatCount(params[i].total),
        Bytes(kept[i].bytes_per_token),
        Bytes(kept[i].bytes_at_context),
        constant};
    auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& other) { return other.first == cells; });
    if (row == rows.end()) row = rows.insert(row, {cells, {}});
    row->second.Add(i);
  }
  Table table({{"layers"},
               {"which", Align::kLeft},
               {"kind", Align::kLeft},
               {"heads", Align::kLeft},
               {"position", Align::kLeft},
               {"feed-forward", Align::kLeft},
               {"parameters"},
               {"KV per token"},
               {"KV at context"},
               {"constant"}});
  for (const auto& [cells, ranges] : rows) {
    std::vector<std::string> line = {FormatCount(ranges.count()), ranges.Text()};
    line.insert(line.end(), cells.begin(), cells.end());
    table.Add(line);
  }
  return table.Text();
}

// "4.92 GB: q4_K 3.63 GB, q6_K 1.29 GB"
std::string StoredText(const StoredWeights& stored) {
  std::string text = Bytes(stored.tensor_bytes);
  const char* before = ": ";
  for (const auto& [format, bytes] : stored.bytes_by_format) {
    text += before + fmt::format("{} {}", format, Bytes(bytes));
    before = ", ";
  }
  if (stored.other_bytes > 0)
    text += fmt::format("; {} of it beside the text model", Bytes(stored.other_bytes));
  return text;
}

std::string TotalsText(const Llm& llm, const KvLayout& kv, const KvFormats& formats, uint64_t context) {
  Table table({{"total", Align::kLeft}, {"", Align::kLeft}});
  const KvLayer& total = kv.total;
  table.Add({"parameters", FormatCount(llm.ParamsTotal())});
  if (llm.ParamsActive() != llm.ParamsTotal()) {
    table.Add({"… active for one token", FormatCount(llm.ParamsActive())});
  }
  if (llm.stored) table.Add({"weights in the files", StoredText(*llm.stored)});
  table.Add(
      {"KV cache per token", fmt::format("{} ({} bytes, {} elements) in {}", Bytes(total.bytes_per_token),
                                         FormatCount(total.bytes_per_token),
                                         FormatCount(total.elements_per_token), formats.Name())});
  if (total.bytes_per_token_beyond_window != total.bytes_per_token) {
    table.Add({"… beyond the windows",
               fmt::format("{} per token, on top of {}", Bytes(total.bytes_per_token_beyond_window),
                           Bytes(total.intercept_bytes))});
  }
  if (total.expanded_elements_per_token > 0) {
    table.Add({"… in an engine without latent attention",
               fmt::format("{} elements per token", FormatCount(total.expanded_elements_per_token))});
  }
  table.Add({fmt::format("KV cache at {} tokens", FormatCount(context)), Bytes(total.bytes_at_context)});
  table.Add({"… as an engine allocates it", Bytes(total.allocated_bytes)});
  table.Add({"… read in one decode step", Bytes(total.read_bytes_per_step)});
  if (total.constant_bytes > 0) {
    table.Add({"constant: states, cross attention", Bytes(total.constant_bytes)});
  }
  const std::string length = llm.max_context ? FormatCount(*llm.max_context) + " tokens" : "not published";
  table.Add({"context", length + (llm.hard_context_limit ? ", a table's rows" : "")});
  return table.Text();
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return shape.empty() ? "one" : fmt::format("{}", fmt::join(shape, " × "));
}

std::string TensorsText(const std::vector<FileTensor>& tensors) {
  if (tensors.empty()) return "no tensors are in the files\n";
  Table table({{"tensor", Align::kLeft}, {"shape", Align::kLeft}, {"format", Align::kLeft}, {"bytes"}});
  for (const FileTensor& tensor : tensors) {
    table.Add({OneLine(tensor.name, 100), ShapeText(tensor.shape), tensor.format, FormatCount(tensor.bytes)});
  }
  return table.Text();
}

nlohmann::ordered_json TensorsJson(const std::vector<FileTensor>& tensors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const FileTensor& tensor : tensors) {
    json.push_back(
        {{"name", tensor.name}, {"shape", tensor.shape}, {"format", tensor.format}, {"bytes", tensor.bytes}});
  }
  return json;
}

void RunInspect(const InspectOptions& options) {
  const Llm llm = AsKept(options.cache, OpenModel(options.model, Argument("MODEL")));
  const KvFormats formats = FormatsOf(options.cache);
  const uint64_t context = options.context ? ParseCount(*options.context, Argument("--context"))
                                           : std::min(llm.max_context.value_or(kUsualContext), kMaxTokens);
  const KvAllocation allocation = AllocationOf(options.cache);
  const KvLayout kv = LayOutKv(llm, formats, context, allocation);
  if (options.json) {
    nlohmann::ordered_json json = {{"model", ModelJson(llm)}, {"context", context}};
    json["layers"] = LayersJson(llm);
    json["kv"] = KvJson(formats, kv, allocation);
    if (options.tensors) json["tensors"] = TensorsJson(TensorsOf(options.model));
    json["warnings"] = llm.warnings;
    return Print(json);
  }
  std::string text =
      fmt::format("# {}{}\n\n", llm.name, llm.model_type.empty() ? "" : " (" + llm.model_type + ")");
  text += LayersText(llm, kv) + "\n" + TotalsText(llm, kv, formats, context);
  if (options.tensors) text += "\n" + TensorsText(TensorsOf(options.model));
  for (const std::string& warning : llm.warnings) text += "\nwarning: " + warning + "\n";
  Print(text);
}

}  // namespace

void AddInspectCommand(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "the layers of a model and what each keeps of the past");
  command
      ->add_option("MODEL", options->model,
                   "a config.json, a params.json, a .gguf file, a folder that holds one, or a preset")
      ->required();
  command->add_option("--context", options->context, "tokens in the cache (default: the model's length)")
      ->type_name("N");
  AddCacheOptions(*command, &options->cache);
  command->add_flag("--tensors", options->tensors, "list the tensors of its files");
  command->add_flag("--json", options->json, "machine-readable, stable keys");
  command->callback([options] { RunInspect(*options); });
}

}  // namespace ropeline
