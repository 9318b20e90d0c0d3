// The JSON of a comparison with peers. Keys are stable: add, never rename.
#include <nlohmann/json.hpp>

#include "model/compare_peers.h"

namespace ropeline {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json TimeJson(const PeerComparison& of, const MeasuredRow& row) {
  return {{"seconds", row.call_ns / 1e9},
          {"roof", OrNull(of.Roof(row))},
          {"bytes_per_second", OrNull(row.bytes_per_second)},
          {"flops_per_second", OrNull(row.flops_per_second)},
          {"items_per_second", OrNull(row.items_per_second)},
          {"samples", row.samples},
          {"tainted", row.tainted},
          {"row", row.name.Text()}};
}

Json PeerJson(const PeerComparison& of, const PeerTime& peer) {
  Json json = {{"name", peer.peer}, {"layout", OrNull(peer.layout)}, {"ratio", OrNull(peer.ratio)}};
  json.update(TimeJson(of, *peer.row));
  return json;
}

Json RowJson(const PeerComparison& row) {
  Json json = {{"subject", row.name.Text()},
               {"operation", PeerOperationName(row.operation)},
               {"threads", row.threads},
               {"ours", row.ours != nullptr ? TimeJson(row, *row.ours) : Json(nullptr)},
               {"peers", Json::array()}};
  for (const PeerTime& peer : row.peers) json["peers"].push_back(PeerJson(row, peer));
  json["limit_seconds"] = row.limit_ns ? Json(*row.limit_ns / 1e9) : Json(nullptr);
  json["faster"] = row.ours == nullptr  ? Json(nullptr)
                   : row.PeerIsFaster() ? Json(row.FastestPeer().peer)
                                        : Json("ours");
  return json;
}

}  // namespace

Json PeersJson(const Machine& machine, const std::vector<PeerComparison>& rows) {
  Json json;
  json["peers"] = json["glance"] = json["rows"] = json["skipped"] = Json::array();
  for (const PeerLibrary& peer : machine.peers) {
    json["peers"].push_back({{"name", peer.name},
                             {"library", OrNull(peer.library)},
                             {"version", OrNull(peer.version)},
                             {"commit", OrNull(peer.commit)},
                             {"variant", OrNull(peer.variant)}});
  }
  for (const PeerGlance& glance : GlanceAtPeers(rows)) {
    json["glance"].push_back({{"operation", PeerOperationName(glance.operation)},
                              {"threads", glance.threads},
                              {"rows", glance.rows},
                              {"ratio_least", glance.least},
                              {"ratio_median", glance.median},
                              {"ratio_most", glance.most},
                              {"peer_faster", glance.peer_faster}});
  }
  for (const PeerComparison& row : rows) json["rows"].push_back(RowJson(row));
  for (const SkippedPeerRow& skipped : machine.skipped_peer_rows) {
    json["skipped"].push_back({{"row", skipped.row}, {"reason", OrNull(skipped.reason)}});
  }
  json["inputs"]["machine"] = {{"source", machine.file},
                               {"cpu_model", OrNull(machine.cpu_model)},
                               {"target", OrNull(machine.target)},
                               {"measured", OrNull(machine.date)},
                               {"quick", machine.quick}};
  return json;
}

}  // namespace ropeline
