#include "kernels/targets.h"

#include <hwy/highway.h>

namespace ropeline {

namespace {

// Bits of the mask, best (lowest) first.
std::vector<int64_t> TargetBits(int64_t mask) {
  std::vector<int64_t> bits;
  for (uint64_t rest = static_cast<uint64_t>(mask); rest != 0; rest &= rest - 1) {
    bits.push_back(static_cast<int64_t>(rest & -rest));
  }
  return bits;
}

std::vector<std::string> Names(int64_t mask) {
  std::vector<std::string> names;
  for (int64_t bit : TargetBits(mask)) names.emplace_back(hwy::TargetName(bit));
  return names;
}

int64_t Supported() { return hwy::SupportedTargets() & static_cast<int64_t>(HWY_TARGETS); }

}  // namespace

std::vector<std::string> CompiledTargetNames() { return Names(static_cast<int64_t>(HWY_TARGETS)); }

std::vector<std::string> SupportedTargetNames() { return Names(Supported()); }

std::string BestTargetName() { return SupportedTargetNames().front(); }

bool UseTarget(std::string_view name) {
  for (int64_t bit : TargetBits(Supported())) {
    if (name == hwy::TargetName(bit)) {
      hwy::GetChosenTarget().Update(bit);
      return true;
    }
  }
  return false;
}

void UseBestTarget() { hwy::GetChosenTarget().Update(Supported()); }

std::string HighwayVersion() {
  return std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." + std::to_string(HWY_PATCH);
}

}  // namespace ropeline
