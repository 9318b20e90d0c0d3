// A comparison for people: the three cost classes first, then every measured row, then the shares of a
// model's layer.
#ifndef ROPELINE_MODEL_CLI_COMPARE_TEXT_H_
#define ROPELINE_MODEL_CLI_COMPARE_TEXT_H_

#include <string>
#include <vector>

#include "model/compare.h"

namespace ropeline {

std::string CompareText(const ShareRequest& request, const Machine& machine,
                        const std::vector<MeasuredEncoding>& rows, const std::vector<EncodingShare>& shares);

}  // namespace ropeline

#endif  // ROPELINE_MODEL_CLI_COMPARE_TEXT_H_
