#include <fmt/format.h>

#include <algorithm>

#include "model/cli/compare_peers_sections.h"
#include "model/cli/table.h"
#include "model/units.h"

namespace ropeline {
namespace {

using Rows = std::vector<const PeerComparison*>;

// The rate that says most about an operation.
struct Rate {
  const char* unit;
  std::optional<double> MeasuredRow::*value;
};

Rate RateOf(PeerOperation operation) {
  switch (operation) {
    case PeerOperation::kRotation:
    case PeerOperation::kInputAdd:
    case PeerOperation::kScoreBias:
      return {"Gelem/s", &MeasuredRow::items_per_second};
    case PeerOperation::kPrefill:
    case PeerOperation::kMatmul:
      return {"GFLOP/s", &MeasuredRow::flops_per_second};
    case PeerOperation::kDecode:
    case PeerOperation::kMatvec:
    case PeerOperation::kOther:
      break;
  }
  return {"GB/s", &MeasuredRow::bytes_per_second};
}

std::string Figures(const std::optional<double>& value, double unit) {
  if (!value) return "–";
  const double scaled = *value / unit;
  return fmt::format("{:.{}f}", scaled, scaled < 10 ? 2 : scaled < 100 ? 1 : 0);
}

// "32 heads of 128", "24/8 heads of 128, bias:alibi": the arguments without n, cache and threads.
std::string ShapeText(const RowName& name) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto value = [&](const char* key) {
    const std::string* arg = name.Arg(key);
    return arg == nullptr ? "" : *arg;
  };
  if (name.Arg("h") != nullptr) {
    const std::string kv = name.Arg("hkv") != nullptr ? "/" + value("hkv") : "";
    const std::string of = name.Arg("d") != nullptr ? " of " + value("d") : "";
    add(value("h") + kv + " heads" + of);
  } else if (name.Arg("d") != nullptr) {
    add((name.family == "input_add" ? "d_model " : "d ") + value("d"));
  }
  if (name.Arg("rows") != nullptr) add(value("rows") + " × " + value("cols"));
  for (const auto& [key, arg] : name.args) {
    if (key == "m") {
      add(arg + " queries");
    } else if (key == "causal") {
      add(arg == "0" ? "both ways" : "causal");
    } else if (key == "form") {
      add(arg);
    } else if (key == "bias") {
      if (arg != "none") add(name.family == "attention" ? arg : "bias in " + arg);
    } else if (key != "n" && key != "h" && key != "hkv" && key != "d" && key != "rows" && key != "cols" &&
               key != "cache" && key != "threads") {
      add(key + ":" + arg);
    }
  }
  return text;
}

std::string NText(const RowName& name) {
  const auto n = name.Count("n");
  return n ? FormatCount(*n) : "–";
}

std::string CacheText(const RowName& name) {
  const std::string* cache = name.Arg("cache");
  return cache == nullptr ? "–" : *cache;
}

std::string RoofText(const PeerComparison& of, const MeasuredRow& row) {
  const auto roof = of.Roof(row);
  return roof ? fmt::format("{:.{}f}", *roof, *roof < 0.1 ? 3 : 2) : "–";
}

// The rows of one operation.
class OperationTable {
 public:
  explicit OperationTable(const Rows& rows) : rows_(rows), rate_(RateOf(rows.front()->operation)) {
    for (const PeerComparison* row : rows) {
      any_ours_ = any_ours_ || row->ours != nullptr;
      variants_ = variants_ || row->name.variant != rows.front()->name.variant;
      for (const PeerTime& peer : row->peers) {
        if (std::count(labels_.begin(), labels_.end(), LabelOf(peer)) == 0) labels_.push_back(LabelOf(peer));
      }
    }
  }

  std::string Text() const { return labels_.size() == 1 ? OnePeer() : SeveralPeers(); }

 private:
  // A line for each subject: ours and the peer's side by side.
  std::string OnePeer() const {
    std::vector<Column> columns = SubjectColumns();
    if (any_ours_) AddColumns({"ours", "roof", rate_.unit}, &columns);
    AddColumns({labels_.front(), "roof", rate_.unit}, &columns);
    if (any_ours_) columns.push_back({"÷ ours"});
    Table table(columns);
    for (const PeerComparison* row : rows_) {
      std::vector<std::string> cells = SubjectCells(*row);
      const PeerTime& peer = row->peers.front();
      if (any_ours_) AddTime(*row, row->ours, &cells);
      AddTime(*row, peer.row, &cells);
      if (any_ours_) cells.push_back(peer.ratio ? PeerRatioText(*peer.ratio) : "–");
      table.Add(cells);
    }
    return table.Text();
  }

  // A line for each who does it: ours, then the peers', the fastest first.
  std::string SeveralPeers() const {
    std::vector<Column> columns = SubjectColumns();
    columns.push_back({"by", Align::kLeft});
    AddColumns({"time", "roof", rate_.unit}, &columns);
    if (any_ours_) columns.push_back({"÷ ours"});
    Table table(columns);
    for (const PeerComparison* row : rows_) {
      std::vector<std::string> subject = SubjectCells(*row);
      const auto add = [&](const std::string& by, const MeasuredRow& measured, const std::string& ratio) {
        std::vector<std::string> cells = subject;
        cells.push_back(by);
        AddTime(*row, &measured, &cells);
        if (any_ours_) cells.push_back(ratio);
        table.Add(cells);
        std::fill(subject.begin(), subject.end(), "″");
      };
      if (row->ours != nullptr) add("ours", *row->ours, "1");
      std::vector<PeerTime> peers = row->peers;
      std::sort(peers.begin(), peers.end(),
                [](const PeerTime& a, const PeerTime& b) { return a.row->call_ns < b.row->call_ns; });
      for (const PeerTime& peer : peers)
        add(LabelOf(peer), *peer.row, peer.ratio ? PeerRatioText(*peer.ratio) : "–");
    }
    return table.Text();
  }

  std::vector<Column> SubjectColumns() const {
    std::vector<Column> columns;
    if (variants_) columns.push_back({"variant", Align::kLeft});
    const std::vector<Column> rest = {{"dtype", Align::kLeft}, {"n"},       {"shape", Align::kLeft},
                                      {"cache", Align::kLeft}, {"threads"}, {"limit"}};
    columns.insert(columns.end(), rest.begin(), rest.end());
    return columns;
  }

  std::vector<std::string> SubjectCells(const PeerComparison& row) const {
    std::vector<std::string> cells;
    if (variants_) cells.push_back(row.name.variant);
    cells.insert(cells.end(),
                 {row.name.dtype, NText(row.name), ShapeText(row.name), CacheText(row.name),
                  std::to_string(row.threads), row.limit_ns ? FormatMilliseconds(*row.limit_ns / 1e6) : "–"});
    return cells;
  }

  static void AddColumns(const std::vector<std::string>& headers, std::vector<Column>* columns) {
    for (const std::string& header : headers) columns->push_back({header});
  }

  void AddTime(const PeerComparison& of, const MeasuredRow* row, std::vector<std::string>* cells) const {
    if (row == nullptr) {
      cells->insert(cells->end(), {"–", "–", "–"});
      return;
    }
    cells->insert(cells->end(), {PeerTimeText(*row), RoofText(of, *row), Figures(row->*rate_.value, 1e9)});
  }

  const Rows& rows_;
  Rate rate_;
  bool any_ours_ = false, variants_ = false;
  std::vector<std::string> labels_;
};

}  // namespace

const char* TitleOf(PeerOperation operation) {
  switch (operation) {
    case PeerOperation::kRotation:
      return "Rotating Q and K";
    case PeerOperation::kInputAdd:
      return "Adding to the input";
    case PeerOperation::kScoreBias:
      return "Bias on the scores";
    case PeerOperation::kDecode:
      return "Decode attention";
    case PeerOperation::kPrefill:
      return "Prefill attention";
    case PeerOperation::kMatvec:
      return "Matrix by vector";
    case PeerOperation::kMatmul:
      return "Matrix by matrix";
    case PeerOperation::kOther:
      return "Other";
  }
  return "";
}

std::string LabelOf(const PeerTime& peer) {
  return peer.layout.empty() ? peer.peer : peer.peer + " " + peer.layout;
}

std::string PeerTimeText(const MeasuredRow& row) {
  return FormatMilliseconds(row.call_ns / 1e6) + (row.tainted ? " (tainted)" : "");
}

std::string PeerRatioText(double ratio) {
  return fmt::format("{:.{}f}", ratio, ratio < 9.995 ? 2 : 1) + (ratio < 1 ? kPeerFaster : "");
}

std::string SubjectText(const RowName& name) {
  return fmt::format("{}, n {}, {}, {}", name.dtype, NText(name), ShapeText(name), CacheText(name));
}

std::string PeerRowsText(const std::vector<const PeerComparison*>& rows) {
  return OperationTable(rows).Text();
}

}  // namespace ropeline
