#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/row_name.h"
#include "model/cli/compare_sections.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

const EncodingShare* Find(const Comparison& comparison, const Encoding* encoding, Phase phase, uint64_t n) {
  for (const EncodingShare& share : comparison.shares) {
    if (share.encoding == encoding && share.phase == phase && share.n == n) return &share;
  }
  return nullptr;
}

// The encodings that have a share in this phase at any context.
std::vector<const Encoding*> EncodingsOf(const Comparison& comparison, Phase phase) {
  std::vector<const Encoding*> list;
  for (const EncodingShare& share : comparison.shares) {
    if (share.phase == phase && std::count(list.begin(), list.end(), share.encoding) == 0) {
      list.push_back(share.encoding);
    }
  }
  return list;
}

void AddTimeColumns(const CompareRequest& request, std::vector<Column>* columns) {
  for (const uint64_t n : request.contexts) columns->push_back({"time " + ShortCount(n)});
  for (const uint64_t n : request.contexts) columns->push_back({"share " + ShortCount(n)});
}

void AddTimes(const CompareRequest& request, const Comparison& comparison, const Encoding* encoding,
              Phase phase, std::vector<std::string>* cells) {
  for (const auto text : {TimeText, ShareText}) {
    for (const uint64_t n : request.contexts) {
      const EncodingShare* share = Find(comparison, encoding, phase, n);
      cells->push_back(share != nullptr ? text(*share) : "–");
    }
  }
}

bool DoesNothing(const EncodingShare& share) { return share.source == TimeSource::kNothing; }

std::string PlacementText(Placement placement) {
  switch (placement) {
    case Placement::kInputAdd:
      return "an addition to the input";
    case Placement::kScoreBias:
      return "a bias on the scores";
    case Placement::kQkRotation:
      return "a rotation of Q and K";
  }
  return "";
}

// "At 32,768 tokens an addition to the input takes 0.0033 % of the prefill, …": what the table shows, by
// placement.
std::string Conclusion(const CompareRequest& request, const Comparison& comparison) {
  const uint64_t n = request.contexts.back();
  std::vector<std::string> parts;
  for (const Placement placement : {Placement::kInputAdd, Placement::kScoreBias, Placement::kQkRotation}) {
    double least = 2, most = -1, scores = 0;
    bool measured =
        false;  // an encoding without rows, of which the limit is known, says nothing beside others
    const auto counts = [&](const EncodingShare& share) {
      return share.phase == Phase::kPrefill && share.n == n && share.encoding->placement == placement &&
             share.known() && !DoesNothing(share);
    };
    for (const EncodingShare& share : comparison.shares) {
      measured = measured || (counts(share) && share.source != TimeSource::kLimit);
    }
    for (const EncodingShare& share : comparison.shares) {
      if (!counts(share) || (measured && share.source == TimeSource::kLimit)) continue;
      least = std::min(least, share.Share());
      most = std::max(most, share.Share());
      scores = std::max(scores, share.score_bytes);
    }
    if (most < 0) continue;
    const std::string low = FormatPercent(least), high = FormatPercent(most);
    parts.push_back(fmt::format(
        "{} takes {}{}{} of {}{}", PlacementText(placement), measured ? "" : "at least ",
        low == high ? "" : low + " to ", high,
        placement == Placement::kInputAdd ? "the whole pass" : "a layer",
        scores > 0 ? fmt::format(" and needs the scores in memory, {} a layer", FormatBytes(scores)) : ""));
  }
  if (parts.empty()) return "";
  return fmt::format("In a prefill of {} tokens {}.\n", FormatCount(n), fmt::join(parts, "; "));
}

// "+1.2 %", "−0.40 %"
std::string SignedPercent(double fraction) {
  return (fraction < 0 ? "−" : "+") + FormatPercent(std::abs(fraction));
}

std::string SignedTime(double ns) { return (ns < 0 ? "−" : "") + FormatMilliseconds(std::abs(ns) / 1e6); }

std::string Rate(double per_size_ns, const char* unit) {
  return per_size_ns > 0 ? fmt::format("{:.3g} {}", 1 / per_size_ns, unit) : "–";
}

}  // namespace

std::string ShortCount(uint64_t count) {
  constexpr uint64_t kKi = 1024;
  if (count >= kKi * kKi && count % (kKi * kKi) == 0) return std::to_string(count / (kKi * kKi)) + "m";
  if (count >= kKi && count % kKi == 0) return std::to_string(count / kKi) + "k";
  return FormatCount(count);
}

std::string TimeText(const EncodingShare& share) {
  switch (share.source) {
    case TimeSource::kMeasured:
      return FormatMilliseconds(share.expected_ms);
    case TimeSource::kScaled:
    case TimeSource::kExtrapolated:
      return "≈" + FormatMilliseconds(share.expected_ms);
    case TimeSource::kLimit:
      return "≥" + FormatMilliseconds(share.expected_ms);
    case TimeSource::kNothing:
      return "0";
    case TimeSource::kUnknown:
      return "unknown";
  }
  return "";
}

std::string ShareText(const EncodingShare& share) {
  if (!share.known()) return "unknown";
  return DoesNothing(share) ? "0" : FormatPercent(share.Share());
}

std::string PrefillGlance(const CompareRequest& request, const Comparison& comparison) {
  const uint64_t largest = request.contexts.back();
  std::vector<Column> columns = {{"encoding", Align::kLeft},
                                 {"placement", Align::kLeft},
                                 {"cost class", Align::kLeft},
                                 {"bias " + ShortCount(largest)}};
  AddTimeColumns(request, &columns);
  Table table(columns);
  for (const Encoding* encoding : EncodingsOf(comparison, Phase::kPrefill)) {
    const EncodingShare* share = Find(comparison, encoding, Phase::kPrefill, largest);
    const bool nothing = share != nullptr && DoesNothing(*share);
    std::vector<std::string> cells = {
        encoding->name, nothing ? "–" : PlacementName(encoding->placement),
        nothing ? "nothing to do" : CostClass(encoding->placement),
        share != nullptr && share->score_bytes > 0 ? FormatBytes(share->score_bytes) : "–"};
    AddTimes(request, comparison, encoding, Phase::kPrefill, &cells);
    table.Add(cells);
  }
  return fmt::format(
      "{}\n"
      "Prefill of N tokens. Time: of one application, in a layer or once at the input. Share: of that layer; "
      "of the whole pass for what is added at the input. Bias: memory for a bias that stands as a tensor, "
      "h·N² in {}.\nTimes without a sign were measured at this very shape; ≈ is worked out from the nearest "
      "measured row; ≥ is the limit, where no row was measured.\n\n{}",
      Conclusion(request, comparison), DtypeName(request.dtype), table.Text());
}

std::string DecodeGlance(const CompareRequest& request, const Comparison& comparison) {
  std::vector<Column> columns = {{"encoding", Align::kLeft}, {"a cached key is", Align::kLeft}};
  AddTimeColumns(request, &columns);
  Table table(columns);
  for (const Encoding* encoding : EncodingsOf(comparison, Phase::kDecode)) {
    std::vector<std::string> cells = {encoding->name, encoding->cached_key};
    AddTimes(request, comparison, encoding, Phase::kDecode, &cells);
    table.Add(cells);
  }
  return "One decode step with N tokens in the cache, and what the cache then holds: position-free keys can "
         "be evicted and renumbered as they are; rotated ones must be turned to their new places.\n\n" +
         table.Text();
}

std::string RejectedText(const CompareRequest& request, const Comparison& comparison) {
  struct Line {
    const Encoding* encoding;
    std::string reason;
    std::vector<uint64_t> n;
  };
  std::vector<Line> lines;
  for (const Rejection& rejection : comparison.rejected) {
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& other) {
      return other.encoding == rejection.encoding && other.reason == rejection.reason;
    });
    if (line == lines.end()) line = lines.insert(lines.end(), {rejection.encoding, rejection.reason, {}});
    if (std::count(line->n.begin(), line->n.end(), rejection.n) == 0) line->n.push_back(rejection.n);
  }
  std::string text;
  for (const Line& line : lines) {
    std::string counts;
    for (const uint64_t n : line.n) counts += (counts.empty() ? "" : "; ") + FormatCount(n);
    const std::string where = line.n.size() == request.contexts.size() ? "" : " at N = " + counts;
    text += fmt::format("\n{} is left out{}: {}.\n", line.encoding->name, where, line.reason);
  }
  return text;
}

std::string RowShapeText(const std::string& row) {
  const auto name = ParseRowName(row);
  if (!name) return row;
  std::string text;
  for (const auto& [key, value] : name->args) {
    if (key == "cache" || key == "threads") continue;
    text += (text.empty() ? "" : " ") + key + ":" + value;
  }
  return text;
}

std::string LawsText(const Comparison& comparison) {
  if (comparison.laws.empty()) return "No row of these encodings was measured.\n";
  Table table({{"encoding", Align::kLeft},
               {"cache", Align::kLeft},
               {"law", Align::kLeft},
               {"a"},
               {"b or c"},
               {"rate"},
               {"rows"},
               {"N", Align::kLeft},
               {"residual"},
               {"worst row", Align::kLeft}});
  for (const EncodingLaw& fit : comparison.laws) {
    const bool bias = fit.Proportional();
    const std::string range = fit.n_min == fit.n_max
                                  ? FormatCount(fit.n_min)
                                  : FormatCount(fit.n_min) + " to " + FormatCount(fit.n_max);
    std::vector<std::string> cells = {fit.encoding->name, fit.cold ? "cold" : "hot",
                                      bias ? "c·h·N²" : "a + b·N·d"};
    if (fit.law) {
      const Law& law = *fit.law;
      cells.insert(cells.end(), {bias ? "–" : SignedTime(law.a_ns), fmt::format("{:.3g} ns", law.per_size_ns),
                                 Rate(law.per_size_ns, bias ? "Gscore/s" : "Gelem/s"),
                                 std::to_string(fit.rows), range, FormatPercent(law.residual_rms),
                                 SignedPercent(law.worst_error) + " at " + RowShapeText(fit.worst_row)});
    } else {
      cells.insert(cells.end(), {"–", "too few rows", "–", std::to_string(fit.rows), range, "–", "–"});
    }
    table.Add(cells);
  }
  return "Least squares of the relative errors over the plain, untainted rows at these threads. N·d counts "
         "elements: N·d_model added at the input; N·(heads of Q and K)·d_rot turned. h·N² counts the whole "
         "score matrix, of which a causal call touches half. b and c are per element, the rate is their "
         "inverse.\nResidual: rms of (law − measured) ÷ measured. Cold rows all come from main memory. Hot "
         "rows lie in different caches, each with a slope of its own: there the residual says how badly one "
         "line stands for all of them, and an a below zero that the small ones lie in a faster cache.\n\n" +
         table.Text();
}

}  // namespace ropeline
