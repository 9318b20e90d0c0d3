// The sections of a comparison with peers. compare_peers_text.h puts them in order.
#ifndef ROPELINE_MODEL_CLI_COMPARE_PEERS_SECTIONS_H_
#define ROPELINE_MODEL_CLI_COMPARE_PEERS_SECTIONS_H_

#include <string>
#include <vector>

#include "model/compare_peers.h"

namespace ropeline {

// Stands after a ratio in which a peer is the faster one.
inline constexpr const char* kPeerFaster = " ◄";

// compare_peers_rows.cc: the table of one operation's rows, at least one.
std::string PeerRowsText(const std::vector<const PeerComparison*>& rows);

const char* TitleOf(PeerOperation operation);  // "Rotating Q and K"
std::string LabelOf(const PeerTime& peer);     // "ggml-0.25.1", "ggml-0.25.1 cpu_repack"
std::string PeerTimeText(const MeasuredRow& row);
std::string PeerRatioText(double ratio);
// "f32, n 4,096, 24/8 heads of 128, cold"
std::string SubjectText(const RowName& name);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMPARE_PEERS_SECTIONS_H_
