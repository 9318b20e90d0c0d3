#include "model/cli/compare_peers_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/cli/compare_peers_sections.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

std::string Threads(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

// One sentence of who is faster, and one line for each row in which a peer is.
std::string FasterText(const std::vector<PeerComparison>& rows) {
  size_t both = 0, peers_only = 0, faster = 0;
  std::string lines;
  for (const PeerComparison& row : rows) {
    ++(row.ours != nullptr ? both : peers_only);
    if (!row.PeerIsFaster()) continue;
    ++faster;
    const PeerTime& peer = row.FastestPeer();
    lines += fmt::format("- {} {} {}, {}: {} {}, ours {}; {:.2f} times as fast\n", row.name.family,
                         row.name.variant, SubjectText(row.name), Threads(row.threads), LabelOf(peer),
                         PeerTimeText(*peer.row), PeerTimeText(*row.ours), 1 / *peer.ratio);
  }
  std::string text;
  if (both == 0) {
    text = "No row of ours stands beside a peer's here.\n";
  } else if (faster == 0) {
    text = fmt::format("Ours is faster in all {} rows that both have.\n", both);
  } else {
    text = fmt::format("A peer is faster in {} of the {} rows that both have (marked{}):\n\n{}", faster, both,
                       kPeerFaster, lines);
  }
  if (peers_only > 0) text += fmt::format("\nRows without a counterpart of ours: {}.\n", peers_only);
  return text;
}

std::string GlanceText(const std::vector<PeerComparison>& rows) {
  const std::vector<PeerGlance> glances = GlanceAtPeers(rows);
  if (glances.empty()) return "";
  Table table({{"operation", Align::kLeft},
               {"threads"},
               {"rows"},
               {"fastest peer ÷ ours, least"},
               {"median"},
               {"most"},
               {"peer faster"}});
  for (const PeerGlance& glance : glances) {
    table.Add({TitleOf(glance.operation), std::to_string(glance.threads), std::to_string(glance.rows),
               PeerRatioText(glance.least), PeerRatioText(glance.median), PeerRatioText(glance.most),
               glance.peer_faster > 0 ? fmt::format("{} of {}", glance.peer_faster, glance.rows) : "never"});
  }
  return "\n" + table.Text();
}

std::string PeerLibraries(const Machine& machine) {
  Table table({{"peer", Align::kLeft},
               {"version", Align::kLeft},
               {"commit", Align::kLeft},
               {"its kernels for this CPU", Align::kLeft}});
  const auto known = [](const std::string& text) { return text.empty() ? std::string("not told") : text; };
  for (const PeerLibrary& peer : machine.peers) {
    table.Add({peer.library.empty() ? peer.name : peer.library, known(peer.version),
               peer.commit.empty() ? "–" : peer.commit, known(peer.variant)});
  }
  return table.empty() ? "The file does not tell versions beyond the rows' names.\n" : table.Text();
}

// Reasons with their rows, each reason once.
std::string LeftOut(const Machine& machine) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const SkippedPeerRow& skipped : machine.skipped_peer_rows) {
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == skipped.reason; });
    if (at == reasons.end()) at = reasons.insert(at, {skipped.reason, {}});
    at->second.push_back(skipped.row);
  }
  std::string text;
  for (const auto& [reason, rows] : reasons) {
    text +=
        fmt::format("\nLeft out, because {}:\n", reason.empty() ? "of a reason that is not told" : reason);
    for (const std::string& row : rows) text += "- " + row + "\n";
  }
  return text;
}

// What speaks against some of the rows; "" where nothing does.
std::string Doubts(const std::vector<PeerComparison>& rows) {
  constexpr double kBeyondLimit = 1.05;  // a roof
  bool unknown = false, tainted = false;
  size_t beyond = 0;
  for (const PeerComparison& row : rows) {
    unknown = unknown || !row.limit_ns;
    const auto look = [&](const MeasuredRow& measured) {
      tainted = tainted || measured.tainted;
      if (row.Roof(measured).value_or(0) > kBeyondLimit) ++beyond;
    };
    if (row.ours != nullptr) look(*row.ours);
    for (const PeerTime& peer : row.peers) look(*peer.row);
  }
  std::string text;
  if (unknown) {
    text +=
        "\nNo limit (–): the product is bound by arithmetic, and a library may take instructions for that "
        "dtype that pass the f32 peak, the only peak that is measured.\n";
  }
  if (beyond > 0) {
    text += fmt::format(
        "\nRoof above {}, {} times: the stream rows of this run are too slow there. Ratios do not depend on "
        "them.\n",
        kBeyondLimit, beyond);
  }
  if (tainted) text += "\nTainted: another process took the CPU in every repetition of the row.\n";
  return text;
}

// What the limits stand on.
std::string InputsText(const Machine& machine, const std::vector<PeerComparison>& rows) {
  std::set<int> threads;
  for (const PeerComparison& row : rows) threads.insert(row.threads);
  Table table({{"input", Align::kLeft}, {"value", Align::kLeft}});
  table.Add({"result", fmt::format("{}{}{}", machine.file, machine.quick ? ", a quick run" : "",
                                   machine.date.empty() ? "" : ", measured " + machine.date)});
  if (!machine.target.empty()) table.Add({"our kernels' target", machine.target});
  for (const int count : threads) {
    const auto bandwidth = machine.roofline.MemoryBandwidth(Traffic::kRead, count);
    const auto peak = machine.roofline.PeakFlops(count);
    table.Add({"limits, " + Threads(count),
               fmt::format("reads main memory at {}; f32 peak {}",
                           bandwidth ? FormatBytesPerSecond(*bandwidth) : "an unknown rate",
                           peak ? FormatFlopsPerSecond(*peak) : "unknown")});
  }
  return table.Text();
}

}  // namespace

std::string PeersText(const Machine& machine, const std::vector<PeerComparison>& rows) {
  std::map<PeerOperation, std::vector<const PeerComparison*>> operations;
  for (const PeerComparison& row : rows) operations[row.operation].push_back(&row);
  std::string text = fmt::format("# Peers beside our kernels, in one run on {}\n\n",
                                 machine.cpu_model.empty() ? "this machine" : machine.cpu_model);
  text += PeerLibraries(machine) + "\n" + FasterText(rows) + GlanceText(rows);
  text +=
      "\nTimes are medians of the untainted samples, one operation each. The limit is the time at this run's "
      "measured bandwidth and f32 peak; roof is limit ÷ time. A ratio (÷ ours) above 1: ours is faster.\n";
  for (const auto& [operation, of_it] : operations) {
    text += fmt::format("\n## {}\n\n{}", TitleOf(operation), PeerRowsText(of_it));
  }
  return text + Doubts(rows) + LeftOut(machine) + "\n## Inputs\n\n" + InputsText(machine, rows);
}

}  // namespace ropeline
