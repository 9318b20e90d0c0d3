#include "model/compare_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ropeline {
namespace {

PeerOperation OperationOf(const RowName& name) {
  using enum PeerOperation;
  if (name.family == "qk_rotation") return kRotation;
  if (name.family == "input_add") return kInputAdd;
  if (name.family == "score_bias") return kScoreBias;
  if (name.family == "attention" && name.variant == "decode") return kDecode;
  if (name.family == "attention" && name.variant == "prefill") return kPrefill;
  if (name.family == "weights") return kMatvec;
  if (name.family == "linear") return kMatmul;
  return kOther;
}

bool IsProduct(PeerOperation operation) {
  return operation == PeerOperation::kMatvec || operation == PeerOperation::kMatmul;
}

std::string TakeArg(std::string_view key, RowName* name) {
  for (auto it = name->args.begin(); it != name->args.end(); ++it) {
    if (it->first != key) continue;
    std::string value = it->second;
    name->args.erase(it);
    return value;
  }
  return "";
}

std::optional<double> LimitNs(const PeerComparison& of, const MeasuredRow& row, const Roofline& roofline) {
  constexpr double kRounding = 0.99;
  if (!row.limit_ns || !(*row.limit_ns > 0)) return std::nullopt;
  if (!IsProduct(of.operation) || row.name.dtype == "f32") return row.limit_ns;
  const auto peak = roofline.PeakFlops(of.threads);
  const double compute_ns = peak ? row.flops_per_second.value_or(0) * row.call_ns / *peak : 0;
  return compute_ns >= kRounding * *row.limit_ns ? std::nullopt : row.limit_ns;
}

// Ours that a peer may stand beside, by subject.
std::map<std::string, const MeasuredRow*> OursBySubject(const Machine& machine) {
  std::map<std::string, const MeasuredRow*> ours;
  for (const MeasuredRow& row : machine.rows) {
    if (!(row.call_ns > 0)) continue;
    const MeasuredRow*& kept = ours[row.name.Subject()];
    if (kept == nullptr || row.name.target == machine.target) kept = &row;
  }
  return ours;
}

bool Keeps(const PeerFilter& filter, const PeerComparison& row) {
  if (filter.threads && *filter.threads != row.threads) return false;
  if (filter.d && row.name.Count("d") != *filter.d) return false;
  if (filter.n.empty()) return true;
  const auto n = row.name.Count("n");
  return n && std::find(filter.n.begin(), filter.n.end(), *n) != filter.n.end();
}

// A number for each text, in the order they are first asked for.
class Order {
 public:
  size_t Of(const std::string& text) { return places_.try_emplace(text, places_.size()).first->second; }

 private:
  std::map<std::string, size_t> places_;
};

// Rows that differ in n or threads only stand together, in an order that a reader can follow.
void Sort(std::vector<PeerComparison>* rows) {
  using Key = std::tuple<PeerOperation, size_t, size_t, size_t, size_t, int, size_t>;
  Order variants, shapes, dtypes;
  std::vector<Key> keys;
  for (const PeerComparison& row : *rows) {
    RowName shape = row.name;
    for (const char* arg : {"n", "threads"}) (void)TakeArg(arg, &shape);
    shape.dtype.clear();
    keys.emplace_back(row.operation, variants.Of(row.name.variant), shapes.Of(shape.Text()),
                      dtypes.Of(row.name.dtype), row.name.Count("n").value_or(0), row.threads, keys.size());
  }
  std::sort(keys.begin(), keys.end());
  std::vector<PeerComparison> sorted;
  for (const Key& key : keys) sorted.push_back(std::move((*rows)[std::get<6>(key)]));
  *rows = std::move(sorted);
}

}  // namespace

const char* PeerOperationName(PeerOperation operation) {
  switch (operation) {
    case PeerOperation::kRotation:
      return "rotation";
    case PeerOperation::kInputAdd:
      return "input_add";
    case PeerOperation::kScoreBias:
      return "score_bias";
    case PeerOperation::kDecode:
      return "decode";
    case PeerOperation::kPrefill:
      return "prefill";
    case PeerOperation::kMatvec:
      return "matvec";
    case PeerOperation::kMatmul:
      return "matmul";
    case PeerOperation::kOther:
      return "other";
  }
  return "";
}

const PeerTime& PeerComparison::FastestPeer() const {
  return *std::min_element(peers.begin(), peers.end(), [](const PeerTime& a, const PeerTime& b) {
    return a.row->call_ns < b.row->call_ns;
  });
}

bool PeerComparison::PeerIsFaster() const {
  return ours != nullptr && FastestPeer().row->call_ns < ours->call_ns;
}

std::optional<double> PeerComparison::Roof(const MeasuredRow& row) const {
  if (!limit_ns) return std::nullopt;
  return *limit_ns / row.call_ns;
}

std::vector<PeerComparison> ComparePeers(const PeerFilter& filter, const Machine& machine) {
  if (machine.peer_rows.empty()) {
    throw BadInput({machine.file, "benchmarks"}, "has no rows of peers",
                   "a result of `bench_all --families peer --ggml FOLDER`, which scripts/peers.sh makes");
  }
  const std::map<std::string, const MeasuredRow*> ours = OursBySubject(machine);
  std::vector<PeerComparison> rows;
  std::map<std::string, size_t> places;
  for (const MeasuredRow& row : machine.peer_rows) {
    const auto threads = row.name.Count("threads");
    if (!threads || *threads > 65536 || !(row.call_ns > 0)) continue;
    PeerComparison made{.threads = static_cast<int>(*threads)};
    made.name = row.name;
    made.name.peer.clear();
    made.name.target = std::string(1, '*');  // GCC 12 takes a literal for an overlap
    made.operation = OperationOf(made.name);
    PeerTime time{.peer = row.name.peer, .row = &row};
    if (IsProduct(made.operation)) time.layout = TakeArg("layout", &made.name);
    if (!Keeps(filter, made)) continue;
    const std::string subject = made.name.Text();
    const auto [place, added] = places.try_emplace(subject, rows.size());
    if (added) {
      const auto found = ours.find(subject);
      if (found != ours.end()) made.ours = found->second;
      made.limit_ns = LimitNs(made, made.ours != nullptr ? *made.ours : row, machine.roofline);
      rows.push_back(std::move(made));
    }
    PeerComparison& of = rows[place->second];
    if (of.ours != nullptr) time.ratio = row.call_ns / of.ours->call_ns;
    of.peers.push_back(std::move(time));
  }
  if (rows.empty()) {
    const bool all = filter.n.empty() && !filter.d && !filter.threads;
    throw BadInput({machine.file, "benchmarks"},
                   all ? "has no rows of peers with a time and a number of threads"
                       : "has no rows of peers with that --n, --d and --threads",
                   fmt::format("some of its {} rows", machine.peer_rows.size()));
  }
  Sort(&rows);
  return rows;
}

std::vector<PeerGlance> GlanceAtPeers(const std::vector<PeerComparison>& rows) {
  std::map<std::pair<PeerOperation, int>, std::vector<double>> ratios;
  for (const PeerComparison& row : rows) {
    if (row.ours != nullptr) ratios[{row.operation, row.threads}].push_back(*row.FastestPeer().ratio);
  }
  std::vector<PeerGlance> glances;
  for (const auto& [key, values] : ratios) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    glances.push_back({.operation = key.first,
                       .threads = key.second,
                       .rows = values.size(),
                       .least = *least,
                       .median = Median(values),
                       .most = *most,
                       .peer_faster = static_cast<size_t>(std::count_if(
                           values.begin(), values.end(), [](double ratio) { return ratio < 1; }))});
  }
  return glances;
}

}  // namespace ropeline
