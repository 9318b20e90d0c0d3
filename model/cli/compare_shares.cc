#include <fmt/format.h>

#include <algorithm>

#include "model/cli/compare_sections.h"
#include "model/cli/predict_text.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string RatioText(const EncodingShare& share) {
  if (share.source == TimeSource::kNothing) return "–";
  return share.ratio ? fmt::format("{:.2f}", *share.ratio) : "none measured";
}

// Which row each time was taken from: one line for each encoding, phase and row.
std::string SourceRows(const std::vector<EncodingShare>& shares) {
  Table table({{"encoding", Align::kLeft},
               {"phase", Align::kLeft},
               {"n"},
               {"time", Align::kLeft},
               {"taken from", Align::kLeft}});
  std::vector<std::vector<std::string>> lines;
  for (const EncodingShare& share : shares) {
    if (share.source == TimeSource::kNothing) continue;
    const std::string n = FormatCount(share.n);
    const std::vector<std::string> line = {
        share.encoding->name, share.phase == Phase::kPrefill ? "prefill" : "decode", n,
        TimeSourceName(share.source),
        share.ratio_row.empty() ? "no row of this encoding: the limit itself" : share.ratio_row};
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& other) {
      return other[0] == line[0] && other[1] == line[1] && other[3] == line[3] && other[4] == line[4];
    });
    if (same == lines.end()) {
      lines.push_back(line);
    } else {
      (*same)[2] += "; " + n;
    }
  }
  for (const auto& line : lines) table.Add(line);
  return table.empty() ? "" : "\n" + table.Text();
}

}  // namespace

std::string ModelText(const CompareRequest& request) {
  const Attention* attention = request.PrefillAttention();
  if (attention == nullptr || (!request.given_heads && !request.given_d_head)) return request.llm.name;
  return fmt::format("{} with {}/{} heads of {}", request.llm.name, attention->n_heads, attention->n_kv_heads,
                     attention->d_head_k);
}

std::string SharesText(const Comparison& comparison, Phase phase) {
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
  for (const EncodingShare& share : comparison.shares) {
    if (share.phase != phase) continue;
    table.Add(
        {FormatCount(share.n), share.encoding->name,
         share.whole_pass ? "once at the input" : fmt::format("in each of {:.0f} layers", share.applications),
         FormatBytes(share.cost.Bytes()), share.score_bytes > 0 ? FormatBytes(share.score_bytes) : "–",
         share.known() ? FormatMilliseconds(share.limit_ms) : "unknown", RatioText(share), TimeText(share),
         FormatMilliseconds(share.beside_ms),
         ShareText(share) + (share.whole_pass ? " of the pass" : " of a layer")});
  }
  return table.Text();
}

std::string MovedText(const CompareRequest& request, const Comparison& comparison) {
  std::vector<Column> columns = {{"encoding", Align::kLeft}, {"cost class", Align::kLeft}};
  for (const uint64_t n : request.contexts) columns.push_back({"moved at " + FormatCount(n)});
  if (request.contexts.size() > 1) columns.push_back({"growth"});
  Table table(columns);
  std::vector<const Encoding*> seen;
  for (const EncodingShare& first : comparison.shares) {
    if (first.phase != Phase::kPrefill || std::count(seen.begin(), seen.end(), first.encoding)) continue;
    seen.push_back(first.encoding);
    std::vector<std::string> cells = {first.encoding->name, CostClass(first.encoding->placement)};
    std::vector<double> moved;
    for (const uint64_t n : request.contexts) {
      const auto share =
          std::find_if(comparison.shares.begin(), comparison.shares.end(), [&](const EncodingShare& other) {
            return other.phase == Phase::kPrefill && other.encoding == first.encoding && other.n == n;
          });
      if (share == comparison.shares.end()) {
        cells.push_back("–");
        continue;
      }
      moved.push_back(share->cost.Bytes() * share->applications);
      cells.push_back(FormatBytes(moved.back()));
    }
    if (request.contexts.size() > 1) {
      const bool grows = moved.size() == request.contexts.size() && moved.front() > 0;
      cells.push_back(grows ? fmt::format("×{:.3g}", moved.back() / moved.front()) : "–");
    }
    table.Add(cells);
  }
  return table.Text();
}

std::string InputsText(const CompareRequest& request, const Machine& machine, const Comparison& comparison) {
  Table inputs({{"input", Align::kLeft}, {"value", Align::kLeft}});
  inputs.Add({"machine", MachineText(machine, request.threads)});
  const auto rate = [](const std::optional<double>& value, std::string (*format)(double)) {
    return value ? format(*value) : std::string("not measured");
  };
  const auto bandwidth = [&](Traffic traffic) {
    return rate(machine.roofline.MemoryBandwidth(traffic, request.threads), FormatBytesPerSecond);
  };
  inputs.Add({"read bandwidth, main memory", bandwidth(Traffic::kRead)});
  inputs.Add({"update bandwidth, main memory", bandwidth(Traffic::kUpdate)});
  inputs.Add({"add bandwidth, main memory", bandwidth(Traffic::kAdd)});
  inputs.Add({"f32 peak", rate(machine.roofline.PeakFlops(request.threads), FormatFlopsPerSecond)});
  inputs.Add({"model", fmt::format("{}, weights {}, cache {}", ModelText(request), request.weights.name,
                                   request.kv.Name())});
  if (const Attention* attention = request.PrefillAttention()) {
    inputs.Add({"shape", fmt::format("{} query heads, {} KV heads, d_head {}, d_model {}", attention->n_heads,
                                     attention->n_kv_heads, attention->d_head_k, request.llm.d_model)});
  }
  inputs.Add({"activations and scores", DtypeName(request.dtype)});
  return inputs.Text() + SourceRows(comparison.shares);
}

}  // namespace ropeline
