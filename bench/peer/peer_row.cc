#include "bench/peer/peer_row.h"

#include <algorithm>
#include <map>
#include <memory>

#include "bench/context.h"
#include "bench/peer/blas.h"

namespace ropeline {

namespace {

// The session of the row that ran last: Google Benchmark runs a row several times while it looks for the
// number of iterations, and making its tensors takes longer than timing them.
GgmlSession& SessionFor(const Plan& plan, const Row& row, size_t operations, const BuildGraph& build) {
  static auto* const kept = new std::pair<std::string, std::unique_ptr<GgmlSession>>;
  const std::string name = row.name.Text();
  if (kept->first != name) {
    kept->second.reset();  // before the next one takes memory
    std::vector<int> cpus = plan.topology.UsableCores();
    cpus.resize(std::min(cpus.size(), static_cast<size_t>(row.threads)));
    kept->second = std::make_unique<GgmlSession>(plan.ggml, cpus, operations);
    build(*kept->second, operations);
    kept->first = name;
  }
  return *kept->second;
}

}  // namespace

size_t OperationsIn(const Plan& plan, const Row& row) {
  constexpr size_t kHot = 16;
  constexpr double kLongCall = 2e6;  // bytes: beyond a graph's own cost by far
  if (row.cold) return RingSlots(plan, row.cost.Bytes(), Cache::kCold);
  return row.cost.Bytes() > kLongCall || row.cost.flops > 100 * kLongCall ? 1 : kHot;
}

Row GgmlRow(const Plan& plan, const Row& like, BuildGraph build) {
  Row row = like;
  row.name.peer = plan.ggml->PeerName();
  row.name.target = plan.ggml->Variant();
  row.counters.clear();  // they tell of our kernels
  row.library_threads = true;
  const size_t operations = OperationsIn(plan, row);
  row.operations = static_cast<double>(operations);
  row.body = [plan, operations, build = std::move(build)](benchmark::State& state, const Row& self) {
    BeginRow(state, self, plan.topology);
    GgmlSession& session = SessionFor(plan, self, operations, build);
    session.StartThreads();
    TimeCalls(state, self, [&] { session.Compute(); });
    session.StopThreads();  // idle ones spin
  };
  return row;
}

std::optional<ggml::Type> GgmlType(const std::string& dtype) {
  static const auto* const types = new std::map<std::string, ggml::Type>{
      {"f32", ggml::Type::kF32},   {"f16", ggml::Type::kF16},   {"bf16", ggml::Type::kBf16},
      {"q8_0", ggml::Type::kQ8_0}, {"q4_0", ggml::Type::kQ4_0}, {"q4_K", ggml::Type::kQ4_K},
      {"q6_K", ggml::Type::kQ6_K}};
  const auto it = types->find(dtype);
  if (it == types->end()) return std::nullopt;
  return it->second;
}

void AddPeerRows(const Plan& plan, std::vector<Row>* rows, std::vector<SkippedRow>* skipped) {
  std::vector<Row> all;
  // Each beside its row of ours, so that both meet the same moment of a noisy machine.
  for (Row& ours : *rows) {
    std::optional<Row> peer;
    if (plan.ggml != nullptr && ours.name.target == plan.targets.front()) {
      std::optional<BuildGraph> build = GgmlPlacement(ours);
      if (!build) build = GgmlAttentionGraph(ours);
      if (build) peer = GgmlRow(plan, ours, *build);
    }
    all.push_back(std::move(ours));
    if (peer) all.push_back(std::move(*peer));
  }
  if (plan.ggml != nullptr) {
    AddGgmlSoftMax(plan, &all);
    AddGgmlProducts(plan, &all, skipped);
  }
  AddBlasRows(plan, &all, skipped);
  *rows = std::move(all);
}

Json PeersContext(const Plan& plan) {
  Json peers = Json::array();
  if (plan.ggml != nullptr) {
    peers.push_back({{"name", plan.ggml->PeerName()},
                     {"library", "ggml"},
                     {"version", plan.ggml->Version()},
                     {"commit", plan.ggml->Commit()},
                     {"variant", plan.ggml->Variant()}});
  }
  for (const BlasLibrary& library : BlasLibraries()) {
    peers.push_back({{"name", library.PeerName()},
                     {"library", library.name},
                     {"version", library.version},
                     {"variant", library.kernels}});
  }
  return peers;
}

}  // namespace ropeline
