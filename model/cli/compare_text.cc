#include "model/cli/compare_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/cli/predict_text.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string ShapeText(Placement placement, const Shape& shape) {
  switch (placement) {
    case Placement::kInputAdd:
      return fmt::format("d_model {}", shape.d_model);
    case Placement::kScoreBias:
      return fmt::format("{} heads{}", shape.n_heads, shape.causal ? ", causal" : ", both ways");
    case Placement::kQkRotation:
      return fmt::format("{} heads of {}", shape.n_heads + shape.n_kv_heads, shape.d_head);
  }
  return "";
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

// What a whole prefill moves for position, at each context: the three classes at a glance.
std::string Classes(const ShareRequest& request, const std::vector<EncodingShare>& shares) {
  std::vector<Column> columns = {
      {"encoding", Align::kLeft}, {"placement", Align::kLeft}, {"cost class", Align::kLeft}};
  for (const uint64_t n : request.contexts) columns.push_back({"moved at " + FormatCount(n)});
  if (request.contexts.size() > 1) columns.push_back({"growth"});
  Table table(columns);
  std::vector<const Encoding*> seen;
  for (const EncodingShare& first : shares) {
    if (first.phase != Phase::kPrefill || std::count(seen.begin(), seen.end(), first.encoding)) continue;
    seen.push_back(first.encoding);
    std::vector<std::string> cells = {first.encoding->name, PlacementName(first.encoding->placement),
                                      CostClass(first.encoding->placement)};
    std::vector<double> moved;
    for (const EncodingShare& share : shares) {
      if (share.phase != Phase::kPrefill || share.encoding != first.encoding) continue;
      moved.push_back(share.cost.Bytes() * share.applications);
      cells.push_back(FormatBytes(moved.back()));
    }
    if (moved.size() > 1) cells.push_back(fmt::format("×{:.3g}", moved.back() / moved.front()));
    table.Add(cells);
  }
  return table.Text();
}

std::string Rows(const std::vector<MeasuredEncoding>& rows) {
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
    table.Add({row.encoding->name, CostClass(row.encoding->placement), FormatCount(row.shape.n),
               ShapeText(row.encoding->placement, row.shape), row.cold ? "cold" : "hot",
               FormatBytes(row.cost.Bytes()), FormatFlops(row.cost.flops),
               ratio ? FormatMilliseconds(row.limit_ns / 1e6) : "not measured",
               FormatMilliseconds(row.measured_ns / 1e6) + (row.tainted ? " (tainted)" : ""),
               ratio ? fmt::format("{:.2f}", *ratio) : "–"});
  }
  return table.Text();
}

std::string Shares(const std::vector<EncodingShare>& shares, Phase phase) {
  Table table({{"n"},
               {"encoding", Align::kLeft},
               {"applied", Align::kLeft},
               {"bytes each"},
               {"scores in memory"},
               {"at the limit"},
               {"× measured ratio"},
               {"expected"},
               {"beside it"},
               {"share", Align::kRight}});
  for (const EncodingShare& share : shares) {
    if (share.phase != phase) continue;
    table.Add(
        {FormatCount(share.n), share.encoding->name,
         share.whole_pass ? "once at the input" : fmt::format("in each of {:.0f} layers", share.applications),
         FormatBytes(share.cost.Bytes()), share.score_bytes > 0 ? FormatBytes(share.score_bytes) : "–",
         FormatMilliseconds(share.limit_ms),
         share.ratio ? fmt::format("{:.2f}", *share.ratio) : "none measured",
         FormatMilliseconds(share.expected_ms), FormatMilliseconds(share.beside_ms),
         FormatPercent(share.Share()) + (share.whole_pass ? " of the pass" : " of a layer")});
  }
  return table.Text();
}

// Which row each ratio was taken from: one line for each encoding, phase and row.
std::string RatioRows(const std::vector<EncodingShare>& shares) {
  Table table({{"encoding", Align::kLeft},
               {"phase", Align::kLeft},
               {"n"},
               {"measured ratio taken from", Align::kLeft}});
  std::vector<std::vector<std::string>> lines;
  for (const EncodingShare& share : shares) {
    const std::string n = FormatCount(share.n);
    const std::vector<std::string> line = {
        share.encoding->name, share.phase == Phase::kPrefill ? "prefill" : "decode", n,
        share.ratio ? share.ratio_row : "no row of this encoding: the limit itself"};
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& other) {
      return other[0] == line[0] && other[1] == line[1] && other[3] == line[3];
    });
    if (same == lines.end()) {
      lines.push_back(line);
    } else {
      (*same)[2] += "; " + n;
    }
  }
  for (const auto& line : lines) table.Add(line);
  return table.Text();
}

}  // namespace

std::string CompareText(const ShareRequest& request, const Machine& machine,
                        const std::vector<MeasuredEncoding>& rows, const std::vector<EncodingShare>& shares) {
  const Llm& llm = request.llm;
  std::string text = fmt::format("# Position encodings on {}\n\n",
                                 machine.cpu_model.empty() ? "this machine" : machine.cpu_model);
  text += fmt::format("## The three cost classes: bytes moved by a whole prefill of {}\n\n", llm.name);
  text += Classes(request, shares);
  text += "\n## Measured, beside the limit\n\n";
  text +=
      "The ratio is measured ÷ limit; 1 is the limit. Hot tensors stay in a cache, cold ones come from "
      "memory.\n\n";
  text += Rows(rows) + Doubts(rows);
  text += fmt::format("\n## Share of a layer of {}: prefill of n tokens\n\n", llm.name);
  text += Shares(shares, Phase::kPrefill);
  text +=
      fmt::format("\n## Share of a layer of {}: one decode step with n tokens in the cache\n\n", llm.name);
  text += Shares(shares, Phase::kDecode);
  text +=
      "\nScore biases are counted as a pass over scores that stand in memory, one f32 each; an attention "
      "kernel that adds "
      "the bias while scores are in registers moves none of these bytes. Expected: at the limit × the "
      "measured ratio, "
      "never below the limit.\n"
      "\n\"Beside it\": the layer's matrices and attention at the limit; for an encoding that is added at "
      "the input, the "
      "whole pass.\n\n## Inputs\n\n";
  Table inputs({{"input", Align::kLeft}, {"value", Align::kLeft}});
  inputs.Add({"machine", MachineText(machine, request.threads)});
  const auto rate = [](const std::optional<double>& value, std::string (*format)(double)) {
    return value ? format(*value) : std::string("not measured");
  };
  inputs.Add({"read bandwidth, main memory",
              rate(machine.roofline.MemoryBandwidth(Traffic::kRead, request.threads), FormatBytesPerSecond)});
  inputs.Add(
      {"update bandwidth, main memory",
       rate(machine.roofline.MemoryBandwidth(Traffic::kUpdate, request.threads), FormatBytesPerSecond)});
  inputs.Add({"f32 peak", rate(machine.roofline.PeakFlops(request.threads), FormatFlopsPerSecond)});
  inputs.Add(
      {"model", fmt::format("{}, weights {}, cache {}", llm.name, request.weights.name, request.kv.name)});
  text += inputs.Text() + "\n" + RatioRows(shares);
  return text;
}

}  // namespace ropeline
