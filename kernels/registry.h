// The one list of encodings. Tests, benchmarks and the model loop over it.
#ifndef ROPELINE_KERNELS_REGISTRY_H_
#define ROPELINE_KERNELS_REGISTRY_H_

#include <span>
#include <string_view>
#include <vector>

#include "kernels/placement.h"

namespace ropeline {

// Each placement's .cc exports what it has; a new encoding is one more entry there.
std::span<const Encoding> InputAddEncodings();
std::span<const Encoding> ScoreBiasEncodings();
std::span<const Encoding> QkRotationEncodings();

// All of them, in the article's order.
const std::vector<const Encoding*>& AllEncodings();

// nullptr where there is none of that name.
const Encoding* FindEncoding(std::string_view name);

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_REGISTRY_H_
