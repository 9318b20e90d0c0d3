// `ropeline rope --identify`: from a dump of keys to the schedule that turned them.
#ifndef ROPELINE_MODEL_CLI_IDENTIFY_H_
#define ROPELINE_MODEL_CLI_IDENTIFY_H_

#include <string>
#include <vector>

#include "model/rope_identify.h"

namespace ropeline {

// Positions: "0:512" (from, to before), "0:4096:4" (with a step), "3,7,8", or a .npy of whole numbers. One
// text for each file; of two files the second holds the same tokens at other positions. Files are [n, d_rot].
// Throws BadInput.
KeyDump ReadKeyDump(const std::vector<std::string>& files, const std::vector<std::string>& positions);

std::string IdentificationText(const RopeIdentification& identification, bool all_bands);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_IDENTIFY_H_
