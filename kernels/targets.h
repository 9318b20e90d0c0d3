// Highway targets: one instruction set each, compiled side by side and chosen at run time.
#ifndef ROPELINE_KERNELS_TARGETS_H_
#define ROPELINE_KERNELS_TARGETS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ropeline {

// Best first. Compiled: in this build. Supported: compiled and available on this CPU.
std::vector<std::string> CompiledTargetNames();
std::vector<std::string> SupportedTargetNames();
std::string BestTargetName();

// Makes every kernel call from now on use that target, for all threads. False, and nothing changes, where the
// target is not supported here. Call UseBestTarget once before any timing: without a choice made, Highway
// detects the CPU at each function's first call.
bool UseTarget(std::string_view name);
void UseBestTarget();

std::string HighwayVersion();  // of the headers: "1.0.3"

}  // namespace ropeline

#endif  // ROPELINE_KERNELS_TARGETS_H_
