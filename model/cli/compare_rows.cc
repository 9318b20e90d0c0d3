#include <fmt/format.h>

#include <algorithm>

#include "model/cli/compare_sections.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string ShapeText(const MeasuredEncoding& row) {
  const Shape& shape = row.shape;
  std::string text;
  switch (row.encoding->placement) {
    case Placement::kInputAdd:
      text = fmt::format("d_model {}", shape.d_model);
      break;
    case Placement::kScoreBias:
      text = fmt::format("{} heads{}", shape.n_heads, shape.causal ? ", causal" : ", both ways");
      break;
    case Placement::kQkRotation:
      text = fmt::format("{}{} heads of {}", shape.n_heads,
                         shape.n_kv_heads > 0 ? fmt::format(" + {}", shape.n_kv_heads) : "", shape.d_head);
      if (shape.Rotated() < shape.d_head) text += fmt::format(", {} turned", shape.Rotated());
      break;
  }
  return row.plain() ? text : text + ", " + row.variant;
}

// What the measured rows themselves say about how far to trust them; "" where nothing speaks against them.
std::string Doubts(const std::vector<MeasuredEncoding>& rows) {
  constexpr double kBeyondLimit = 0.95;  // a roof of 1.05
  std::string text;
  const auto beyond = std::count_if(rows.begin(), rows.end(), [](const MeasuredEncoding& row) {
    return row.Ratio().value_or(1) < kBeyondLimit;
  });
  if (beyond > 0) {
    text += fmt::format(
        "\n{} of {} rows are faster than their limit (ratio below {}): the stream rows of this run are too "
        "slow. Measure again with the machine at rest.\n",
        beyond, rows.size(), kBeyondLimit);
  }
  if (std::any_of(rows.begin(), rows.end(), [](const MeasuredEncoding& row) { return row.tainted; })) {
    text += "\nTainted: another process took the CPU in every repetition of the row.\n";
  }
  return text;
}

std::string Measured(const MeasuredRow& row) {
  return FormatMilliseconds(row.call_ns / 1e6) + (row.tainted ? " (tainted)" : "");
}

// Where a counter is told by every way in its group or none: one column for each key, "–" where absent.
std::string AngleErrors(const std::vector<WayToPay>& ways) {
  const std::string prefix = "angle_error";
  const std::vector<std::string> keys = CounterKeys(ways, prefix);
  if (keys.empty()) return "";
  std::vector<Column> columns = {{"encoding", Align::kLeft}, {"angles", Align::kLeft}};
  for (const std::string& key : keys) {
    std::string header = key.substr(prefix.size());
    std::replace(header.begin(), header.end(), '_', ' ');
    columns.push_back({header.find("vs") == std::string::npos ? "exact" + header : header.substr(1)});
  }
  Table table(columns);
  std::vector<std::vector<std::string>> lines;
  for (const WayToPay& way : ways) {
    if (way.row->counters.lower_bound(prefix) == way.row->counters.end()) continue;
    std::vector<std::string> cells = {way.row->name.variant, way.way == "plain" ? "table (plain)" : way.way};
    bool any = false;
    for (const std::string& key : keys) {
      const auto at = way.row->counters.find(key);
      any = any || at != way.row->counters.end();
      cells.push_back(at == way.row->counters.end() ? "–" : fmt::format("{:.2g}", at->second));
    }
    // The error is the angles', whatever the tensor: rows of several shapes say the same.
    if (!any || std::count(lines.begin(), lines.end(), cells) > 0) continue;
    lines.push_back(cells);
    table.Add(cells);
  }
  return "\nLargest error of an angle in radians, over the positions up to a context: against the exact "
         "angle, and against the f32 product that Hugging Face's code takes as the angle.\n\n" +
         table.Text();
}

}  // namespace

std::string RowsText(const CompareRequest& request, const Comparison& comparison) {
  const std::vector<MeasuredEncoding>& rows = comparison.rows;
  if (rows.empty()) {
    return fmt::format("No row of these encodings in {} at this shape was measured with {} thread{}.\n",
                       DtypeName(request.dtype), request.threads, request.threads == 1 ? "" : "s");
  }
  Table table({{"encoding", Align::kLeft},
               {"cost class", Align::kLeft},
               {"n"},
               {"shape", Align::kLeft},
               {"cache", Align::kLeft},
               {"bytes"},
               {"flops"},
               {"at the limit"},
               {"measured"},
               {"ratio"}});
  for (const MeasuredEncoding& row : rows) {
    const auto ratio = row.Ratio();
    const bool nothing = row.cost.Bytes() == 0 && row.cost.flops == 0;
    table.Add({row.encoding->name, nothing ? "–" : CostClass(row.encoding->placement),
               FormatCount(row.shape.n), ShapeText(row), row.cold ? "cold" : "hot",
               FormatBytes(row.cost.Bytes()), FormatFlops(row.cost.flops),
               ratio     ? FormatMilliseconds(row.limit_ns / 1e6)
               : nothing ? "0"
                         : "not measured",
               FormatMilliseconds(row.measured_ns / 1e6) + (row.tainted ? " (tainted)" : ""),
               ratio ? fmt::format("{:.2f}", *ratio) : "–"});
  }
  return "The ratio is measured ÷ limit; 1 is the limit. Hot tensors stay in a cache, cold ones come from "
         "memory.\n\n" +
         table.Text() + Doubts(rows);
}

std::string WaysText(const Comparison& comparison) {
  const std::vector<WayToPay>& ways = comparison.ways;
  if (ways.empty()) return "";
  const bool biases = !CounterKeys(ways, "bias_bytes").empty();
  std::vector<Column> columns = {{"encoding", Align::kLeft},
                                 {"shape", Align::kLeft},
                                 {"cache", Align::kLeft},
                                 {"way", Align::kLeft},
                                 {"time"},
                                 {"× first"},
                                 {"bytes"},
                                 {"roof"}};
  if (biases) columns.push_back({"bias in memory"});
  Table table(columns);
  for (const WayToPay& way : ways) {
    const std::string* cache = way.row->name.Arg("cache");
    const auto bias = way.row->counters.find("bias_bytes");
    std::vector<std::string> cells = {
        way.row->name.variant,
        way.base ? way.shape : "″",
        cache != nullptr ? *cache : "–",
        way.way,
        Measured(*way.row),
        way.base ? "1" : fmt::format("{:.2f}", way.ratio),
        way.bytes ? FormatBytes(*way.bytes) : "–",
        way.row->roof && *way.row->roof > 0 ? fmt::format("{:.2f}", *way.row->roof) : "–"};
    if (biases) cells.push_back(bias != way.row->counters.end() ? FormatBytes(bias->second) : "–");
    table.Add(cells);
  }
  return "The same work done in other ways, each group headed by what the others are compared with.\n\n" +
         table.Text() + AngleErrors(ways);
}

}  // namespace ropeline
