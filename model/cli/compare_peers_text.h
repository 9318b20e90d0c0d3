// A comparison with peers for people: who is faster, at a glance and row by row, beside the limit.
#ifndef ROPELINE_MODEL_CLI_COMPARE_PEERS_TEXT_H_
#define ROPELINE_MODEL_CLI_COMPARE_PEERS_TEXT_H_

#include <string>
#include <vector>

#include "model/compare_peers.h"

namespace ropeline {

std::string PeersText(const Machine& machine, const std::vector<PeerComparison>& rows);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMPARE_PEERS_TEXT_H_
