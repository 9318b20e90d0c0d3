// Rows of other libraries beside the rows of ours that do the same, from one run: medians of the untainted
// samples of call_ns, one operation each (results/README.md).
#ifndef ROPELINE_MODEL_COMPARE_PEERS_H_
#define ROPELINE_MODEL_COMPARE_PEERS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/machine.h"

namespace ropeline {

// In the order they are shown. kMatvec and kMatmul: a matrix by one vector, and by several.
enum class PeerOperation { kRotation, kInputAdd, kScoreBias, kDecode, kPrefill, kMatvec, kMatmul, kOther };

const char* PeerOperationName(PeerOperation operation);  // "rotation", "input_add", … "other"

// What a peer took.
struct PeerTime {
  std::string peer{};    // "ggml-0.25.1"
  std::string layout{};  // that it rearranged a product's matrix to: "cpu_repack"; "" as a file has it
  const MeasuredRow* row = nullptr;
  std::optional<double> ratio{};  // its time ÷ ours, above 1 where ours is faster; nothing without ours
};

// One subject: all rows of the same work on the same number of threads.
struct PeerComparison {
  PeerOperation operation = PeerOperation::kOther;
  RowName name{};  // without peer, target and a peer's own layout
  int threads = 0;
  const MeasuredRow* ours = nullptr;  // nullptr: only peers have such a row
  std::vector<PeerTime> peers{};      // at least one, in the order of the file
  // At this run's limits. Nothing where the run measured none that holds: a product of numbers other than f32
  // may be multiplied by instructions that pass the f32 peak.
  std::optional<double> limit_ns{};

  const PeerTime& FastestPeer() const;
  bool PeerIsFaster() const;  // than ours
  std::optional<double> Roof(const MeasuredRow& row) const;
};

// What to keep; an empty list or an absent value keeps all.
struct PeerFilter {
  std::vector<uint64_t> n{};
  std::optional<uint64_t> d{};  // a head's width: rows without d are left out
  std::optional<int> threads{};
};

// By operation, shape, dtype, n and threads. `machine` must outlive the result. Of several Highway targets,
// ours is the run's main one. Throws BadInput where the machine has no rows of peers, or none that the filter
// keeps.
std::vector<PeerComparison> ComparePeers(const PeerFilter& filter, const Machine& machine);

// One operation on one number of threads: ratios of the fastest peer's time to ours, over the rows that have
// both.
struct PeerGlance {
  PeerOperation operation = PeerOperation::kOther;
  int threads = 0;
  size_t rows = 0;  // at least 1
  double least = 0, median = 0, most = 0;
  size_t peer_faster = 0;  // rows
};

std::vector<PeerGlance> GlanceAtPeers(const std::vector<PeerComparison>& rows);

nlohmann::ordered_json PeersJson(const Machine& machine, const std::vector<PeerComparison>& rows);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_COMPARE_PEERS_H_
